"""From pairs of text to a directory for training: tokenizers, ids, validation text.

Pairs are streamed: memory does not grow with the corpus. ``prepared.json`` comes last, with SHA-256 sums of all
other files: with it a directory is complete, and reused for the same data.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from glassformer.errors import ConfigError, TextError, TokenizerError
from glassformer.files import (
    make_directory,
    read_json_file,
    read_json_lines,
    refuse_link,
    remove,
    remove_unfinished,
    sha256,
    storage_errors,
    sync,
    write_durably,
)
from glassformer.settings import TextConfig
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.dataset import EncodedPairs
from glassformer.text.corpus.encoding import ChunkEncoder, chunks, encode_pairs
from glassformer.text.corpus.filtering import CorpusStats, count_chunk, training_texts
from glassformer.text.corpus.workers import available_cores, map_chunks, most_workers
from glassformer.text.lines import normalize_source, read_returns
from glassformer.text.tokenizer.tokenizer import Tokenizer, Tokenizers, load_tokenizers

PairSource = Callable[[], Iterator[Pair]]
"""Starts a new stream of the same pairs."""

SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_CALLS = 0.25
_PAIRS_BETWEEN_CHECKS = 1024
_FORMAT = 2  # 1 had no sums of the files


@dataclass(frozen=True)
class PreparedText:
    """What training needs of the text; joint tokenizers are one object.

    ``valid_text``: all validation pairs, for metrics; ``valid``: those neither too long nor lopsided, for the loss.
    ``counts``: read, empty, returns (targets with carriage returns), too_long, lopsided, kept (for training),
    wordless (sources without a letter), lower_starts (a side begins in lower case), copied (equal sides), garbled
    (wrong encoding), moved_from (0, or the first pair out of step), repeats (of validation pairs), valid, the same of
    these from valid_too_long on, and valid_seen: those whose source is in training pairs.
    """

    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    train: EncodedPairs
    valid: EncodedPairs
    valid_text: list[Pair]
    counts: dict[str, int]


@dataclass(frozen=True)
class PrepareProgress:
    """A stage's progress: ``done`` pairs of ``total`` (None: unknown)."""

    stage: str
    done: int
    total: int | None
    elapsed_s: float

    @property
    def pairs_per_s(self) -> float:
        """The stage's mean rate."""
        return self.done / max(self.elapsed_s, 1e-9)

    @property
    def left_s(self) -> float | None:
        """Seconds to the stage's end at that rate."""
        return None if self.total is None else (self.total - self.done) / max(self.pairs_per_s, 1e-9)


class ProgressCallback(Protocol):
    """Called a few times a second."""

    def __call__(self, progress: PrepareProgress, /, *, due: bool) -> None:
        """``due``: time for a line in a log."""


def prepare(
    pairs: PairSource,
    valid: Callable[[], Iterator[Pair] | None] | None,
    config: TextConfig,
    directory: Path,
    *,
    source: str,
    report: Callable[[str], None],
    on_progress: ProgressCallback = lambda progress, /, *, due: None,
    tokenizers: Callable[[], Tokenizers] | None = None,
    held_out: Sequence[Pair] = (),
) -> PreparedText:
    """Prepare ``pairs`` in ``directory``, or reuse what the same ``source`` left there.

    Without ``valid``, pairs are split off by a hash of their source. ``source`` is the data's fingerprint. Without
    ``tokenizers`` new ones are trained. ``held_out``: other validation pairs, for valid_seen. Raises ``TextError``,
    ``TokenizerError`` and ``StorageError``.
    """
    earlier = read_prepared(directory, config, source, report, tokenizers)
    if earlier is not None:
        report(f"Text: using the preparation in {directory} ({_summarize(earlier)}).")
        return earlier
    with storage_errors(directory, "Free some space or choose another place."):
        refuse_link(directory)
        counts = _build(
            pairs, valid, config, directory, on_progress=on_progress, tokenizers=tokenizers, held_out=held_out
        )
        files = _sync_files(directory, config)
        form = {"format": _FORMAT, "source": source, "text": config.to_mapping(), "counts": counts, "files": files}
        with write_durably(directory / "prepared.json") as stream:
            json.dump(form, stream, indent=2)
    prepared = _read(directory, counts)
    report(f"Text: {_summarize(prepared)}.")
    return prepared


