"""The ways to run one pass with teacher forcing, and their tolerances."""

import copy
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.decoding.search.steps import BeamSteps, DecoderSteps
from glassformer.errors import ConfigError, InputError, nearest
from glassformer.explain.compare.align import Aligned, align_steps, join_calls, stack_sentences, unpack_rows
from glassformer.explain.recording.recording import record_pass
from glassformer.model import Transformer
from glassformer.model.inference import Precision, evaluating, for_inference
from glassformer.trace import tracing
from glassformer.training.objective.objective import autocast

_PADDING = 3
EXACT, LOW_PRECISION = 1e-5, 0.05


def _run_plain(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    return align_steps(record_pass(model, src_ids, tgt_in_ids).steps)


def _run_steps(kind: type[DecoderSteps], model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    with torch.no_grad(), evaluating(model), tracing(model) as trace:
        steps = kind(model, src_ids)
        for ids in tgt_in_ids.unbind(dim=1):
            steps.next_log_probs(ids)
    return join_calls([step for step in trace if not step.address.startswith("search.")])


def _run_float32(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    return _run_steps(BeamSteps, for_inference(model, Precision.FLOAT32), src_ids, tgt_in_ids)


def _run_packed(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    real = {"src": src_ids != model.config.pad_id, "tgt": tgt_in_ids != model.config.pad_id}
    with torch.no_grad(), evaluating(model), tracing(model) as trace:
        model.output_projection(model.hidden_rows(src_ids, tgt_in_ids, real["tgt"]))
    return unpack_rows(trace.steps, {side: mask.cpu() for side, mask in real.items()})


def _run_alone(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    pad_id = model.config.pad_id
    return stack_sentences([
        _run_plain(model, _strip_padding(src, pad_id)[None], _strip_padding(tgt, pad_id)[None])
        for src, tgt in zip(src_ids, tgt_in_ids, strict=True)
    ])  # fmt: skip


def _strip_padding(ids: Tensor, pad_id: int) -> Tensor:
    """One row up to its last token, and at least one position of it."""
    places = (ids != pad_id).nonzero()
    return ids[: int(places.max()) + 1 if len(places) else 1]


def _run_padded(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    room = model.config.max_length - max(src_ids.shape[1], tgt_in_ids.shape[1])
    if room < 1:
        raise InputError(
            f"padded: a sentence fills all {model.config.max_length} positions that the model takes, "
            "expected room for one more. Give shorter sentences."
        )
    more = [0, min(_PADDING, room)]
    longer = (torch.nn.functional.pad(ids, more, value=model.config.pad_id) for ids in (src_ids, tgt_in_ids))
    return _run_plain(model, *longer)


def fused_copy(model: Transformer) -> Transformer:
    """New modules with the same weight tensors and fused attention."""
    copied = copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})
    copied.use_fused_attention(in_traces=True)
    return copied


def _run_copy(
    change: Callable[[Transformer], Transformer], model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor
) -> list[Aligned]:
    return _run_plain(change(model), src_ids, tgt_in_ids)


def _run_compiled(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    from glassformer.explain.compare.compiled import run_compiled  # what it imports of torch is slow to load

    return align_steps(run_compiled(model, src_ids, tgt_in_ids))


def _run_bf16(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> list[Aligned]:
    with autocast("bf16", src_ids.device):
        return _run_plain(model, src_ids, tgt_in_ids)


class Mode(StrEnum):
    """A way to run a pass: name, meaning, function and tolerance."""

    meaning: str
    run: Callable[[Transformer, Tensor, Tensor], list[Aligned]]
    tolerance: float

    PLAIN = "plain", "with teacher forcing, padded, as a trace shows it", _run_plain
    CACHED = (
        "cached", "position by position with a cache, as the trace of a generation shows it",
        partial(_run_steps, DecoderSteps),
    )  # fmt: skip
    TRANSLATED = (
        "translated", "position by position in beam slots, and the outputs of `translate`, untraced",
        partial(_run_steps, BeamSteps),
    )  # fmt: skip
    FLOAT32 = (
        "float32",
        "the same with other linear maps, as `translate --precision float32` computes it",
        _run_float32,
    )
    PACKED = "packed", "without padding, and the loss and gradients of training, untraced", _run_packed
    ALONE = "alone", "each sentence by itself, without padding", _run_alone
    PADDED = "padded", "with more padding on both sides", _run_padded
    FUSED = (
        "fused", "equation 1 in one kernel, and the loss and gradients of training with it",
        partial(_run_copy, fused_copy),
    )  # fmt: skip
    COMPILED = "compiled", "by `torch.compile`", _run_compiled
    BF16 = "bf16", "products in bfloat16, as training in bf16 computes them", _run_bf16, LOW_PRECISION
    DOUBLE = "double", "in float64", partial(_run_copy, lambda model: copy.deepcopy(model).double())

    def __new__(cls, name: str, meaning: str, run: Any, tolerance: float = EXACT) -> "Mode":
        """The value is the name alone."""
        mode = str.__new__(cls, name)
        mode._value_, mode.meaning, mode.run, mode.tolerance = name, meaning, run, tolerance
        return mode


def read_mode(name: str) -> Mode:
    """The way of that name; raises ``ConfigError`` with all names for another."""
    known = {str(way): way for way in Mode}
    if name not in known:
        raise ConfigError(f"diff: found {name!r}, expected one of {', '.join(known)}.{nearest(name, known)}")
    return known[name]


def usual_tolerance(first: Mode, second: Mode) -> float:
    """0 for two passes run in one way; else the wider tolerance."""
    return 0.0 if first == second else max(first.tolerance, second.tolerance)


def run_pass(
    way: Mode, model: Transformer, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]
) -> list[Aligned]:
    """The taps of one pass over padded ids; ``InputError`` without room for padding."""
    device = next(model.parameters()).device
    return way.run(model, src_ids.to(device), tgt_in_ids.to(device))
