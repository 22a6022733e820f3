"""Tables for all renderers: a step's values, text, loss, an update.

Tokens down, tokens or numbers across, a table a head.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from glassformer.errors import TraceError
from glassformer.explain.addresses import kind_of
from glassformer.explain.plain import clip_text, number_text, printable, shape_text
from glassformer.explain.recording.sentence_batch import Rows
from glassformer.explain.recording.walk_data import WalkData, WalkStep
from glassformer.explain.render.heatmap import step_labels

_LABEL_WIDTH, _HEADER_WIDTH = 12, 8
_MAX_DOWN, _MAX_TABLES = 12, 4  # entries a table, tables a step
_STEP_WIDTH = 40  # of `reads ... -> writes ...`

Cell = str | bool | int | float


@dataclass(frozen=True)
class Table:
    """Headers and rows; renderers escape words, and show ``whole`` in blocks."""

    headers: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    title: str = ""
    caption: str = ""
    whole: bool = False


@dataclass(frozen=True)
class TableLimits:
    """How many tokens or numbers a step's tables have across."""

    tokens: int = 12
    numbers: int = 8


@dataclass(frozen=True, eq=False)
class _Axis:
    word: str
    symbol: str
    labels: list[str]
    is_tokens: bool
    width: int = _LABEL_WIDTH

    @property
    def size(self) -> int:
        return len(self.labels)


_NO_AXIS = _Axis("", "", [""], is_tokens=False)


def cell_text(cell: Cell) -> str:
    """A cell's text, without control characters."""
    return printable(cell) if isinstance(cell, str) else number_text(cell)


def check_sentence(walk: WalkData, sentence: int) -> None:
    """Raise ``TraceError`` for a sentence, from 0, that is not there."""
    if not 0 <= sentence < len(walk.sentences.sources):
        raise TraceError(f"sentence: found {sentence}, expected 0 to {len(walk.sentences.sources) - 1}.")


def step_lines(step: WalkStep, sentence: int) -> tuple[str, ...]:
    """A sentence's step in words, each row under its number."""
    rows = [lines for owner, lines in zip(step.sentences, step.lines or (), strict=False) if owner == sentence]
    if len(rows) <= 1:
        return tuple(line for lines in rows for line in lines)
    return tuple(line for number, lines in enumerate(rows) for line in (f"row {number}", *lines))


def value_tables(walk: WalkData, step: WalkStep, sentence: int, most: TableLimits) -> Iterator[Table]:
    """A sentence's tables of values, then of gradients."""
    if "batch" in step.axes and sentence not in step.sentences:
        yield Table(caption=f"sentence {sentence} is finished: it has no row here")
        return
    yield from _tables(walk, step, sentence, most)
    if step.gradient is not None:
        for table in _tables(walk, replace(step, value=step.gradient, cells=None), sentence, most):
            yield replace(table, title=f"gradient, {table.title}".rstrip(", "))


def _tables(walk: WalkData, step: WalkStep, sentence: int, most: TableLimits) -> Iterator[Table]:
    value, axes, cells = _select_sentence(walk, step, sentence)
    rows = step.sentences.count(sentence)
    note = f"the first of the {rows} rows of this sentence" if rows > 1 else ""
    if not value.numel():
        yield Table(caption=f"nothing yet: {shape_text(tuple(value.shape))}")
        return
    if not axes and cells is None:
        yield Table(title=f"= {number_text(value.item())}", caption=note)
        return
    if len(axes) <= 2:
        table, cut = _matrix(value, axes, cells, most)
        yield replace(table, caption=_caption(cut, note))
        return
    outer = next((place for place, axis in enumerate(axes) if axis.word == "heads"), 0)
    axis, inner = axes[outer], [*axes[:outer], *axes[outer + 1 :]]
    shown = min(axis.size, _MAX_TABLES)
    for index in range(shown):
        table, cut = _matrix(value.select(outer, index), inner, None, most)
        left_out = [*(cut if index == 0 else ()), *(_axis_omission(axis, shown) if index == shown - 1 else ())]
        title = f"{axis.symbol} = {axis.labels[index]}"
        yield replace(table, title=title, caption=_caption(left_out, note if index == 0 else ""))


def _select_sentence(walk: WalkData, step: WalkStep, sentence: int) -> tuple[Tensor, list[_Axis], list[str] | None]:
    """One sentence's value, axes and cells, without broadcast axes."""
    row = step.sentences.index(sentence) if "batch" in step.axes else 0
    labels = walk.labels(step, row)
    value, axes = step.value, []
    for place in reversed(range(value.ndim)):
        word = step.axes[place]
        if word in ("batch", "one"):
            value = value.select(place, row if word == "batch" else 0)
            continue
        tokens = labels[place]
        numbers = [str(index) for index in range(step.value.shape[place])]
        axes.append(_Axis(word, step.symbols[place], list(tokens or numbers), tokens is not None))
    cells = None if step.cells is None else list(step.cells[row])
    if is_cross_attention_map(step):
        axes[1] = replace(axes[1], labels=_read_and_written(walk, axes[1].labels, row), width=_STEP_WIDTH)
    return value, axes[::-1], cells


