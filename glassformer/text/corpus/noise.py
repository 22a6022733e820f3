"""Noise: training pairs as people type them, chosen by a hash of the pair; and pairs joined to longer ones."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from random import Random

from glassformer.settings import TextConfig
from glassformer.text.corpus.corpus import Pair

Change = Callable[[Pair, Random], Pair]

END_MARKS = ".!?…。！？"  # fixed: copies depend on them
LETTERS_PER_MISTAKE = 20
_WORD = re.compile(r"[^\W\d_]{4,}")  # shorter ones often become other words
_NUMBER = re.compile(r"(?<![\w.,:/-])\d{1,3}(?![\w/-]|[.,:]\d)")
_NAME = re.compile(r"[^\W\d_]+")
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {row[at]: row[max(0, at - 1) : at] + row[at + 1 : at + 2] for row in _KEYS for at in range(len(row))}
_GERMAN_FORM = {"Mary": "Maria", "John": "Johannes"}  # common in English-German pairs


def lower_case(pair: Pair, chance: Random) -> Pair:
    """Lower case; half of the time except the first letter."""
    lower = pair.src.lower()
    return pair._replace(src=lower if chance.random() < 0.5 else pair.src[:1] + lower[1:])


def drop_end_mark(pair: Pair, chance: Random) -> Pair:
    """Both sides without a shared end mark."""
    src, tgt = (side.rstrip(END_MARKS) for side in pair)
    return Pair(src, tgt) if src and tgt and src != pair.src and tgt != pair.tgt else pair


def misspell(pair: Pair, chance: Random) -> Pair:
    """Mistakes by ``LETTERS_PER_MISTAKE``, not in lone words."""
    if " " not in pair.src and len(pair.src) < LETTERS_PER_MISTAKE:
        return pair
    words = [match.span() for match in _WORD.finditer(pair.src)]
    text = pair.src
    count = max(1, sum(end - start for start, end in words) // LETTERS_PER_MISTAKE)
    for start, end in sorted(chance.sample(words, min(count, len(words))), reverse=True):
        text = text[:start] + _misspell_word(text[start:end], chance) + text[end:]
    return pair._replace(src=text)


def _misspell_word(word: str, chance: Random) -> str:
    """A letter dropped, doubled, swapped, or replaced by a neighbour."""
    at = chance.randrange(1, len(word) - 1)
    before, letter, after = word[:at], word[at], word[at + 1 :]
    match chance.randrange(4):
        case 0:
            return before + after
        case 1:
            return before + 2 * letter + after
        case 2:
            return before + after[0] + letter + after[1:]
        case _:
            return before + chance.choice(_NEIGHBOURS.get(letter, letter)) + after


def replace_numbers(pair: Pair, chance: Random) -> Pair:
    """Each number that both sides have once becomes another as long."""
    src, tgt = (_NUMBER.findall(side) for side in pair)
    common = [number for number in src if src.count(number) == tgt.count(number) == 1 and number not in {"0", "1"}]
    new = {number: str(chance.randint(10 ** (len(number) - 1) + (len(number) == 1), 10 ** len(number) - 1))
           for number in common}  # fmt: skip
    return Pair(*(_NUMBER.sub(lambda match: new.get(match[0], match[0]), side) for side in pair))


def replace_names(pair: Pair, chance: Random) -> Pair:
    """Given names on both sides become others of the same gender."""
    src, tgt = pair
    for name in dict.fromkeys(_NAME.findall(src)):
        german = _GERMAN_FORM.get(name, name)
        there = next((each for each in (name, german) if re.search(rf"\b{each}s?\b", tgt)), None)
        others = given_names().get(name)
        if others and there is not None:
            new = chance.choice(others)
            src = re.sub(rf"\b{name}\b", new, src)
            genitive = f"{new}'" if new[-1] in "sxzß" else f"{new}s"  # *Toms*, but *Max'*
            tgt = re.sub(rf"\b{there}s\b", genitive, tgt)
            tgt = re.sub(rf"\b{there}\b", new, tgt)
    return Pair(src, tgt)


@cache
def given_names() -> dict[str, list[str]]:
    """Given names, and for each all those of its gender."""
    lines = files("glassformer.text.corpus").joinpath("given_names.txt").read_text("utf-8").splitlines()
    by_gender: dict[str, list[str]] = {}
    for gender, names in (line.split(": ") for line in lines):
        by_gender.setdefault(gender, []).extend(names.split())
    return {name: names for names in by_gender.values() for name in names}


KINDS: dict[str, Change] = {
    "case": lower_case, "marks": drop_end_mark, "typos": misspell, "names": replace_names, "numbers": replace_numbers,
}  # fmt: skip
"""Kinds of noise; ``text.noise_KIND``: the probability of a changed copy."""


def joined_copies(pairs: Sequence[Pair], config: TextConfig) -> Iterator[Pair]:
    """``text.joined`` copies of each pair, each with another pair behind it: from few words a model learns more."""
    src_gap, tgt_gap = ("" if kind == "characters" else " " for kind in config.kinds)
    for number in range(config.joined):
        chance = Random(number)
        for pair in pairs:
            other = chance.choice(pairs)
            yield Pair(pair.src + src_gap + other.src, pair.tgt + tgt_gap + other.tgt)


def noisy_copies(pairs: Iterable[Pair], config: TextConfig) -> Iterator[Pair]:
    """A copy of each pair that some noise changes."""
    shares = {kind: getattr(config, f"noise_{kind}") for kind in KINDS}
    if not any(shares.values()):
        return
    for pair in pairs:
        chance, copy = Random("\t".join(pair)), pair
        for kind, change in KINDS.items():
            if chance.random() < shares[kind]:
                copy = change(copy, chance)
        if copy != pair:
            yield copy
