"""The ways to make one pass over the same ids: what must agree with the plain walk, and how closely.

Each gives the taps of a pass with teacher forcing, laid out as the plain one has them. Knows no text.
"""

import copy
from collections.abc import Callable
from enum import StrEnum

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.decoding.steps import DecoderSteps
from glassformer.errors import ConfigError, InputError, nearest
from glassformer.explain.aligned import Aligned, joined, recorded, stacked
from glassformer.explain.recording import recorded_pass
from glassformer.model import Transformer
from glassformer.model.inference import evaluating
from glassformer.trace import tracing
from glassformer.training.train_step import autocast

_PADDING = 3


class Way(StrEnum):
    """How a pass is made."""

    PLAIN = "plain"  # teacher forcing, as it trains
    CACHED = "cached"  # position by position with a cache, as it translates
    ALONE = "alone"  # each sentence by itself, without padding
    PADDED = "padded"  # with more padding on both sides
    FUSED = "fused"  # equation 1 in one kernel
    COMPILED = "compiled"  # by torch.compile
    BF16 = "bf16"  # products in bfloat16, as train.precision = "bf16" has them
    DOUBLE = "double"  # in float64


EXACT, LOW_PRECISION = 1e-5, 0.05


def read_way(name: str) -> Way:
    """The way of that name; raises ``ConfigError`` with those that there are."""
    try:
        return Way(name)
    except ValueError:
        known = [str(way) for way in Way]
        raise ConfigError(
            f"diff: found {name!r}, expected one of {', '.join(known)}.{nearest(name, known)}"
        ) from None


def usual_tolerance(first: Way, second: Way) -> float:
    """0 for passes made in one way; else what orders of sums, or bfloat16's 8 bits, may make of a small model."""
    if first == second:
        return 0.0
    return LOW_PRECISION if Way.BF16 in (first, second) else EXACT


def pass_in(
    way: Way, model: Transformer, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]
) -> list[Aligned]:
    """The taps of one pass over padded ids. The model is left as it was, and other threads may use it meanwhile.

    Raises ``InputError`` when more padding finds no room, ``ConfigError`` when this machine cannot compile.
    """
    device = next(model.parameters()).device
    return _PASSES[way](model, src_ids.to(device), tgt_in_ids.to(device))


def _plain(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    return recorded(recorded_pass(model, src_ids, tgt_in_ids).steps)


def _cached(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    with torch.no_grad(), evaluating(model), tracing(model) as trace:
        steps = DecoderSteps(model, src_ids)
        for ids in tgt_in_ids.unbind(dim=1):
            steps.next_log_probs(ids)
    return joined([step for step in trace if not step.address.startswith("search.")])


def _alone(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    pad_id = model.config.pad_id
    return stacked([
        _plain(model, _without_padding(src, pad_id)[None], _without_padding(tgt, pad_id)[None])
        for src, tgt in zip(src_ids, tgt_in_ids, strict=True)
    ])  # fmt: skip


def _without_padding(ids: Tensor, pad_id: int) -> Tensor:
    """One row up to its last token, and at least one position of it."""
    places = (ids != pad_id).nonzero()
    return ids[: int(places.max()) + 1 if len(places) else 1]


def _padded(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    room = model.config.max_length - max(src_ids.shape[1], tgt_in_ids.shape[1])
    if room < 1:
        raise InputError(
            f"padded: a sentence fills all {model.config.max_length} positions that the model takes, "
            "expected room for one more. Give shorter sentences."
        )
    more = [0, min(_PADDING, room)]
    longer = (torch.nn.functional.pad(ids, more, value=model.config.pad_id) for ids in (src_ids, tgt_in_ids))
    return _plain(model, *longer)


def _fused(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    twin = _twin(model)
    twin.use_fused_attention(in_traces=True)
    return _plain(twin, src_ids, tgt_in_ids)


def _twin(model: Transformer) -> Transformer:
    """The same weights in modules of their own, so that a choice made for one is not made for the other."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def _compiled(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    from glassformer.explain.compiled import compiled_pass  # what it takes of torch is slow to load

    return recorded(compiled_pass(model, src_ids, tgt_in_ids))


def _bf16(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    with autocast("bf16", src_ids.device):
        return _plain(model, src_ids, tgt_in_ids)


def _double(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    return _plain(copy.deepcopy(model).double(), src_ids, tgt_in_ids)


_PASSES: dict[Way, Callable[[Transformer, Tensor, Tensor], list[Aligned]]] = {
    Way.PLAIN: _plain,
    Way.CACHED: _cached,
    Way.ALONE: _alone,
    Way.PADDED: _padded,
    Way.FUSED: _fused,
    Way.COMPILED: _compiled,
    Way.BF16: _bf16,
    Way.DOUBLE: _double,
}
