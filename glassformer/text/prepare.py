"""From pairs of text to a directory ready for training: tokenizers, encoded pairs and validation text.

The pairs are streamed, once to count them, once for each tokenizer and once to encode, so memory does not grow
with the corpus; counting and encoding are spread over processes. ``prepared.json`` is written last: a directory
that has it is finished, and is used again for the same data and settings. Knows nothing of where the pairs come from.

Chunks of pairs made into ids: the part of a preparation that is spread over processes.

Knows nothing of files, and nothing of processes.

How far a preparation has come: pairs with_progress as they pass. Knows nothing of who shows it.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from glassformer.config import TextConfig
from glassformer.errors import ConfigError, StorageError, TextError, TokenizerError
from glassformer.text.corpus import Pair, is_validation
from glassformer.text.dataset import EncodedPairs, EncodedTexts, EncodedWriter
from glassformer.text.filtering import CorpusStats, count_chunk, rejection_reason, training_texts
from glassformer.text.tokenizer import EOS_ID, Tokenizer
from glassformer.text.workers import available_cores, in_order

Chunk = tuple[list[str], list[str]]
"""As many sources and targets: plain lists of text cross to another process soonest."""

PAIRS_IN_CHUNK = 4096


def chunks(pairs: Iterable[Pair]) -> Iterator[Chunk]:
    """The pairs, some thousands at a time."""
    stream = iter(pairs)
    while part := list(islice(stream, PAIRS_IN_CHUNK)):
        yield [pair.src for pair in part], [pair.tgt for pair in part]


@dataclass(frozen=True)
class EncodedChunk:
    """The ids of the pairs to keep, how many were kept or left out and why, and the pairs set aside."""

    src: EncodedTexts
    tgt: EncodedTexts
    counts: Counter[str]
    set_aside: list[Pair]


@dataclass(frozen=True)
class ChunkEncoder:
    """Encodes the pairs with text on both sides that are within the length rules, but for a ``valid_share``."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    config: TextConfig
    valid_share: float

    @property
    def vocab(self) -> int:
        """Entries of the larger vocabulary."""
        return max(tokenizer.size for tokenizer in self.tokenizers)

    def __call__(self, chunk: Chunk) -> EncodedChunk:
        """The result depends on the chunk alone."""
        pairs: list[Pair] = []
        set_aside: list[Pair] = []
        for pair in map(Pair, *chunk):
            if not pair.blank:
                (set_aside if is_validation(pair, self.valid_share) else pairs).append(pair)
        src, tgt = (self._side(side, [pair[side] for pair in pairs]) for side in (0, 1))
        lengths = zip((len(ids) for ids, _ in src), (len(ids) for ids, _ in tgt), strict=True)
        reasons = [rejection_reason(*both, self.config) for both in lengths]
        counts = Counter(reason or "kept" for reason in reasons)
        return EncodedChunk(self._rows(src, reasons), self._rows(tgt, reasons), counts, set_aside)

    def _side(self, side: int, texts: list[str]) -> list[tuple[list[int], list[int]]]:
        """The ids of each text and, where words will be cut anew, which of them begin one."""
        if self.config.bpe_dropout:
            return self.tokenizers[side].word_starts_batch(texts)
        return [(ids, []) for ids in self.tokenizers[side].to_ids_batch(texts)]

    def _rows(self, texts: Sequence[tuple[list[int], list[int]]], reasons: Sequence[str | None]) -> EncodedTexts:
        kept = [text for text, reason in zip(texts, reasons, strict=True) if reason is None]
        rows = EncodedTexts.from_lists([[*ids, EOS_ID] for ids, _ in kept], self.vocab)
        if not self.config.bpe_dropout:
            return rows
        return rows._replace(
            starts=EncodedTexts.from_lists([[*starts, 1] for _, starts in kept], vocab=2).ids.astype(np.uint8)
        )


SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_VIEWS = 0.25
_PAIRS_BETWEEN_LOOKS = 1024


@dataclass(frozen=True)
class PrepareProgress:
    """``done`` pairs of ``total`` (None: not known yet) are behind a stage of the preparation."""

    stage: str
    done: int
    total: int | None
    elapsed_s: float

    @property
    def pairs_per_s(self) -> float:
        """The mean rate of the stage."""
        return self.done / max(self.elapsed_s, 1e-9)

    @property
    def left_s(self) -> float | None:
        """Seconds until the stage is over at that rate."""
        return None if self.total is None else (self.total - self.done) / max(self.pairs_per_s, 1e-9)


class ProgressCallback(Protocol):
    """Who is told how far things are."""

    def __call__(self, progress: PrepareProgress, /, *, due: bool) -> None:
        """A few times a second; ``due`` when it is time for a line of a log."""


