"""A translation memory: sources that somebody has translated before, with their translations."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Self

from glassformer.errors import InputError
from glassformer.text.corpus.corpus import Pair, read_pairs

NEAR = 0.75  # how alike a source must be to be shown
_COMPARED = 20  # the sources with the most words in common that are compared


@dataclass(frozen=True)
class NearMatch:
    """A pair of the memory whose source is like another; ``similarity`` is from 0 to 1."""

    src: str
    tgt: str
    similarity: float


class Memory:
    """Looks up sources; of several translations of one source the last counts."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self._exact: dict[str, str] = {}
        self._by_word: defaultdict[str, list[str]] = defaultdict(list)
        if not isinstance(pairs, Iterable):
            raise InputError(f"pairs: found {type(pairs).__name__}, expected Pairs; Memory.read takes a file.")
        for pair in pairs:
            if not isinstance(pair, Pair):
                raise InputError(f"pairs: found {type(pair).__name__}, expected a Pair of source and target.")
            if pair.blank:
                continue
            source = _simplify(pair.src)
            if source not in self._exact:
                for word in set(_words(source)):
                    self._by_word[word].append(source)
            self._exact[source] = pair.tgt

    @classmethod
    def read(cls, path: Path) -> Self:
        """From any file of pairs, most often .tmx; raises what ``read_pairs`` raises."""
        return cls(read_pairs(path))

    def __len__(self) -> int:
        return len(self._exact)

    def exact(self, source: str) -> str | None:
        """The translation of this very source, white space apart."""
        return self._exact.get(_simplify(source))

    def near(self, source: str) -> NearMatch | None:
        """The most similar source, if one is similar enough."""
        wanted = _simplify(source)
        shared: defaultdict[str, float] = defaultdict(float)
        for word in set(_words(wanted)):
            known = self._by_word.get(word, [])
            for candidate in known if len(known) <= 5000 else []:
                shared[candidate] += 1 / len(known)  # a rare word says more
        closest: NearMatch | None = None
        for candidate in sorted(shared, key=shared.__getitem__, reverse=True)[:_COMPARED]:
            similarity = SequenceMatcher(None, wanted, candidate, autojunk=False).ratio()
            if similarity >= max(NEAR, closest.similarity if closest else 0.0):
                closest = NearMatch(candidate, self._exact[candidate], similarity)
        return closest


def _simplify(text: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"source: found {type(text).__name__}, expected str.")
    return " ".join(text.split())


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
