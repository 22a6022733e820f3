"""Charts of measured figures as SVG, for a light and a dark page: bars from zero, or points on a labelled axis."""

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

_RIGHT, _ROW, _TOP, _FOOT = 70, 28, 12, 34
_TICK = 44  # between two of them at least
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


class Row(NamedTuple):
    """A line of a chart: its label, its value, the ends of an interval if it has one, and whether it is ours."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    ours: bool = True


class Look(NamedTuple):
    """The colours of a chart, its width, and how much of it the labels take."""

    ground: str
    ink: str
    soft: str
    line: str
    ours: str
    others: str
    width: int = 720
    labels: int = 230


LIGHT = Look("#ffffff", "#1c2130", "#5b6374", "#d9dde5", "#3d4692", "#b4bac6")
DARK = Look("#14171f", "#e6e9f0", "#a5adbd", "#333a48", "#8d9be0", "#596172")
PHONE = {"width": 430, "labels": 228}


def bars(rows: Sequence[Row], unit: str, text: Callable[[float], str], look: Look) -> str:
    """Horizontal bars from zero, each with its value."""
    ticks = _ticks(0.0, max(row.value for row in rows))

    def draw(row: Row, y: float, x: Callable[[float], float]) -> str:
        colour = look.ours if row.ours else look.others
        length = x(row.value) - look.labels
        bar = f'<rect x="{look.labels}" y="{y - 9:g}" width="{length:.1f}" height="18" rx="3" fill="{colour}"/>'
        return bar + _words(x(row.value) + 8, y + 4, text(row.value), look.ink)

    return _chart(rows, ticks, unit, look, draw)


def points(rows: Sequence[Row], unit: str, text: Callable[[float], str], look: Look) -> str:
    """Points with their intervals; the axis begins near the lowest, and its numbers say so."""
    lows = [row.value if row.low is None else row.low for row in rows]
    highs = [row.value if row.high is None else row.high for row in rows]
    ticks = _ticks(min(lows), max(highs))

    def draw(row: Row, y: float, x: Callable[[float], float]) -> str:
        colour, end = look.ours if row.ours else look.soft, row.value if row.high is None else row.high
        interval = "" if row.low is None else f'<path d="M{x(row.low):.1f} {y:g}H{x(end):.1f}" stroke="{colour}" '
        interval += 'stroke-width="3" stroke-linecap="round" stroke-opacity=".4"/>' if interval else ""
        point = f'<circle cx="{x(row.value):.1f}" cy="{y:g}" r="5.5" fill="{colour}"/>'
        return interval + point + _words(x(end) + 12, y + 4, text(row.value), look.ink)

    return _chart(rows, ticks, unit, look, draw)


def _chart(
    rows: Sequence[Row],
    ticks: Sequence[float],
    unit: str,
    look: Look,
    draw: Callable[[Row, float, Callable[[float], float]], str],
) -> str:
    floor_y = _TOP + _ROW * len(rows)
    height = floor_y + _FOOT
    span = look.width - look.labels - _RIGHT

    def x(value: float) -> float:
        return look.labels + span * (value - ticks[0]) / (ticks[-1] - ticks[0])

    every = ceil(_TICK * (len(ticks) - 1) / span)  # all ticks, or every second, third, as there is room
    grid = "".join(
        f'<path d="M{x(tick):.1f} {_TOP}V{floor_y}" stroke="{look.line}"/>'
        + _words(x(tick), floor_y + 15, f"{tick:,g}", look.soft, "middle")
        for tick in ticks[::every]
    )
    lines = []
    for number, row in enumerate(rows):
        y = _TOP + _ROW * (number + 0.5)
        weight = ' font-weight="600"' if row.ours else ""
        lines += [_words(look.labels - 10, y + 4, row.label, look.ink, "end", weight), draw(row, y, x)]
    told = "; ".join(f"{row.label}: {row.value:.4g}" for row in rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {look.width} {height}" width="{look.width}" '
        f'height="{height}" role="img" font-family="{_FONT}" font-size="13">\n'
        f"<title>{escape(f'{unit}. {told}')}</title>\n"
        f'<rect width="{look.width}" height="{height}" rx="8" fill="{look.ground}"/>\n{grid}\n'
        + "\n".join(lines)
        + f"\n{_words(look.width - 10, height - 5, unit, look.soft, 'end')}\n</svg>\n"
    )


def _words(  # noqa: PLR0917  # where, what, and how
    x: float, y: float, text: str, colour: str, anchor: str = "start", more: str = ""
) -> str:
    return f'<text x="{x:.1f}" y="{y:g}" fill="{colour}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers, the first at most ``low`` and the last at least ``high``."""
    span = high - low or 1.0
    size = 10 ** floor(log10(span))
    step = next(size * part for part in (0.2, 0.5, 1.0, 2.0) if span / (size * part) <= 6)
    first, last = floor(low / step), ceil(high / step)
    return [round(step * number, 10) for number in range(first, last + 1)]
