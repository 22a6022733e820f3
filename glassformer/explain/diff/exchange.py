"""A model and its conversion compared: why does the one translate otherwise than the other?

Tokenizers on the same texts, weights by name, the settings of the search, log-probabilities of the same targets token
by token, and the outputs with the first step at which they differ. Either side may be a run, a directory of Hugging
Face or Marian, or a CTranslate2 directory, which has no weights to compare.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoint import read_json, weights_of
from glassformer.config import DecodeConfig
from glassformer.decoding import Translator
from glassformer.errors import ConfigError
from glassformer.interop.imported_model import OUT_BIAS, SRC, TGT, interleave, separate
from glassformer.interop.marian import is_marian
from glassformer.interop.places import read_model
from glassformer.interop.transformers import is_transformers
from glassformer.model import Transformer
from glassformer.run_directory import RunDirectory, load_run
from glassformer.text.tokenizer import Tokenizer

TOLERANCE = 1e-4  # of a log-probability, times 1 + the greatest
_START, _LAYOUT, _BIAS = "start token", "sinusoid layout", "output bias"
_SEARCH, _TOKENIZER, _WEIGHTS, _ROUNDING = "search setting", "tokenizer", "weights", "rounding"
_NOT_SEARCH = {"cache", "batch_tokens", "n_best", "seed"}  # settings that change no output

Scores = list[list[float]]


@dataclass(frozen=True)
class Side:
    """One of the two: how it cuts, scores and translates texts, and what is known of its inside."""

    name: str
    tokenizers: tuple[Tokenizer, Tokenizer]
    score: Callable[[Sequence[str], Sequence[str]], Scores]
    translate: Callable[[Sequence[str], DecodeConfig], list[list[str]]]
    decode: DecodeConfig | None = None
    weights: Mapping[str, Tensor] | None = None
    start: str = "<s>"


@dataclass(frozen=True)
class Finding:
    """One thing that differs: its name, and what it is on both sides."""

    what: str
    detail: str


@dataclass(frozen=True)
class Output:
    """A text whose outputs differ: the first step (from 0) at which they differ, the tokens there, and why."""

    text: str
    step: int
    tokens: tuple[str, str]
    why: str


@dataclass(frozen=True)
class ExchangeDifference:
    """All that differs between a model and its conversion."""

    names: tuple[str, str]
    findings: tuple[Finding, ...]
    largest_gap: float
    gap_at: str
    outputs: tuple[Output, ...]
    texts: int

    @property
    def agrees(self) -> bool:
        """Whether nothing differs but rounding."""
        return not self.findings and all(one.why == _ROUNDING for one in self.outputs)

    def lines(self) -> list[str]:
        """The report for a terminal."""
        return [
            f"A  {self.names[0]}",
            f"B  {self.names[1]}",
            *(f"{one.what:<16} {one.detail}" for one in self.findings),
            f"{'log-probability':<16} differs by at most {self.largest_gap:.2g}{self.gap_at}",
            f"{'outputs':<16} {self.texts - len(self.outputs)} of {self.texts} are the same",
            *(
                f"  step {one.step}: {one.tokens[0]} / {one.tokens[1]} ({one.why}) in {one.text[:50]!r}"
                for one in self.outputs
            ),
            "They agree." if self.agrees else f"They differ: {self.cause}.",
        ]

    @property
    def cause(self) -> str:
        """The names of what differs, most decisive first."""
        return ", ".join(dict.fromkeys(one.what for one in self.findings)) or "outputs"

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "agrees": self.agrees, "cause": self.cause if not self.agrees else ""}


def is_ctranslate2(place: Path) -> bool:
    """Whether a place holds a CTranslate2 model."""
    return (place / "model.bin").is_file()


def is_foreign(place: Path) -> bool:
    """Whether a place holds a model of another program."""
    return is_ctranslate2(place) or is_marian(place) or is_transformers(place)


def diff_exchange(
    first: Path, second: Path, sources: Sequence[str], targets: Sequence[str] | None = None, device: str = "auto"
) -> ExchangeDifference:
    """Compare a model with its conversion. Without ``targets`` both score the first side's translations.

    Raises ``ConfigError`` without texts, and what reading either side raises.
    """
    if not sources:
        raise ConfigError(
            "diff: found no text, expected at least one sentence to compare the models on. Give --text."
        )
    # In a CTranslate2 directory <pad> and <s> have no probability at all: the other side is scored without them, too.
    narrow = any(map(is_ctranslate2, (first, second)))
    a, b = open_side(first, device, narrow=narrow), open_side(second, device, narrow=narrow)
    options = a.decode or b.decode or DecodeConfig()
    outputs = [side.translate(sources, replace(side.decode or options, n_best=1)) for side in (a, b)]
    given = list(targets) if targets else [_text(a, tokens) for tokens in outputs[0]]
    findings = (*_tokenizers(a, b, sources, given), *_weights(a, b), *_searches(a, b))
    gap, place, why = _gap(a, b, sources, given)
    if not findings and why:
        findings = (Finding(_WEIGHTS, why),)
    parted = tuple(_output_differences(sources, outputs, findings[0].what if findings else _ROUNDING))
    return ExchangeDifference((a.name, b.name), findings, gap, place, parted, len(sources))


def open_side(place: Path, device: str, *, narrow: bool = False) -> Side:
    """The model at a place, of whatever program; a ``narrow`` one is scored without <pad> and <s>."""
    if is_ctranslate2(place):
        return _ctranslate2_side(place)
    if is_foreign(place):
        found = read_model(str(place), lambda _: None)
        model, tokenizers, decode = found.model(), found.tokenizers, found.config.decode
        start = str(found.source["starts_with"])
    else:
        run = load_run(place, device)
        model, tokenizers, decode = run.model, (run.src_tokenizer, run.tgt_tokenizer), run.config.decode
        start = _start_of(place)
    translator = Translator(model, *tokenizers, decode)
    scorer = Translator(_without_control_tokens(model), *tokenizers, decode) if narrow else translator

    def score(sources: Sequence[str], targets: Sequence[str]) -> Scores:
        return [one.token_log_probs for one in scorer.score_tokens(sources, targets)]

    def translate(sources: Sequence[str], options: DecodeConfig) -> list[list[str]]:
        return [one.hypotheses[0].tokens for one in translator.translate(sources, options)]

    return Side(str(place), tokenizers, score, translate, decode, weights_of(model), start)


def _without_control_tokens(model: Transformer) -> Transformer:
    """A copy in which <pad> and <s> have no probability."""
    model = copy.deepcopy(model)
    linear = model.output_projection.linear
    bias = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias.detach().clone()
    bias[[model.config.pad_id, model.config.bos_id]] = -1e4
    linear.bias = torch.nn.Parameter(bias)
    return model


def _start_of(place: Path) -> str:
    if not (place / "config.json").is_file():
        return "<s>"
    _, data = RunDirectory(place).read_config()
    return str(data.get("imported", {}).get("starts_with", "<s>"))


def _ctranslate2_side(place: Path) -> Side:
    """A CTranslate2 directory that ``export`` wrote, with its tokenizers."""
    try:
        import ctranslate2
    except ImportError as error:
        raise ConfigError(
            f"{place}: is a CTranslate2 directory, and ctranslate2 is not installed. Install it: pip install "
            "'glassformer[fast]'"
        ) from error
    from glassformer.interop.ctranslate2 import TOKENIZER_FILES
    from glassformer.interop.transformers import load_tokenizer

    src, tgt = (load_tokenizer(place / name) for name in TOKENIZER_FILES)
    model = ctranslate2.Translator(str(place), device="cpu")

    def pieces(tokenizer: Tokenizer, texts: Sequence[str], *, end: bool) -> list[list[str]]:
        rows = [[tokenizer.entry(number) for number in tokenizer.to_ids(text)] for text in texts]
        return [[*row, "</s>"] for row in rows] if end else rows

    def score(sources: Sequence[str], targets: Sequence[str]) -> Scores:
        made = model.score_batch(pieces(src, sources, end=True), pieces(tgt, targets, end=False))
        return [list(one.log_probs) for one in made]

    def translate(sources: Sequence[str], options: DecodeConfig) -> list[list[str]]:
        penalty = options.length_penalty if options.length_norm == "power" else 0.0
        made = model.translate_batch(
            pieces(src, sources, end=True), beam_size=options.beam, length_penalty=penalty,
            max_decoding_length=options.max_length_b, return_end_token=True,
        )  # fmt: skip
        numbers = {tgt.entry(number): number for number in range(tgt.size)}
        return [tgt.to_tokens(numbers[token] for token in one.hypotheses[0]) for one in made]

    start = read_json(place / "config.json").get("decoder_start_token", "<s>")
    return Side(str(place), (src, tgt), score, translate, start=str(start))


def _text(side: Side, tokens: Sequence[str]) -> str:
    """The text of an output, by the tokens' labels."""
    tokenizer = side.tokenizers[1]
    numbers = {label: number for number, label in enumerate(tokenizer.to_tokens(range(tokenizer.size)))}
    return tokenizer.to_text(numbers[token] for token in tokens)


