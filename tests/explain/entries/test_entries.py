from itertools import product
from types import CodeType, FunctionType

import pytest
import torch

from glassformer.axes import LEGEND
from glassformer.errors import TraceError
from glassformer.explain import Walk, resolved_axes, story_of
from glassformer.explain.addresses import kind_of
from glassformer.explain.entries.entry import all_entries
from glassformer.model import Transformer
from glassformer.settings import ModelConfig
from glassformer.trace import Step, tracing

POSITIONS = ModelConfig.choices("positions")
SUBLAYERS = ModelConfig.choices("autoregressive_sublayer")
CONFIGURATIONS = list(product(POSITIONS, ModelConfig.choices("norm"), SUBLAYERS))
SMALL = {
    "src_vocab": 7,
    "tgt_vocab": 7,
    "d_model": 6,
    "n_heads": 3,
    "d_ff": 5,
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
}


def record_steps(positions: str, norm: str, sublayer: str) -> list[Step]:
    """Every step of a pass over whole sentences, and of two cached decoding steps."""
    model = Transformer(ModelConfig(positions=positions, norm=norm, autoregressive_sublayer=sublayer, **SMALL)).eval()
    src_ids, tgt_in_ids = torch.tensor([[3, 4, 5, 2, 0]]), torch.tensor([[1, 3, 4]])
    with tracing(model) as trace, torch.no_grad():
        model(src_ids, tgt_in_ids)
        memory, mask = model.encode(src_ids)
        cache = model.new_cache()
        for step in range(2):
            model.decode(tgt_in_ids[:, step : step + 1], memory, mask, cache)
    return list(trace)


@pytest.fixture(scope="module")
def all_steps() -> dict[tuple[str, ...], list[Step]]:
    return {choices: record_steps(*choices) for choices in CONFIGURATIONS}


@pytest.fixture(scope="module")
def walks(walked, searched, demanding, sampled, trained, restarted) -> list[Walk]:
    """One of each kind: with teacher forcing, a search, one with rules and constraints, a draw, two updates."""
    return [walked, searched, demanding, sampled, trained, restarted]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids="-".join)
def test_every_recorded_tap_has_a_story_and_an_axis_on_one_side(all_steps, configuration):
    steps = all_steps[configuration]
    assert len(steps) > 180
    for step in steps:
        story = story_of(step.address)
        assert all((story.title, story.sentence.endswith("."), story.equation, story.section)), step.address
        assert not {"position", "query", "key"} & set(resolved_axes(step)), step.address


def test_no_entry_is_of_a_tap_that_is_not_there(all_steps, walks):
    addresses = {step.address for steps in all_steps.values() for step in steps}
    addresses |= {step.address for walked in walks for step in walked.steps}
    met = {(kind_of(address), address.rpartition(".")[2]) for address in addresses}
    assert {(kind, name) for kind, name, _ in all_entries()} == met


def test_each_entry_is_checked_in_at_least_one_way_and_what_is_given_says_so():
    given = {f"{kind}.{name}" for kind, name, entry in all_entries() if entry.compute is None}
    assert given == {
        *(f"text.{side}_{name}" for side in ("src", "tgt") for name in ("normalised", "pre_tokens", "spelling")),
        "text.typed", "text.src_tokens", "search.prefix_ids", "search.required_ids", "search.start_ids",
        "search.banned_ids",
    }  # fmt: skip


def functions_reached(function: FunctionType, seen: set[FunctionType]) -> set[FunctionType]:
    """The functions that one may call: by a global name, by a closure, or inside those of entries."""
    codes, used = [function.__code__], []
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        used += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    used += [cell.cell_contents for cell in function.__closure__ or ()]
    for value in used:
        value = getattr(value, "__wrapped__", value)  # cached
        if isinstance(value, FunctionType | type) and value not in seen:
            seen.add(value)
            if isinstance(value, FunctionType) and value.__module__.startswith("glassformer.explain.entries"):
                functions_reached(value, seen)
    return seen


PRODUCT = tuple(f"glassformer.{part}." for part in ("model", "decoding", "training", "text"))


def test_what_an_entry_computes_calls_no_function_of_the_product():
    for kind, name, entry in all_entries():
        if entry.compute is not None:
            reached = functions_reached(entry.compute, set())
            assert not [one for one in reached if one.__module__.startswith(PRODUCT)], f"{kind}.{name}"


def test_every_axis_word_of_the_legend_is_recorded(all_steps, walks):
    """The walk's symbols stand for the legend's words; a word that nobody uses should leave the legend."""
    used = {word for steps in all_steps.values() for step in steps for word in step.axes}
    used |= {word for walked in walks for step in walked.trace for word in step.axes}
    assert set(LEGEND) == used


def test_each_variant_changes_an_equation_that_exists():
    for _, _, entry in all_entries():
        for variant in entry.variants:
            assert entry.equation != variant.equation
            assert not variant.applies(ModelConfig()), "a variant departs from the paper's default"


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
    relative = story_of("encoder.layers.0.self_attention.heads", ModelConfig(positions="relative"))
    assert relative.equation == "head_i = A_i V_i + A_i · a_V"
    assert "distances" in relative.sentence
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
    heads = {place: story_of(f"{place}.layers.0.{kind}_attention.heads").title for place, kind in
             (("encoder", "self"), ("decoder", "cross"))}  # fmt: skip
    assert heads["decoder"] == "What each head takes from the source" != heads["encoder"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "encoder.layers.0.self_attention.score",
            "encoder_self_attention has no entry for a tap 'score'. Did you mean 'scores'",
        ),
        (
            "encoder.layers.0.feed_forwart.inner",
            "kind 'feed_forwart', for which no tap has an entry. Did you mean 'feed_forward'",
        ),
        ("", "model has no entry for a tap ''"),
    ],
)
def test_an_unknown_address_is_refused_with_the_nearest_known(address, message):
    with pytest.raises(TraceError, match=message.replace(".", r"\.")):
        story_of(address)
