"""Training, validation and test pairs of the bundled model, from the larger text of Tatoeba.

    python examples/bundled/pairs.py en-de-large.tsv.gz build/face

Each line of the input has an English sentence, a tab, and a German one. The output is train.tsv, valid.tsv, test.tsv
(1,000 pairs: 200 with up to 4 English words, 350 with 5 to 8, 300 with 9 to 14, 150 with more) and learned.tsv, which
adds to the training pairs copies without their final punctuation, the phrasebook, and longer lines joined from two.
wide.tsv adds the pairs of written.tsv, which were written for this model, several times; single words and times of
day more often, words with and without a capital, because their few tokens weigh little beside those of sentences; and
so are sentences in which *it* means one of two nouns ("because it"), because there are few of them.

No source and no target of the test or the validation pairs is in training, nor one with the same words but for case,
punctuation and names: two sentences that differ in *Tom* and *Mary* are the same here. So is no written pair like a
text that the card shows.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from augment import drop_end_marks, join_pairs, letters
from first_sentences import SENTENCES
from reasons import TEXTS
from typed_sentences import TYPED

from glassformer.tasks import load_task
from glassformer.text.corpus.corpus import Pair, read_pairs

BUCKETS = {(1, 4): 200, (5, 8): 350, (9, 14): 300, (15, 1000): 150}  # English words: test pairs
VALID = 1000
WRITTEN = Path(__file__).parent / "written.tsv"
COPIES, MANY_COPIES = 3, 30  # how often a written pair is in wide.tsv; a word, a time of day or a "because it"
NAME = "#"
GERMAN_NAMES = {"maria", "johannes", "toms", "marias"}  # how German writes some of them
_WORD = re.compile(r"[^\W_]+")
_OFTEN = re.compile(
    r"\S*\w|.*\b(?:half past|quarter (?:past|to)|(?:five|ten|twenty) (?:past|to))\b.*|.*\bbecause it\b.*"
)


def words_of(text: str) -> list[str]:
    """The words with their case."""
    return _WORD.findall(text.replace("'", "").replace("’", ""))


def find_names(texts: Iterable[str]) -> set[str]:
    """The English words that are nearly always capitalised inside a sentence, without *I*, and German names."""
    capital: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for text in texts:
        for word in words_of(text)[1:]:
            total[word.lower()] += 1
            capital[word.lower()] += word[0].isupper()
    names = {word for word, count in capital.items() if count >= 0.9 * total[word]}
    return {word for word in names if word not in {"i", "im", "ill", "ive", "id", "german", "english"}} | GERMAN_NAMES


def form_of(text: str, names: set[str]) -> str:
    """The words in lower case, with each name as one sign."""
    return " ".join(NAME if word.lower() in names else word.lower() for word in words_of(text))


def split(pairs: Sequence[Pair], chance: random.Random) -> dict[str, list[Pair]]:
    """Training, validation and test pairs without a source or a target in common, names and punctuation apart."""
    names = find_names(pair.src for pair in pairs)
    forms = [(form_of(pair.src, names), form_of(pair.tgt, names)) for pair in pairs]
    wanted, held_out = dict(BUCKETS), {"test": list[Pair](), "valid": list[Pair]()}
    used: tuple[set[str], set[str]] = (set(), set())
    for index in chance.sample(range(len(pairs)), len(pairs)):
        (src, tgt), words = forms[index], len(pairs[index].src.split())
        if src in used[0] or tgt in used[1]:
            continue
        bucket = next(each for each in BUCKETS if each[0] <= words <= each[1])
        if wanted[bucket]:
            wanted[bucket] -= 1
            held_out["test"].append(pairs[index])
        elif len(held_out["valid"]) < VALID:
            held_out["valid"].append(pairs[index])
        else:
            continue
        used[0].add(src)
        used[1].add(tgt)
        if not any(wanted.values()) and len(held_out["valid"]) == VALID:
            break
    train = [pair for pair, (src, tgt) in zip(pairs, forms, strict=True) if src not in used[0] and tgt not in used[1]]
    return {"train": train, **held_out}


def extend(train: list[Pair]) -> list[Pair]:
    """The training pairs, some once more without their final punctuation, the phrasebook, and joined pairs."""
    return [
        *train,
        *drop_end_marks(train, 0.1, random.Random(1)),
        *load_task("phrasebook-de").train,
        *join_pairs(train, random.Random(2)),
    ]


def written(held_out: Sequence[Pair], names: set[str]) -> list[Pair]:
    """The written pairs that are unlike the held-out ones, and unlike the texts that the card shows."""
    shown = (text for group in (*SENTENCES.values(), *TYPED.values(), *TEXTS.values()) for text in group)
    known = {letters(Pair(text, "")) for text in shown}
    sources, targets = ({form_of(text, names) for text in side} for side in zip(*held_out, strict=True))
    return [
        pair
        for pair in read_pairs(WRITTEN, None)
        if letters(pair) not in known
        and form_of(pair.src, names) not in sources
        and form_of(pair.tgt, names) not in targets
    ]


def repeat(pairs: Sequence[Pair]) -> list[Pair]:
    """The written pairs as often as each is learned; half of the copies of a single word begin with a capital."""
    repeated = list[Pair]()
    for pair in pairs:
        if not _OFTEN.fullmatch(pair.src):
            repeated += COPIES * [pair]
        elif " " in pair.src:
            repeated += MANY_COPIES * [pair]
        else:
            capital = Pair(*(side[:1].upper() + side[1:] for side in pair))
            repeated += MANY_COPIES // 2 * [pair, capital]
    return repeated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tatoeba", type=Path)
    parser.add_argument("into", type=Path)
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    pairs = list(read_pairs(options.tatoeba, None))
    found = split(pairs, random.Random(1))
    found["learned"] = extend(found["train"])
    names = find_names(pair.src for pair in pairs)
    found["wide"] = found["learned"] + repeat(written(found["test"] + found["valid"], names))
    for name, pairs in found.items():
        path = options.into / f"{name}.tsv"
        path.write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs), encoding="utf-8", newline="\n")
        print(f"{path}: {len(pairs):,} pairs")


if __name__ == "__main__":
    main()