def _tokenizers(a: Side, b: Side, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Finding]:
    """The first text of each side that the tokenizers cut otherwise."""
    for which, texts in enumerate((sources, targets)):
        one, other = a.tokenizers[which], b.tokenizers[which]
        for text in texts:
            cuts = [tokenizer.to_tokens(tokenizer.to_ids(text)) for tokenizer in (one, other)]
            if cuts[0] != cuts[1]:
                shown = " / ".join(" ".join(cut[:12]) for cut in cuts)
                yield Finding(_TOKENIZER, f"of the {('source', 'target')[which]}: {shown}")
                break


def _weights(a: Side, b: Side) -> Iterator[Finding]:
    """What differs among the weights, recognised if it is a known mistake."""
    if b.weights is None or a.weights is None:
        if a.start != b.start and None in {a.weights and 1, b.weights and 1}:
            yield Finding(_START, f"A starts a target with {a.start}, B with {b.start}")
        return
    mine, theirs = dict(a.weights), dict(b.weights)
    biases = [side.pop(OUT_BIAS, torch.zeros(1)) for side in (mine, theirs)]
    if mine.keys() == theirs.keys() and (found := _layout(mine, theirs)):
        yield found
        return
    yield from _start_rows(a, b, mine, theirs)
    if not _same(biases[0][..., 4:], biases[1][..., 4:]) and len(biases[0]) * len(biases[1]) > 1:
        sizes = [f"up to {float(bias.abs().max()):.3g}" if bias.any() else "none" for bias in biases]
        yield Finding(_BIAS, f"A has {sizes[0]}, B {sizes[1]}")
    yield from _others(mine, theirs)


