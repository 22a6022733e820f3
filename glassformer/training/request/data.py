"""Where pairs come from, and an endless stream of batches. Section 5.1."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from glassformer.errors import ConfigError, TextError
from glassformer.files import real_path
from glassformer.settings import RunConfig, TrainConfig
from glassformer.tasks import Task, load_task
from glassformer.text.columns import Columns
from glassformer.text.corpus.batches import (
    Batch,
    Indices,
    collate,
    count_windows,
    padding_fraction,
    plan_batches,
    window_indices,
)
from glassformer.text.corpus.bpe_dropout import BpeDropout, text_keys
from glassformer.text.corpus.corpus import (
    Pair,
    check_direction,
    describe_pairs,
    find_languages,
    fingerprint,
    read_pairs,
)
from glassformer.text.corpus.dataset import EncodedPairs, EncodedSide, EncodedTexts, Sides, join_texts
from glassformer.text.corpus.prepare import PreparedText
from glassformer.text.languages import Languages, same_language
from glassformer.world import ALONE, World

_TEXTS_PER_CALL = 2**15
_DEFAULT_SHARE = 0.5  # of other pairs


class TrainingText(Protocol):
    """Where the pairs of a training come from."""

    def pairs(self) -> Iterator[Pair]:
        """A new stream of all training pairs."""

    def valid(self) -> Iterator[Pair] | None:
        """A new stream of the validation pairs, or None to split some off."""

    def fingerprint(self) -> str:
        """A text that changes when the pairs change."""

    def to_mapping(self) -> dict[str, Any]:
        """Where the pairs come from, for config.json."""

    def describe(self) -> str | None:
        """What was detected in the text, to be said; None if nothing was."""
        return None


@dataclass(frozen=True)
class FileSource:
    """Two aligned files or one of pairs, of ``languages`` and ``columns``; ``turned``: from target to source."""

    src: Path
    tgt: Path | None = None
    valid_src: Path | None = None
    valid_tgt: Path | None = None
    turned: bool = False
    languages: Languages | None = None
    columns: Columns | None = None

    def __post_init__(self) -> None:
        if self.valid_src is None and self.valid_tgt is not None:
            raise ConfigError("--valid-tgt: found alone, expected --valid-src with it.")
        if self.tgt is not None and self.valid_src is not None and self.valid_tgt is None:
            raise ConfigError("--valid-src: found alone, expected --valid-tgt with it.")
        if self.tgt is not None and self.columns is not None:
            raise ConfigError("columns: found with src and tgt, expected one file of pairs. Leave it out.")

    def pairs(self) -> Iterator[Pair]:
        """A new stream of all training pairs."""
        return self._read(self.src, self.tgt)

    def valid(self) -> Iterator[Pair] | None:
        """A new stream of the validation pairs, or None to split some off."""
        if self.valid_src is None:
            return None
        if self.tgt is None and self.languages is None:
            check_direction(self.src, self.valid_src)
        return self._read(self.valid_src, self.valid_tgt)

    def fingerprint(self) -> str:
        """SHA-256 over the files' bytes, marked if the pairs are turned, or of chosen languages or columns."""
        chosen = "" if self.languages is None else f"{'-'.join(self.languages)} "
        if self.columns is not None:
            chosen += f"{self.columns} by {self.columns.separator} "
        return ("turned " if self.turned else "") + chosen + fingerprint(list(self.files().values()))

    def to_mapping(self) -> dict[str, Any]:
        """The absolute paths, the columns, and whether the pairs are turned."""
        files = {name: str(real_path(path)) for name, path in self.files().items()}
        found: dict[str, Any] = {"files": files, **({"turned": True} if self.turned else {})}
        if self.columns is not None:
            found = {**found, "columns": str(self.columns), "separator": self.columns.separator}
        return found if self.languages is None else {**found, "languages": list(self.languages)}

    def take_languages(self, languages: Languages | None) -> Self:
        """The same, with ``languages`` if pairs would be read in others; ``TextError`` if a file has only others."""
        if languages is None or self.tgt is not None:
            return self
        files = list(filter(None, (self.src, self.valid_src)))
        with suppress(TextError):  # of more than two languages, or damaged: it is said below
            read = [find_languages(file) for file in files]
            if all(not found or list(map(same_language, found, languages)) == [True, True] for found in read):
                return self
        for file in files:
            find_languages(file, languages)
        return replace(self, languages=languages)

    def describe(self) -> str | None:
        """The columns or the languages that were found in a file of pairs."""
        return describe_pairs(self.src, self.languages, self.columns) if self.tgt is None else None

    def files(self) -> dict[str, Path]:
        """The files by the names of their options."""
        places = {name: getattr(self, name) for name in ("src", "tgt", "valid_src", "valid_tgt")}
        return {name: path for name, path in places.items() if path is not None}

    def _read(self, src: Path, tgt: Path | None) -> Iterator[Pair]:
        pairs = read_pairs(src, tgt, self.languages, self.columns)
        return (Pair(pair.tgt, pair.src) for pair in pairs) if self.turned else pairs


