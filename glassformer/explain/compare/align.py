"""Taps in one layout, to compare passes made in different ways."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy
import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.explain.addresses import resolved_axes
from glassformer.trace import Step

POSITIONS = ("src", "tgt", "position", "query", "key", "character")
_KEPT = ("k_cached", "v_cached")
_STEPS = ("query", "tgt", "position", "key")  # joined along the first of these


@dataclass(frozen=True, eq=False)
class Aligned(Step):
    """A tap; ``present`` marks existing cells, ``unit`` scales the tolerance."""

    present: Tensor | None = None
    unit: float | None = None

    @property
    def mask(self) -> Tensor:
        """``present`` for each cell."""
        return torch.ones_like(self.value, dtype=torch.bool) if self.present is None else self.present

    def add_axes(self, axes: tuple[str, ...]) -> "Aligned | None":
        """The tap with more axes, of size 1; None if ``axes`` lacks its own."""
        shape, found = [], 0
        for word in axes:
            has = found < len(self.axes) and self.axes[found] in (word, "one")
            shape.append(self.shape[found] if has else 1)
            found += has
        if found < len(self.axes):
            return None
        present = None if self.present is None else self.present.reshape(shape)
        return replace(self, axes=axes, value=self.value.reshape(shape), present=present)

    def crop(self, shape: Sequence[int]) -> "Aligned":
        """Each axis's first cells; axes of size 1 are expanded."""
        part = tuple(slice(size) for size in shape)
        present = None if self.present is None else self.present[part].expand(tuple(shape))
        return replace(self, value=self.value[part].expand(tuple(shape)), present=present)


def align_steps(steps: Sequence[Step]) -> list[Aligned]:
    """Each step as recorded, on the CPU."""
    return [Aligned(step.address, step.axes, step.value.cpu(), step.call) for step in steps]


def join_calls(steps: Sequence[Step]) -> list[Aligned]:
    """Stepwise decoding's calls as one pass; queries lack later keys."""
    calls: dict[str, list[Aligned]] = {}
    for step in align_steps(steps):
        calls.setdefault(step.address, []).append(
            _insert_axis(step, step.axes.index("key"), "query") if step.name in _KEPT else step
        )
    return [_join_tap(parts) for parts in calls.values()]


def _insert_axis(tap: Aligned, place: int, word: str) -> Aligned:
    return replace(tap, axes=(*tap.axes[:place], word, *tap.axes[place:]), value=tap.value.unsqueeze(place))


def _join_tap(parts: list[Aligned]) -> Aligned:
    if len(parts) == 1:
        return parts[0]
    along = next((word for word in _STEPS if word in parts[0].axes), None)
    if along is None:
        raise TraceError(f"{parts[0].address}: has {len(parts)} calls, but no positions along which to join them.")
    return _concatenate(parts, parts[0].axes.index(along))


def stack_sentences(sides: Sequence[list[Aligned]]) -> list[Aligned]:
    """Single sentences' passes as rows of a batch."""
    rows = [
        {tap.key: tap if "batch" in tap.axes else _insert_axis(tap, 0, "batch") for tap in side} for side in sides
    ]
    for row, (first, second) in enumerate(pairwise(rows), start=2):
        if first.keys() != second.keys():
            odd = sorted(first.keys() ^ second.keys())[0]
            raise TraceError(f"{odd[0]}: is not in the pass of every sentence up to number {row}.")
    return [_concatenate([row[key] for row in rows], rows[0][key].axes.index("batch")) for key in rows[0]]


def unpack_rows(steps: Sequence[Step], real: Mapping[str, Tensor]) -> list[Aligned]:
    """A pass's packed rows, put back where ``real`` has tokens."""
    return [_unpack(tap, real) for tap in align_steps(steps)]


def _unpack(tap: Aligned, real: Mapping[str, Tensor]) -> Aligned:
    mask = real.get(resolved_axes(tap)[1]) if len(tap.axes) > 1 else None
    if mask is None or tap.axes[0] != "batch" or tap.shape[:2] != (1, int(mask.sum())):
        return tap
    value = tap.value.new_zeros((*mask.shape, *tap.shape[2:]))
    value[mask] = tap.value[0]
    present = mask.reshape(*mask.shape, *[1] * (value.ndim - 2)).expand(value.shape)
    return replace(tap, value=value, present=present)