def is_cross_attention_map(step: WalkStep) -> bool:
    """Whether rows are decoder steps and columns the source."""
    return kind_of(step.address) == "cross_attention" and step.axes[-2:] == ("tgt", "src")


def _read_and_written(walk: WalkData, read: list[str], row: int) -> list[str]:
    """``reads <s> -> writes Ich``; in a search only what is read."""
    if walk.kind == "generation":
        return [f"reads {token}" for token in read]
    return step_labels(walk.sentences.tgt_out_tokens[row], read)


def _matrix(value: Tensor, axes: list[_Axis], cells: list[str] | None, most: TableLimits) -> tuple[Table, list[str]]:
    """A table of a number, an axis across, or two axes; and what was cut."""
    across = axes[-1] if axes else _NO_AXIS
    down = axes[0] if len(axes) == 2 else _NO_AXIS
    n_down = min(down.size, _MAX_DOWN)
    n_across = min(across.size, most.tokens if across.is_tokens else most.numbers)
    shown = value.reshape(down.size, across.size)[:n_down]
    places = list(range(n_across))
    if across.word == "vocab":  # of a whole vocabulary, the greatest
        places = shown.amax(dim=0).topk(n_across).indices.tolist()
    labelled = zip(down.labels, shown[:, places].tolist(), strict=False)
    rows: list[tuple[Cell, ...]] = [(clip_text(label, down.width), *numbers) for label, numbers in labelled]
    if cells is not None:
        rows.append(("", *_headers(cells, places)))
    table = Table(("", *_headers(across.labels, places)), tuple(rows))
    return table, [*_axis_omission(down, n_down), *_axis_omission(across, n_across)]


def _headers(labels: list[str], places: list[int]) -> list[str]:
    return [clip_text(labels[place], _HEADER_WIDTH) for place in places]


def _axis_omission(axis: _Axis, shown: int) -> list[str]:
    greatest = "the greatest " if axis.word == "vocab" else ""
    return [f"{greatest}{shown} of {axis.size} along {axis.symbol}"] if shown < axis.size else []


def _caption(left_out: list[str], note: str) -> str:
    return "; ".join(filter(None, [f"showing {', '.join(left_out)}" if left_out else "", note]))


def batch_tables(walk: WalkData) -> Iterator[Table]:
    """The batch's ids and masks (1 = may attend)."""
    sentences, batch = walk.sentences, walk.sentences.batch
    masks = {step.address: step for step in walk.trace.steps if step.address in ("src_mask", "causal_mask")}
    yield _id_table("src_ids", "n_seq_src", batch.src_ids, sentences.src_tokens)
    if "src_mask" in masks:
        yield _mask_table("src_mask", ("sentence", "n_seq_src"), masks["src_mask"].value[:, 0, 0])
    if walk.kind == "generation":
        return
    yield _id_table("tgt_in_ids", "n_seq_tgt", batch.tgt_in_ids, sentences.tgt_in_tokens)
    yield _id_table("tgt_out_ids", "n_seq_tgt", batch.tgt_out_ids, sentences.tgt_out_tokens)
    if "causal_mask" in masks:
        yield _mask_table("causal_mask", ("query", "key"), masks["causal_mask"].value[0, 0])


def _id_table(name: str, axis: str, ids: Tensor, tokens: Rows) -> Table:
    rows = tuple(
        (str(number), *(f"{one} {token}" for one, token in zip(row, labels, strict=True)))
        for number, (row, labels) in enumerate(zip(ids.tolist(), tokens, strict=True))
    )
    title = f"{name} (nbatches, {axis}) = {shape_text(tuple(ids.shape))}"
    return Table(("sentence", *map(str, range(ids.shape[1]))), rows, title, whole=True)


def _mask_table(name: str, axes: tuple[str, str], mask: Tensor) -> Table:
    rows = tuple((str(number), *map(str, row)) for number, row in enumerate(mask.int().tolist()))
    title = f"{name} ({', '.join(axes)}) = {shape_text(tuple(mask.shape))}: 1 = may attend"
    return Table((axes[0], *map(str, range(mask.shape[1]))), rows, title, whole=True)


MAX_SENTENCES = 8
_TEXT_WIDTH = 240
_BETWEEN = " │ "


def text_tables(walk: WalkData, steps: Sequence[WalkStep]) -> Iterator[Table]:
    """What the steps of a text change, and a table a side whose pre-tokens are shown; a line a sentence."""
    sentences, batch = walk.sentences, walk.sentences.batch
    found = {step.address: step.lines for step in steps}
    for name, first, second in (
        ("source", "text.typed", "text.read"),
        ("target", "answer.sentence", "answer.printed"),
    ):
        before, after = ([lines[-1] for lines in found.get(address) or ()] for address in (first, second))
        if before and after and before != after:
            words = (first.partition(".")[2], second.partition(".")[2])
            yield _clip({name: list(map(str, range(len(before)))), words[0]: before, words[1]: after})
    for side, name, texts, tokens, ids in (
        ("src", "source", sentences.sources, sentences.src_tokens, batch.src_ids),
        ("tgt", "target", sentences.targets, sentences.tgt_out_tokens, batch.tgt_out_ids),
    ):
        pre_tokens = found.get(f"text.{side}_pre_tokens")
        if pre_tokens is not None:
            counts = (ids != walk.config.pad_id).sum(dim=1).tolist()
            without_padding = tuple(row[:count] for row, count in zip(tokens, counts, strict=True))
            normal = found.get(f"text.{side}_normalised") or ()
            yield _table(name, texts, normal, pre_tokens, without_padding)


