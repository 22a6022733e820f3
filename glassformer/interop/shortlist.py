"""A lexical shortlist: each source token's target tokens to compute.

Jean et al. 2015 (arXiv 1412.2007), 3.4. IBM Model 1 (Brown et al. 1993, 4.4) counts pairs, with </s> as null word.
For CTranslate2 a vocabulary map.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import CheckpointError, ConfigError, RunError, TextError
from glassformer.files import check_output, read_sealed_json, refuse_link, storage_errors, write_sealed_json
from glassformer.run_directory import LoadedRun, RunDirectory
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.dataset import EncodedSide, EncodedTexts, Sides
from glassformer.text.corpus.prepare import read_prepared
from glassformer.text.tokenizer.tokenizer import EOS_ID, Tokenizers

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_LINKS = 100_000_000
MAX_CANDIDATES, MIN_PROBABILITY = 50, 0.001  # a source token
FREQUENT = 300
_ROUNDS = 4
_MAX_TOKENS = 255  # a text
_LINKS_AT_ONCE = 4_000_000
_FORMAT = 1
_MAX_BYTES = 2**26
_ADVICE = "Free some space, or copy the run to a place that can."


@dataclass(frozen=True)
class Shortlist:
    """Each source token's ``candidates``, and ``frequent`` ones of all."""

    frequent: tuple[int, ...]
    candidates: Mapping[int, tuple[int, ...]]
    tokenizers: tuple[str, str]
    """Digests of the tokenizers whose ids these are."""

    @classmethod
    def from_ids(cls, texts: Sides, tokenizers: Tokenizers) -> Self:
        """Count encoded pairs with </s>; ``ConfigError`` for white space."""
        src, tgt = tokenizers
        for entry in (*src.entries(), *tgt.entries()):
            if not entry or any(character in entry for character in " \t\n\r"):  # it parts the map's tokens
                raise ConfigError(
                    f"shortlist: the vocabulary has the token {entry!r}, expected tokens without white space, by "
                    "which CTranslate2 separates them. Translate without a shortlist."
                )
        table = translation_table(texts, src.size, tgt.size)
        order = np.lexsort((-table.probability, table.src))
        sources = table.src[order]
        rank = np.arange(len(sources)) - np.searchsorted(sources, sources)
        kept = order[(rank < MAX_CANDIDATES) & (table.probability[order] >= MIN_PROBABILITY)]
        found: dict[int, list[int]] = {}
        for source, target in zip(table.src[kept].tolist(), table.tgt[kept].tolist(), strict=True):
            found.setdefault(source, []).append(target)
        same = {entry: number for number, entry in enumerate(tgt.entries())}
        for source, entry in enumerate(src.entries()):  # names, numbers
            if entry in same and same[entry] not in found.setdefault(source, []):
                found[source].append(same[entry])
        frequencies = np.bincount(table.tgt, weights=table.times, minlength=tgt.size)
        frequent = np.argsort(-frequencies, kind="stable")[:FREQUENT].tolist()
        return cls(tuple(frequent), {source: tuple(ids) for source, ids in found.items()}, (src.digest, tgt.digest))

    def to_vocabulary_map(self, vocabularies: tuple[Sequence[str], Sequence[str]]) -> str:
        """CTranslate2's ``vmap.txt``: source token, tab, candidates."""
        src, tgt = vocabularies
        rows = {"": self.frequent, **{src[source]: ids for source, ids in self.candidates.items()}}
        return "".join(f"{source}\t{' '.join(tgt[number] for number in ids)}\n" for source, ids in rows.items())

    def write(self, path: Path) -> None:
        """Save as JSON with its SHA-256."""
        candidates = {str(source): ids for source, ids in self.candidates.items()}
        values = {"tokenizers": self.tokenizers, "frequent": self.frequent, "candidates": candidates}
        with storage_errors(path, _ADVICE):
            write_sealed_json(path, _FORMAT, values)

    @classmethod
    def read(cls, path: Path, tokenizers: Tokenizers) -> Self | None:
        """What ``write`` saved, or None; ``CheckpointError``."""
        if not path.exists() and not path.is_symlink():
            return None
        advice = f"Make it again: glassformer shortlist --run {path.parent}"
        try:
            values = read_sealed_json(path, _FORMAT, _MAX_BYTES)
            candidates = {int(source): tuple(ids) for source, ids in values["candidates"].items()}
            found = cls(tuple(values["frequent"]), candidates, tuple(values["tokenizers"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{path}: is damaged: {error}. {advice}") from error
        if found.tokenizers != tuple(tokenizer.digest for tokenizer in tokenizers):
            raise CheckpointError(f"{path}: is of other tokenizers than the run has now. {advice}")
        return found


def read_shortlist(run: LoadedRun) -> Shortlist | None:
    """The shortlist in the run's directory, if any."""
    directory = RunDirectory(run.checkpoint.parents[1])
    return Shortlist.read(directory.shortlist_file, (run.src_tokenizer, run.tgt_tokenizer))


class TranslationTable(NamedTuple):
    """How often tgt translates src, and t(tgt | src), of tokens in a pair."""

    src: Ints
    tgt: Ints
    times: Floats
    probability: Floats


def translation_table(texts: Sides, src_vocab: int, tgt_vocab: int) -> TranslationTable:
    """IBM Model 1 over pairs with ``MAX_LINKS`` links."""
    chunks = []
    for pairs in _chunks(texts):
        links, per_target = _links(texts, pairs, tgt_vocab)
        unique, inverse = np.unique(links, return_inverse=True)
        chunks.append((unique, inverse.astype(np.int32), per_target))
    keys = np.unique(np.concatenate([unique for unique, *_ in chunks]))
    src, tgt = np.divmod(keys, tgt_vocab)
    probability = np.ones(len(keys))
    for _ in range(_ROUNDS):
        times = np.zeros(len(keys))
        for unique, place, per_target in chunks:
            known = np.searchsorted(keys, unique)
            share = probability[known][place]
            share /= np.repeat(np.add.reduceat(share, np.cumsum(per_target) - per_target), per_target)
            times[known] += np.bincount(place, weights=share)
        probability = times / np.bincount(src, weights=times, minlength=src_vocab)[src]
    return TranslationTable(src, tgt, times, probability)


def _chunks(texts: Sides) -> Iterator[Ints]:
    """Indices of counted pairs, in parts of about ``_LINKS_AT_ONCE``."""
    links = texts.src_side.lengths.astype(np.int64) * texts.tgt_side.lengths
    total = len(links)
    share = min(1.0, MAX_LINKS / max(1, int(links.sum())))
    chosen = np.unique(np.linspace(0, total - 1, max(1, int(total * share))).astype(np.int64))
    for part in np.split(chosen, np.flatnonzero(np.diff(np.cumsum(links[chosen]) // _LINKS_AT_ONCE)) + 1):
        if len(part):
            yield part


def _links(texts: Sides, pairs: Ints, tgt_vocab: int) -> tuple[Ints, Ints]:
    """A pair's links as source · vocab + target, and how many a target has."""
    src, tgt = (side.take(pairs) for side in (texts.src_side, texts.tgt_side))
    per_target = np.repeat(src.lengths.astype(np.int64), tgt.lengths)
    src_starts = np.repeat(np.cumsum(src.lengths) - src.lengths, tgt.lengths)
    within = np.arange(per_target.sum()) - np.repeat(np.cumsum(per_target) - per_target, per_target)
    sources = src.ids[within + np.repeat(src_starts, per_target)]
    return sources.astype(np.int64) * tgt_vocab + np.repeat(tgt.ids, per_target), per_target


def make_shortlist(run: RunDirectory, pairs: Iterable[Pair] | None, report: Callable[[str], None]) -> Shortlist:
    """Write a run's shortlist from ``pairs`` or its text; or ``RunError``."""
    config, _ = run.read_config()
    with storage_errors(run.shortlist_file, _ADVICE):
        refuse_link(run.shortlist_file)
        check_output(run.shortlist_file)
    tokenizers = run.read_tokenizers()
    if pairs is not None:
        texts = encode_pairs(pairs, tokenizers)
    else:
        prepared = read_prepared(run.text, config.text)
        if prepared is None:
            raise RunError(
                f"{run.path}: holds no text that it was trained on, expected pairs to count in. Name some: PAIRS, or "
                "--src and --tgt."
            )
        texts = Sides(prepared.train.src_side, prepared.train.tgt_side)
    report(f"Shortlist: {len(texts.src_side.lengths):,} pairs.")
    found = Shortlist.from_ids(texts, tokenizers)
    found.write(run.shortlist_file)
    mean = np.mean([len(ids) for ids in found.candidates.values()])
    report(
        f"{run.shortlist_file}: {mean:.1f} of {tokenizers[1].size:,} target tokens for a source token on average, "
        f"and the {len(found.frequent)} most frequent for all."
    )
    return found


def encode_pairs(pairs: Iterable[Pair], tokenizers: Tokenizers) -> Sides:
    """Ids of pairs that are neither blank nor very long."""
    src_tokenizer, tgt_tokenizer = tokenizers
    src_texts, tgt_texts = list[list[int]](), list[list[int]]()
    stream = (pair for pair in pairs if not pair.blank)
    while chunk := list(islice(stream, 10_000)):
        sources = src_tokenizer.to_ids_batch([pair.src for pair in chunk])
        targets = tgt_tokenizer.to_ids_batch([pair.tgt for pair in chunk])
        for source, target in zip(sources, targets, strict=True):
            if max(len(source), len(target)) <= _MAX_TOKENS:
                src_texts.append([*source, EOS_ID])
                tgt_texts.append([*target, EOS_ID])
    if not src_texts:
        raise TextError("shortlist: found no pair with text on both sides, expected thousands. Name another file.")
    return Sides(
        EncodedSide(EncodedTexts.from_lists(src_texts, src_tokenizer.size)),
        EncodedSide(EncodedTexts.from_lists(tgt_texts, tgt_tokenizer.size)),
    )
