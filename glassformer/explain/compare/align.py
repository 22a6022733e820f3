"""Taps in one layout, so that passes made in different ways can be compared cell by cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy
import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.explain.addresses import resolved_axes
from glassformer.trace import Step

POSITIONS = ("src", "tgt", "position", "query", "key")
_KEPT = ("k_cached", "v_cached")
_STEPS = ("query", "tgt", "position", "key")  # the calls of a tap are joined along the first of these that it has


@dataclass(frozen=True, eq=False)
class Aligned(Step):
    """One tap; ``present`` marks the cells that exist, ``unit`` scales the tolerance."""

    present: Tensor | None = None
    unit: float | None = None

    @property
    def mask(self) -> Tensor:
        """``present`` for each cell."""
        return torch.ones_like(self.value, dtype=torch.bool) if self.present is None else self.present

    def add_axes(self, axes: tuple[str, ...]) -> "Aligned | None":
        """The tap with further axes of size 1; None where ``axes`` lacks one of its own."""
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
        """The first cells of each axis; an axis of size 1 is expanded."""
        part = tuple(slice(size) for size in shape)
        present = None if self.present is None else self.present[part].expand(tuple(shape))
        return replace(self, value=self.value[part].expand(tuple(shape)), present=present)


def align_steps(steps: Sequence[Step]) -> list[Aligned]:
    """Each step as it was recorded, on the CPU."""
    return [Aligned(step.address, step.axes, step.value.cpu(), step.call) for step in steps]


def join_calls(steps: Sequence[Step]) -> list[Aligned]:
    """The calls of a stepwise decoding as one pass; a query lacks the keys after it."""
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
    """Passes over single sentences as the rows of one batch; a tap without a batch axis gets one."""
    rows = [
        {tap.key: tap if "batch" in tap.axes else _insert_axis(tap, 0, "batch") for tap in side} for side in sides
    ]
    for row, (first, second) in enumerate(pairwise(rows), start=2):
        if first.keys() != second.keys():
            odd = sorted(first.keys() ^ second.keys())[0]
            raise TraceError(f"{odd[0]}: is not in the pass of every sentence up to number {row}.")
    return [_concatenate([row[key] for row in rows], rows[0][key].axes.index("batch")) for key in rows[0]]


def unpack_rows(steps: Sequence[Step], real: Mapping[str, Tensor]) -> list[Aligned]:
    """Taps of a pass without padding, each packed row put back where ``real`` has a token."""
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
    """The parts joined along one axis; along the others the shorter ones lack cells at the end."""
    longest = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    values, masks = [], []
    for part in parts:
        shape = [*longest[:place], part.shape[place], *longest[place + 1 :]]
        values.append(pad_to(part.value, shape))
        masks.append(pad_to(part.mask, shape))
    return replace(parts[0], value=torch.cat(values, place), present=torch.cat(masks, place))


def pad_to(value: Tensor, shape: Sequence[int]) -> Tensor:
    """The value padded to ``shape`` with zeros, or False, at the end of each axis."""
    larger = value.new_zeros(tuple(shape))
    larger[tuple(slice(size) for size in value.shape)] = value
    return larger


def match_shapes(first: Aligned, second: Aligned) -> tuple[Aligned, Aligned] | None:
    """Both sides with the same axes, cropped to the positions of both; None if these do not fit."""
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
    """The taps, and those of ``wanted`` that a cache would hold: keys and values after each v, the cell before."""
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
    """Which positions of a batch hold a token, and which: ``real`` is (batch positions) for src and tgt.

    ``labels`` are the tokens of each row for src and tgt, and one row for vocab.
    """

    real: Mapping[str, Tensor]
    labels: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def mask_of(self, tap: Aligned) -> Tensor:
        """True at the cells of a tap in which no padding takes part, expandable over its other axes."""
        counted = torch.ones([1] * len(tap.axes), dtype=torch.bool)
        rows = tap.axes.index("batch") if "batch" in tap.axes else None
        for place, word in enumerate(resolved_axes(tap)):
            real = self.real.get(word)
            if real is None or place == rows:
                continue
            if rows is None:
                real = real.any(dim=0, keepdim=True)
            elif len(real) != tap.shape[rows]:
                continue  # the rows of a search are not sentences
            shape = [1] * len(tap.axes)
            shape[place] = tap.shape[place]
            if rows is not None:
                shape[rows] = len(real)
            counted = counted & pad_to(real[:, : tap.shape[place]], (len(real), tap.shape[place])).reshape(shape)
        return counted

    def tokens(self, tap: Aligned, cell: Sequence[int]) -> tuple[str | None, ...]:
        """The token at each index of a cell; None where there is none."""
        row = cell[tap.axes.index("batch")] if "batch" in tap.axes else 0
        return tuple(self._token(word, row, index) for word, index in zip(resolved_axes(tap), cell, strict=True))

    def _token(self, word: str, row: int, index: int) -> str | None:
        rows = self.labels.get(word, ())
        row = 0 if word == "vocab" else row
        return rows[row][index] if row < len(rows) and index < len(rows[row]) else None


def largest_difference(first: Tensor, second: Tensor) -> tuple[float, tuple[int, ...]]:
    """The greatest absolute difference and its cell; equal infinities do not differ."""
    left, right = first.double(), second.double()
    difference = torch.where(left == right, 0.0, (left - right).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)
    if difference.numel() == 0:
        return 0.0, ()
    place = int(difference.argmax())
    cell = numpy.unravel_index(place, tuple(difference.shape))  # torch's own takes as long as all the rest
    return float(difference.flatten()[place]), tuple(int(index) for index in cell)
