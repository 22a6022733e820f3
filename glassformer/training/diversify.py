"""More pairs of the same text: a teacher of each direction translates one side of it, and all is learned together.

"Data Diversification" of Nguyen et al. 2020, arXiv 1911.01986, with one teacher of each direction and one round.
With a forward teacher alone it is sequence-level distillation (Kim and Rush 2016, arXiv 1606.07947) beside the text
itself; with a backward one alone, back-translation (Sennrich et al. 2016, arXiv 1511.06709) of its own targets.

    DIR/forward/          a run directory, of sources and targets, with its translations of all sources
    DIR/backward/         the other way round
    DIR/pairs/train.src   what to learn: the text's own pairs, the sources with the forward teacher's translations,
    DIR/pairs/train.tgt   the backward teacher's translations with the targets; train.jsonl of one file of pairs
    DIR/pairs/valid.*     and own.*: pairs to validate with and all others, where the text comes without
    DIR/pairs/made.json   of which text, and with which split

The text is held in memory. Knows nothing of how its pairs are learned in the end.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from glassformer.checkpoint import MANIFEST, read_json
from glassformer.config import DecodeConfig, RunConfig, TextConfig
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.errors import ConfigError, RunError, StorageError
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.text.corpus import Pair, is_validation, to_line, write_pairs, write_texts
from glassformer.text.filtering import CorpusStats, count_chunk
from glassformer.text.prepare import SECONDS_BETWEEN_LINES, PrepareProgress, chunks
from glassformer.training.data import FileSource, Source
from glassformer.training.run_log import Display
from glassformer.training.train import Outcome, train

READ_SIDE = {"forward": 0, "backward": 1}  # of a pair; a teacher writes the other one
_CHUNK = 1000  # texts that are translated at a time


@dataclass(frozen=True)
class Diversified:
    """What to train on, ``pairs`` of them, ``own`` the text's; and how each teacher's training ended."""

    source: FileSource
    own: int
    pairs: int
    teachers: dict[str, Outcome]


@dataclass(frozen=True)
class Turned:
    """The same pairs from target to source."""

    source: Source

    def pairs(self) -> Iterator[Pair]:
        """A new stream of all training pairs."""
        return map(_turned, self.source.pairs())

    def valid(self) -> Iterator[Pair] | None:
        """A new stream of the validation pairs, or None to split some off."""
        valid = self.source.valid()
        return None if valid is None else map(_turned, valid)

    def fingerprint(self) -> str:
        """That of the source, marked."""
        return f"turned {self.source.fingerprint()}"

    def to_mapping(self) -> dict[str, Any]:
        """Where the source comes from, and that it is turned."""
        return {**self.source.to_mapping(), "turned": True}


def diversify(
    place: Path, source: FileSource, teachers: Mapping[str, RunConfig], display: Display
) -> Diversified | Outcome:
    """Train ``teachers``, forward or backward or both, and write into ``place`` what to learn.

    Called again, it goes on: what is trained or translated is not done again. Returns the outcome of a teacher's
    training where a signal stopped it. Raises what ``train`` raises, ``RunError`` where ``place`` holds what was made
    of other text, and ``StorageError``.
    """
    if not teachers or (unknown := sorted(teachers.keys() - READ_SIDE.keys())):
        raise ConfigError(f"teachers: found {unknown if teachers else 'none'}, expected forward, backward or both.")
    directory = RunDirectory(place)
    directory.create()
    with directory.locked():
        text = _with_validation(source, next(iter(teachers.values())).text, place)
        own, made, outcomes = list(text.pairs()), [], {}
        for direction, config in teachers.items():
            display.say(f"The {direction} teacher, in {place / direction}.")
            taught = text if READ_SIDE[direction] == 0 else Turned(text)
            outcome = outcomes[direction] = train(place / direction, taught, config, display)
            if outcome.final is None:
                return outcome
            made += _made_by(outcome.run, own, READ_SIDE[direction], config, display)
        if text.tgt is not None:
            made = [Pair(*map(to_line, pair)) for pair in made]
        pairs = [*own, *_worth_learning(made, own, text)]
        files = _written(place / "pairs", "train", pairs, text)
    return Diversified(FileSource(*files, text.valid_src, text.valid_tgt), len(own), len(pairs), outcomes)


def _with_validation(source: FileSource, config: TextConfig, place: Path) -> FileSource:
    """The same text with pairs to validate with, set aside as a training would: no teacher may learn from them."""
    split = source.valid_src is None
    _claim(place, {"source": source.fingerprint(), "valid_pairs": config.valid_pairs if split else None})
    if not split:
        return source
    place = place / "pairs"
    pairs = list(source.pairs())
    stats = CorpusStats.from_chunks(map(count_chunk, chunks(pairs)), config, split=True)
    sides: dict[bool, list[Pair]] = {False: [], True: []}
    for pair in pairs:
        sides[is_validation(pair, stats.valid_share)].append(pair)
    own = _written(place, "own", sides[False], source)
    return FileSource(*own, *_written(place, "valid", list(dict.fromkeys(sides[True])), source))


def _claim(place: Path, made: dict[str, Any]) -> None:
    """Nobody's own files are written over, and pairs made of one text never stand beside those of another."""
    pairs = place / "pairs"
    try:
        before = json.loads((pairs / "made.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = None
    names = {path.name for path in pairs.iterdir()} if pairs.is_dir() else set()
    if before is None and names - {"made.json", "made.json.writing"}:
        raise RunError(f"{pairs}: holds files of others; expected none. Name another --run.")
    if before != made and any(RunDirectory(place / direction).exists for direction in READ_SIDE):
        raise RunError(
            f"{place}: holds teachers of other text, or with another text.valid_pairs. Repeat their command to go on "
            "with them, or name another --run."
        )
    write_texts(pairs / "made.json", [json.dumps(made)])


def _written(place: Path, name: str, pairs: Sequence[Pair], like: FileSource) -> tuple[Path, Path | None]:
    """The places of the files that hold ``pairs``, as many and of the same kind as those of ``like``."""
    src, tgt = (f"{name}.jsonl", None) if like.tgt is None else (f"{name}.src", place / f"{name}.tgt")
    write_pairs(place / src, tgt, pairs)
    return place / src, tgt


def _made_by(run: Path, own: Sequence[Pair], side: int, config: RunConfig, display: Display) -> list[Pair]:
    """Each pair with the teacher's translation of one side in place of the other."""
    texts = list(dict.fromkeys(pair[side] for pair in own))
    kept = run / f"translations-{_weights_and_search(run, config.decode, display)}.jsonl"
    found = _read(kept)[: len(texts)]
    if len(found) < len(texts):
        display.say(f"It translates its side of {len(texts) - len(found):,} pairs.")
        with Translator.load(run, device=config.train.device) as translator:
            stream = translator.translate_stream(texts[len(found) :], config.decode, chunk=_CHUNK, start=len(found))
            _append(kept, found, map(_usable, _shown(stream, len(texts) - len(found), display)))
        found = _read(kept)
    written = dict(zip(texts, found, strict=True))
    return [Pair(*(pair[0], written[pair[0]]) if side == 0 else (written[pair[1]], pair[1])) for pair in own]


def _weights_and_search(run: Path, options: DecodeConfig, display: Display) -> str:
    """Another for a teacher that was trained further, or searches otherwise, for it translates otherwise."""
    manifest = read_json(RunDirectory(run).usable_checkpoint(display.say) / MANIFEST)
    weights = manifest["files"][f"{WEIGHTS}.safetensors"]["sha256"]
    told = json.dumps([weights, options.to_mapping()], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def _shown(translations: Iterator[Translation], total: int, display: Display) -> Iterator[Translation]:
    """They come a chunk at a time, so that with the last of each the time is that of all before."""
    began = written = time.monotonic()
    for done, translation in enumerate(translations, 1):
        if done % _CHUNK == 0:
            now = time.monotonic()
            due = now - written >= SECONDS_BETWEEN_LINES
            display.advanced(PrepareProgress("translated", done, total, now - began), due=due)
            written = now if due else written
        yield translation


def _read(path: Path) -> list[str]:
    """The whole lines of a file that may have been cut short; none of one that is not there, or is damaged."""
    try:
        return [str(json.loads(line)) for line in path.read_text(encoding="ascii").split("\n")[:-1]]
    except (OSError, ValueError):
        return []


def _append(path: Path, texts: Sequence[str], further: Iterator[str]) -> None:
    try:
        with path.open("w", encoding="ascii") as stream:
            stream.writelines(f"{json.dumps(text)}\n" for text in chain(texts, further))
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror or error}. Free some space; the same command goes on."
        ) from error


def _usable(translation: Translation) -> str:
    """Its text, or none where the source or the output was cut short, or is no text."""
    cut = translation.source_truncated or translation.hypotheses[0].truncated
    return "" if cut or "\0" in translation.text else translation.text


def _worth_learning(made: Sequence[Pair], own: Sequence[Pair], text: FileSource) -> Iterator[Pair]:
    """Each once, without those that lack a side, repeat the text, or have a source to validate with that it lacks."""
    known, sources = set(own), {pair.src for pair in own}
    aside = {pair.src for pair in text.valid() or ()} - sources
    return (pair for pair in dict.fromkeys(made) if not (pair.blank or pair in known or pair.src in aside))


def _turned(pair: Pair) -> Pair:
    return Pair(pair.tgt, pair.src)
