"""The pairs that the bundled model learns in the end: those of pairs.py, what teachers made of them, and longer ones.

    python examples/bundled/more.py runs/bundled-teachers runs/bundled-pairs

Reads what ``glassformer diversify --config examples/bundled/teachers.toml`` made of train.tsv and adds pairs of two
short sentences or clauses each. Left out is what has a source that is held out or that the card judges by, and what a
teacher made of the phrasebook. All is written as learned.jsonl. Of the test sentences pairs of two are joined in the
same way and written as joined-test.jsonl.

Nearly all of Tatoeba's short sentences have at most six words: a model that learned from these alone hardly ever
writes more, whatever it is given.
"""

import argparse
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from pairs import END_MARKS, letters
from sentences import FIRST, RIGHT

from glassformer.tasks import load_task
from glassformer.text.corpus import Pair, read_pairs, write_pairs

HELD_OUT = ("valid", "test", "phrasebook-test")
SENTENCES, CLAUSES = 12_000, 6_000  # pairs of two sentences, and of two clauses
CONJUNCTIONS = ((" and ", " und "), (", but ", ", aber "))
# First words of main clauses, and how they are written after a conjunction. German you is Sie, they is sie.
AFTER_A_CONJUNCTION = {
    ("I", "Ich"): ("I", "ich"), ("You", "Du"): ("you", "du"), ("You", "Ihr"): ("you", "ihr"),
    ("You", "Sie"): ("you", "Sie"), ("He", "Er"): ("he", "er"), ("She", "Sie"): ("she", "sie"),
    ("We", "Wir"): ("we", "wir"), ("They", "Sie"): ("they", "sie"), ("It", "Es"): ("it", "es"),
    ("This", "Das"): ("this", "das"), ("That", "Das"): ("that", "das"), ("The", "Der"): ("the", "der"),
    ("The", "Die"): ("the", "die"), ("The", "Das"): ("the", "das"), ("My", "Mein"): ("my", "mein"),
    ("My", "Meine"): ("my", "meine"), ("Tom", "Tom"): ("Tom", "Tom"), ("Mary", "Maria"): ("Mary", "Maria"),
}  # fmt: skip


def not_held_out(pairs: Iterable[Pair], held_out: Iterable[str]) -> list[Pair]:
    """The pairs whose source has not the letters of one that is held out."""
    known = {letters(Pair(source, "")) for source in held_out}
    return [pair for pair in pairs if letters(pair) not in known]


def says_you(pair: Pair) -> bool:
    """Whether the English says *you*, which the German may call du, ihr or Sie; imperatives are not seen."""
    return re.search(r"\byou", pair.src, re.IGNORECASE) is not None


def beside(first: Pair, second: Pair) -> Pair | None:
    """Two sentences one after the other; None where one lacks the mark at its end, or both say *you*."""
    if not all(side.endswith(END_MARKS) for side in (*first, *second)) or (says_you(first) and says_you(second)):
        return None
    return Pair(f"{first.src} {second.src}", f"{first.tgt} {second.tgt}")


def clauses(first: Pair, second: Pair, conjunction: tuple[str, str]) -> Pair | None:
    """Two main clauses with a conjunction; None where they are not, or the second begins with an unknown word.

    Before *und* there may be no comma, which a clause within the first one would call for.
    """
    statements = all(side.endswith(".") and not side.endswith("..") for side in (*first, *second))
    if not statements or (says_you(first) and says_you(second)):
        return None
    starts = tuple(re.match(r"\w*", side)[0] for side in second)
    if starts not in AFTER_A_CONJUNCTION or ("," not in conjunction[1] and "," in "".join(first)):
        return None
    sides = zip(first, conjunction, AFTER_A_CONJUNCTION[starts], second, starts, strict=True)
    return Pair(
        *(f"{one[:-1]}{between}{later}{two.removeprefix(start)}" for one, between, later, two, start in sides)
    )


def joined(pairs: Sequence[Pair], chance: random.Random) -> list[Pair]:
    """Pairs of two sentences and pairs of two clauses, as many as are wanted or come of ``pairs``."""

    def twos() -> Iterator[tuple[Pair, Pair]]:
        order = chance.sample(pairs, len(pairs))
        return zip(order[::2], order[1::2], strict=False)

    sentences = (beside(*two) for two in twos())
    both = (clauses(*two, chance.choice(CONJUNCTIONS)) for two in twos())
    return [*islice(filter(None, sentences), SENTENCES), *islice(filter(None, both), CLAUSES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teachers", type=Path, help="the directory that glassformer diversify wrote")
    parser.add_argument("pairs", type=Path, help="the directory that pairs.py wrote")
    options = parser.parse_args()
    own = dict.fromkeys(read_pairs(options.pairs / "train.tsv"))
    # The phrasebook's own pairs are right without exception: what a teacher makes of them otherwise is wrong.
    phrases = {side for pair in load_task("phrasebook-de").train for side in pair}
    made = [
        pair
        for pair in read_pairs(options.teachers / "pairs" / "train.jsonl")
        if pair not in own and phrases.isdisjoint(pair)
    ]
    test = joined(list(read_pairs(options.pairs / "test.tsv")), random.Random(3))
    held_out = [pair.src for name in HELD_OUT for pair in read_pairs(options.pairs / f"{name}.tsv")]
    held_out += [*(pair.src for pair in test), *(source for source in RIGHT if source != FIRST)]
    further = not_held_out([*made, *joined(list(own), random.Random(2))], held_out)
    for name, found in (("learned", [*own, *further]), ("joined-test", test)):
        write_pairs(options.pairs / f"{name}.jsonl", None, found)
        print(f"{options.pairs / name}.jsonl: {len(found):,} pairs")


if __name__ == "__main__":
    main()
