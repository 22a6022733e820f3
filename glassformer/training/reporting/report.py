"""report.html: a training on one page, for people who do not read metrics."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any

from glassformer.files import read_json_lines, storage_errors, write_durably
from glassformer.run_directory import RunDirectory
from glassformer.text.scripts import split_words
from glassformer.training.evaluation.results import Example
from glassformer.training.reporting.diagnosis import Shares, count_errors

_CONFUSIONS = 20  # symbols in the table of what is confused
_BUCKETS = ((1, 5), (6, 10), (11, 15), (16, 25), (26, 10**9))  # words of the source, or symbols of a word
_SHOWN = 8  # examples of a list
_LONGEST = 1000  # characters of a text in it
_WIDTH, _HEIGHT = 640, 200
_LEFT_OUT = {
    "empty": "a side is empty",
    "too_long": "a side is too long (text.max_tokens)",
    "lopsided": "one side is many times longer than the other (text.max_ratio)",
    "repeats": "they repeat a held-out pair",
}
_CURVES = {  # of metrics.jsonl, each with its meaning and its color
    "valid_loss": (
        "Loss on held-out sentences", "how surprised the model is by the right words; lower is better", "one"
    ),
    "valid_chrf": ("chrF", "letters in common with the right translation, in percent; higher is better", "two"),
    "valid_word_error_rate": ("WER", "words that are not exactly right, in percent; lower is better", "two"),
}  # fmt: skip
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --one: #0969da; --two: #bf5700; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: currentColor; }
.headline { font-size: 1.35rem; font-weight: 600; } dt { font-weight: 600; }
dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
"""


def read_metrics(run: RunDirectory) -> list[dict[str, Any]]:
    """The records of metrics.jsonl, without damaged lines."""
    records = []
    for line in read_json_lines(run.metrics_file):
        with suppress(ValueError, RecursionError, OverflowError):
            found = json.loads(line.decode(errors="replace"))
            if isinstance(found, dict):
                numbers = {key: one for key, one in found.items() if isinstance(one, int | float) and abs(one) < 1e15}
                records.append(numbers)
    return [record for record in records if "update" in record]


def write_report(run: RunDirectory, page: str) -> None:
    """Save the page; ``StorageError`` if it cannot be written."""
    with storage_errors(run.report_file), write_durably(run.report_file) as file:
        file.write(page)


def make_report(
    title: str,
    *,
    headline: str,
    facts: Mapping[str, str],
    lines: Sequence[str],
    examples: Sequence[Example],
    records: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int],
) -> str:
    """The page of a training."""
    curves, errors = [], []
    for key, (name, meaning, color) in _CURVES.items():
        points = [(float(one["update"]), float(one[key])) for one in records if {"valid_loss", key} <= one.keys()]
        if len(points) > 1:
            curves.append(f"<p><b>{name}</b>: {meaning}.</p>{_curve(points, color, name)}")
    if examples and examples[0].unit != "sentences":
        errors.append(_confusion_table(examples))
    for name, wrong in list(count_errors(examples).items())[:_SHOWN]:
        errors.append(f"<p><b>{escape(name[0].upper() + name[1:])}</b>: {len(wrong):,} of {len(examples):,}.</p>")
        errors.append(_table(sorted(wrong, key=lambda one: len(one.source))[:2]))
    blocks = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="headline">{escape(headline)}</p>',
        *(f"<p>{escape(line)}</p>" for line in lines if not line.startswith((" ", "Typical"))),
        "<h2>How it learned</h2>",
        *curves,
        "<h2>By length</h2>",
        _by_length(examples),
        "<h2>What goes wrong</h2>",
        *errors,
        "<h2>The best</h2>",
        _table(sorted(examples, key=lambda one: (one.wrong_parts, -len(one.source)))),
        "<h2>The worst</h2>",
        _table(sorted(examples, key=lambda one: -one.wrong_parts)),
        "<h2>The text</h2>",
        *_text(counts),
        "<h2>How it was made</h2>",
        "".join(["<dl>", *(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()), "</dl>"]),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(blocks) + "\n</body></html>\n"
    )