@dataclass(frozen=True)
class TaskSource(TrainingText):
    """The pairs of a generated task."""

    task: Task

    @classmethod
    def load(cls, name: str) -> "TaskSource":
        """Generate the task called ``name``."""
        return cls(load_task(name))

    def pairs(self) -> Iterator[Pair]:
        """A new stream of all training pairs."""
        return iter(self.task.train)

    def valid(self) -> Iterator[Pair] | None:
        """A new stream of the validation pairs."""
        return iter(self.task.valid)

    def fingerprint(self) -> str:
        """The task's name and size, which determine its pairs."""
        return f"task {self.task.name} of {len(self.task.train)} pairs"

    def to_mapping(self) -> dict[str, Any]:
        """The task's name."""
        return {"task": self.task.name}


@dataclass(frozen=True)
class BpeDropoutSampler:
    """Segments with BPE-dropout, anew in each epoch."""

    dropouts: tuple[BpeDropout, BpeDropout]
    seed: int

    @classmethod
    def from_config(cls, config: RunConfig, text: PreparedText) -> Self | None:
        """The sampler that ``text.bpe_dropout`` sets, or None if it is 0."""
        p, longest = config.text.bpe_dropout, config.text.max_tokens + 1
        if not p:
            return None
        src = BpeDropout(text.src_tokenizer.json, p, longest)
        tgt = src if config.text.joint else BpeDropout(text.tgt_tokenizer.json, p, longest)
        return cls((src, tgt), config.train.seed)

    def sample(self, pairs: EncodedPairs, indices: Indices, epoch: int) -> tuple[EncodedTexts, EncodedTexts]:
        """The sources and targets at ``indices``, in this epoch's tokens."""
        return self._resegment(pairs.src_side, 0, indices, epoch), self._resegment(pairs.tgt_side, 1, indices, epoch)

    def _resegment(self, side: EncodedSide, index: int, indices: Indices, epoch: int) -> EncodedTexts:
        parts = []
        for start in range(0, len(indices), _TEXTS_PER_CALL):
            some = indices[start : start + _TEXTS_PER_CALL]
            keys = text_keys(some, seed=self.seed, epoch=epoch, side=index)
            parts.append(EncodedTexts(*self.dropouts[index].resegment(side.take(some), keys)))
        return join_texts(parts)


@dataclass(frozen=True)
class UpdateBatches:
    """This process's batches of an update, and all target tokens."""

    batches: list[Batch]
    tokens: int


