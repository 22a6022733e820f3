"""Taps laid out alike, so that passes made in different ways can be compared cell by cell.

A stepwise decoding becomes one pass over all positions, lone sentences become rows of a batch; a mask says which
cells are there. Knows no model and no comparison.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.explain.addresses import resolved_axes
from glassformer.trace import Step

POSITIONS = ("src", "tgt", "position", "query", "key")
_STEPS = ("query", "tgt", "position", "key")  # along the first of these that a tap has, its calls follow one another


@dataclass(frozen=True, eq=False)
class Aligned:
    """One tap of one side: ``present`` is True where there is a cell, None where all are there."""

    address: str
    call: int
    axes: tuple[str, ...]
    value: Tensor
    present: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The concrete size of each axis."""
        return tuple(self.value.shape)

    @property
    def key(self) -> tuple[str, int]:
        """Address and call, which together name one tap of a side."""
        return self.address, self.call

    @property
    def mask(self) -> Tensor:
        """``present`` for each cell."""
        return torch.ones_like(self.value, dtype=torch.bool) if self.present is None else self.present

    def given_axes(self, axes: tuple[str, ...]) -> "Aligned | None":
        """The same with further axes, each of size 1; None where ``axes`` does not contain its own in their order."""
        shape, found = [], 0
        for word in axes:
            has = found < len(self.axes) and self.axes[found] == word
            shape.append(self.shape[found] if has else 1)
            found += has
        if found < len(self.axes):
            return None
        present = None if self.present is None else self.present.reshape(shape)
        return replace(self, axes=axes, value=self.value.reshape(shape), present=present)

    def cut(self, shape: Sequence[int]) -> "Aligned":
        """The cells at the start of each axis; an axis of size 1 is stretched."""
        part = tuple(slice(size) for size in shape)
        present = None if self.present is None else self.present[part].expand(tuple(shape))
        return replace(self, value=self.value[part].expand(tuple(shape)), present=present)


def recorded(steps: Sequence[Step]) -> list[Aligned]:
    """Each step as it was recorded, on the CPU."""
    return [Aligned(step.address, step.call, step.axes, step.value.cpu()) for step in steps]


def joined(steps: Sequence[Step]) -> list[Aligned]:
    """The calls of a stepwise decoding as one pass: queries follow one another, each without the keys to come.

    What the cache held at each call gets an axis of queries: the step that read it.
    """
    calls: dict[str, list[Aligned]] = {}
    for step in recorded(steps):
        calls.setdefault(step.address, []).append(
            _with_query_axis(step) if step.address.endswith("_cached") else step
        )
    return [_joined_calls(parts) for parts in calls.values()]


def _with_query_axis(tap: Aligned) -> Aligned:
    place = tap.axes.index("key")
    return replace(tap, axes=(*tap.axes[:place], "query", *tap.axes[place:]), value=tap.value.unsqueeze(place))


def _joined_calls(parts: list[Aligned]) -> Aligned:
    if len(parts) == 1:
        return parts[0]
    along = next((word for word in _STEPS if word in parts[0].axes), None)
    if along is None:
        raise TraceError(f"{parts[0].address}: has {len(parts)} calls, but no positions along which to join them.")
    return _concatenated(parts, parts[0].axes.index(along))


def stacked(sides: Sequence[list[Aligned]]) -> list[Aligned]:
    """Sentences that were each alone as the rows of one batch; what has no axis of sentences gets one."""
    rows = [{tap.key: _with_batch_axis(tap) for tap in side} for side in sides]
    for row, (first, second) in enumerate(pairwise(rows), start=2):
        if first.keys() != second.keys():
            odd = sorted(first.keys() ^ second.keys())[0]
            raise TraceError(f"{odd[0]}: is not in the pass of every sentence up to number {row}.")
    return [_concatenated([row[key] for row in rows], rows[0][key].axes.index("batch")) for key in rows[0]]