def _layout(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Finding | None:
    for turn, words in ((interleave, "is permuted twice"), (separate, "is not permuted")):
        turned = turn(mine)
        if not _equal(mine, theirs) and _equal(turned, theirs):
            return Finding(
                _LAYOUT,
                f"the width of B's weights {words}: its table has sines and cosines in other places than they",
            )
    return None


def _start_rows(a: Side, b: Side, mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> Iterator[Finding]:
    """The row of <s>, with which a target starts; afterwards it is the same on both sides."""
    name = TGT if TGT in mine else SRC
    one, other = mine.get(name), theirs.get(name)
    if one is None or other is None or one.shape != other.shape or _same(one[1], other[1]):
        return
    yield Finding(_START, f"A starts a target with {a.start}, B with {b.start}: the rows of <s> differ")
    theirs[name] = torch.cat([other[:1], one[1:2], other[2:]])


def _others(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Iterator[Finding]:
    odd = [name for name in mine.keys() & theirs.keys() if not _same(mine[name], theirs[name])]
    odd += sorted(mine.keys() ^ theirs.keys())
    if odd:
        first = min(odd)
        yield Finding(_WEIGHTS, f"{len(odd)} of {len(mine)} differ, the first is {first}")


def _equal(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> bool:
    return all(_same(value[..., 4:] if name == OUT_BIAS else value, theirs[name]) for name, value in mine.items())


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.cpu(), other.cpu(), rtol=1e-5, atol=1e-6)


def _searches(a: Side, b: Side) -> Iterator[Finding]:
    """Each setting of the search that differs."""
    if a.decode is None or b.decode is None:
        return
    for field in fields(DecodeConfig):
        one, other = getattr(a.decode, field.name), getattr(b.decode, field.name)
        if one != other and field.name not in _NOT_SEARCH and field.metadata["acts_in"] in {"search", "scoring"}:
            yield Finding(_SEARCH, f"decode.{field.name} is {one!r} in A, {other!r} in B")


def _gap(a: Side, b: Side, sources: Sequence[str], targets: Sequence[str]) -> tuple[float, str, str]:
    """The largest difference of a log-probability, where it is, and what to say if it is more than rounding."""
    labels = [a.tokenizers[1].to_tokens([*a.tokenizers[1].to_ids(text), 2]) for text in targets]
    largest, place, bound = 0.0, "", TOLERANCE
    for row, (one, other) in enumerate(zip(a.score(sources, targets), b.score(sources, targets), strict=True)):
        for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            bound = max(bound, TOLERANCE * (1 + abs(mine)))
            if abs(mine - theirs) > largest:
                largest = abs(mine - theirs)
                place = f", at token {at} ({labels[row][at]}) of target {row}: {mine:.4f} / {theirs:.4f}"
    why = f"the same targets have other log-probabilities{place}" if largest > bound else ""
    return largest, place, why


def _output_differences(
    sources: Sequence[str], outputs: Sequence[Sequence[Sequence[str]]], why: str
) -> Iterator[Output]:
    for text, one, other in zip(sources, outputs[0], outputs[1], strict=True):
        pairs = enumerate(zip_longest(one, other, fillvalue="(end)"))
        step = next((at for at, (mine, theirs) in pairs if mine != theirs), None)
        if step is not None:
            tokens = [side[step] if step < len(side) else "(end)" for side in (one, other)]
            yield Output(text, step, (tokens[0], tokens[1]), why)