def read_prepared(
    directory: Path,
    config: TextConfig,
    source: str | None = None,
    report: Callable[[str], None] = lambda _: None,
    tokenizers: Callable[[], Tokenizers] | None = None,
) -> PreparedText | None:
    """A complete preparation of this kind and ``source`` (None: any), or None."""
    file = directory / "prepared.json"
    if not file.exists():
        return None
    try:
        found = read_json_file(file)
        settings = TextConfig.from_mapping(found["text"])
        same_settings = replace(settings, workers=config.workers, languages=config.languages) == config
        if not same_settings or found["source"] != (source or found["source"]) or found["format"] != _FORMAT:
            return None
        _verify_files(directory, config, found["files"])
        prepared = _read(directory, found["counts"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, ConfigError) as error:
        report(f"Text: {file} is damaged ({type(error).__name__}: {error}); the text is prepared again.")
        return None
    except (TextError, TokenizerError) as error:
        report(f"Text: the preparation in {directory} is damaged: {error} The text is prepared again.")
        return None
    both = prepared.src_tokenizer, prepared.tgt_tokenizer
    if tokenizers and any(one.digest != other.digest for one, other in zip(tokenizers(), both, strict=True)):
        report(f"Text: the preparation in {directory} is of another tokenizer; the text is prepared again.")
        return None
    return prepared


def _file_names(config: TextConfig) -> list[str]:
    """A preparation's files without ``prepared.json``."""
    parts = ("ids", "lengths", "offsets", *(("starts",) if config.bpe_dropout else ()))
    return [
        *(f"{split}/{side}.{part}" for split in ("train", "valid") for side in ("src", "tgt") for part in parts),
        *("train/encoded.json", "valid/encoded.json", "valid.jsonl", "src.tokenizer.json", "tgt.tokenizer.json"),
    ]


def _sync_files(directory: Path, config: TextConfig) -> dict[str, str]:
    names = _file_names(config)
    for place in (*names, "train", "valid", "."):
        sync(directory / place)
    return {name: sha256(directory / name) for name in names}


def _verify_files(directory: Path, config: TextConfig, sums: Mapping[str, str]) -> None:
    """Raise ``TextError`` for a missing or changed file."""
    for name in _file_names(config):
        path = directory / name
        try:
            found = sha256(path)
        except OSError as error:
            raise TextError(f"{path}: cannot be read: {error.strerror}.") from error
        if found != sums[name]:
            raise TextError(f"{path}: does not match its SHA-256 sum in prepared.json.")


def _read(directory: Path, counts: dict[str, int]) -> PreparedText:
    both = load_tokenizers(directory / "src.tokenizer.json", directory / "tgt.tokenizer.json")
    train, valid = (EncodedPairs(directory / split) for split in ("train", "valid"))
    for pairs in (train, valid):
        pairs.check_ids(both[0].size, both[1].size)
    valid_text = [Pair(*json.loads(line.decode("ascii"))) for line in read_json_lines(directory / "valid.jsonl")]
    return PreparedText(*both, train, valid, valid_text, counts)


def _summarize(text: PreparedText) -> str:
    counts, src, tgt = text.counts, text.src_tokenizer, text.tgt_tokenizer
    repeats = f", {counts['repeats']:,} repeats of validation pairs" if counts.get("repeats") else ""
    returns = counts.get("returns")
    spaces = f"; the carriage returns of {returns:,} targets are read as spaces" if returns else ""
    vocabularies = f"{src.kind} vocabulary of {src.size:,} entries"
    if tgt.digest != src.digest:
        vocabularies += f" for sources, {tgt.kind} of {tgt.size:,} for targets"
    return (
        f"{counts['read']:,} pairs read, {counts['kept']:,} for training, {counts['valid']:,} for validation; left "
        f"out: {counts['empty']:,} empty, {counts['too_long']:,} too long, {counts['lopsided']:,} lopsided{repeats}"
        f"{spaces}; {vocabularies}"
    )


def _build(
    pairs: PairSource,
    valid: Callable[[], Iterator[Pair] | None] | None,
    config: TextConfig,
    directory: Path,
    *,
    on_progress: ProgressCallback,
    tokenizers: Callable[[], Tokenizers] | None,
    held_out: Sequence[Pair],
) -> dict[str, int]:
    """Write all but ``prepared.json``; returns counts."""
    _empty_directory(directory)
    workers = min(config.workers or available_cores(), most_workers())
    returns = 0

    def note_returns(pair: Pair) -> Pair:
        nonlocal returns
        returns += "\r" in pair.tgt.replace("\r\n", "\n")
        return _normalize(pair)

    counting = _with_progress("pairs read", map(note_returns, pairs()), None, on_progress)
    valid_pairs = None if valid is None else valid()
    counted = map_chunks(count_chunk, chunks(counting), workers)
    stats = CorpusStats.from_chunks(counted, config, split=valid_pairs is None)
    # First: mistakes in validation text are reported early.
    given = [pair for pair in map(_normalize, valid_pairs or ()) if not pair.blank]
    if valid_pairs is not None and not given:
        raise TextError("The validation text holds no pair with text on both sides; expected at least one.")
    stage = partial(_with_progress, total=stats.read, on_progress=on_progress)
    read = partial(_train_tokenizers, lambda: stage("tokenizer", map(_normalize, pairs())), stats, config)
    both = (tokenizers or read)()
    for side, tokenizer in zip(("src", "tgt"), both, strict=True):
        tokenizer.save(directory / f"{side}.tokenizer.json")
    encoder = ChunkEncoder(both, config, stats.valid_share)
    watched, seen = frozenset(pair.src for pair in (*given, *held_out)), set[str]()

    def note_seen(pair: Pair) -> Pair:
        if pair.src in watched:
            seen.add(pair.src)
        return pair

    encoding = map(note_seen, stage("encoding", map(_normalize, pairs())))
    train_counts, split_off = encode_pairs(encoding, encoder, directory / "train", workers)
    valid_text = given or list(dict.fromkeys(split_off))
    valid_counts, _ = encode_pairs(valid_text, encoder.for_validation(), directory / "valid", 1)
    _check_kept(train_counts, valid_counts, config)
    # ASCII escapes: UTF-8 has no lone surrogates.
    with (directory / "valid.jsonl").open("x", encoding="ascii", newline="\n") as stream:
        stream.writelines(json.dumps(pair) + "\n" for pair in valid_text)
    return {
        "read": stats.read,
        "empty": stats.read - stats.usable,
        "returns": returns,
        "moved_from": stats.moved_from,
        **train_counts,
        "repeats": 0 if given else len(split_off) - len(valid_text),
        "valid": len(valid_text),
        "valid_seen": sum(pair.src in seen for pair in held_out or given),
        **{f"valid_{name}": count for name, count in valid_counts.items()},
    }


def _empty_directory(directory: Path) -> None:
    make_directory(directory)
    for left in ("prepared.json", "train", "valid", "valid.jsonl"):
        remove(directory / left)
    remove_unfinished(directory)
    sync(directory)


def _normalize(pair: Pair) -> Pair:
    """The source as translators read it; the target keeps its spaces."""
    return Pair(normalize_source(pair.src), read_returns(pair.tgt))


def _with_progress(
    stage: str, pairs: Iterable[Pair], total: int | None, on_progress: ProgressCallback
) -> Iterator[Pair]:
    started = called = logged = time.monotonic()
    for done, pair in enumerate(pairs):
        if done % _PAIRS_BETWEEN_CHECKS == 0 and (now := time.monotonic()) - called >= _SECONDS_BETWEEN_CALLS:
            due = now - logged >= SECONDS_BETWEEN_LINES
            on_progress(PrepareProgress(stage, done, total, now - started), due=due)
            called, logged = now, now if due else logged
        yield pair


def _train_tokenizers(pairs: PairSource, stats: CorpusStats, config: TextConfig) -> Tokenizers:
    def train(*sides: int) -> Tokenizer:
        texts = training_texts(pairs(), stats, sides, config.tokenizer_pairs)
        return Tokenizer.train(
            config.kinds[sides[0]], texts, stats.vocab_size(config),
            lowercase=config.lowercase, marked=config.marked, decompose=config.decompose,
        )  # fmt: skip

    if config.joint:
        tokenizer = train(0, 1)
        return tokenizer, tokenizer
    return train(0), train(1)


def _check_kept(train: dict[str, int], valid: dict[str, int], config: TextConfig) -> None:
    for name, counts in (("training", train), ("validation", valid)):
        if not counts["kept"]:
            raise TextError(
                f"No {name} pair is left: {counts['too_long']:,} have more than {config.max_tokens} tokens on a side "
                f"and {counts['lopsided']:,} are lopsided; expected at least one pair. "
                "Raise text.max_tokens and model.max_length, or text.max_ratio, or give shorter text."
            )
