"""What an edit does to the next-token distribution at each position."""

import math
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.explain.plain import clip_text, printable
from glassformer.explain.recording.walk_data import WalkData
from glassformer.text import Tokenizer

_PROBABILITIES = "output_projection.probabilities"
_TOKEN_WIDTH = 12
_NUMBERS = {"P", "edited", "KL nats"}


@dataclass(frozen=True)
class NextTokenChange:
    """The likeliest token before and after an edit; ``divergence`` is KL in nats."""

    sentence: int
    position: int
    read: str
    before: tuple[str, float]
    before_now: float
    after: tuple[str, float]
    divergence: float


def find_changes(plain: WalkData, edited: WalkData, tokenizer: Tokenizer) -> list[NextTokenChange]:
    """The change at each target position; ``TraceError`` for other targets."""
    if plain.sentences.tgt_in_tokens != edited.sentences.tgt_in_tokens:
        raise TraceError("effect: the two walks read different targets, expected the same. Force them with targets.")
    before, after = (walk.trace[_PROBABILITIES].cpu() for walk in (plain, edited))
    found = []
    for sentence, ids in enumerate(plain.sentences.batch.tgt_out_ids.tolist()):
        for position, number in enumerate(ids):
            if number != plain.config.pad_id:
                cell = sentence, position
                read = plain.sentences.tgt_in_tokens[sentence][position]
                found.append(_change(cell, read, before[cell], after[cell], tokenizer))
    return found


def _change(cell: tuple[int, int], read: str, before: Tensor, after: Tensor, tokenizer: Tokenizer) -> NextTokenChange:
    best, now = int(before.argmax()), int(after.argmax())
    old, new = tokenizer.to_tokens([best, now])
    p, q = before.double(), after.double()
    terms = (p * (p.log() - q.log())).where(p > 0, 0.0)
    return NextTokenChange(
        *cell, read, (old, float(before[best])), float(after[best]), (new, float(after[now])),
        float(terms.sum().clamp(min=0.0)),
    )  # fmt: skip


def print_effect(found: list[NextTokenChange], plain: WalkData, console: Console) -> None:
    """Print a table a sentence; positions whose likeliest token changes are marked."""
    for sentence, source in enumerate(plain.sentences.sources):
        rows = [change for change in found if change.sentence == sentence]
        console.print()
        console.print(Text(f"{sentence}  {printable(source)} → {printable(plain.sentences.targets[sentence])}"))
        console.print(_table(rows))
    moved = sum(change.before[0] != change.after[0] for change in found)
    largest = max(found, key=lambda change: math.inf if math.isnan(change.divergence) else change.divergence)
    console.print(
        Text(
            f"{moved} of {len(found)} next tokens changed; the distribution moved most after "
            f"{printable(largest.read)!r} of sentence {largest.sentence}: {_nats(largest.divergence)} nats."
        )
    )


def _table(rows: list[NextTokenChange]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("read", "before", "P", "edited", "after the edit", "P", "KL nats"):
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    for change in rows:
        moved = change.before[0] != change.after[0]
        read, before, after = (
            clip_text(token, _TOKEN_WIDTH) for token in (change.read, change.before[0], change.after[0])
        )
        cells = (
            read, before, f"{change.before[1]:.3f}", f"{change.before_now:.3f}",
            after + " ←" if moved else after, f"{change.after[1]:.3f}", _nats(change.divergence),
        )  # fmt: skip
        table.add_row(*map(Text, cells), style="bold" if moved else "")
    return table


def _nats(number: float) -> str:
    return "∞" if math.isinf(number) else f"{number:.3f}"
