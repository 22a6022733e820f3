"""Where a training's pairs come from: files, or a task that generates them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from glassformer.errors import ConfigError
from glassformer.tasks import Task, load_task
from glassformer.text.corpus import Pair, check_direction, fingerprint, read_pairs


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
