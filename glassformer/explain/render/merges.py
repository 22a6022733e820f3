"""A BPE vocabulary while it is learned: a line a merge."""

from collections.abc import Sequence
from itertools import islice

from rich.console import Console
from rich.table import Table
from rich.text import Text

from glassformer.errors import ConfigError, TextError
from glassformer.text.tokenizer.bpe_training import LearnedMerge, Pair, learn_merges
from glassformer.text.tokenizer.tokenizer import byte_label

_WORDS, _PAIRS = 6, 2  # shown of a merge: the most frequent words, and the pairs that come next


def print_merges(texts: Sequence[str], most: int, console: Console) -> None:
    """Learn at most ``most`` merges from the texts and print each, with what it was chosen from."""
    if most < 1:
        raise ConfigError(f"--merges: found {most}, expected 1 or more.")
    table = Table.grid(padding=(0, 2))
    table.add_row("merge", "the pair", "times", "the next ones", "words, as they are cut now", style="bold")
    for number, merge in enumerate(islice(learn_merges(texts), most)):
        next_pairs = [pair for pair, _ in merge.counts.most_common(_PAIRS + 1) if pair != merge.pair][:_PAIRS]
        others = ", ".join(f"{_pair_text(pair)} {merge.counts[pair]}" for pair in next_pairs)
        columns = str(number), _pair_text(merge.pair), str(merge.counts[merge.pair]), others, _words_text(merge)
        table.add_row(*map(Text, columns))
    if not table.row_count - 1:
        raise TextError("--merges: found no word of two characters or more, expected one. Give more TEXT.")
    console.print(table)


def _pair_text(pair: Pair) -> str:
    return " + ".join(map(byte_label, pair))


def _words_text(merge: LearnedMerge) -> str:
    words = [" ".join(map(byte_label, word)) for word, _ in merge.words.most_common(_WORDS)]
    return " │ ".join([*words, *(["…"] if len(merge.words) > _WORDS else [])])
