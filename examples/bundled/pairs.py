"""The pairs that the bundled model learns from and is judged on: Tatoeba's sentences and the phrasebook's phrases.

    python examples/bundled/pairs.py TATOEBA.tsv[.gz] runs/bundled-pairs

TATOEBA holds an English sentence and a German one on each line, between them a tab. Written are train.tsv, valid.tsv
and, for judging, test.tsv and phrasebook-test.tsv. Sentences are held out by the letters of the English: two that
differ in punctuation or case alone are held out together. A test sentence stands once, with its first translation.
For a quarter of the training sentences there is a copy without the full stop or mark at the end of both sides, since
people leave it out.
"""

import argparse
import random
from collections.abc import Iterable
from pathlib import Path

from glassformer.tasks import load_task
from glassformer.tasks.task import Splits, divide
from glassformer.text.corpus import Pair, read_pairs

END_MARKS = (".", "!", "?")


def letters(pair: Pair) -> str:
    """The source in small letters and digits alone."""
    return "".join(character for character in pair.src.lower() if character.isalnum())


def unmarked(pairs: Iterable[Pair], share: float, chance: random.Random) -> list[Pair]:
    """Copies of some pairs without the mark that ends both sides."""
    ends = [pair for pair in pairs if pair.src[-1:] == pair.tgt[-1:] and pair.src.endswith(END_MARKS)]
    return [Pair(pair.src[:-1], pair.tgt[:-1]) for pair in ends if chance.random() < share]


def once(pairs: Iterable[Pair]) -> list[Pair]:
    """Each source with its first translation."""
    found: dict[str, Pair] = {}
    for pair in pairs:
        found.setdefault(letters(pair), pair)
    return list(found.values())


def splits(tatoeba: Path) -> dict[str, list[Pair]]:
    """What each file holds."""
    sentences: Splits = divide(read_pairs(tatoeba, None), letters, valid=0.02, test=0.02)
    phrases = load_task("phrasebook-de")
    train = sentences.train + unmarked(sentences.train, 0.25, random.Random(1)) + phrases.train
    return {
        "train": train, "valid": once(sentences.valid) + phrases.valid[:200], "test": once(sentences.test),
        "phrasebook-test": phrases.test,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tatoeba", type=Path)
    parser.add_argument("into", type=Path)
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    for name, pairs in splits(options.tatoeba).items():
        path = options.into / f"{name}.tsv"
        path.write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs), encoding="utf-8", newline="\n")
        print(f"{path}: {len(pairs):,} pairs")


if __name__ == "__main__":
    main()
