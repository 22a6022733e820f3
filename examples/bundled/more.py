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
from collections.abc import Iterable
from pathlib import Path

from augment import join_pairs, letters
from sentences import FIRST, RIGHT

from glassformer.tasks import load_task
from glassformer.text.corpus import Pair, read_pairs, write_pairs

HELD_OUT = ("valid", "test", "phrasebook-test")


def not_held_out(pairs: Iterable[Pair], held_out: Iterable[str]) -> list[Pair]:
    """The pairs whose source does not have the same letters as a held-out source."""
    known = {letters(Pair(source, "")) for source in held_out}
    return [pair for pair in pairs if letters(pair) not in known]


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
