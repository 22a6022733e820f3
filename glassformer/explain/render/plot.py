"""One step of a walk as a matplotlib figure, for slides and papers: a heat map with tokens on its axes.

matplotlib comes with the extra ``plot``.
"""

from io import BytesIO
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.errors import TraceError, check_type
from glassformer.explain.recording.walk_data import WalkData, WalkStep
from glassformer.explain.render.walk_tables import check_sentence
from glassformer.text.tokenizer.tokenizer import SPACE_MARK
from glassformer.trace.heat_maps import reads_and_writes
from glassformer.trace.palette import share_colours, signed_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHARES = ("weights", "forget_gate", "probabilities", "src_mask", "causal_mask")
_ATTENTION = ("products", "scores", "masked_scores", "weights")
_MAX_LABELS = 40
_INCHES = 0.34


Size = tuple[float, float]


def plot_step(
    walk: WalkData, address: str, *, head: int | None, sentence: int, title: str | None, size: Size | None
) -> "Figure":
    """A figure of one step: of one head, or of all heads side by side; ``size`` is in inches."""
    check_type("head", head, int | None, "a number from 0, or None for all heads", TraceError)
    step = walk[address]
    check_sentence(walk, sentence)
    values = step.value[sentence if step.shape[0] > 1 else 0] if "batch" in step.axes else step.value
    maps, axes = _maps(step, values, head)
    labels = _labels(walk, axes, sentence, maps[0][1].shape)
    figure = _new_figure(figsize=size or _size(labels, maps[0][1].shape, len(maps)))
    for place, (name, value) in zip(figure.subplots(1, len(maps), squeeze=False)[0], maps, strict=True):
        drawn = _draw(place, value, step.name in _SHARES)
        _label(place, _axis_words(step, axes), labels, first=place is figure.axes[0])
        place.set_title(name, fontsize=9)
    figure.colorbar(drawn, ax=figure.axes, shrink=0.7)
    figure.suptitle(f"{step.story.title}\n{address}" if title is None else title, fontsize=10)
    return figure


def _new_figure(figsize: tuple[float, float]) -> "Figure":
    """A figure that a notebook shows, though pyplot knows nothing of it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise TraceError(
            "plot: matplotlib is not installed. Install it in the clone: pip install '.[plot]'"
        ) from None

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            content = BytesIO()
            self.savefig(content, format="png", bbox_inches="tight")
            return content.getvalue()

    return NotebookFigure(figsize=figsize, layout="constrained")


def _maps(step: WalkStep, values: Tensor, head: int | None) -> tuple[list[tuple[str, Tensor]], list[str]]:
    """Each map with its title, and the two axes that they have."""
    axes = [axis for axis in step.axes if axis != "batch"]
    if "heads" in axes:
        place = axes.index("heads")
        heads = range(values.shape[place]) if head is None else [head]
        if head is not None and not 0 <= head < values.shape[place]:
            raise TraceError(f"head: found {head}, expected 0 to {values.shape[place] - 1}.")
        axes.pop(place)
        maps = [(f"head {at}", values.select(place, at)) for at in heads]
    elif head is not None:
        raise TraceError(f"head: {step.address} has no heads. Leave it out.")
    else:
        maps = [("", values)]
    flat = [(title, value.float().reshape(-1, value.shape[-1] if value.ndim else 1)) for title, value in maps]
    return flat, axes[-2:] if len(axes) > 1 else ["", *axes]


def _labels(walk: WalkData, axes: list[str], sentence: int, shape: torch.Size) -> list[list[str]]:
    """The labels of rows and columns, where these are positions and the sizes fit."""
    sentences = walk.sentences
    src, rows, columns = list(sentences.src_tokens[sentence]), [], []
    if walk.kind == "forced":
        columns = list(sentences.tgt_in_tokens[sentence])
        rows = reads_and_writes(columns, sentences.tgt_out_tokens[sentence])
    both = {"src": src, "tgt": rows}.get(axes[0], []), {"src": src, "tgt": columns}.get(axes[1], [])
    return [
        [token.replace(SPACE_MARK, " ").strip() or token for token in tokens] if len(tokens) == count else []
        for tokens, count in zip(both, shape, strict=True)
    ]


def _size(labels: list[list[str]], shape: torch.Size, count: int) -> tuple[float, float]:
    height, width = (min(_INCHES * size, 8.0) for size in shape)
    margin = 0.09 * max(map(len, labels[0]), default=0)
    return min(24.0, count * max(width, 1.6) + margin + 1.4), max(height, 1.0) + 1.8


def _draw(place: Any, value: Tensor, shares: bool) -> Any:
    finite = value[torch.isfinite(value)].abs()
    most = 1.0 if shares else float(finite.max()) if finite.numel() else 1.0
    colours = {
        "cmap": share_colours() if shares else signed_colours(),
        "vmin": 0.0 if shares else -most,
        "vmax": most,
    }
    aspect = "equal" if max(value.shape) <= _MAX_LABELS else "auto"
    return place.imshow(value.numpy(), aspect=aspect, interpolation="nearest", **colours)


def _axis_words(step: WalkStep, axes: list[str]) -> list[str]:
    """The words of rows and columns; those of attention say which of the two asks and which answers."""
    if step.name in _ATTENTION and "attention" in step.address:
        return [f"query: {axes[0]}", f"key: {axes[1]}"]
    return axes


def _label(place: Any, axes: list[str], labels: list[list[str]], *, first: bool) -> None:
    rows, columns = labels
    place.set_xlabel(axes[1])
    if first:
        place.set_ylabel(axes[0])
    if 0 < len(columns) <= _MAX_LABELS:
        place.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=8, parse_math=False)
    if first and 0 < len(rows) <= _MAX_LABELS:
        place.set_yticks(range(len(rows)), rows, fontsize=8, parse_math=False)
    elif not first:
        place.set_yticks([])
