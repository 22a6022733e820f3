"""BPE-dropout: a text cut into other tokens in each epoch, by leaving merges out at random.

Provilkov et al. 2020, arXiv 1910.13267: before each merge, every merge that could be made is left out with
probability p, and the best of the others is made; when none is left, the word is done. So the best is made with
probability 1 - p, and the next merge's place among all that could be made follows from one draw. Most words lose no
merge: those are told from the others at once, for a whole array of them.

All draws for a pair follow from the seed, the epoch and the pair's index. Knows nothing of files.
"""

import json
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from glassformer.text.dataset import Ids, Rows
from glassformer.text.tokenizer_kinds import CONTROL_TOKENS

Numbers = npt.NDArray[np.uint64]
Symbols = tuple[int, ...]

# Words whose merges are kept, the most used ones: a bound on memory, without any effect on what is drawn.
_KEPT = 2**17
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class MergeTable:
    """The merges of a BPE tokenizer, between ids."""

    def __init__(self, tokenizer_json: str) -> None:
        """From the JSON in which the tokenizer is stored."""
        model = json.loads(tokenizer_json)["model"]
        vocab: dict[str, int] = model["vocab"]
        self._merged = {
            (vocab[left], vocab[right]): (rank, vocab[left + right])
            for rank, (left, right) in enumerate(map(tuple, model["merges"]))
        }
        self._spelled: dict[int, Symbols] = {
            number: (number,) if number < len(CONTROL_TOKENS) else tuple(vocab[character] for character in entry)
            for entry, number in vocab.items()
        }
        self.characters = np.ones(max(vocab.values()) + 1, dtype=np.int64)
        self.characters[list(self._spelled)] = [len(symbols) for symbols in self._spelled.values()]
        self.derivation = lru_cache(_KEPT)(self._derivation)
        self._merges_of = lru_cache(_KEPT)(self._ordered_merges)

    def spelled(self, word: Symbols) -> Symbols:
        """The characters of a word's tokens."""
        return tuple(symbol for token in word for symbol in self._spelled[token])

    def _derivation(self, characters: Symbols) -> tuple[Symbols, ...]:
        """A word after none of its merges, after the first, and so on to the last."""
        states = [characters]
        while merges := self._merges_of(states[-1]):
            states.append(_merge(states[-1], *merges[0]))
        return tuple(states)

    def _ordered_merges(self, word: Symbols) -> tuple[tuple[int, int], ...]:
        """Where a merge could be made and what it gives, best first; of equal ones the leftmost first."""
        found = ((*self._merged[pair], at) for at, pair in enumerate(pairwise(word)) if pair in self._merged)
        return tuple((at, merged) for _, merged, at in sorted(found, key=lambda merge: (merge[0], merge[2])))

    def walk(self, characters: Symbols, kept: int, skips: list[int]) -> Symbols:
        """A word after its first ``kept`` merges and then those that stand behind so many that are left out."""
        word = self.derivation(characters)[kept]
        for skip in skips:
            merges = self._merges_of(word)
            if skip >= len(merges):
                break
            word = _merge(word, *merges[skip])
        return word


def _merge(word: Symbols, at: int, merged: int) -> Symbols:
    return (*word[:at], merged, *word[at + 2 :])


