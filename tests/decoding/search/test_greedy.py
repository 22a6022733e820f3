"""Greedy search finds what beam search does with a beam of 1; and work is shared out in even pieces."""

import math
import random
from dataclasses import replace

import pytest
import torch
from filter_values import PROCESSOR_VALUES
from reference_search import BOS, EOS, PAD, SENTENCES, assert_same, beam_search, padded

from glassformer.decoding import Constraints, SearchJob
from glassformer.decoding.batching import plan_decoding
from glassformer.decoding.search.beam import fill_gaps
from glassformer.decoding.search.greedy import greedy_search, is_greedy
from glassformer.decoding.search.steps import BeamSteps
from glassformer.errors import DivergedError
from glassformer.settings import DecodeConfig

GREEDY = DecodeConfig(beam=1, length_penalty=0.6)


@torch.no_grad()
def test_it_finds_what_a_beam_of_one_does(make_model):
    model = make_model()
    limits = [9, 1, 4, 12, 2]
    steps = BeamSteps(model, padded(SENTENCES))
    found = greedy_search(steps, SearchJob(SENTENCES, limits, GREEDY))
    expected = beam_search(model, padded(SENTENCES), limits, GREEDY)
    for ours, theirs, limit in zip(found, expected, limits, strict=True):
        assert_same(ours, theirs)
        (best,) = ours
        assert best.truncated == (best.ids[-1] != EOS)
        assert len(best.ids) <= limit
        assert not {PAD, BOS} & {*best.ids}


@torch.no_grad()
@pytest.mark.parametrize("vocab", [100, 400])
def test_of_equals_it_takes_the_one_that_a_beam_of_one_does(make_model, vocab):
    model = make_model(vocab=vocab)
    for weight in model.output_projection.parameters():
        weight.zero_()
    limits = [3] * 5
    found = greedy_search(BeamSteps(model, padded(SENTENCES)), SearchJob(SENTENCES, limits, GREEDY))
    expected = beam_search(model, padded(SENTENCES), limits, GREEDY)
    assert [best.ids for (best,) in found] == [best.ids for (best,) in expected]


@torch.no_grad()
def test_a_model_that_says_no_numbers_is_refused(make_model):
    model = make_model()
    model.output_projection.linear.weight.fill_(math.nan)
    steps = BeamSteps(model, padded(SENTENCES))
    with pytest.raises(DivergedError, match="not finite"):
        greedy_search(steps, SearchJob(SENTENCES, [5] * 5, GREEDY))


@pytest.mark.parametrize(
    "asked",
    [{"beam": 2}, {"sample": True}, {"coverage_penalty": 0.1}]
    + [{setting: value} for setting, value in PROCESSOR_VALUES.items()],
    ids=lambda asked: next(iter(asked)),
)
def test_whatever_else_is_asked_for_is_beam_searchs(asked):
    assert not is_greedy(SearchJob([], [], DecodeConfig(**{"beam": 1, **asked})))


def test_whatever_is_demanded_is_beam_searchs_and_few_rows_are_moved():
    plain = SearchJob(SENTENCES[:2], [5, 5], GREEDY)
    assert is_greedy(plain)
    assert is_greedy(replace(plain, constraints=[Constraints(), Constraints()]))
    assert not is_greedy(replace(plain, constraints=[Constraints(), Constraints(banned=((5,),))]))
    chance = random.Random(3)
    for _ in range(200):
        rows = [row for row in range(9) if chance.random() < 0.6]
        order = fill_gaps(torch.tensor([row in rows for row in range(9)])).tolist()
        assert sorted(order) == rows
        assert all(order[row] == row for row in rows if row < len(rows))


def test_batches_are_shared_by_workers_and_no_larger_than_of_use():
    lengths = [10] * 400
    assert [len(batch) for batch in plan_decoding(lengths, range(400), 1, 4096)] == [400]
    assert [len(batch) for batch in plan_decoding(lengths, range(400), 1, 4096, workers=2)] == [100] * 4
    assert [len(batch) for batch in plan_decoding(lengths, range(20), 1, 4096, workers=2)] == [20]
    shared = plan_decoding(lengths, range(400), 1, 500, workers=2)
    assert shared == plan_decoding(lengths, range(400), 1, 500)
    assert sorted(place for batch in shared for place in batch) == list(range(400))
    lengths = [3] * 100 + [50] * 10
    batches = plan_decoding(lengths, range(110), 1, 200, max_efficient_sources=32)
    assert [len(batch) for batch in batches] == [4, 4, 4, 32, 32, 32, 2]
