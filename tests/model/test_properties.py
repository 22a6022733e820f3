"""What must hold for every configuration and every input, tried on random small ones."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from glassformer.errors import InputError
from glassformer.model import Transformer
from glassformer.settings import ModelConfig
from glassformer.trace import tracing

FEW = settings(max_examples=20, deadline=None, derandomize=True)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@st.composite
def configs(draw: st.DrawFn) -> ModelConfig:
    tie = draw(st.sampled_from(["all", "target", "none"]))
    return ModelConfig(
        src_vocab=19, tgt_vocab=19 if tie == "all" else 17, tie_embeddings=tie,
        d_model=2 * draw(st.sampled_from([5, 7, 11])), n_heads=draw(st.integers(1, 3)),
        d_k=2 * draw(st.integers(1, 4)), d_v=draw(st.integers(0, 7)), d_ff=draw(st.sampled_from([13, 29])),
        n_encoder_layers=draw(st.integers(1, 2)), n_decoder_layers=draw(st.integers(1, 2)), max_length=31,
        positions=draw(st.sampled_from(ModelConfig.choices("positions"))),
        relative_clip=draw(st.integers(1, 4)), norm=draw(st.sampled_from(ModelConfig.choices("norm"))),
        activation=draw(st.sampled_from(ModelConfig.choices("activation"))), attention_bias=draw(st.booleans()),
        output_bias=draw(st.booleans()), scale_embedding=draw(st.booleans()), dropout=0.3,
    )  # fmt: skip


@st.composite
def models(draw: st.DrawFn) -> Transformer:
    torch.manual_seed(draw(st.integers(0, 2**16)))
    model = Transformer(draw(configs())).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def sentences(batch: int, longest: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(3, 16), min_size=1, max_size=longest), min_size=batch, max_size=batch)


def padded(rows: list[list[int]], extra: int = 0) -> Tensor:
    width = max(map(len, rows)) + extra
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


@FEW
@given(models(), sentences(2, 6), sentences(2, 7), st.data())
def test_a_later_target_token_never_changes_an_earlier_output(model, src, tgt, data):
    tgt_ids = padded(tgt)
    position = data.draw(st.integers(0, tgt_ids.shape[1] - 1))
    changed = tgt_ids.clone()
    changed[:, position] = (changed[:, position] + data.draw(st.integers(1, 16))) % 17
    with torch.no_grad():
        before, after = model(padded(src), tgt_ids), model(padded(src), changed)
    assert torch.equal(before[:, :position], after[:, :position])


@FEW
@given(models(), st.integers(2, 4), st.integers(0, 5), st.integers(0, 5), st.data())
def test_a_batch_equals_its_sentences_one_by_one_and_more_padding_changes_nothing(model, batch, more, extra, data):
    src, tgt = data.draw(sentences(batch, 6)), data.draw(sentences(batch, 6))
    with torch.no_grad():
        together = model(padded(src, more), padded(tgt, extra))
        for row in range(batch):
            alone = model(torch.tensor([src[row]]), torch.tensor([tgt[row]]))
            torch.testing.assert_close(together[row : row + 1, : len(tgt[row])], alone, **CLOSE)


@FEW
@given(models(), sentences(3, 6), sentences(3, 11), st.data())
def test_decoding_in_chunks_with_a_cache_equals_decoding_at_once(model, src, tgt, data):
    tgt_ids = padded(tgt)
    cuts = data.draw(st.sets(st.integers(1, tgt_ids.shape[1]), max_size=tgt_ids.shape[1]))
    with torch.no_grad():
        memory, memory_mask = model.encode(padded(src))
        cache = model.new_cache()
        edges = [0, *sorted(cuts | {tgt_ids.shape[1]})]
        chunks = [model.decode(tgt_ids[:, start:stop], memory, memory_mask, cache) for start, stop in pairwise(edges)]
        whole = model.decode(tgt_ids, memory, memory_mask)
    assert cache.length == tgt_ids.shape[1]
    torch.testing.assert_close(torch.cat(chunks, dim=1), whole, **CLOSE)


@FEW
@given(models(), sentences(1, 5), sentences(2, 5))
def test_a_source_of_padding_alone_gets_no_weight_and_spoils_neither_values_nor_gradients(model, src, tgt):
    src_ids = padded([*src, []])
    tgt_ids = padded(tgt)
    with tracing(model, only="*.weights") as trace:
        logits = model(src_ids, tgt_ids)
    assert logits.isfinite().all()
    for step in trace:
        if "encoder.layers" in step.address or "cross_attention" in step.address:
            assert torch.count_nonzero(step.value[1]) == 0, step.address
    functional.cross_entropy(logits.flatten(0, 1), tgt_ids.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@FEW
@given(models(), sentences(2, 6), sentences(2, 6))
def test_each_row_of_weights_is_a_distribution_over_the_positions_it_may_attend_to(model, src, tgt):
    src_ids, tgt_ids = padded(src), padded(tgt)
    with torch.no_grad(), tracing(model) as trace:
        model(src_ids, tgt_ids)
    for step in trace.select("*.weights"):
        torch.testing.assert_close(step.value.sum(-1), torch.ones(step.shape[:-1]), **CLOSE)
        if "decoder" in step.address and "self_attention" in step.address:
            assert torch.count_nonzero(step.value.triu(1)) == 0
        else:
            assert torch.count_nonzero(step.value * (src_ids == 0)[:, None, None, :]) == 0


@FEW
@given(models(), sentences(2, 4))
def test_a_cached_step_shorter_than_the_longest_length_is_taken_and_a_longer_one_refused(model, src):
    src_ids = padded(src)
    with torch.no_grad():
        memory, memory_mask = model.encode(src_ids)
        cache = model.new_cache()
        model.decode(torch.full((2, 30), 3), memory, memory_mask, cache)
        assert model.decode(torch.full((2, 1), 3), memory, memory_mask, cache).isfinite().all()
        with pytest.raises(InputError, match=r"32 positions, but model\.max_length is 31"):
            model.decode(torch.full((2, 1), 3), memory, memory_mask, cache)
    assert cache.length == 31, "a refused step leaves the cache as it was"


@pytest.mark.parametrize("side", ["src_ids", "tgt_in_ids"])
@pytest.mark.usefixtures("unchecked")
class TestRefusedInput:
    """What a user can get wrong is said in words, with the argument, what was found and what to do."""

    def given(self, side: str, wrong: Tensor) -> dict[str, Tensor]:
        fine = torch.full((2, 5), 3)
        return {"src_ids": fine, "tgt_in_ids": fine, side: wrong}

    def refused(self, model: Transformer, side: str, wrong: Any, *words: str) -> None:
        with pytest.raises(InputError) as raised:
            model(**self.given(side, wrong))
        for word in (side, *words):
            assert word in str(raised.value)

    def test_too_many_positions(self, side, small_model):
        model = small_model(max_length=5)
        model(**self.given(side, torch.full((2, 5), 3)))
        self.refused(model, side, torch.full((2, 6), 3), "6 positions", "model.max_length is 5", "Shorten")

    @pytest.mark.parametrize("wrong_id", [-1, -(2**40), 23, 2**40])
    def test_an_id_outside_the_vocabulary_is_named(self, side, wrong_id, small_model):
        wrong = torch.full((2, 5), 3)
        wrong[1, 4] = wrong_id
        self.refused(small_model(tgt_vocab=23), side, wrong, f"found id {wrong_id}", "from 0 to 22")

    def test_ids_that_are_not_integers(self, side, small_model):
        for wrong in (
            torch.full((2, 5), 3.0),
            torch.ones(2, 5, dtype=torch.bool),
            torch.ones(2, 5, dtype=torch.uint8),
        ):
            self.refused(small_model(), side, wrong, str(wrong.dtype), "torch.int64")

    def test_ids_that_are_not_two_axes(self, side, small_model):
        for shape in ((5,), (2, 5, 1), ()):
            self.refused(small_model(), side, torch.full(shape, 3), str(tuple(shape)), "(batch, positions)")


@pytest.mark.usefixtures("unchecked")
def test_target_and_source_of_different_batch_sizes_are_refused(small_model):
    with pytest.raises(InputError, match="memory: axis batch has 2 rows, tgt_in_ids has 3"):
        small_model()(torch.full((2, 5), 3), torch.full((3, 5), 3))


@pytest.mark.usefixtures("unchecked")
def test_each_side_is_held_to_its_own_vocabulary(small_model):
    model = small_model(src_vocab=23, tgt_vocab=19)
    fine, wide = torch.full((2, 5), 3), torch.full((2, 5), 20)
    model(wide, fine)
    with pytest.raises(InputError, match="found id 20, expected ids from 0 to 18"):
        model(fine, wide)


def test_the_random_configurations_reach_every_choice():
    """The strategy above is itself held: no choice may drop out of it unseen."""
    seen: dict[str, set[Any]] = {}

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(configs())
    def look(config):
        for name in ("norm", "positions", "activation", "tie_embeddings", "attention_bias", "output_bias"):
            seen.setdefault(name, set()).add(getattr(config, name))
        seen.setdefault("d_v differs", set()).add(config.d_v != config.d_k)

    look()
    choices = {name: len(ModelConfig.choices(name)) for name in ("norm", "positions", "activation", "tie_embeddings")}
    switches = dict.fromkeys(("attention_bias", "output_bias", "d_v differs"), 2)
    assert {name: len(values) for name, values in seen.items()} == choices | switches