class BpeDropout:
    """Draws new tokens for encoded texts."""

    def __init__(self, tokenizer_json: str, p: float, longest: int) -> None:
        """``p``: of leaving a merge out. Texts that would have more than ``longest`` ids stay as they are."""
        self._table, self._p, self._longest = MergeTable(tokenizer_json), p, longest

    def draw(self, rows: Rows, keys: Numbers) -> Rows:
        """The texts of ``rows``, which know where words begin, cut anew; ``keys`` has random bits for each text."""
        changed = self._redrawn(rows, keys)
        drawn = _put_in(rows, changed)
        too_long = drawn.lengths > np.maximum(rows.lengths, self._longest)
        if not too_long.any():
            return drawn
        text_of_word = np.repeat(np.arange(len(rows.lengths)), rows.lengths)[_begins(rows)]
        return _put_in(rows, {word: ids for word, ids in changed.items() if not too_long[text_of_word[word]]})

    def _redrawn(self, rows: Rows, keys: Numbers) -> dict[int, Symbols]:
        """The words that lose a merge, by their number among all words, with their new tokens."""
        begins = _begins(rows)
        ends = np.append(begins[1:], len(rows.ids))
        characters = np.add.reduceat(self._table.characters[rows.ids], begins)
        # Each merge makes two symbols one.
        merges = characters - (ends - begins)
        bits = _mixed(_spread(keys, rows, begins))
        # Without dropout every merge is kept, infinitely many in a row.
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = np.floor(np.log(_uniform(bits)) / np.log1p(-self._p))
        losing = np.flatnonzero(kept < merges)
        counts = characters[losing] - 1 - kept[losing].astype(np.int64)
        skips, starts = self._skips(bits[losing], counts), np.append(0, np.cumsum(counts))
        redrawn = {}
        for place, word in enumerate(losing.tolist()):
            spelled = self._table.spelled(tuple(rows.ids[begins[word] : ends[word]].tolist()))
            drawn = skips[starts[place] : starts[place + 1]]
            redrawn[word] = self._table.walk(spelled, int(kept[word]), drawn)
        return redrawn

    def _skips(self, bits: Numbers, counts: npt.NDArray[np.int64]) -> list[int]:
        """Merges left out before each one that is made, for ``counts`` merges of each word; at first at least 1."""
        firsts = np.cumsum(counts) - counts
        step = np.arange(counts.sum()) - np.repeat(firsts, counts) + 1
        draws = _uniform(_mixed(np.repeat(bits, counts) + step.astype(np.uint64) * _GOLDEN))
        if not len(draws):
            return []
        if self._p == 1.0:
            skips = np.full(len(draws), np.iinfo(np.int32).max)
        else:
            skips = np.floor(np.log(draws) / np.log(self._p)).astype(np.int64)
        skips[firsts] += 1
        return list(skips.tolist())


def text_keys(indices: npt.NDArray[np.int64], *, seed: int, epoch: int, side: int) -> Numbers:
    """64 random bits for each pair's source (side 0) or target (1), by its index in the corpus."""
    key = np.random.SeedSequence([seed, epoch], spawn_key=(2, side)).generate_state(1, np.uint64)[0]
    return _mixed(_mixed(indices.astype(np.uint64)) ^ key)


def _begins(rows: Rows) -> npt.NDArray[np.int64]:
    assert rows.starts is not None
    return np.flatnonzero(rows.starts)


def _spread(keys: Numbers, rows: Rows, begins: npt.NDArray[np.int64]) -> Numbers:
    """Each text's key and its word's place in the text, as one number for each word."""
    text_starts = np.cumsum(rows.lengths) - rows.lengths
    text_of_word = np.searchsorted(text_starts, begins, side="right") - 1
    places = (begins - text_starts[text_of_word]).astype(np.uint64)
    return np.asarray(keys[text_of_word] + places * _GOLDEN)


def _mixed(numbers: Numbers) -> Numbers:
    """Each number's bits thoroughly mixed: the last steps of SplitMix64 (Steele et al. 2014)."""
    mixed = numbers + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _uniform(bits: Numbers) -> npt.NDArray[np.float64]:
    """Numbers in (0, 1]."""
    return np.asarray(((bits >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53)


def _put_in(rows: Rows, changed: dict[int, Symbols]) -> Rows:
    """``rows`` with some words replaced; where words begin is not told any more."""
    begins = _begins(rows)
    sizes = np.diff(np.append(begins, len(rows.ids)))
    words = np.fromiter(changed, np.int64, len(changed))
    new_sizes = sizes.copy()
    new_sizes[words] = np.fromiter(map(len, changed.values()), np.int64, len(changed))
    ids: Ids = np.empty(new_sizes.sum(), rows.ids.dtype)
    same = np.ones(len(sizes), dtype=bool)
    same[words] = False
    ids[np.repeat(same, new_sizes)] = rows.ids[np.repeat(same, sizes)]
    ids[np.repeat(~same, new_sizes)] = np.fromiter(
        (number for _, word in sorted(changed.items()) for number in word), rows.ids.dtype
    )
    grown = np.add.reduceat(new_sizes, _first_words(rows, begins)) if len(rows.lengths) else rows.lengths
    return Rows(ids, grown.astype(np.int32))


def _first_words(rows: Rows, begins: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The number of the first word of each text."""
    return np.asarray(np.searchsorted(begins, np.cumsum(rows.lengths) - rows.lengths))