def with_progress(
    stage: str, pairs: Iterable[Pair], total: int | None, on_progress: ProgressCallback
) -> Iterator[Pair]:
    """``pairs``, of which ``on_progress`` is told while they pass."""
    began = viewed = written = time.monotonic()
    for done, pair in enumerate(pairs):
        if done % _PAIRS_BETWEEN_LOOKS == 0 and (now := time.monotonic()) - viewed >= _SECONDS_BETWEEN_VIEWS:
            due = now - written >= SECONDS_BETWEEN_LINES
            on_progress(PrepareProgress(stage, done, total, now - began), due=due)
            viewed, written = now, now if due else written
        yield pair


PairSource = Callable[[], Iterator[Pair]]
Report = Callable[[str], None]

_FORMAT = 1


@dataclass(frozen=True)
class PreparedText:
    """Everything that training needs of the text.

    ``src_tokenizer`` and ``tgt_tokenizer`` are one object when joint. ``valid_text`` holds every validation
    pair with text on both sides, for translation metrics; ``valid`` those of them within the length rules, for
    the loss. ``counts``: read, empty, too_long, lopsided, kept (for training), valid, and the same with
    ``valid_`` before them for validation pairs left out of the loss.
    """

    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    train: EncodedPairs
    valid: EncodedPairs
    valid_text: list[Pair]
    counts: dict[str, int]


def _ignore_progress(progress: PrepareProgress, *, due: bool) -> None:
    """Shows nothing."""


def prepare(
    pairs: PairSource,
    valid: PairSource | None,
    config: TextConfig,
    directory: Path,
    *,
    source: str,
    report: Report,
    on_progress: ProgressCallback = _ignore_progress,
    tokenizers: Callable[[], tuple[Tokenizer, Tokenizer]] | None = None,
) -> PreparedText:
    """Prepare ``pairs`` in ``directory``, or use what a former call with the same ``source`` left there.

    ``pairs`` and ``valid`` start a new stream at each call; without ``valid``, validation pairs are split off
    by a hash of their source. ``source`` is a fingerprint of the data. ``report`` is given a line to show, and
    ``on_progress`` how far a long preparation is. ``tokenizers`` gives those of the source and the target; without
    it they are trained. Raises ``TextError`` when no pair is left to train on or to validate
    with, ``TokenizerError`` when the vocabulary is too small, ``StorageError`` when the directory cannot be written.
    """
    ready = _read_finished(directory, source, config)
    if ready is not None:
        report(f"Text: using the preparation in {directory} ({_summary(ready.counts, ready.src_tokenizer)}).")
        return ready
    try:
        counts = _build(pairs, valid, config, directory, on_progress=on_progress, tokenizers=tokenizers)
        form = {"format": _FORMAT, "source": source, "text": config.to_mapping(), "counts": counts}
        _write_atomically(directory / "prepared.json", form)
    except OSError as error:
        raise StorageError(
            f"{directory}: cannot be written: {error.strerror or error}. Free some space or choose another place."
        ) from error
    prepared = _read(directory, config, counts)
    report(f"Text: {_summary(counts, prepared.src_tokenizer)}.")
    return prepared


