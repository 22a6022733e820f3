"""A translation memory: sources that somebody has translated before, with their translations."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path
from typing import Self

from glassformer.decoding.restore.parts_writer import keep_spaces
from glassformer.errors import InputError
from glassformer.text.codes.checks import changes
from glassformer.text.codes.code import Code, Parts, join_parts
from glassformer.text.codes.find import find_codes
from glassformer.text.corpus.corpus import Pair, read_pairs
from glassformer.text.steps.sentences import Copied, is_crowded
from glassformer.text.steps.step import Change, TextOptions

NEAR = 0.75  # how alike a source must be to be shown
_COMPARED = 10  # the sources with the most words in common that are compared
_COMMON, _LOOKED_AT = 5000, 10_000  # sources: a word that more of them have says nothing; those of the rarest words
_LONGEST = 10_000  # characters: longer texts are not compared


@dataclass(frozen=True)
class NearMatch:
    """A pair of the memory whose source is like another.

    ``similarity`` is 1 minus the characters that are to be inserted and deleted, divided by those of both sources.
    """

    src: str
    tgt: str
    similarity: float


class Memory:
    """Looks up sources; of several translations of one source the last counts, and ``others`` has the rest."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self._exact: dict[str, str] = {}
        self._others: defaultdict[str, list[str]] = defaultdict(list)
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
            elif _simplify(self._exact[source]) != _simplify(pair.tgt):
                self._others[source].append(self._exact[source])
            self._exact[source] = pair.tgt

    @classmethod
    def read(cls, path: Path) -> Self:
        """From any file of pairs, most often .tmx; raises what ``read_pairs`` raises."""
        return cls(read_pairs(path))

    def read_known(self, parts: Parts, options: TextOptions) -> Change | None:
        """A step: a text that the memory has is translated as there."""
        known = None if is_crowded(parts) else self.exact(join_parts(parts))
        if known is None:
            return None
        found = _with_codes(parts, known)
        flags = [f"the memory: {flag}" for flag in changes(find_codes(parts), find_codes(found))]
        raws = {part.raw for part in parts if isinstance(part, Code)}
        flags = flags or [f"the memory: {part} was added" for part in found if isinstance(part, str) and part in raws]
        others = self.others(join_parts(parts))
        flags += [f"the memory has another translation, too: {other!r}" for other in others]
        return Copied((), keep_spaces(parts, found), tuple(flags))

    def describe_near(self, source: str) -> str | None:
        """In words, what is most like a source; None if nothing is."""
        near = self.near(source)
        if near is None:
            return None
        return f"the memory has, {near.similarity:.0%} alike: {near.src[:500]!r} -> {near.tgt[:500]!r}"

    def __len__(self) -> int:
        return len(self._exact)

    def exact(self, source: str) -> str | None:
        """The translation of this very source, white space apart."""
        return self._exact.get(_simplify(source))

    def others(self, source: str) -> list[str]:
        """The translations of this very source that contradict ``exact``."""
        return self._others.get(_simplify(source), [])

    def near(self, source: str) -> NearMatch | None:
        """The most similar source, if one is similar enough."""
        from rapidfuzz.distance import Indel

        wanted = _simplify(source)
        if len(wanted) > _LONGEST:
            return None
        closest: NearMatch | None = None
        least = NEAR
        shared = self._shared_words(wanted)
        for candidate in nlargest(_COMPARED, shared, key=shared.__getitem__):
            similarity = Indel.normalized_similarity(wanted, candidate, score_cutoff=least)
            if similarity >= least:
                closest, least = NearMatch(candidate, self._exact[candidate], similarity), similarity
        return closest

    def _shared_words(self, wanted: str) -> dict[str, float]:
        """How much each source has in common with a text; a rare word says more."""
        shared: defaultdict[str, float] = defaultdict(float)
        looked_at = 0
        known = {word: self._by_word[word] for word in _words(wanted) if word in self._by_word}
        for sources in sorted(known.values(), key=len):
            looked_at += len(sources)
            if len(sources) > _COMMON or looked_at > _LOOKED_AT:
                break
            for candidate in sources:
                shared[candidate] += 1 / len(sources)
        return shared


def _simplify(text: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"source: found {type(text).__name__}, expected str.")
    return " ".join(unicodedata.normalize("NFC", text).split())


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _with_codes(source: Parts, known: str) -> Parts:
    """What a memory has, with the codes of a text in it."""
    codes = defaultdict[str, list[Code]](list)
    for code in reversed([part for part in source if isinstance(part, Code)]):
        codes[code.raw].append(code)
    pieces = re.split(f"({'|'.join(map(re.escape, codes))})", known) if codes else [known]
    return tuple(codes[piece].pop() if codes.get(piece) else piece for piece in pieces if piece)
