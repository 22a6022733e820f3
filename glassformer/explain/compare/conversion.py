"""A model and its conversion: parts, log-probabilities and outputs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glassformer.decoding.batching import check_pairs, read_sources
from glassformer.decoding.engines.agreement import OutputPair, compare_outputs, first_difference
from glassformer.decoding.search.outputs import Output
from glassformer.errors import ConfigError
from glassformer.explain.compare.findings import (
    CONTROL,
    OUTPUTS,
    ROUNDING,
    SEARCH,
    Finding,
    engine_differences,
    explain_gap,
    find_differences,
    search_options,
)
from glassformer.explain.compare.sides import Ids, Side, open_sides
from glassformer.settings import DecodeConfig
from glassformer.text.lines import normalize_source
from glassformer.text.tokenizer.tokenizer import EOS_ID

TOLERANCE = 1e-4  # of a log-probability or score, times 1 + its size
_TIE = Finding(ROUNDING, "both outputs are as probable")


@dataclass(frozen=True)
class OutputDifference:
    """A text whose outputs differ: first step, from 0, tokens, reason."""

    text: str
    step: int
    tokens: tuple[str, str]
    why: str


@dataclass(frozen=True)
class ConversionDifference:
    """All that differs; ``largest_gap`` is None without comparable texts."""

    names: tuple[str, str]
    findings: tuple[Finding, ...]
    largest_gap: float | None
    gap_at: str
    outputs: tuple[OutputDifference, ...]
    texts: int

    @property
    def agrees(self) -> bool:
        """Whether only rounding differs."""
        return not self.findings and all(one.why == ROUNDING for one in self.outputs)

    def lines(self) -> list[str]:
        """The report for a terminal."""
        lines = [f"A  {self.names[0]}", f"B  {self.names[1]}"]
        lines += [f"{one.what:<16} {one.detail}" for one in self.findings]
        if self.largest_gap is not None:
            lines.append(f"{'log-probability':<16} differs by at most {self.largest_gap:.2g}{self.gap_at}")
            lines.append(f"{'outputs':<16} {self.texts - len(self.outputs)} of {self.texts} are the same")
        for one in self.outputs:
            lines.append(f"  step {one.step}: {one.tokens[0]} / {one.tokens[1]} ({one.why}) in {one.text[:50]!r}")
        return [*lines, "They agree." if self.agrees else f"They differ: {self.cause}."]

    @property
    def cause(self) -> str:
        """What differs, most decisive first."""
        return ", ".join(dict.fromkeys(one.what for one in self.findings)) or OUTPUTS

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "agrees": self.agrees, "cause": self.cause if not self.agrees else ""}


def diff_conversion(
    first: Path, second: Path, sources: Sequence[str], targets: Sequence[str] | None = None, device: str = "auto"
) -> ConversionDifference:
    """Compare a model with its conversion; without ``targets`` on A's outputs.

    ``ConfigError`` without texts, ``InputError`` for unsuitable targets.
    """
    if not sources:
        raise ConfigError("diff: found no text, expected at least one sentence to compare on. Give --text.")
    sources = [normalize_source(text) for text in sources]
    a, b = open_sides(first, second, device)
    names = a.name, b.name
    if not (a.can_run and b.can_run):
        return ConversionDifference(names, tuple(find_differences(a, b, sources, targets or ())), None, "", (), 0)
    outputs = [side.search(sources, search_options(side, other)) for side, other in ((a, b), (b, a))]
    forced = _read_targets(a, b, sources, targets) if targets else _force_outputs(a, b, outputs[0])
    findings = find_differences(a, b, sources, targets or [a.tokenizers[1].to_text(ids) for ids in forced[0]])
    gap, place, is_more = _largest_gap(a, b, sources, forced)
    if is_more and all(one.what == SEARCH for one in findings):
        findings = [explain_gap(a, b, place), *findings]
    compared = compare_outputs(outputs[0], outputs[1], (a.tokenizers[1].to_tokens, b.tokenizers[1].to_tokens))
    pairs = {at: best for at, (best,) in enumerate(compared) if best.step is not None}
    whys = dict.fromkeys(pairs, findings[0]) if findings else _explain(a, b, sources, pairs)
    found = [_describe(pair, sources[at], whys[at]) for at, pair in pairs.items()]
    causes = [*findings, *(one for one in whys.values() if one.what != ROUNDING)]
    return ConversionDifference(names, tuple(dict.fromkeys(causes)), gap, place, tuple(found), len(sources))


def _read_targets(a: Side, b: Side, sources: Sequence[str], targets: Sequence[str]) -> tuple[Ids, Ids]:
    config, (src, tgt) = a.engine.config, a.tokenizers
    check_pairs(read_sources(sources, src, config, "sources"), read_sources(targets, tgt, config, "targets"), config)
    one, other = ([[*side.tokenizers[1].to_ids(text), EOS_ID] for text in targets] for side in (a, b))
    return one, other


def _describe(pair: OutputPair, text: str, why: Finding) -> OutputDifference:
    step = pair.step or 0
    first, second = (tokens[step] if step < len(tokens) else "(end)" for tokens in pair.tokens)
    return OutputDifference(text, step, (first, second), why.what)


def _force_outputs(a: Side, b: Side, outputs: list[list[Output]]) -> tuple[Ids, Ids]:
    """A's outputs as targets; for B the same ids, or the same text's."""
    mine = [best.ids for best, *_ in outputs]
    if a.tokenizers[1].entries() == b.tokenizers[1].entries():
        return mine, mine
    return mine, [[*b.tokenizers[1].to_ids(a.tokenizers[1].to_text(ids)), EOS_ID] for ids in mine]


def _largest_gap(a: Side, b: Side, sources: Sequence[str], targets: tuple[Ids, Ids]) -> tuple[float, str, bool]:
    """The largest gap, its place, and whether any exceeds rounding."""
    labels = [a.tokenizers[1].to_tokens(ids) for ids in targets[0]]
    if None in {a.model, b.model}:  # CTranslate2 has none for <pad> and <s>
        a, b = a.without_control_tokens(), b.without_control_tokens()
    largest, place, is_more = 0.0, "", False
    scores = a.score(sources, targets[0]), b.score(sources, targets[1])
    for row, (one, other) in enumerate(zip(*scores, strict=True)):
        for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            gap = abs(mine - theirs)
            is_more = is_more or not gap <= TOLERANCE * (1 + abs(mine))
            if gap > largest:
                largest = gap
                place = f", at token {at} ({labels[row][at]}) of target {row}: {mine:.4f} / {theirs:.4f}"
    return largest, place, is_more


def _explain(a: Side, b: Side, sources: Sequence[str], pairs: Mapping[int, OutputPair]) -> dict[int, Finding]:
    options = search_options(*((a, b) if a.model is not None else (b, a)))
    ids = {at: [output.ids for output in pair.outputs] for at, pair in pairs.items()}
    found = {at: _TIE for at in pairs if _is_tie(a, sources[at], ids[at], options)}
    left = {at: pair for at, pair in pairs.items() if at not in found}
    if (a.model is None) != (b.model is None):
        found |= _blame_control_tokens(a, b, sources, left)
        is_cut = any(one.truncated for pair in left.values() for one in pair.outputs)
        ways = engine_differences(options, is_cut=is_cut)
        if ways:
            found = dict.fromkeys(left, Finding(SEARCH, ways)) | found
    detail = "they differ by more than rounding, and nothing else does"
    return dict.fromkeys(left, Finding(OUTPUTS, detail)) | found


def _blame_control_tokens(
    a: Side, b: Side, sources: Sequence[str], pairs: Mapping[int, OutputPair]
) -> dict[int, Finding]:
    """Pairs that agree once our model, too, excludes <pad> and <s>."""
    ours, which, options = (a, 0, search_options(a, b)) if a.model is not None else (b, 1, search_options(b, a))
    narrow, texts = ours.without_control_tokens(), [sources[at] for at in pairs]
    if not texts:
        return {}
    again = zip(pairs.items(), narrow.search(texts, options), strict=True)
    same = [
        at
        for (at, pair), (best, *_) in again
        if _is_tie(narrow, sources[at], (best.ids, pair.outputs[1 - which].ids), options)
    ]
    targets = [pair.outputs[which].ids for pair in pairs.values()]
    scores = [side.score(texts, targets) for side in (ours, narrow)]
    most = max(
        1 - math.exp(one - other) for rows in zip(*scores, strict=True) for one, other in zip(*rows, strict=True)
    )
    detail = f"<pad> and <s> have up to {most:.2g} of the probability in {'AB'[which]}, none in CTranslate2"
    return dict.fromkeys(same, Finding(CONTROL, detail))


def _is_tie(side: Side, source: str, pair: Ids, options: DecodeConfig) -> bool:
    """Whether a side scores both alike; greedily, up to where they differ."""
    step = first_difference(*pair)
    if options.sample or step is None:
        return step is None
    rows = side.score([source, source], pair)
    if step >= min(map(len, rows)):  # one is the beginning of the other
        return False
    if options.beam == 1:
        one, other = (math.fsum(row[: step + 1]) for row in rows)
    else:
        one, other = (options.score(math.fsum(row), len(row)) for row in rows)
    return abs(one - other) <= TOLERANCE * (1 + abs(one))
