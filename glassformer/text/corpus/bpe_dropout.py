"""BPE-dropout (Provilkov et al. 2020, arXiv 1910.13267): other tokens in each epoch.

Before each merge, every possible one is dropped with probability p, and the best of the rest made: one random number
says how many are dropped. Most words lose none; numpy finds the others in an array of words. Random numbers follow
from the seed, the epoch and the pair's index.
"""

import json
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from glassformer.text.corpus.dataset import EncodedTexts, Ids
from glassformer.text.tokenizer.kinds import CONTROL_TOKENS

Numbers = npt.NDArray[np.uint64]
Symbols = tuple[int, ...]

_CACHED_WORDS = 2**17  # bounds memory, not the result
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class MergeTable:
    """A BPE tokenizer's merges, between ids."""

    def __init__(self, tokenizer_json: str) -> None:
        """From the tokenizer's JSON."""
        model = json.loads(tokenizer_json)["model"]
        vocab: dict[str, int] = model["vocab"]
        self._merges = {
            (vocab[left], vocab[right]): (rank, vocab[left + right])
            for rank, (left, right) in enumerate(map(tuple, model["merges"]))
        }
        self._characters: dict[int, Symbols] = {
            number: (number,) if number < len(CONTROL_TOKENS) else tuple(vocab[character] for character in entry)
            for entry, number in vocab.items()
        }
        self.sizes = np.ones(max(vocab.values()) + 1, dtype=np.int64)
        """Characters of each token."""
        self.sizes[list(self._characters)] = [len(symbols) for symbols in self._characters.values()]
        self.derive = lru_cache(_CACHED_WORDS)(self._derive)
        self._possible_merges = lru_cache(_CACHED_WORDS)(self._find_merges)

    def to_characters(self, word: Symbols) -> Symbols:
        """The characters of a word's tokens."""
        return tuple(symbol for token in word for symbol in self._characters[token])

    def _derive(self, characters: Symbols) -> tuple[Symbols, ...]:
        states = [characters]
        while merges := self._possible_merges(states[-1]):
            states.append(_merge(states[-1], *merges[0]))
        return tuple(states)

    def _find_merges(self, word: Symbols) -> tuple[tuple[int, int], ...]:
        """Place and result of possible merges, best first, then leftmost."""
        found = ((*self._merges[pair], at) for at, pair in enumerate(pairwise(word)) if pair in self._merges)
        return tuple((at, merged) for _, merged, at in sorted(found, key=lambda merge: (merge[0], merge[2])))

    def merge(self, characters: Symbols, n_regular: int, skips: list[int]) -> Symbols:
        """``n_regular`` merges, then for each of ``skips`` the one after that many."""
        word = self.derive(characters)[n_regular]
        for skip in skips:
            merges = self._possible_merges(word)
            if skip >= len(merges):
                break
            word = _merge(word, *merges[skip])
        return word


def _merge(word: Symbols, at: int, merged: int) -> Symbols:
    return (*word[:at], merged, *word[at + 2 :])


