"""Attention as a heat map of block characters, which need no colour."""

from collections.abc import Iterator, Sequence

from jaxtyping import Float
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text
from torch import Tensor

from glassformer.decoding import Translation
from glassformer.decoding.batching import check_texts
from glassformer.errors import InputError, check_type
from glassformer.explain.plain import clip_text
from glassformer.text.tokenizer.tokenizer import BOS_ID, CONTROL_TOKENS
from glassformer.trace.palette import SHADE

_SHADES = ((0.75, "█"), (0.5, "▓"), (0.25, "▒"), (0.05, "░"), (0.0, "·"))
_LEGEND = "· below 0.05  ░ from 0.05  ▒ from 0.25  ▓ from 0.5  █ from 0.75"
_MAX_LABEL, _MIN_CELL, _GAP = 12, 3, 1
_MAX_WRITTEN, _MARGIN = 10, 9


def print_attention(
    translation: Translation, console: Console, *, layer: int | None = None, head: int | None = None
) -> None:
    """Print where the decoder looked for the best hypothesis: the mean head of the last or a given ``layer``.

    Raises ``InputError`` without attention, and for a layer or head that is not there.
    """
    check_type("translation", translation, Translation, "a Translation, as Translator.translate gives it")
    check_type("console", console, Console, "a Console of rich")
    best = translation.hypotheses[0]
    if not best.tokens:
        console.print(Text("nothing was translated, so there is no attention to show", style="dim"))
        return
    alignment = best.alignment(layer, head)
    if alignment is None:
        raise InputError("translation: holds no attention. Translate with attention=True.")
    print_heatmap(alignment, translation.source_tokens, step_labels(best.tokens), console)


def print_heads(
    attention: Float[Tensor, "layers heads tgt src"], console: Console, *, marked: tuple[int, int] | None = None
) -> None:
    """Print every head as a small map; ``marked`` = (layer, head)."""
    check_type("attention", attention, Tensor, "a tensor of weights")
    if attention.ndim != 4:
        raise InputError(f"attention: found {attention.ndim} axes, expected 4: layers, heads, tgt, src.")
    check_type("console", console, Console, "a Console of rich")
    n_layers, n_heads, _, src = attention.shape
    size = max(src, len("head 00*")) + 2
    per_line = max(1, (console.width - _MARGIN) // size)
    for first in range(0, n_heads, per_line):
        for layer in range(n_layers):
            heads = range(first, min(first + per_line, n_heads))
            names = [f"head {head}{'*' * ((layer, head) == marked)}" for head in heads]
            start = f"layer {layer}".ljust(_MARGIN)
            console.print(Text(start + "".join(name.ljust(size) for name in names).rstrip(), style="dim"))
            for rows in zip(*(attention[layer, head].tolist() for head in heads), strict=True):
                line = "".join("".join(map(_shade, row)).ljust(size) for row in rows).rstrip()
                console.print(Text(" " * _MARGIN).append(line, style=SHADE))


def step_labels(tokens: Sequence[str], read: Sequence[str] | None = None) -> list[str]:
    """``reads <s> -> writes Ich`` for each token; it reads the one before by default."""
    writes = [clip_text(token, _MAX_WRITTEN) for token in tokens]
    before = [CONTROL_TOKENS[BOS_ID], *tokens[:-1]] if read is None else read
    reads = [clip_text(token, _MAX_WRITTEN) for token in before]
    width = max(map(cell_len, reads), default=0)
    return [
        f"reads {set_cell_size(read, width)} -> writes {write}" for read, write in zip(reads, writes, strict=True)
    ]


def print_heatmap(
    weights: Float[Tensor, "tgt src"], src_tokens: Sequence[str], tgt_tokens: Sequence[str], console: Console
) -> None:
    """Print weights, targets down and sources across, in blocks if it is wide."""
    check_type("weights", weights, Tensor, "a tensor of weights")
    check_texts("src_tokens", src_tokens)
    check_texts("tgt_tokens", tgt_tokens)
    check_type("console", console, Console, "a Console of rich")
    if tuple(weights.shape) != (len(tgt_tokens), len(src_tokens)):
        raise InputError(
            f"weights: found {tuple(weights.shape)}, expected (tgt, src) = ({len(tgt_tokens)}, {len(src_tokens)}), "
            "one row for each target token and one column for each source token."
        )
    across = [clip_text(token, _MAX_LABEL) for token in src_tokens]
    down = [clip_text(token, console.width // 2) for token in tgt_tokens]
    margin = max(map(cell_len, down), default=0) + _GAP
    for start, stop in _blocks([_width(label) for label in across], console.width - margin):
        _print_block(weights[:, start:stop].tolist(), across[start:stop], down, margin, console)
    start = margin if margin + len(_LEGEND) <= console.width else 0
    console.print(Text(" " * start + _LEGEND, style="dim"))


def _width(label: str) -> int:
    return max(_MIN_CELL, cell_len(label))


def _blocks(widths: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Ranges of columns that fit into ``room``, at least one column each."""
    start, used = 0, 0
    for place, width in enumerate(widths):
        if place > start and used + width + _GAP > room:
            yield start, place
            start, used = place, 0
        used += width + _GAP
    if widths:
        yield start, len(widths)


def _print_block(
    rows: list[list[float]], across: Sequence[str], down: Sequence[str], margin: int, console: Console
) -> None:
    header = " ".join(set_cell_size(label, _width(label)) for label in across)
    console.print(Text(" " * margin + header, no_wrap=True))
    for label, row in zip(down, rows, strict=True):
        bars = " ".join(_shade(weight) * _width(token) for weight, token in zip(row, across, strict=True))
        line = Text(set_cell_size(label, margin), no_wrap=True)
        console.print(line.append(bars, style=SHADE))


def _shade(weight: float) -> str:
    return next((shade for least, shade in _SHADES if weight >= least), " ")
