"""All training pairs of the bundled model: those of pairs.py, the teachers' translations, and longer pairs.

    python examples/bundled/more.py runs/bundled-teachers runs/bundled-pairs

It reads the pairs that ``glassformer diversify --config examples/bundled/teachers.toml`` made from train.tsv and adds
pairs joined from two short sentences or clauses. It leaves out pairs whose source is held out or is a sentence of the
card, and teachers' translations of the phrasebook. The result is learned.jsonl. Test sentences are joined in the same
way to joined-test.jsonl.

Nearly all of Tatoeba's short sentences have at most six words, and a model trained on these alone hardly ever writes
more, whatever its input.
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
    """The pairs whose source does not have the same letters as a held-out source."""
    known = {letters(Pair(source, "")) for source in held_out}
    return [pair for pair in pairs if letters(pair) not in known]


def says_you(pair: Pair) -> bool:
    """Whether the English has *you*, which may be du, ihr or Sie in German; imperatives are not detected."""
    return re.search(r"\byou", pair.src, re.IGNORECASE) is not None


def join_sentences(first: Pair, second: Pair) -> Pair | None:
    """Join two sentences; None if one lacks its final punctuation mark, or if both have *you*."""
    if not all(side.endswith(END_MARKS) for side in (*first, *second)) or (says_you(first) and says_you(second)):
        return None
    return Pair(f"{first.src} {second.src}", f"{first.tgt} {second.tgt}")


def join_clauses(first: Pair, second: Pair, conjunction: tuple[str, str]) -> Pair | None:
    """Join two main clauses by a conjunction; None if one is no statement or the second begins with an unknown word.

    A first clause with a comma is not joined with *und*, because a comma would be needed there.
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


def join_pairs(pairs: Sequence[Pair], chance: random.Random) -> list[Pair]:
    """Join random pairs to ``SENTENCES`` pairs of two sentences and ``CLAUSES`` pairs of two clauses, or fewer."""

    def shuffled_pairs() -> Iterator[tuple[Pair, Pair]]:
        order = chance.sample(pairs, len(pairs))
        return zip(order[::2], order[1::2], strict=False)

    sentences = (join_sentences(*two) for two in shuffled_pairs())
    both = (join_clauses(*two, chance.choice(CONJUNCTIONS)) for two in shuffled_pairs())
    return [*islice(filter(None, sentences), SENTENCES), *islice(filter(None, both), CLAUSES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teachers", type=Path, help="the directory that glassformer diversify wrote")
    parser.add_argument("pairs", type=Path, help="the directory that pairs.py wrote")
    options = parser.parse_args()
    own = dict.fromkeys(read_pairs(options.pairs / "train.tsv"))
    # The phrasebook's own pairs are all correct, so a teacher's different translation of one is wrong.
    phrases = {side for pair in load_task("phrasebook-de").train for side in pair}
    made = [
        pair
        for pair in read_pairs(options.teachers / "pairs" / "train.jsonl")
        if pair not in own and phrases.isdisjoint(pair)
    ]
    test = join_pairs(list(read_pairs(options.pairs / "test.tsv")), random.Random(3))
    held_out = [pair.src for name in HELD_OUT for pair in read_pairs(options.pairs / f"{name}.tsv")]
    held_out += [*(pair.src for pair in test), *(source for source in RIGHT if source != FIRST)]
    further = not_held_out([*made, *join_pairs(list(own), random.Random(2))], held_out)
    for name, found in (("learned", [*own, *further]), ("joined-test", test)):
        write_pairs(options.pairs / f"{name}.jsonl", None, found)
        print(f"{options.pairs / name}.jsonl: {len(found):,} pairs")


if __name__ == "__main__":
    main()
