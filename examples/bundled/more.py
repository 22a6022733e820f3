"""The pairs that the bundled model learns in the end: those of pairs.py, what teachers made of them, and longer ones.

    python examples/bundled/more.py runs/bundled-teachers runs/bundled-pairs

Reads what ``glassformer diversify --config examples/bundled/teachers.toml`` made of train.tsv, leaves out every made
pair whose source is held out or one that the card judges by, adds pairs of two short sentences each, and writes
learned.jsonl. Of the test sentences pairs of two are joined in the same way and written as joined-test.tsv.

Nearly all of Tatoeba's short sentences have at most six words: without the longer ones a model that learned from
them ends after six words, whatever it is given.
"""

import argparse
import random
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from pairs import END_MARKS, letters
from sentences import FIRST, RIGHT

from glassformer.text.corpus import Pair, read_pairs
from glassformer.text.written import write_pairs

HELD_OUT = ("valid", "test", "phrasebook-test")
MOST = 12_000  # pairs of two sentences
CONJUNCTIONS = ((" and ", " und "), (", but ", ", aber "))
# First words of main clauses, and how they are written after a conjunction. German you is Sie, they is sie.
LATER = {
    ("I", "Ich"): ("I", "ich"), ("You", "Du"): ("you", "du"), ("You", "Ihr"): ("you", "ihr"),
    ("You", "Sie"): ("you", "Sie"), ("He", "Er"): ("he", "er"), ("She", "Sie"): ("she", "sie"),
    ("We", "Wir"): ("we", "wir"), ("They", "Sie"): ("they", "sie"), ("It", "Es"): ("it", "es"),
    ("This", "Das"): ("this", "das"), ("That", "Das"): ("that", "das"), ("The", "Der"): ("the", "der"),
    ("The", "Die"): ("the", "die"), ("The", "Das"): ("the", "das"), ("My", "Mein"): ("my", "mein"),
    ("My", "Meine"): ("my", "meine"), ("Tom", "Tom"): ("Tom", "Tom"), ("Mary", "Maria"): ("Mary", "Maria"),
}  # fmt: skip


def without(made: Iterable[Pair], held_out: Iterable[str]) -> list[Pair]:
    """The pairs whose source has not the letters of one that is held out."""
    known = {letters(Pair(source, "")) for source in held_out}
    return [pair for pair in made if letters(pair) not in known]


def beside(first: Pair, second: Pair) -> Pair | None:
    """Two sentences one after the other; None where a side of one lacks the mark that ends a sentence."""
    if not all(side.endswith(END_MARKS) for side in (*first, *second)):
        return None
    return Pair(f"{first.src} {second.src}", f"{first.tgt} {second.tgt}")


def clauses(first: Pair, second: Pair, conjunction: tuple[str, str]) -> Pair | None:
    """Two main clauses with a conjunction; None unless both end as such, and the second begins with a known word."""
    if not all(side.endswith(".") and not side.endswith("..") for side in (*first, *second)):
        return None
    starts = tuple(re.match(r"\w*", side)[0] for side in second)
    if starts not in LATER:
        return None
    sides = zip(first, conjunction, LATER[starts], second, starts, strict=True)
    return Pair(
        *(f"{one[:-1]}{between}{later}{two.removeprefix(start)}" for one, between, later, two, start in sides)
    )


def joined(pairs: Sequence[Pair], chance: random.Random, *, most: int) -> list[Pair]:
    """At most so many pairs of two sentences, and half as many of two clauses, each sentence once in either."""
    order = chance.sample(pairs, len(pairs))
    sentences = map(beside, order[::2], order[1::2])
    order = chance.sample(pairs, len(pairs))
    both = (clauses(*two, chance.choice(CONJUNCTIONS)) for two in zip(order[::2], order[1::2], strict=False))
    return [*islice(filter(None, sentences), most), *islice(filter(None, both), most // 2)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teachers", type=Path, help="the directory that glassformer diversify wrote")
    parser.add_argument("pairs", type=Path, help="the directory that pairs.py wrote")
    options = parser.parse_args()
    own = dict.fromkeys(read_pairs(options.pairs / "train.tsv"))
    made = [pair for pair in read_pairs(options.teachers / "pairs" / "train.jsonl") if pair not in own]
    held_out = [pair.src for name in HELD_OUT for pair in read_pairs(options.pairs / f"{name}.tsv")]
    allowed = without(made, [*held_out, *(source for source in RIGHT if source != FIRST)])
    learned = [*own, *allowed, *joined(list(own), random.Random(2), most=MOST)]
    test = joined(list(read_pairs(options.pairs / "test.tsv")), random.Random(3), most=MOST)
    for name, found in (("learned", learned), ("joined-test", test)):
        write_pairs(options.pairs / f"{name}.jsonl", None, found)
        print(f"{options.pairs / name}.jsonl: {len(found):,} pairs")
    print(f"{len(made) - len(allowed):,} made pairs left out, with the source of one to judge by.")


if __name__ == "__main__":
    main()
