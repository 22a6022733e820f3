"""Training, validation and test pairs of the bundled model: Tatoeba's sentences and the phrasebook's phrases.

    python examples/bundled/pairs.py TATOEBA.tsv[.gz] runs/bundled-pairs

Each line of TATOEBA has an English sentence, a tab, and a German one. The output is train.tsv, valid.tsv, test.tsv
and phrasebook-test.tsv. Sentences are held out by the letters of the English: two that differ only in punctuation or
case are held out together. Each test sentence occurs once, with its first translation. A quarter of the training
sentences also occur without the final punctuation mark on both sides, because people often leave it out.
"""

import argparse
import random
from collections.abc import Iterable
from pathlib import Path

from augment import drop_end_marks, letters

from glassformer.tasks import load_task
from glassformer.tasks.task import Splits, divide
from glassformer.text.corpus import Pair, read_pairs


def first_translations(pairs: Iterable[Pair]) -> list[Pair]:
    """Each source with its first translation."""
    found: dict[str, Pair] = {}
    for pair in pairs:
        found.setdefault(letters(pair), pair)
    return list(found.values())


def splits(tatoeba: Path) -> dict[str, list[Pair]]:
    """The pairs of each file, by its name."""
    sentences: Splits = divide(read_pairs(tatoeba, None), letters, valid=0.02, test=0.02)
    phrases = load_task("phrasebook-de")
    train = sentences.train + drop_end_marks(sentences.train, 0.25, random.Random(1)) + phrases.train
    return {
        "train": train, "valid": first_translations(sentences.valid) + phrases.valid[:200],
        "test": first_translations(sentences.test), "phrasebook-test": phrases.test,
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
