"""More pairs of the same text: a teacher of each direction translates one side of it, and all is learned together.

"Data Diversification" of Nguyen et al. 2020, arXiv 1911.01986, with one teacher of each direction and one round.
With a forward teacher alone it is sequence-level distillation (Kim and Rush 2016, arXiv 1606.07947) beside the text
itself; with a backward one alone, back-translation (Sennrich et al. 2016, arXiv 1511.06709) of its own targets.

    DIR/forward/    a run directory, of sources and targets, with its translations of all sources
    DIR/backward/   the other way round
    DIR/train.src   what to learn: the text's own pairs, the sources with the forward teacher's translations, the
    DIR/train.tgt   backward teacher's translations with the targets; train.jsonl where the text is one file of pairs
    DIR/valid.*     and own.*: pairs to validate with and all others, where the text does not come with the former

The text is held in memory. Knows nothing of how its pairs are learned in the end.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.config import RunConfig, TextConfig
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.text.corpus import Pair
from glassformer.text.encoding import chunks
from glassformer.text.selection import Survey, is_set_aside, look_at
from glassformer.text.written import write_pairs, write_texts
from glassformer.training.progress import Display
from glassformer.training.source import FileSource, Source
from glassformer.training.train import Outcome, train

WRITTEN_SIDE = {"forward": "tgt", "backward": "src"}


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
    """Train ``teachers``, at least one of forward and backward, and write what to learn into ``place``.

    Called again, it goes on: what is trained or translated is not done again. Returns the outcome of a teacher's
    training where a signal stopped it. Raises what ``train`` raises, and ``StorageError``.
    """
    text = _with_validation(source, next(iter(teachers.values())).text, place)
    own = list(text.pairs())
    outcomes, found = {}, []
    for direction, config in teachers.items():
        run = place / direction
        display.say(f"The {direction} teacher, in {run}.")
        outcome = train(run, Turned(text) if direction == "backward" else text, config, display)
        if outcome.final is None:
            return outcome
        outcomes[direction] = outcome
        found += _taught(own, _translations(outcome, own, direction, config, display), WRITTEN_SIDE[direction])
    known = set(own)
    pairs = [*own, *(pair for pair in dict.fromkeys(found) if pair not in known and not pair.blank)]
    written = _written(place, "train", pairs, text)
    return Diversified(FileSource(*written, text.valid_src, text.valid_tgt), len(own), len(pairs), outcomes)


def _with_validation(source: FileSource, config: TextConfig, place: Path) -> FileSource:
    """The same text with pairs to validate with, set aside as a training would: no teacher may learn from them."""
    if source.valid_src is not None:
        return source
    pairs = list(source.pairs())
    survey = Survey.of(map(look_at, chunks(pairs)), config, split=True)
    sides: dict[bool, list[Pair]] = {False: [], True: []}
    for pair in pairs:
        sides[is_set_aside(pair, survey.valid_share)].append(pair)
    own = _written(place, "own", sides[False], source)
    return FileSource(*own, *_written(place, "valid", list(dict.fromkeys(sides[True])), source))


def _written(place: Path, name: str, pairs: Sequence[Pair], like: FileSource) -> tuple[Path, Path | None]:
    """The places of the files that hold ``pairs``, as many and of the same kind as those of ``like``."""
    src, tgt = (f"{name}.jsonl", None) if like.tgt is None else (f"{name}.src", place / f"{name}.tgt")
    write_pairs(place / src, tgt, pairs)
    return place / src, tgt


def _translations(
    teacher: Outcome, own: Sequence[Pair], direction: str, config: RunConfig, display: Display
) -> list[str]:
    """What the teacher makes of its side of each pair; read again where it has written them already."""
    kept = teacher.run / f"translations-{teacher.updates:08d}.jsonl"  # one that was trained further writes others
    if not kept.exists():
        texts = [pair.src if direction == "forward" else pair.tgt for pair in own]
        display.say(f"It translates {len(texts):,} texts.")
        with Translator.load(teacher.run, device=config.train.device) as translator:
            write_texts(kept, (json.dumps(_usable(one)) for one in translator.translate(texts, config.decode)))
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]


def _usable(translation: Translation) -> str:
    """Its text, or none where the source or the output was cut short."""
    cut = translation.source_truncated or translation.hypotheses[0].truncated
    return "" if cut else translation.text


def _taught(own: Sequence[Pair], translations: Sequence[str], side: str) -> list[Pair]:
    return [pair._replace(**{side: text}) for pair, text in zip(own, translations, strict=True)]


def _turned(pair: Pair) -> Pair:
    return Pair(pair.tgt, pair.src)
