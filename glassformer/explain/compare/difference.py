"""What a comparison found, as data, as lines for a terminal and as plain values for JSON. Imports no model.

Schema: ``agrees``, ``tolerance``, ``names``, ``compared``, ``first`` (a tap or null), ``largest`` (a tap), ``taps``,
``only`` (for each side, the taps that the other lacks: ``address`` and ``call``). A tap has ``address``, ``call``,
``stage``, ``title``, ``axes``, ``shapes``, ``same_shape``, ``cells``, ``parted``, ``size``, ``scale``, ``cell``,
``unit``, ``tokens`` and ``values``. What is no finite number is "inf", "-inf" or "nan".
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from glassformer.errors import TraceError
from glassformer.explain.addresses import stage_of
from glassformer.explain.entries import story_of
from glassformer.explain.plain import printable, shape_text

_MOST = 3


@dataclass(frozen=True)
class TapDifference:
    """One tap on both sides: ``parted`` of ``cells`` are out of tolerance, the worst by ``size``, at ``cell``.

    ``values`` and ``tokens`` are those there; ``scale`` is the greatest finite magnitude on the first side.
    """

    address: str
    call: int
    axes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    same_shape: bool = True
    cells: int = 0
    parted: int = 0
    size: float = 0.0
    scale: float = 0.0
    unit: float = 1.0
    cell: tuple[int, ...] = ()
    tokens: tuple[str | None, ...] = ()
    values: tuple[float, float] = (0.0, 0.0)

    @property
    def differs(self) -> bool:
        """Whether a cell is out of tolerance, or the shapes differ."""
        return self.parted > 0 or not self.same_shape


@dataclass(frozen=True)
class Difference:
    """The taps that both sides have; ``only`` are those that one lacks, by address and call."""

    taps: tuple[TapDifference, ...]
    tolerance: float
    only: tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]] = ((), ())
    names: tuple[str, str] = ("A", "B")

    @property
    def first(self) -> TapDifference | None:
        """The first tap at which the sides differ."""
        return next((tap for tap in self.taps if tap.differs), None)

    @property
    def agrees(self) -> bool:
        """Whether they differ nowhere beyond the tolerance."""
        return self.first is None

    @property
    def largest(self) -> TapDifference:
        """The tap with the greatest difference; of equal ones the first."""
        return max(self.taps, key=lambda tap: tap.size)

    def lines(self) -> list[str]:
        """A line a stage, the largest difference, and where the sides first differ."""
        first, second = self.names
        return [
            f"{first} against {second}: {len(self.taps):,} taps compared, tolerance {self.tolerance:g}",
            *_stage_lines(self.taps),
            *_only_lines(self),
            _largest_line(self.largest),
            *(self.first_lines() or ["They agree."]),
        ]

    def first_lines(self) -> list[str]:
        """Where the sides first differ, and in what; nothing if they agree."""
        return [] if self.first is None else list(_first_lines(self.first, self.names))

    def to_mapping(self) -> dict[str, Any]:
        """Ready for JSON, see the module's schema; infinities and NaN become words."""
        return {
            "agrees": self.agrees,
            "tolerance": self.tolerance,
            "names": list(self.names),
            "compared": len(self.taps),
            "first": None if self.first is None else _tap_mapping(self.first),
            "largest": _tap_mapping(self.largest),
            "taps": [_tap_mapping(tap) for tap in self.taps],
            "only": [[{"address": address, "call": call} for address, call in side] for side in self.only],
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _tap_mapping(tap: TapDifference) -> dict[str, Any]:
    about = {"address": tap.address, "call": tap.call, "stage": stage_of(tap.address), "title": _title(tap)}
    numbers = {"size": _exact(tap.size), "scale": _exact(tap.scale), "values": list(map(_exact, tap.values))}
    return about | asdict(tap) | numbers


def _exact(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


def _title(tap: TapDifference) -> str:
    """The tap's title; empty without an entry, as in traces of other models."""
    try:
        return story_of(tap.address).title
    except TraceError:
        return ""


def _stage_lines(taps: tuple[TapDifference, ...]) -> Iterator[str]:
    """A table: each stage's taps, how many differ, and the greatest difference."""
    stages: dict[str, list[TapDifference]] = {}
    for tap in taps:
        stages.setdefault(stage_of(tap.address), []).append(tap)
    width = max(map(len, stages))
    yield f"  {'':{width}}   taps  part  largest difference"
    for stage, own in stages.items():
        parted, size = sum(tap.differs for tap in own), max(tap.size for tap in own)
        yield f"  {stage:{width}}  {len(own):5,}  {parted:4,}  {size:.2g}"


def _only_lines(difference: Difference) -> Iterator[str]:
    for name, keys in zip(difference.names, difference.only, strict=True):
        if keys:
            named = ", ".join(printable(address) for address, _ in keys[:_MOST])
            more = f" and {len(keys) - _MOST:,} more" if len(keys) > _MOST else ""
            yield f"only {name} has {named}{more}"


def _largest_line(tap: TapDifference) -> str:
    if tap.size == 0:
        return "no number differs"
    return f"largest difference {tap.size:.3g}, among numbers up to {tap.scale:.3g}, at {_address(tap)}"


def _address(tap: TapDifference) -> str:
    address = printable(tap.address)
    return f"{address}, call {tap.call}" if tap.call else address


def _first_lines(tap: TapDifference, names: tuple[str, str]) -> Iterator[str]:
    title = _title(tap)
    yield f"They first differ at {_address(tap)}{f' ({title})' if title else ''}"
    width = max(map(len, names))
    if not tap.same_shape:
        for name, shape in zip(names, tap.shapes, strict=True):
            yield f"  {name:{width}}  of shape {shape_text(shape)}"
        yield "  of another shape: no cell can be compared"
        return
    yield f"  in cell {_cell_text(tap) or 'alone'}"
    for name, value in zip(names, tap.values, strict=True):
        yield f"  {name:{width}}  {value:.9g}"
    yield f"  off by {tap.size:.3g}; {tap.parted:,} of {tap.cells:,} cells are out of tolerance"


def _cell_text(tap: TapDifference) -> str:
    """``batch 0, query 3 'love', d_k 5``, without axes of a single broadcast entry."""
    parts = []
    for word, index, token in zip(tap.axes, tap.cell, tap.tokens, strict=True):
        if word != "one":
            parts.append(f"{word} {index}" + (f" {printable(token)!r}" if token is not None else ""))
    return ", ".join(parts)
