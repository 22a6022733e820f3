"""The text stage at a glance: how each sentence is cut into pre-tokens and these into tokens. Knows no tokenizer."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from glassformer.explain.plain import clipped
from glassformer.explain.sentences import Rows
from glassformer.explain.tables import Table
from glassformer.explain.walk import Walk, WalkStep

MOST_SENTENCES = 8
_TEXT_WIDTH = 240
_BETWEEN = " │ "


def text_tables(walk: Walk, steps: Sequence[WalkStep]) -> Iterator[Table]:
    """A table for each side whose pre-tokens are among the steps, with a line for each sentence."""
    sentences, batch = walk.sentences, walk.sentences.batch
    found = {step.address: step.lines for step in steps}
    for side, name, texts, tokens, ids in (
        ("src", "source", sentences.sources, sentences.src_tokens, batch.src_ids),
        ("tgt", "target", sentences.targets, sentences.tgt_out_tokens, batch.tgt_out_ids),
    ):
        pre_tokens = found.get(f"text.{side}_pre_tokens")
        if pre_tokens is not None:
            normal = found.get(f"text.{side}_normalised") or ()
            yield _table(name, texts, normal, pre_tokens, _unpadded(tokens, ids, sentences.pad_id))


def _table(name: str, texts: Sequence[str], normal: Rows, pre_tokens: Rows, tokens: Rows) -> Table:
    """The normal form is a column where it is not the text itself."""
    columns = {
        name: [str(number) for number in range(1, len(texts) + 1)],
        "normal form": [lines[0] for lines in normal],
        "pre-tokens": [_BETWEEN.join(lines) for lines in pre_tokens],
        "tokens": [" ".join(labels) for labels in tokens],
    }
    if columns["normal form"] in ([], list(texts)):
        del columns["normal form"]
    shown = list(zip(*columns.values(), strict=True))[:MOST_SENTENCES]
    rows = tuple(tuple(clipped(text, _TEXT_WIDTH) for text in row) for row in shown)
    return Table(tuple(columns), rows, caption=left_out(len(shown), len(texts), "sentences"))


def _unpadded(tokens: Rows, ids: Tensor, pad_id: int) -> Rows:
    return tuple(row[:count] for row, count in zip(tokens, (ids != pad_id).sum(dim=1).tolist(), strict=True))


def left_out(shown: int, of: int, what: str) -> str:
    """``showing 8 of 30 sentences``; nothing where all are shown."""
    return f"showing {shown} of {of} {what}" if shown < of else ""