def _with_batch_axis(tap: Aligned) -> Aligned:
    return tap if "batch" in tap.axes else replace(tap, axes=("batch", *tap.axes), value=tap.value.unsqueeze(0))


def _concatenated(parts: Sequence[Aligned], place: int) -> Aligned:
    """The parts behind one another along one axis; along the others, the shorter ones lack cells at the end."""
    longest = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    values, masks = [], []
    for part in parts:
        shape = [*longest[:place], part.shape[place], *longest[place + 1 :]]
        values.append(grown(part.value, shape))
        masks.append(grown(part.mask, shape))
    return replace(parts[0], value=torch.cat(values, place), present=torch.cat(masks, place))


def grown(value: Tensor, shape: Sequence[int]) -> Tensor:
    """The value with zeros, or False, behind its cells along each axis, up to ``shape``."""
    larger = value.new_zeros(tuple(shape))
    larger[tuple(slice(size) for size in value.shape)] = value
    return larger


def paired(first: Aligned, second: Aligned) -> tuple[Aligned, Aligned] | None:
    """Both sides with the same axes and sizes, cut to the positions that both have; None when of another shape.

    Where one side lacks an axis, such as that of sentences, its values stand for every entry of the other's.
    """
    if first.axes == second.axes and first.shape == second.shape:
        return first, second
    axes = max(first.axes, second.axes, key=len)
    left, right = first.given_axes(axes), second.given_axes(axes)
    if left is None or right is None:
        return None
    shape = []
    for word, *sizes in zip(axes, left.shape, right.shape, strict=True):
        both_have_it = word in first.axes and word in second.axes
        if both_have_it and word not in POSITIONS and sizes[0] != sizes[1]:
            return None
        shape.append(min(sizes) if both_have_it else max(sizes))
    return left.cut(shape), right.cut(shape)


def with_cached(taps: Sequence[Aligned], wanted: set[tuple[str, int]]) -> Iterator[Aligned]:
    """The taps, and behind each v the keys and values that a cache would hold, where ``wanted`` has such a tap."""
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


@dataclass(frozen=True, eq=False)
class Positions:
    """What stands at the positions of a batch: whether a token or padding, and which.

    ``real`` maps src and tgt to (batch positions) of bool; ``labels`` maps them to the tokens of each row, and
    vocab to one row of tokens.
    """

    real: Mapping[str, Tensor]
    labels: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def counted(self, tap: Aligned) -> Tensor:
        """True at the cells of a tap that no padding takes part in, stretched over its other axes."""
        counted = torch.ones([1] * len(tap.axes), dtype=torch.bool)
        rows = tap.axes.index("batch") if "batch" in tap.axes else None
        for place, word in enumerate(_sides(tap)):
            real = self.real.get(word)
            if real is None or place == rows:
                continue
            if rows is None:
                real = real.any(dim=0, keepdim=True)
            elif len(real) != tap.shape[rows]:
                continue  # rows of a search are no sentences
            shape = [1] * len(tap.axes)
            shape[place] = tap.shape[place]
            if rows is not None:
                shape[rows] = len(real)
            counted = counted & grown(real[:, : tap.shape[place]], (len(real), tap.shape[place])).reshape(shape)
        return counted

    def tokens(self, tap: Aligned, cell: Sequence[int]) -> tuple[str | None, ...]:
        """The token at each index of a cell, None along axes that hold none, or none that is known."""
        row = cell[tap.axes.index("batch")] if "batch" in tap.axes else 0
        return tuple(self._token(word, row, index) for word, index in zip(_sides(tap), cell, strict=True))

    def _token(self, word: str, row: int, index: int) -> str | None:
        rows = self.labels.get(word, ())
        row = 0 if word == "vocab" else row
        return rows[row][index] if row < len(rows) and index < len(rows[row]) else None


def _sides(tap: Aligned) -> tuple[str, ...]:
    """The axis words with src and tgt settled."""
    return resolved_axes(Step(tap.address, tap.axes, tap.value, tap.call))