def _curve(points: Sequence[tuple[float, float]], color: str, name: str) -> str:
    """A line through the points, between round numbers."""
    (left, right), values = (points[0][0], points[-1][0]), [value for _, value in points]
    ticks, digits = _ticks(min(values), max(values))
    across, up = max(right - left, 1e-9), ticks[-1] - ticks[0]

    def height(value: float) -> float:
        return 10 + (ticks[-1] - value) / up * (_HEIGHT - 40)

    places = " ".join(f"{50 + (x - left) / across * (_WIDTH - 60):.1f},{height(y):.1f}" for x, y in points)
    floor = _HEIGHT - 30
    lines = "".join(
        f'<path d="M50 {height(tick):.1f}H{_WIDTH - 10}" stroke="var(--line)"/>'
        f'<text x="45" y="{height(tick) + 4:.1f}" text-anchor="end">{tick:.{digits}f}</text>'
        for tick in ticks
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{name}: from {values[0]:.{digits}f} to '
        f'{values[-1]:.{digits}f}">{lines}<path d="M50 10V{floor}" stroke="var(--line)"/>'
        f'<polyline points="{places}" fill="none" stroke="var(--{color})" stroke-width="2"/>'
        f'<text x="50" y="{_HEIGHT - 12}">update {left:,.0f}</text>'
        f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 12}" text-anchor="end">update {right:,.0f}</text></svg>'
    )


def _ticks(low: float, high: float) -> tuple[list[float], int]:
    """Two to five round numbers, and their digits."""
    span = max(high - low, 1e-3 * max(1.0, abs(high)))
    power = 10.0 ** math.floor(math.log10(span / 2))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= (1 - 1e-6) * span / 3)
    first, last = math.floor(round(low / step, 6)), math.ceil(round(high / step, 6))
    ticks = [number * step for number in range(first, max(last, first + 1) + 1)]
    return ticks, max(0, -math.floor(math.log10(step) + 1e-9))


def _confusion_table(examples: Sequence[Example]) -> str:
    """The symbols that are confused most often, in rows what is right, in columns what was written."""
    counted = Counter(pair for one in examples for pair in one.confusions())
    most = dict(counted.most_common(_CONFUSIONS))
    rights, writtens = (sorted({pair[side] for pair in most}, key=lambda one: (one == "", one)) for side in (0, 1))
    head = "".join(f'<th class="n">{escape(written) or "nothing"}</th>' for written in writtens)
    rows = [f"<tr><th>right \\ written</th>{head}</tr>"]
    for right in rights:
        cells = (f'<td class="n">{most.get((right, written), "")}</td>' for written in writtens)
        rows.append(f"<tr><th>{escape(right) or 'nothing'}</th>{''.join(cells)}</tr>")
    return f"<p>The {len(most)} most frequent confusions of symbols:</p><table>{''.join(rows)}</table>"


def _by_length(examples: Sequence[Example]) -> str:
    rows, is_of_words = [], bool(examples) and examples[0].unit != "sentences"
    for low, high in _BUCKETS:
        inside = [one for one in examples if low <= _length(one) <= high]
        if inside:
            shares = Shares.count(inside)
            words = f"{low} to {high}" if high < 10**9 else f"{low} or more"
            numbers = (len(inside), shares.exact, shares.near, len(inside) - shares.exact - shares.near)
            rows.append(f"<tr><td>{words}</td>" + "".join(f'<td class="n">{n:,}</td>' for n in numbers) + "</tr>")
    what, parts = ("words", "symbols") if is_of_words else ("sentences", "words")
    names = (what, "exactly right", f"but for 1 or 2 {parts}", "more wrong")
    head = "".join(f'<th class="n">{name}</th>' for name in names)
    measured = "symbols of the right answer" if is_of_words else "words of the source"
    return f"<table><tr><th>{measured}</th>{head}</tr>{''.join(rows)}</table>"


def _length(one: Example) -> int:
    return len(split_words(one.source)) if one.unit == "sentences" else len(one.parts(one.reference))


def _table(examples: Sequence[Example]) -> str:
    rows = ""
    for one in examples[:_SHOWN]:
        texts = (one.source, one.output, one.reference)
        cut = (text if len(text) <= _LONGEST else text[:_LONGEST] + "…" for text in texts)
        cells = (f'<td dir="auto">{escape(text)}</td>' for text in cut)
        rows += f"<tr>{''.join(cells)}</tr>"
    return f"<table><tr><th>source</th><th>the model</th><th>reference</th></tr>{rows}</table>"


def _text(counts: Mapping[str, int]) -> Iterator[str]:
    yield (
        f"<p>{counts['read']:,} pairs were read; the model learned from {counts['kept']:,}, and {counts['valid']:,} "
        "were held out.</p>"
    )
    left = [f"<li>{counts[key]:,}: {reason}</li>" for key, reason in _LEFT_OUT.items() if counts.get(key)]
    yield f"<p>Left out:</p><ul>{''.join(left)}</ul>" if left else "<p>Nothing was left out.</p>"
