"""Two recorded passes compared tap by tap: where they first differ, and by how much."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.explain.compare.align import (
    Aligned,
    PositionTokens,
    add_cached,
    align_steps,
    largest_difference,
    match_shapes,
)
from glassformer.explain.compare.difference import Difference, TapDifference
from glassformer.text.tokenizer.tokenizer import PAD_ID
from glassformer.trace import Trace

_IDS = {"src": "text.src_ids", "tgt": "text.tgt_in_ids"}


def diff_traces(
    first: Trace, second: Trace, tolerance: float = 0.0, *, positions: PositionTokens | None = None
) -> Difference:
    """Compare two traces by address and call, without padding, over the positions that both have.

    A cell differs above tolerance · (1 + the tap's greatest finite magnitude in the first trace); equal infinities do
    not differ, NaN does. ``positions`` come from the ids by default. ``TraceError`` if no tap is in both.
    """
    return compare(
        align_steps(first.steps), align_steps(second.steps), tolerance, positions or _differing_padding(first, second)
    )


def compare(
    first: Sequence[Aligned],
    second: Sequence[Aligned],
    tolerance: float = 0.0,
    positions: PositionTokens | None = None,
    names: tuple[str, str] = ("A", "B"),
) -> Difference:
    """``diff_traces`` for taps that have one layout."""
    if not 0.0 <= tolerance < float("inf"):
        raise TraceError(f"tolerance: found {tolerance}, expected a number from 0 on, 0 for equal numbers.")
    keys = [{tap.key for tap in side} for side in (first, second)]
    left = {tap.key: tap for tap in add_cached(first, keys[1] - keys[0])}
    right = {tap.key: tap for tap in add_cached(second, keys[0] - keys[1])}
    common = [key for key in left if key in right]
    if not common:
        raise TraceError(
            f"{names[0]} has {len(left)} taps, {names[1]} has {len(right)}, and none is in both. "
            "Compare two passes of models of one kind."
        )
    only = (tuple(key for key in left if key not in right), tuple(key for key in right if key not in left))
    taps = tuple(compare_tap(left[key], right[key], tolerance, positions) for key in common)
    return Difference(taps, tolerance, only, names)


def compare_tap(first: Aligned, second: Aligned, tolerance: float, positions: PositionTokens | None) -> TapDifference:
    """Compare one tap over the cells that both sides have, without padding."""
    shapes = (first.shape, second.shape)
    pair = match_shapes(first, second)
    if pair is None:
        return TapDifference(first.address, first.call, first.axes, shapes, same_shape=False)
    left, right = (tap.value.double() for tap in pair)
    counted = torch.ones(pair[0].shape, dtype=torch.bool)
    for present in (pair[0].present, pair[1].present, None if positions is None else positions.mask_of(pair[0])):
        counted = counted if present is None else counted & present
    scale = float(left.where(counted & left.isfinite(), 0.0).abs().max()) if left.numel() else 0.0
    found = TapDifference(first.address, first.call, pair[0].axes, shapes, cells=int(counted.sum()), scale=scale)
    if torch.equal(left, right):
        return found
    unit = 1 + scale if first.unit is None else first.unit
    found = replace(found, unit=unit)
    parted = counted & (left != right) & ~((left - right).abs() <= tolerance * unit)
    looked_at = parted if bool(parted.any()) else counted
    size, cell = largest_difference(left.where(looked_at, 0.0), right.where(looked_at, 0.0))
    if size == 0:
        return found
    tokens = positions.tokens(pair[0], cell) if positions is not None else (None,) * len(cell)
    values = (float(left[cell]), float(right[cell]))
    return replace(found, parted=int(parted.sum()), size=size, cell=cell, tokens=tokens, values=values)


def _differing_padding(first: Trace, second: Trace) -> PositionTokens | None:
    """The positions with a token on either side, for walks of different padding."""
    real: dict[str, Tensor] = {}
    for side, address in _IDS.items():
        ids = [step.value for trace in (first, second) for step in trace.select(address)[:1]]
        if len(ids) == 2 and len(ids[0]) == len(ids[1]) and ids[0].shape != ids[1].shape:
            columns = min(ids[0].shape[1], ids[1].shape[1])
            real[side] = (ids[0][:, :columns] != PAD_ID) | (ids[1][:, :columns] != PAD_ID)
    return PositionTokens(real) if real else None