class BatchStream:
    """Batches, epoch after epoch, from ``position`` (0 is the first) on."""

    def __init__(
        self,
        pairs: EncodedPairs,
        config: TrainConfig,
        epoch: int,
        position: int,
        *,
        world: World = ALONE,
        bpe_dropout: BpeDropoutSampler | None = None,
        mix: EncodedPairs | None = None,
    ) -> None:
        """``mix``: other pairs; ``train.mix`` is their share in each epoch."""
        self._pairs, self._config, self._world, self._bpe_dropout = pairs, config, world, bpe_dropout
        self._mix = mix
        self._windows = count_windows(len(pairs))
        self.epoch, self.position = epoch, position
        self._start_epoch()
        while self._is_over and self._window + 1 < self._windows:
            self._plan_window(self._window + 1)

    def next(self) -> Batch:
        """The next batch; after the last one of an epoch, the first of the next."""
        return collate(*self._next())

    def next_update(self) -> UpdateBatches:
        """The next batches, dealt out to the processes by rank."""
        batches = [self._next() for _ in range(self.batches_per_update)]
        tokens = sum(int(sides.tgt_side.lengths[indices].sum()) for sides, indices in batches)
        own = batches[self._world.rank :: self._world.size]
        return UpdateBatches([collate(sides, indices) for sides, indices in own], tokens)

    @property
    def batches_per_update(self) -> int:
        """``train.accumulate`` for each process."""
        return self._config.accumulate * self._world.size

    def _next(self) -> tuple[Sides, Indices]:
        """The window of the next batch, and the batch's indices in it."""
        while self._is_over:
            if self._window + 1 < self._windows:
                self._plan_window(self._window + 1)
            else:
                self.epoch, self.position = self.epoch + 1, 0
                self._start_epoch()
        self.position += 1
        return self._sides, self._plan[self.position - 1 - self._window_start]

    def __len__(self) -> int:
        """The batches in this epoch; estimated from the first window."""
        return self._batches

    @property
    def padding_fraction(self) -> float:
        """The share of padding in this window's batches."""
        return padding_fraction(self._sides.src_side.lengths, self._sides.tgt_side.lengths, self._plan)

    @property
    def _is_over(self) -> bool:
        """Whether all batches of the window have been taken."""
        return self.position >= self._window_start + len(self._plan)

    def _start_epoch(self) -> None:
        self._window_start = 0
        self._plan: list[Indices] = []
        self._plan_window(0)
        self._batches = round(len(self._plan) * len(self._pairs) / max(1, self._planned_pairs))

    def _plan_window(self, window: int) -> None:
        """Plan ``window``: 0, or the one after the current window."""
        self._window_start, self._window = self._window_start + len(self._plan), window
        indices = window_indices(len(self._pairs), window, seed=self._config.seed, epoch=self.epoch)
        self._planned_pairs = len(indices)
        if self._bpe_dropout is None and self._mix is None:
            self._sides, rows = Sides(self._pairs.src_side, self._pairs.tgt_side), indices
        else:
            parts = [self._sample(self._pairs, indices)]
            if self._mix is not None:
                parts.append(self._sample(self._mix, self._draw(len(self._mix), len(indices))))
            self._sides = Sides(*(EncodedSide(join_texts(texts)) for texts in zip(*parts, strict=True)))
            rows = np.arange(len(self._sides.src_side.lengths))
        plan = plan_batches(
            self._sides.src_side.lengths[rows],
            self._sides.tgt_side.lengths[rows],
            self._config.batch_tokens,
            seed=self._config.seed,
            epoch=self.epoch,
            window=window,
            bucket=self._config.bucket,
        )
        self._plan = [rows[batch] for batch in plan]

    def _sample(self, pairs: EncodedPairs, indices: Indices) -> tuple[EncodedTexts, EncodedTexts]:
        """The pairs at ``indices`` with the tokens of this epoch."""
        if self._bpe_dropout is None:
            return pairs.src_side.take(indices), pairs.tgt_side.take(indices)
        return self._bpe_dropout.sample(pairs, indices, self.epoch)

    def _draw(self, others: int, own: int) -> Indices:
        """Which of ``others`` join ``own`` pairs in this window, in ascending order."""
        share = self._config.mix or _DEFAULT_SHARE
        count = min(others, round(own * share / (1 - share)))
        random = np.random.Generator(
            np.random.PCG64(np.random.SeedSequence([self._config.seed, self.epoch, self._window], spawn_key=(2,)))
        )
        return np.sort(random.permutation(others)[:count])