def _table(name: str, texts: Sequence[str], normal: Rows, pre_tokens: Rows, tokens: Rows) -> Table:
    """The normal form has a column only if it differs."""
    columns = {
        name: [str(number) for number in range(len(texts))],
        "normal form": [lines[0] for lines in normal],
        "pre-tokens": [_BETWEEN.join(lines) for lines in pre_tokens],
        "tokens": [" ".join(labels) for labels in tokens],
    }
    if columns["normal form"] in ([], list(texts)):
        del columns["normal form"]
    return _clip(columns)


def _clip(columns: Mapping[str, list[str]]) -> Table:
    """The first sentences' texts, cut to a width."""
    shown = list(zip(*columns.values(), strict=True))[:MAX_SENTENCES]
    rows = tuple(tuple(clip_text(text, _TEXT_WIDTH) for text in row) for row in shown)
    return Table(
        tuple(columns), rows, caption=omission_text(len(shown), len(next(iter(columns.values()))), "sentences")
    )


def omission_text(shown: int, of: int, what: str) -> str:
    """``showing 8 of 30 sentences``; empty if all are shown."""
    return f"showing {shown} of {of} {what}" if shown < of else ""


_MAX_TOKENS = 12
_LOSSES = ("loss.nll_per_token", "loss.per_token", "loss.mean")
_UPDATE = ("update.gradient_norm", "update.rate", "update.count")
_OF_WEIGHT = {"gradient", "first_moment", "value_before", "value"}


def loss_tables(walk: WalkData, steps: Sequence[WalkStep]) -> Iterator[Table]:
    """Target tokens with probability and loss; then the mean."""
    found = {step.address: step.value for step in steps if step.address in _LOSSES}
    if len(found) < len(_LOSSES):
        return
    sentences = walk.sentences
    for row in range(min(len(sentences.sources), MAX_SENTENCES)):
        yield _loss_table(walk, row, found)
    mean = f"mean over {sentences.batch.target_tokens} tokens: {float(found['loss.mean']):.4f}"
    hidden = omission_text(MAX_SENTENCES, len(sentences.sources), "sentences")
    yield Table(caption="; ".join(filter(None, [mean, hidden])))


def _loss_table(walk: WalkData, row: int, found: Mapping[str, Tensor]) -> Table:
    sentences = walk.sentences
    count = int((sentences.batch.tgt_out_ids[row] != walk.config.pad_id).sum())
    shown = min(count, _MAX_TOKENS)
    nll, loss = (found[name][row, :shown].tolist() for name in _LOSSES[:2])
    rows = tuple(
        (token, math.exp(-one), one, smoothed)
        for token, one, smoothed in zip(sentences.tgt_out_tokens[row][:shown], nll, loss, strict=True)
    )
    title = f"{row}  {sentences.sources[row]} → {sentences.targets[row]}"
    return Table(("token", "P", "−log P", "loss"), rows, title, omission_text(shown, count, "tokens"))


def weight_tables(walk: WalkData, steps: Sequence[WalkStep]) -> Iterator[Table]:
    """Norms of each weight's gradient, moments and change."""
    weights: dict[str, dict[str, Tensor]] = {}
    for step in steps:
        if kind_of(step.address) == "weight":
            weights.setdefault(step.address.rpartition(".")[0], {})[step.name] = step.value
    rows = tuple(_weight_row(name, parts) for name, parts in weights.items() if parts.keys() >= _OF_WEIGHT)
    if rows:
        headers = ("weight", "shape", "‖g‖", "‖m‖", "‖v‖", "‖Δw‖")
        yield Table(headers, rows, caption=_update_caption(walk, steps))


def _weight_row(name: str, parts: Mapping[str, Tensor]) -> tuple[Cell, ...]:
    moved = parts["value"] - parts["value_before"]
    gradient, first, change = (float(one.norm()) for one in (parts["gradient"], parts["first_moment"], moved))
    second = f"{float(parts['second_moment'].norm()):.1e}" if "second_moment" in parts else ""  # Muon has none
    return name, shape_text(tuple(moved.shape)), gradient, f"{first:.1e}", second, change


def _update_caption(walk: WalkData, steps: Sequence[WalkStep]) -> str:
    found = {step.address: step.value.item() for step in steps if step.address in _UPDATE}
    if len(found) < len(_UPDATE):
        return ""
    norm, rate, count = (found[address] for address in _UPDATE)
    clip = walk.train.clip_norm if walk.train is not None else 0.0
    clipped = f", shortened to {number_text(clip)}" if clip and norm > clip else ""
    return f"gradient of all weights: norm {number_text(norm)}{clipped}; learning rate {rate:.2e}; update {count}"