def _concatenate(parts: Sequence[Aligned], place: int) -> Aligned:
    longest = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    values, masks = [], []
    for part in parts:
        shape = [*longest[:place], part.shape[place], *longest[place + 1 :]]
        values.append(pad_to(part.value, shape))
        masks.append(pad_to(part.mask, shape))
    return replace(parts[0], value=torch.cat(values, place), present=torch.cat(masks, place))


def pad_to(value: Tensor, shape: Sequence[int]) -> Tensor:
    """The value padded to ``shape`` with zeros or False."""
    larger = value.new_zeros(tuple(shape))
    larger[tuple(slice(size) for size in value.shape)] = value
    return larger


def match_shapes(first: Aligned, second: Aligned) -> tuple[Aligned, Aligned] | None:
    """Both sides with the same axes and positions; None if they do not fit."""
    if first.axes == second.axes and first.shape == second.shape:
        return first, second
    axes = max(first.axes, second.axes, key=lambda axes: (len(axes), -axes.count("one")))
    left, right = first.add_axes(axes), second.add_axes(axes)
    if left is None or right is None:
        return None
    shape = []
    for word, *sizes in zip(axes, left.shape, right.shape, strict=True):
        both_have_it = word in first.axes and word in second.axes
        if both_have_it and word not in POSITIONS and sizes[0] != sizes[1]:
            return None
        shape.append(min(sizes) if both_have_it else max(sizes))
    return left.crop(shape), right.crop(shape)


def add_cached(taps: Sequence[Aligned], wanted: set[tuple[str, int]]) -> Iterator[Aligned]:
    """The taps, and what a cache would hold that is ``wanted``: keys and values, the cell before."""
    latest: dict[str, Aligned] = {}
    for tap in taps:
        yield tap
        module, _, name = tap.address.rpartition(".")
        latest[tap.address] = tap
        if name == "v":
            held = {"k": latest.get(f"{module}.k_rotated", latest.get(f"{module}.k")), "v": tap}
            for letter, source in held.items():
                address = f"{module}.{letter}_cached"
                if source is not None and (address, tap.call) in wanted:
                    yield replace(source, address=address)
        if name == "cell" and (f"{module}.cell_cached", tap.call) in wanted:
            yield replace(tap, address=f"{module}.cell_cached", value=tap.value[:, :-1])


@dataclass(frozen=True, eq=False)
class PositionTokens:
    """Positions with a token, in src and tgt; ``labels``: tokens by row."""

    real: Mapping[str, Tensor]
    labels: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def mask_of(self, tap: Aligned) -> Tensor:
        """True without padding, expandable over the tap's other axes."""
        counted = torch.ones([1] * len(tap.axes), dtype=torch.bool)
        rows = tap.axes.index("batch") if "batch" in tap.axes else None
        for place, word in enumerate(resolved_axes(tap)):
            real = self.real.get(word)
            if real is None or place == rows:
                continue
            if rows is None:
                real = real.any(dim=0, keepdim=True)
            elif len(real) != tap.shape[rows]:
                continue  # a search's rows are not sentences
            shape = [1] * len(tap.axes)
            shape[place] = tap.shape[place]
            if rows is not None:
                shape[rows] = len(real)
            counted = counted & pad_to(real[:, : tap.shape[place]], (len(real), tap.shape[place])).reshape(shape)
        return counted

    def tokens(self, tap: Aligned, cell: Sequence[int]) -> tuple[str | None, ...]:
        """The token at each index of a cell, or None."""
        row = cell[tap.axes.index("batch")] if "batch" in tap.axes else 0
        return tuple(self._token(word, row, index) for word, index in zip(resolved_axes(tap), cell, strict=True))

    def _token(self, word: str, row: int, index: int) -> str | None:
        rows = self.labels.get(word, ())
        row = 0 if word == "vocab" else row
        return rows[row][index] if row < len(rows) and index < len(rows[row]) else None


def largest_difference(first: Tensor, second: Tensor) -> tuple[float, tuple[int, ...]]:
    """The greatest difference and its cell; equal infinities do not differ."""
    left, right = first.double(), second.double()
    difference = torch.where(left == right, 0.0, (left - right).abs())
    difference = difference.nan_to_num(nan=torch.inf, posinf=torch.inf)
    if difference.numel() == 0:
        return 0.0, ()
    place = int(difference.argmax())
    cell = numpy.unravel_index(place, tuple(difference.shape))  # faster than torch's
    return float(difference.flatten()[place]), tuple(int(index) for index in cell)
