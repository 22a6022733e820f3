"""Every choice of the model's settings is complete: it has taps, stories and equations, and runs in every way."""

from dataclasses import fields
from typing import Literal, get_origin, get_type_hints

import pytest
import torch

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding import Translator
from glassformer.explain.diff.passes import Way
from glassformer.explain.diff.runs import Side, diff_sides
from glassformer.explain.tap_entries import story_of
from glassformer.explain.verify import prove, verify_walk
from glassformer.explain.walk_kinds import walk, walk_generation
from glassformer.model import Transformer
from glassformer.text import Tokenizer

HINTS = get_type_hints(ModelConfig)
CHOICES = [
    (knob.name, choice)
    for knob in fields(ModelConfig)
    if get_origin(HINTS[knob.name]) is Literal
    for choice in ModelConfig.choices(knob.name)
]
SOURCES, TARGETS = ["a b c", "c a"], ["b c", "a a b"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("words", ["a b c a b", "c b a"], 8)


@pytest.fixture(scope="module", params=CHOICES, ids="-".join)
def model(request, tokenizer) -> Transformer:
    torch.manual_seed(5)
    sizes = {"src_vocab": tokenizer.size, "tgt_vocab": tokenizer.size, "d_model": 12, "n_heads": 2, "d_ff": 10}
    layers = {"n_encoder_layers": 1, "n_decoder_layers": 1, "max_length": 40, "relative_clip": 2}
    return Transformer(ModelConfig.from_mapping({**sizes, **layers, request.param[0]: request.param[1]})).eval()


@pytest.fixture
def translator(model, tokenizer) -> Translator:
    return Translator(model, tokenizer, tokenizer, DecodeConfig(beam=2, max_length_b=3))


def test_each_step_has_a_story_and_follows_from_its_equation(translator):
    walked = walk(translator, SOURCES, TARGETS)
    assert all(story_of(step.address, translator.model.config).title for step in walked.steps)
    proof = prove(walked, translator.model)
    assert proof.holds, list(proof.lines())
    for options in (translator.config, DecodeConfig(sample=True, max_length_b=3)):
        assert verify_walk(walk_generation(translator, SOURCES, options), translator.model).holds


@pytest.mark.parametrize("way", [way for way in Way if way not in (Way.PLAIN, Way.COMPILED)])
def test_it_runs_in_every_way(model, way):
    """All ways but the compiled one, which takes minutes and has slow tests of its own."""
    src_ids, tgt_ids = torch.tensor([[4, 5, 6, 2], [3, 2, 0, 0]]), torch.tensor([[1, 4, 5], [1, 6, 0]])
    found = diff_sides(Side(model), Side(model, way), src_ids, tgt_ids)
    assert found.agrees, "\n".join(found.lines())


def test_translating_gives_what_the_plain_walk_gives(translator):
    for options in (translator.config, DecodeConfig(beam=1, max_length_b=3)):
        walked = walk_generation(translator, SOURCES, options)
        assert [one.text for one in translator.translate(SOURCES, options)] == list(walked.sentences.targets)
