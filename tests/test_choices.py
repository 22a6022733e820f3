"""Every choice that a model's settings offer is whole: each tap has its story and follows from its equation, and every
way of running the model finds the same. A choice that is half built fails here, whatever other tests know of it."""

from dataclasses import fields, replace
from itertools import combinations
from typing import Any, Literal, get_origin, get_type_hints

import pytest
import torch
from filter_values import FILTER_VALUES, PROCESSOR_VALUES

from glassformer.decoding import Translator
from glassformer.explain import story_of, walk
from glassformer.explain.compare.align import PositionTokens
from glassformer.explain.compare.compare import compare
from glassformer.explain.compare.passes import Mode, run_pass, usual_tolerance
from glassformer.explain.verify import prove, verify_walk
from glassformer.explain.walks import walk_generation, walk_training
from glassformer.model import Transformer
from glassformer.model.layers import ACTIVATIONS
from glassformer.settings import DecodeConfig, ModelConfig, TrainConfig
from glassformer.text import PAD_ID, Tokenizer

SOURCES, TARGETS = ["the old house", "a river", "trees"], ["das alte Haus", "ein Fluss am Haus", "Bäume"]
SHORT = {"max_length_a": 0, "max_length_b": 5}
SEARCHES = [
    DecodeConfig(beam=1, **SHORT), DecodeConfig(beam=4, n_best=4, **SHORT), DecodeConfig(sample=True, n_best=2, **SHORT)
]  # fmt: skip
WAYS_TO_RUN = [
    way for way in Mode if way not in (Mode.PLAIN, Mode.COMPILED)
]  # compiling takes a compiler, and seconds


def values_of(name: str) -> tuple[Any, ...]:
    """What a setting offers: its choices, off and on, or nothing where it is a size."""
    hint = get_type_hints(ModelConfig)[name]
    return ModelConfig.choices(name) if get_origin(hint) is Literal else (False, True) if hint is bool else ()


DEFAULT = ("positions", ModelConfig().positions)  # the model in which everything is as it is by default
CHOICES = [DEFAULT] + [
    (field.name, value) for field in fields(ModelConfig) for value in values_of(field.name) if value != field.default
]


TOKENIZER = Tokenizer.train("words", [*SOURCES, *TARGETS], 40)


def build(setting: str, value: Any) -> Transformer:
    """A model with one choice, all others as they are by default; both sides share its vocabulary."""
    torch.manual_seed(3)
    sizes = {"d_model": 22, "n_heads": 3, "d_k": 4, "d_v": 5, "d_ff": 31, "n_encoder_layers": 1, "n_decoder_layers": 1}  # fmt: skip
    vocab = {"src_vocab": TOKENIZER.size, "tgt_vocab": TOKENIZER.size}
    model = Transformer(
        ModelConfig(**sizes, **vocab, max_length=29, relative_clip=2, dropout=0.0, **{setting: value})
    )
    with torch.no_grad():
        for parameter in model.parameters():  # no bias is zero, no gain one
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture(scope="module", params=CHOICES, ids=lambda choice: f"{choice[0]}={choice[1]}")
def translator(request: pytest.FixtureRequest) -> Translator:
    return Translator(build(*request.param), TOKENIZER, TOKENIZER, DecodeConfig())


def test_the_choices_of_an_activation_are_those_of_the_register() -> None:
    assert ModelConfig.choices("activation") == tuple(ACTIVATIONS)


@pytest.mark.parametrize("setting", sorted({setting for setting, _ in CHOICES}))
def test_no_two_values_of_a_setting_make_the_same_model(setting: str) -> None:
    src_ids, tgt_ids = torch.tensor([[5, 6, 7, 8, 2]]), torch.tensor([[1, 9, 8, 7]])
    with torch.no_grad():
        outputs = [build(setting, value)(src_ids, tgt_ids) for value in values_of(setting)]
    for one, other in combinations(outputs, 2):
        assert (one - other).abs().max() > 1e-3


def test_the_model_knows_the_order_of_its_tokens(translator: Translator) -> None:
    src_ids, swapped = torch.tensor([[5, 6, 7, 8]]), [1, 0, 2, 3]
    with torch.no_grad():
        (memory, _), (other, _) = (translator.model.encode(ids) for ids in (src_ids, src_ids[:, swapped]))
    assert (memory[:, swapped] - other).abs().max() > 1e-3


def test_every_tap_has_a_story_and_follows_from_its_equation(translator: Translator) -> None:
    forced = walk(translator, SOURCES, TARGETS)
    assert prove(forced, translator.model).holds
    searched = walk_generation(translator, SOURCES, SEARCHES[1])
    trained = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=7, optimizer="muon"))
    for walked in (searched, trained):
        assert verify_walk(walked, translator.model).holds
    for step in (*forced.trace, *searched.trace, *trained.trace):
        story = story_of(step.address, translator.model.config)
        assert all((story.title, story.sentence, story.equation, story.section)), step.address


def test_every_way_to_run_a_pass_agrees_with_the_plain_one(translator: Translator) -> None:
    batch = walk(translator, SOURCES, TARGETS, only="src_mask").sentences.batch
    real = PositionTokens({"src": batch.src_ids != PAD_ID, "tgt": batch.tgt_in_ids != PAD_ID}, {})
    plain = run_pass(Mode.PLAIN, translator.model, batch.src_ids, batch.tgt_in_ids)
    for way in WAYS_TO_RUN:
        taps = run_pass(way, translator.model, batch.src_ids, batch.tgt_in_ids)
        found = compare(plain, taps, usual_tolerance(Mode.PLAIN, way), real)
        assert found.agrees, f"{way}: {found}"


@pytest.mark.parametrize("setting", [*PROCESSOR_VALUES, *FILTER_VALUES])
def test_every_filter_acts_alike_with_and_without_a_cache(setting: str) -> None:
    filtered = {"sample": setting in FILTER_VALUES, setting: {**PROCESSOR_VALUES, **FILTER_VALUES}[setting]}
    options = DecodeConfig(beam=4, n_best=4, seed=3, max_length_a=0, max_length_b=12, **filtered)
    translator = Translator(build(*DEFAULT), TOKENIZER, TOKENIZER, options)
    found = [
        [[one.ids for one in row.hypotheses] for row in translator.translate(SOURCES, asked)]
        for asked in (options, replace(options, cache=False))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam", "sample"])
def test_translating_finds_what_decoding_every_position_again_finds(translator, search):
    again = DecodeConfig(**{**search.to_mapping(), "cache": False})
    for fast, plain in zip(translator.translate(SOURCES, search), translator.translate(SOURCES, again), strict=True):
        assert [one.ids for one in fast.hypotheses] == [one.ids for one in plain.hypotheses]
        for one, other in zip(fast.hypotheses, plain.hypotheses, strict=True):
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
