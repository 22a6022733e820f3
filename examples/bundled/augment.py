"""Further pairs made from pairs: without the final punctuation mark, and joined to longer lines."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from glassformer.text.corpus.corpus import Pair

END_MARKS = (".", "!", "?")
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


def letters(pair: Pair) -> str:
    """The lower-cased letters and digits of the source."""
    return "".join(character for character in pair.src.lower() if character.isalnum())


def drop_end_marks(pairs: Iterable[Pair], share: float, chance: random.Random) -> list[Pair]:
    """Copies of some pairs without the punctuation mark that ends both sides."""
    ends = [pair for pair in pairs if pair.src[-1:] == pair.tgt[-1:] and pair.src.endswith(END_MARKS)]
    return [Pair(pair.src[:-1], pair.tgt[:-1]) for pair in ends if chance.random() < share]


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
