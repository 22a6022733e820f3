"""Charts of measured figures as SVG, for a light and a dark page: bars from zero, or points on a labelled axis."""

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _FOOT = 720, 230, 70, 28, 12, 34
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


class Row(NamedTuple):
    """A line of a chart: its label, its value, the ends of an interval if it has one, and whether it is ours."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    ours: bool = True


class Theme(NamedTuple):
    """The colours of a chart."""

    ground: str
    ink: str
    soft: str
    line: str
    ours: str
    others: str


LIGHT = Theme("#ffffff", "#1c2130", "#5b6374", "#d9dde5", "#3d4692", "#b4bac6")
DARK = Theme("#14171f", "#e6e9f0", "#a5adbd", "#333a48", "#8d9be0", "#596172")


def bars(rows: Sequence[Row], unit: str, text: Callable[[float], str], theme: Theme) -> str:
    """Horizontal bars from zero, each with its value."""
    ticks = _ticks(0.0, max(row.value for row in rows))

    def draw(row: Row, y: float, x: Callable[[float], float]) -> str:
        colour = theme.ours if row.ours else theme.others
        bar = (
            f'<rect x="{_LEFT}" y="{y - 9:g}" width="{x(row.value) - _LEFT:.1f}" height="18" rx="3" fill="{colour}"/>'
        )
        return bar + _words(x(row.value) + 8, y + 4, text(row.value), theme.ink)

    return _chart(rows, ticks, unit, theme, draw)


def points(rows: Sequence[Row], unit: str, text: Callable[[float], str], theme: Theme) -> str:
    """Points with their intervals; the axis begins near the lowest, and its numbers say so."""
    lows = [row.value if row.low is None else row.low for row in rows]
    highs = [row.value if row.high is None else row.high for row in rows]
    ticks = _ticks(min(lows), max(highs))

    def draw(row: Row, y: float, x: Callable[[float], float]) -> str:
        colour, end = theme.ours if row.ours else theme.soft, row.value if row.high is None else row.high
        interval = "" if row.low is None else f'<path d="M{x(row.low):.1f} {y:g}H{x(end):.1f}" stroke="{colour}" '
        interval += 'stroke-width="3" stroke-linecap="round" stroke-opacity=".4"/>' if interval else ""
        point = f'<circle cx="{x(row.value):.1f}" cy="{y:g}" r="5.5" fill="{colour}"/>'
        return interval + point + _words(x(end) + 12, y + 4, text(row.value), theme.ink)

    return _chart(rows, ticks, unit, theme, draw)


def _chart(
    rows: Sequence[Row],
    ticks: Sequence[float],
    unit: str,
    theme: Theme,
    draw: Callable[[Row, float, Callable[[float], float]], str],
) -> str:
    floor_y = _TOP + _ROW * len(rows)
    height = floor_y + _FOOT
    span = WIDTH - _LEFT - _RIGHT

    def x(value: float) -> float:
        return _LEFT + span * (value - ticks[0]) / (ticks[-1] - ticks[0])

    grid = "".join(
        f'<path d="M{x(tick):.1f} {_TOP}V{floor_y}" stroke="{theme.line}"/>'
        + _words(x(tick), floor_y + 15, f"{tick:,g}", theme.soft, "middle")
        for tick in ticks
    )
    lines = []
    for number, row in enumerate(rows):
        y = _TOP + _ROW * (number + 0.5)
        weight = ' font-weight="600"' if row.ours else ""
        lines += [_words(_LEFT - 10, y + 4, row.label, theme.ink, "end", weight), draw(row, y, x)]
    told = "; ".join(f"{row.label}: {row.value:.4g}" for row in rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="{_FONT}" font-size="13">\n<title>{escape(f"{unit}. {told}")}</title>\n'
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{theme.ground}"/>\n{grid}\n'
        + "\n".join(lines)
        + f"\n{_words(WIDTH - 10, height - 5, unit, theme.soft, 'end')}\n</svg>\n"
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
