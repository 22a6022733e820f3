"""A search that nobody waits for any more ends within a step."""

import pytest
import torch
from reference_search import SENTENCES, padded

from glassformer.decoding import SearchJob
from glassformer.decoding.search.job import SearchStoppedError, searching_while
from glassformer.decoding.search.search import search
from glassformer.decoding.search.steps import BeamSteps, DecoderSteps
from glassformer.settings import DecodeConfig


@torch.no_grad()
@pytest.mark.parametrize("kind", [BeamSteps, DecoderSteps])
@pytest.mark.parametrize("options", [DecodeConfig(beam=1), DecodeConfig(beam=2), DecodeConfig(sample=True)])
def test_a_search_asks_before_each_step_whether_it_is_wanted(make_model, kind, options):
    if kind is BeamSteps and options.sample:
        pytest.skip("samples have a row each")
    answers = [True, False]
    steps = kind(make_model(), padded(SENTENCES))
    with searching_while(lambda: answers.pop(0)), pytest.raises(SearchStoppedError):
        search(steps, SearchJob(SENTENCES, [9] * len(SENTENCES), options))
    assert not answers