def _build(
    pairs: PairSource,
    valid: PairSource | None,
    config: TextConfig,
    directory: Path,
    *,
    on_progress: ProgressCallback,
    tokenizers: Callable[[], tuple[Tokenizer, Tokenizer]] | None,
) -> dict[str, int]:
    """Write all files but the last; returns the counts."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "prepared.json").unlink(missing_ok=True)
    workers = config.workers or available_cores()
    stats = _corpus_stats(
        with_progress("pairs read", pairs(), None, on_progress), config, workers, split=valid is None
    )
    # Looked at before the long work: a mistake in the validation text is told at once.
    given = [] if valid is None else _given_validation(valid)
    known = partial(with_progress, total=stats.read, on_progress=on_progress)
    made = tokenizers() if tokenizers else _train_tokenizers(lambda: known("tokenizer", pairs()), stats, config)
    for side, tokenizer in zip(("src", "tgt"), made, strict=True):
        tokenizer.save(directory / f"{side}.tokenizer.json")
    encoder = ChunkEncoder(made, config, stats.valid_share)
    train_counts, set_aside = _encode(known("encoding", pairs()), encoder, directory / "train", workers)
    valid_text = given or list(dict.fromkeys(set_aside))
    valid_counts, _ = _encode(valid_text, replace(encoder, valid_share=0.0), directory / "valid", 1)
    _check_kept(train_counts, valid_counts, config)
    _write_pairs(directory / "valid.jsonl", valid_text)
    return {
        "read": stats.read,
        "empty": stats.read - stats.usable,
        **train_counts,
        "repeats": 0 if given else len(set_aside) - len(valid_text),
        "valid": len(valid_text),
        **{f"valid_{name}": count for name, count in valid_counts.items()},
    }


def _corpus_stats(pairs: Iterator[Pair], config: TextConfig, workers: int, *, split: bool) -> CorpusStats:
    return CorpusStats.from_chunks(in_order(count_chunk, chunks(pairs), workers), config, split=split)


def _given_validation(valid: PairSource) -> list[Pair]:
    text = [pair for pair in valid() if not pair.blank]
    if not text:
        raise TextError("The validation text holds no pair with text on both sides; expected at least one.")
    return text


def _train_tokenizers(pairs: PairSource, stats: CorpusStats, config: TextConfig) -> tuple[Tokenizer, Tokenizer]:
    def trained(*sides: int) -> Tokenizer:
        texts = training_texts(pairs(), stats, sides, config.tokenizer_pairs)
        return Tokenizer.train(config.tokenizer, texts, stats.vocab_size(config), lowercase=config.lowercase)

    if config.joint:
        tokenizer = trained(0, 1)
        return tokenizer, tokenizer
    return trained(0), trained(1)


def _encode(
    pairs: Iterable[Pair], encoder: ChunkEncoder, directory: Path, workers: int
) -> tuple[dict[str, int], list[Pair]]:
    """Encode into ``directory``; how many pairs were kept or left out and why, and the pairs set aside."""
    counts: Counter[str] = Counter(kept=0, too_long=0, lopsided=0)
    set_aside: list[Pair] = []
    with EncodedWriter(directory, encoder.vocab) as writer:
        for encoded in in_order(encoder, chunks(pairs), workers):
            writer.append_encoded(encoded.src, encoded.tgt)
            counts.update(encoded.counts)
            set_aside += encoded.set_aside
    return dict(counts), set_aside


def _check_kept(train: dict[str, int], valid: dict[str, int], config: TextConfig) -> None:
    for name, counts in (("training", train), ("validation", valid)):
        if not counts["kept"]:
            raise TextError(
                f"No {name} pair is left: {counts['too_long']:,} have more than {config.max_tokens} tokens on a side "
                f"and {counts['lopsided']:,} are lopsided; expected at least one pair. "
                "Raise text.max_tokens or text.max_ratio, or give shorter text."
            )


def _summary(counts: dict[str, int], tokenizer: Tokenizer) -> str:
    repeats = f", {counts['repeats']:,} repeats of those to validate with" if counts.get("repeats") else ""
    return (
        f"{counts['read']:,} pairs read, {counts['kept']:,} to train on, {counts['valid']:,} to validate with; left "
        f"out: {counts['empty']:,} empty, {counts['too_long']:,} too long, {counts['lopsided']:,} lopsided{repeats}; "
        f"{tokenizer.size:,} entries of {tokenizer.kind} vocabulary"
    )


def read_prepared(directory: Path, config: TextConfig) -> PreparedText | None:
    """What another process prepared in ``directory`` with these settings, of whatever text; None if nothing."""
    return _read_finished(directory, None, config)


def _read_finished(directory: Path, source: str | None, config: TextConfig) -> PreparedText | None:
    """What a former call finished for the same source, if one is named, and settings; None if there is nothing."""
    try:
        found = json.loads((directory / "prepared.json").read_text(encoding="utf-8"))
        before = TextConfig.from_mapping(found["text"])
        same_text = replace(before, workers=config.workers) == config
        if not (same_text and found["source"] == (source or found["source"]) and found["format"] == _FORMAT):
            return None
        return _read(directory, config, found["counts"])
    except (OSError, ValueError, TypeError, KeyError, ConfigError, TextError, TokenizerError):
        # Damaged or incomplete: made again from the source.
        return None


def _read(directory: Path, config: TextConfig, counts: dict[str, int]) -> PreparedText:
    src_tokenizer = Tokenizer.load(directory / "src.tokenizer.json")
    return PreparedText(
        src_tokenizer=src_tokenizer,
        tgt_tokenizer=src_tokenizer if config.joint else Tokenizer.load(directory / "tgt.tokenizer.json"),
        train=EncodedPairs(directory / "train"),
        valid=EncodedPairs(directory / "valid"),
        valid_text=_read_pairs(directory / "valid.jsonl"),
        counts=counts,
    )


def _write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    # ASCII escapes: a text may hold a lone surrogate, which UTF-8 cannot.
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="ascii")


def _read_pairs(path: Path) -> list[Pair]:
    with path.open(encoding="ascii") as stream:
        return [Pair(*json.loads(line)) for line in stream]


def _write_atomically(path: Path, value: dict[str, Any]) -> None:
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=2)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)
