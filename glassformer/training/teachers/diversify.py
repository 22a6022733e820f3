"""Makes more pairs from the same text: teachers translate each side of it, and a model learns from all the pairs.

"Data Diversification" of Nguyen et al. 2020, arXiv 1911.01986, with one teacher in each direction and one round.
DIR/forward and DIR/backward are the teachers' runs; DIR/pairs has the pairs to learn from, train.*, those for
validation, valid.* and own.* if the text has none, and what they were made of, made.json.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, RunError
from glassformer.files import is_unfinished, read_json_file, remove_unfinished
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig, TextConfig, name_languages
from glassformer.text.corpus.corpus import Pair, is_validation, to_line, write_pairs, write_texts
from glassformer.text.corpus.encoding import chunks
from glassformer.text.corpus.filtering import CorpusStats, count_chunk
from glassformer.training.reporting.run_log import Display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.teachers.teacher import Teacher
from glassformer.training.train import Outcome, train

SOURCE_SIDE = {"forward": 0, "backward": 1}  # the side of a pair that a teacher reads; it writes the other one


@dataclass(frozen=True)
class DiversifyResult:
    """What to train on, ``original`` pairs of the text, and the outcomes."""

    source: FileSource
    original: int
    pairs: int
    teachers: dict[str, Outcome]


def diversify(
    place: Path, source: FileSource, teachers: Mapping[str, RunConfig], display: Display
) -> DiversifyResult | Outcome:
    """Train ``teachers`` and write the pairs into ``place``; resumable."""
    if not teachers or teachers.keys() - SOURCE_SIDE.keys():
        raise ConfigError(f"teachers: found {sorted(teachers) or 'none'}, expected forward, backward or both.")
    directory = RunDirectory(place)
    directory.refuse_links()
    for path in (place / name for name in ("pairs", *SOURCE_SIDE)):
        if path.is_symlink():
            raise RunError(f"{path}: is a symbolic link, expected a directory of the run. Name another --run.")
    directory.create()
    with directory.lock():
        remove_unfinished(place / "pairs")
        text = _split_validation(source, next(iter(teachers.values())).text, place)
        original, translated, outcomes = list(text.pairs()), [], {}
        for direction, config in teachers.items():
            display.log(f"The {direction} teacher, in {place / direction}.")
            turned = SOURCE_SIDE[direction] == 1
            teacher_text, own = replace(text, turned=turned), _turn_languages(config) if turned else config
            outcome = outcomes[direction] = train(TrainRequest(place / direction, teacher_text, own), display)
            if outcome.final is None:
                return outcome
            translated += _translate(outcome.run, original, SOURCE_SIDE[direction], config, display)
        if text.tgt is not None:
            translated = [Pair(*map(to_line, pair)) for pair in translated]
        pairs = [*original, *_filter_new(translated, original, text)]
        files = _write_pairs(place / "pairs", "train", pairs, text)
    return DiversifyResult(FileSource(*files, text.valid_src, text.valid_tgt), len(original), len(pairs), outcomes)


def _turn_languages(config: RunConfig) -> RunConfig:
    """The settings of a model from the target language to the source language."""
    src, tgt = config.languages or ("", "")
    text, decode = replace(config.text, languages=name_languages(tgt, src)), replace(config.decode, src_language=tgt)
    return replace(config, text=text, decode=decode)


def _split_validation(source: FileSource, config: TextConfig, place: Path) -> FileSource:
    """The same text with validation pairs, from which no teacher learns."""
    split = source.valid_src is None
    _claim_directory(place, {"source": source.fingerprint(), "valid_pairs": config.valid_pairs if split else None})
    if not split:
        return source
    place = place / "pairs"
    own, valid = split_pairs(list(source.pairs()), config)
    files = _write_pairs(place, "own", own, source)
    return FileSource(*files, *_write_pairs(place, "valid", valid, source))


def split_pairs(pairs: Sequence[Pair], config: TextConfig) -> tuple[list[Pair], list[Pair]]:
    """The pairs to train on and those to validate with, each once."""
    stats = CorpusStats.from_chunks(map(count_chunk, chunks(pairs)), config, split=True)
    sides: dict[bool, list[Pair]] = {False: [], True: []}
    for pair in pairs:
        sides[is_validation(pair, stats.valid_share)].append(pair)
    return sides[False], list(dict.fromkeys(sides[True]))


def _claim_directory(place: Path, made: dict[str, Any]) -> None:
    """Write made.json; refuse foreign files, or another text's pairs."""
    pairs = place / "pairs"
    try:
        before = read_json_file(pairs / "made.json")
    except (OSError, ValueError, RecursionError):
        before = None
    names = {path.name for path in pairs.iterdir()} if pairs.is_dir() else set()
    if before is None and any(name != "made.json" and not is_unfinished(name) for name in names):
        raise RunError(f"{pairs}: found files that `glassformer diversify` did not write. Name another --run.")
    if before != made and any(RunDirectory(place / direction).exists for direction in SOURCE_SIDE):
        raise RunError(
            f"{place}: holds teachers of other text, or with another text.valid_pairs. Repeat their command to "
            "resume them, or name another --run."
        )
    write_texts(pairs / "made.json", [json.dumps(made)])


def _write_pairs(place: Path, name: str, pairs: Sequence[Pair], like: FileSource) -> tuple[Path, Path | None]:
    """Write ``pairs`` as ``like`` has them; returns the paths."""
    src, tgt = (f"{name}.jsonl", None) if like.tgt is None else (f"{name}.src", place / f"{name}.tgt")
    write_pairs(place / src, tgt, pairs)
    return place / src, tgt


def _translate(run: Path, pairs: Sequence[Pair], side: int, config: RunConfig, display: Display) -> list[Pair]:
    """Each pair with its ``side`` and its translation."""
    teacher = Teacher(run, config.decode, config.train.device)
    texts = list(dict.fromkeys(pair[side] for pair in pairs))
    done = teacher.translate(texts, run / f"translations-{teacher.key()}.jsonl", display)
    translations = dict(zip(texts, done, strict=True))
    if side == 0:
        return [Pair(pair.src, translations[pair.src]) for pair in pairs]
    return [Pair(translations[pair.tgt], pair.tgt) for pair in pairs]


def _filter_new(translated: Sequence[Pair], original: Sequence[Pair], text: FileSource) -> Iterator[Pair]:
    """Each new pair once, without validation sources and empty sides."""
    known, sources = set(original), {pair.src for pair in original}
    excluded = {pair.src for pair in text.valid() or ()} - sources
    return (pair for pair in dict.fromkeys(translated) if not (pair.blank or pair in known or pair.src in excluded))
