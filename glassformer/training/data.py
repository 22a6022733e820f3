"""An endless stream of training batches whose place is two numbers, so that it can go on where it stopped.

The pairs of an epoch cut into tokens of their own, by BPE-dropout: the same ones whenever the epoch is made.

Where a training's pairs come from: files, or a task that generates them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from glassformer.config import RunConfig, TrainConfig
from glassformer.errors import ConfigError
from glassformer.tasks import Task, load_task
from glassformer.text.batches import (
    Batch,
    Indices,
    collate,
    count_windows,
    padding_fraction,
    plan_batches,
    window_indices,
)
from glassformer.text.bpe_dropout import BpeDropout, text_keys
from glassformer.text.corpus import Pair, check_direction, fingerprint, read_pairs
from glassformer.text.dataset import EncodedPairs, EncodedSide, EncodedTexts, Sides
from glassformer.text.prepare import PreparedText
from glassformer.world import ALONE, World

_TEXTS_AT_A_TIME = 2**15


@dataclass(frozen=True)
class Cutting:
    """How sources and targets are cut anew, from one seed."""

    dropouts: tuple[BpeDropout, BpeDropout]
    seed: int

    @classmethod
    def of(cls, config: RunConfig, text: PreparedText) -> Self | None:
        """None where every epoch has the same tokens."""
        p, longest = config.text.bpe_dropout, config.text.max_tokens + 1
        if not p:
            return None
        src = BpeDropout(text.src_tokenizer.json, p, longest)
        tgt = src if config.text.joint else BpeDropout(text.tgt_tokenizer.json, p, longest)
        return cls((src, tgt), config.train.seed)

    def sides(self, pairs: EncodedPairs, indices: npt.NDArray[np.int64], epoch: int) -> Sides:
        """The pairs at ``indices``, in that order and in memory, as this epoch has them."""
        both = (pairs.src_side, pairs.tgt_side)
        return Sides(*(self._side(side, number, indices, epoch) for number, side in enumerate(both)))

    def _side(self, side: EncodedSide, number: int, indices: npt.NDArray[np.int64], epoch: int) -> EncodedSide:
        parts = []
        for start in range(0, len(indices), _TEXTS_AT_A_TIME):
            some = indices[start : start + _TEXTS_AT_A_TIME]
            keys = text_keys(some, seed=self.seed, epoch=epoch, side=number)
            parts.append(self.dropouts[number].resegment(side.take(some), keys))
        ids, lengths = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
        return EncodedSide(EncodedTexts(ids, lengths))


@dataclass(frozen=True)
class Share:
    """The batches of one update that are this process's, and the target tokens of all processes' together."""

    batches: list[Batch]
    tokens: int


class BatchStream:
    """Epoch after epoch of batches; ``position`` batches of ``epoch`` have been given out.

    A corpus of more than one window is planned a window at a time, and memory does not grow with it.
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        config: TrainConfig,
        epoch: int,
        position: int,
        *,
        world: World = ALONE,
        cutting: Cutting | None = None,
    ) -> None:
        """With ``cutting`` the pairs are cut into other tokens in each epoch."""
        self._pairs, self._config, self._world, self._cutting = pairs, config, world, cutting
        self._windows = count_windows(len(pairs))
        self.epoch, self.position = epoch, position
        self._begin_epoch()
        while self._is_over and self._window + 1 < self._windows:
            self._plan_window(self._window + 1)

    def next(self) -> Batch:
        """The next batch; a new epoch is planned when this one is over."""
        return collate(*self._next())

    def next_update(self) -> Share:
        """The next ``batches_an_update``, of which the processes take one each in turn, by rank."""
        dealt = [self._next() for _ in range(self.batches_an_update)]
        tokens = sum(int(sides.tgt_side.lengths[indices].sum()) for sides, indices in dealt)
        own = dealt[self._world.rank :: self._world.size]
        return Share([collate(sides, indices) for sides, indices in own], tokens)

    @property
    def batches_an_update(self) -> int:
        """``train.accumulate`` of each process."""
        return self._config.accumulate * self._world.size

    def _next(self) -> tuple[Sides, Indices]:
        """The pairs that the next batch is of, and its places among them."""
        while self._is_over:
            if self._window + 1 < self._windows:
                self._plan_window(self._window + 1)
            else:
                self.epoch, self.position = self.epoch + 1, 0
                self._begin_epoch()
        self.position += 1
        return self._here, self._plan[self.position - 1 - self._first]

    def __len__(self) -> int:
        """Batches in this epoch; with several windows as many as there are if all are like the first."""
        return self._batches

    @property
    def padding_fraction(self) -> float:
        """The part of this window's cells that is padding."""
        return padding_fraction(self._here.src_side.lengths, self._here.tgt_side.lengths, self._plan)

    @property
    def _is_over(self) -> bool:
        """Whether all batches of the window have been given out."""
        return self.position >= self._first + len(self._plan)

    def _begin_epoch(self) -> None:
        self._first = 0
        self._plan: list[Indices] = []
        self._plan_window(0)
        pairs_here = sum(len(batch) for batch in self._plan)
        self._batches = round(len(self._plan) * len(self._pairs) / max(1, pairs_here))

    def _plan_window(self, window: int) -> None:
        """Plan a window, the first or the one after that which is planned."""
        self._first, self._window = self._first + len(self._plan), window
        indices = window_indices(len(self._pairs), window, seed=self._config.seed, epoch=self.epoch)
        if self._cutting is None:
            self._here, places = Sides(self._pairs.src_side, self._pairs.tgt_side), indices
        else:
            self._here, places = self._cutting.sides(self._pairs, indices, self.epoch), np.arange(len(indices))
        plan = plan_batches(
            self._here.src_side.lengths[places],
            self._here.tgt_side.lengths[places],
            self._config.batch_tokens,
            seed=self._config.seed,
            epoch=self.epoch,
            window=window,
            bucket=self._config.bucket,
        )
        self._plan = [places[batch] for batch in plan]