class BpeDropout:
    """Splits encoded texts into other tokens at random."""

    def __init__(self, tokenizer_json: str, p: float, longest: int) -> None:
        """Drop merges with probability ``p``; no text grows beyond ``longest`` ids."""
        self._table, self._p, self._longest = MergeTable(tokenizer_json), p, longest

    def resegment(self, texts: EncodedTexts, keys: Numbers) -> EncodedTexts:
        """``texts`` in other tokens; ``keys``: random bits a text."""
        words = self._resegment_words(texts, keys)
        changed = _replace_words(texts, words)
        too_long = changed.lengths > np.maximum(texts.lengths, self._longest)
        if not too_long.any():
            return changed
        text_of_word = np.repeat(np.arange(len(texts.lengths)), texts.lengths)[_word_starts(texts)]
        return _replace_words(texts, {word: ids for word, ids in words.items() if not too_long[text_of_word[word]]})

    def _resegment_words(self, texts: EncodedTexts, keys: Numbers) -> dict[int, Symbols]:
        """New tokens of words that lose a merge, by number."""
        starts = _word_starts(texts)
        ends = np.append(starts[1:], len(texts.ids))
        characters = np.add.reduceat(self._table.sizes[texts.ids], starts)
        n_merges = characters - (ends - starts)  # each merge joins two symbols
        bits = _mix_bits(_word_keys(keys, texts, starts))
        # Without dropout every merge is made.
        with np.errstate(divide="ignore", invalid="ignore"):
            n_regular = np.floor(np.log(_uniform(bits)) / np.log1p(-self._p))
        losing = np.flatnonzero(n_regular < n_merges)
        counts = characters[losing] - 1 - n_regular[losing].astype(np.int64)
        skips, first_skips = self._draw_skips(bits[losing], counts), np.append(0, np.cumsum(counts))
        words = {}
        for place, word in enumerate(losing.tolist()):
            symbols = self._table.to_characters(tuple(texts.ids[starts[word] : ends[word]].tolist()))
            own_skips = skips[first_skips[place] : first_skips[place + 1]]
            words[word] = self._table.merge(symbols, int(n_regular[word]), own_skips)
        return words

    def _draw_skips(self, bits: Numbers, counts: npt.NDArray[np.int64]) -> list[int]:
        """How many merges are dropped before each merge; first at least 1."""
        firsts = np.cumsum(counts) - counts
        step = np.arange(counts.sum()) - np.repeat(firsts, counts) + 1
        draws = _uniform(_mix_bits(np.repeat(bits, counts) + step.astype(np.uint64) * _GOLDEN))
        if not len(draws):
            return []
        if self._p == 1.0:
            skips = np.full(len(draws), np.iinfo(np.int32).max)
        else:
            skips = np.floor(np.log(draws) / np.log(self._p)).astype(np.int64)
        skips[firsts] += 1
        return list(skips.tolist())


def text_keys(indices: npt.NDArray[np.int64], *, seed: int, epoch: int, side: int) -> Numbers:
    """64 random bits for each source (side 0) or target (1), by index."""
    key = np.random.SeedSequence([seed, epoch], spawn_key=(2, side)).generate_state(1, np.uint64)[0]
    return _mix_bits(_mix_bits(indices.astype(np.uint64)) ^ key)


def _word_starts(texts: EncodedTexts) -> npt.NDArray[np.int64]:
    assert texts.starts is not None
    return np.flatnonzero(texts.starts)


def _word_keys(keys: Numbers, texts: EncodedTexts, starts: npt.NDArray[np.int64]) -> Numbers:
    """A number a word, from its text's key and its place."""
    text_starts = np.cumsum(texts.lengths) - texts.lengths
    text_of_word = np.searchsorted(text_starts, starts, side="right") - 1
    places = (starts - text_starts[text_of_word]).astype(np.uint64)
    return np.asarray(keys[text_of_word] + places * _GOLDEN)


def _mix_bits(numbers: Numbers) -> Numbers:
    """The output function of SplitMix64 (Steele et al. 2014)."""
    mixed = numbers + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _uniform(bits: Numbers) -> npt.NDArray[np.float64]:
    """Numbers in (0, 1]."""
    return np.asarray(((bits >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53)


def _replace_words(texts: EncodedTexts, words: dict[int, Symbols]) -> EncodedTexts:
    starts = _word_starts(texts)
    sizes = np.diff(np.append(starts, len(texts.ids)))
    numbers = np.fromiter(words, np.int64, len(words))
    new_sizes = sizes.copy()
    new_sizes[numbers] = np.fromiter(map(len, words.values()), np.int64, len(words))
    same = np.ones(len(sizes), dtype=bool)
    same[numbers] = False
    ids: Ids = np.empty(new_sizes.sum(), texts.ids.dtype)
    ids[np.repeat(same, new_sizes)] = texts.ids[np.repeat(same, sizes)]
    ids[np.repeat(~same, new_sizes)] = np.fromiter(
        (number for _, word in sorted(words.items()) for number in word), texts.ids.dtype
    )
    if not len(texts.lengths):
        return EncodedTexts(ids, texts.lengths)
    first_words = np.searchsorted(starts, np.cumsum(texts.lengths) - texts.lengths)
    return EncodedTexts(ids, np.add.reduceat(new_sizes, first_words).astype(np.int32))
