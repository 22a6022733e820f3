from itertools import product

import pytest
import torch

from glassformer.axes import LEGEND
from glassformer.config import ModelConfig
from glassformer.errors import TraceError
from glassformer.explain import Walk, resolved_axes, story_of
from glassformer.explain.stories import STORIES, VARIANTS
from glassformer.explain.story import kind_of
from glassformer.model import Transformer
from glassformer.trace import Step, tracing

POSITIONS = ModelConfig.choices("positions")
CONFIGURATIONS = list(product(POSITIONS, ModelConfig.choices("norm")))
SMALL = {
    "src_vocab": 7,
    "tgt_vocab": 7,
    "d_model": 6,
    "n_heads": 3,
    "d_ff": 5,
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
}


def recorded(positions: str, norm: str) -> list[Step]:
    """Every step of a pass over whole sentences, and of two cached decoding steps."""
    model = Transformer(ModelConfig(positions=positions, norm=norm, **SMALL)).eval()
    src_ids, tgt_in_ids = torch.tensor([[3, 4, 5, 2, 0]]), torch.tensor([[1, 3, 4]])
    with tracing(model) as trace, torch.no_grad():
        model(src_ids, tgt_in_ids)
        memory, mask = model.encode(src_ids)
        cache = model.new_cache()
        for step in range(2):
            model.decode(tgt_in_ids[:, step : step + 1], memory, mask, cache)
    return list(trace)


@pytest.fixture(scope="module")
def all_steps() -> dict[tuple[str, str], list[Step]]:
    return {(positions, norm): recorded(positions, norm) for positions, norm in CONFIGURATIONS}


@pytest.fixture(scope="module")
def walks(walked, searched, demanding, sampled, trained) -> list[Walk]:
    """One of each kind: with teacher forcing, a search, one with rules and demands, a draw, an update."""
    return [walked, searched, demanding, sampled, trained]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids="-".join)
def test_every_recorded_tap_has_a_story_and_an_axis_on_one_side(all_steps, configuration):
    steps = all_steps[configuration]
    assert len(steps) > 200
    for step in steps:
        story = story_of(step.address)
        assert all((story.title, story.sentence.endswith("."), story.equation, story.section)), step.address
        assert not {"position", "query", "key"} & set(resolved_axes(step)), step.address


def test_no_story_is_told_of_a_tap_that_is_not_there(all_steps, walks):
    addresses = {step.address for steps in all_steps.values() for step in steps}
    addresses |= {step.address for walked in walks for step in walked.steps}
    met = {(kind_of(address), address.rpartition(".")[2]) for address in addresses}
    told = {(kind, name) for kind, stories in STORIES.items() for name in stories}
    assert told == met


def test_every_axis_word_of_the_legend_is_recorded(all_steps, walks):
    """The walk's symbols stand for the legend's words; a word that nobody uses should leave the legend."""
    used = {word for steps in all_steps.values() for step in steps for word in step.axes}
    used |= {word for walked in walks for step in walked.trace for word in step.axes}
    assert set(LEGEND) == used


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: f"{variant.name}-{variant.value}")
def test_each_variant_changes_an_equation_that_exists(variant):
    for kind in variant.kinds:
        assert STORIES[kind][variant.name].equation != variant.equation
    assert getattr(ModelConfig(), variant.field) != variant.value, "a variant departs from the paper's default"


def test_the_equation_is_the_one_that_the_model_computes():
    address = "encoder.layers.0.feed_forward.activated"
    assert story_of(address).equation == "a = max(0, z)"
    assert story_of(address, ModelConfig()).equation == "a = max(0, z)"
    gelu = story_of(address, ModelConfig(activation="gelu"))
    assert gelu.equation == "a = z Φ(z)"
    assert "GELU" in gelu.sentence
    biased = ModelConfig(attention_bias=True)
    assert story_of("decoder.layers.1.cross_attention.k_projected", biased).equation == "K = M W_K + b_K"
    assert story_of("decoder.layers.1.self_attention.k_projected", biased).equation == "K = X W_K + b_K"
    rotary = ModelConfig(positions="rotary")
    assert story_of("decoder.layers.0.self_attention.products", rotary).equation == "Q′ K′ᵀ"
    assert story_of("decoder.layers.0.cross_attention.products", rotary).equation == "Q Kᵀ"


def test_the_three_attentions_are_told_apart():
    masked = {
        story_of(f"{place}.masked_scores").sentence
        for place in (
            "encoder.layers.0.self_attention",
            "decoder.layers.0.self_attention",
            "decoder.layers.0.cross_attention",
        )
    }
    assert len(masked) == 3


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "encoder.layers.0.self_attention.score",
            "no story is told of 'score' in encoder_self_attention. Did you mean 'scores'",
        ),
        ("encoder.layers.0.feed_forwart.inner", "kind 'feed_forwart'. Did you mean 'feed_forward'"),
        ("", "no story is told of '' in model"),
    ],
)
def test_an_unknown_address_is_refused_with_the_nearest_known(address, message):
    with pytest.raises(TraceError, match=message.replace(".", r"\.")):
        story_of(address)