class Source(Protocol):
    """Pairs for training, and for validation unless they are to be split off."""

    def pairs(self) -> Iterator[Pair]:
        """A new stream of all training pairs."""

    def valid(self) -> Iterator[Pair] | None:
        """A new stream of the validation pairs, or None to split some off."""

    def fingerprint(self) -> str:
        """Changes when the pairs change."""

    def to_mapping(self) -> dict[str, Any]:
        """Where the pairs come from, for the record."""


@dataclass(frozen=True)
class FileSource:
    """Two aligned files, or one file of pairs (``tgt`` is None); validation files likewise, or none."""

    src: Path
    tgt: Path | None = None
    valid_src: Path | None = None
    valid_tgt: Path | None = None

    def __post_init__(self) -> None:
        if self.valid_src is None and self.valid_tgt is not None:
            raise ConfigError("--valid-tgt: found alone, expected --valid-src with it.")
        if self.tgt is not None and self.valid_src is not None and self.valid_tgt is None:
            raise ConfigError("--valid-src: found alone, expected --valid-tgt with it.")

    def pairs(self) -> Iterator[Pair]:
        """A new stream of all training pairs."""
        return read_pairs(self.src, self.tgt)

    def valid(self) -> Iterator[Pair] | None:
        """A new stream of the validation pairs, or None to split some off."""
        if self.valid_src is None:
            return None
        if self.tgt is None:
            check_direction(self.src, self.valid_src)
        return read_pairs(self.valid_src, self.valid_tgt)

    def fingerprint(self) -> str:
        """SHA-256 over the files' bytes."""
        return fingerprint(self._files())

    def to_mapping(self) -> dict[str, Any]:
        """The files, absolute, so that a run knows them from anywhere."""
        return {"files": [str(path.resolve()) for path in self._files()]}

    def _files(self) -> list[Path]:
        return [path for path in (self.src, self.tgt, self.valid_src, self.valid_tgt) if path is not None]


@dataclass(frozen=True)
class TaskSource:
    """A generated task."""

    task: Task

    @classmethod
    def named(cls, name: str) -> "TaskSource":
        """Generate the task of that name."""
        return cls(load_task(name))

    def only(self, pairs: int) -> "TaskSource":
        """The same task with fewer training pairs."""
        return TaskSource(replace(self.task, train=self.task.train[:pairs]))

    def pairs(self) -> Iterator[Pair]:
        """A new stream of all training pairs."""
        return iter(self.task.train)

    def valid(self) -> Iterator[Pair] | None:
        """A new stream of the validation pairs."""
        return iter(self.task.valid)

    def fingerprint(self) -> str:
        """The task's name and size; its pairs follow from them."""
        return f"task {self.task.name} of {len(self.task.train)} pairs"

    def to_mapping(self) -> dict[str, Any]:
        """The task's name."""
        return {"task": self.task.name}
