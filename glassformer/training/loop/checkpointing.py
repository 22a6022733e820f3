"""The checkpoints of a training: what it saves, and how it resumes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.optim import Adam

from glassformer.checkpoint import (
    STATE,
    Tensors,
    checkpoints,
    newest_valid,
    prune,
    read_json,
    read_tensors,
    save_checkpoint,
    weights_of,
)
from glassformer.errors import CheckpointError, TokenizerError
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.settings import RunConfig
from glassformer.text.corpus.prepare import PreparedText
from glassformer.training.loop.optimizer import OPTIMIZER, optimizer_tensors, restore_optimizer
from glassformer.training.loop.strategy import ParallelStrategy
from glassformer.training.reporting.run_log import Display
from glassformer.world import ALONE, World

RANDOM = "random"  # the name of the file
# The counters that checkpoints of earlier versions may lack.
_ADDED = {"cooldown_from", "cooldown_to", "cooldown_cause", "best_loss", "best_loss_update", "restarts"}
# The types of counters in JSON; those that are None at first are numbers later.
_KINDS = {int: int, float: int | float, str: str, NoneType: int | float | None}


@dataclass(frozen=True)
class TrainState:
    """Counters of a training. ``position`` counts the batches of the epoch so far; a higher ``best`` is better.

    ``stale_validations`` are those in a row that improved neither metric nor loss. The cooldown starts after update
    ``cooldown_from`` and ends after ``cooldown_to`` (0: not yet); ``cooldown_cause`` is its limit.
    """

    update: int = 0
    epoch: int = 1
    position: int = 0
    elapsed_s: float = 0.0
    target_tokens: int = 0
    validated_update: int = 0
    best: float | None = None
    best_update: int = 0
    best_loss: float | None = None
    best_loss_update: int = 0
    stale_validations: int = 0
    cooldown_from: int = 0
    cooldown_to: int = 0
    cooldown_cause: str = ""
    restarts: int = 0

    @classmethod
    def read(cls, checkpoint: Path) -> Self:
        """The counters saved with a checkpoint; an old one may lack some."""
        values, where = read_json(checkpoint / STATE).get("counters"), f"{checkpoint}/{STATE}: counters"
        kinds = {field.name: type(field.default) for field in fields(cls)}
        if not isinstance(values, dict) or values.keys() | _ADDED != kinds.keys():
            raise CheckpointError(f"{where}: found {values!r:.200}, expected values for {', '.join(kinds)}.")
        for name, value in values.items():
            if not isinstance(value, _KINDS[kinds[name]]) or isinstance(value, bool):
                raise CheckpointError(f"{where}: {name}: found {value!r:.100}, expected {kinds[name].__name__}.")
        return replace(cls(), **values)


def rng_tensors(world: World = ALONE) -> dict[str, Tensor]:
    """The states of torch's random generators, as name or name/rank."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    by_rank = enumerate(world.gather(states))
    return {_rank_key(name, rank): state for rank, own in by_rank for name, state in own.items()}


def restore_rng(checkpoint: Path, world: World = ALONE) -> None:
    """Restore this process's random generators from a checkpoint."""
    saved = read_tensors(checkpoint, RANDOM)
    cpu, cuda = (saved.get(_rank_key(name, world.rank)) for name in ("cpu", "cuda"))
    if cpu is not None:
        torch.set_rng_state(cpu)
    if cuda is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(cuda)


def _rank_key(name: str, rank: int) -> str:
    return f"{name}/{rank}" if rank else name


class CheckpointManager:
    """Saves and restores one model: ``latest`` to resume, ``history`` to average, ``best`` and ``final`` to use.

    All processes call it together; the first one writes, and chooses what all of them read.
    """

    saved_threads: int | None = None

    def __init__(
        self, run: RunDirectory, config: RunConfig, text: PreparedText, display: Display, strategy: ParallelStrategy
    ) -> None:
        self._run, self._config, self._display, self._strategy = run, config, display, strategy
        self._world = strategy.world
        self._digests = {"src_tokenizer": text.src_tokenizer.digest, "tgt_tokenizer": text.tgt_tokenizer.digest}

    def save_latest(self, optimizer: Adam, state: TrainState) -> None:
        """Save all that is needed to resume; two such checkpoints are kept."""
        gather = self._strategy.gather_tensors
        tensors = {
            WEIGHTS: gather(weights_of(self._strategy.model)),
            OPTIMIZER: gather(optimizer_tensors(self._strategy.model, optimizer)),
            RANDOM: rng_tensors(self._world),
        }
        self._write(self._run.latest, state, tensors, keep=2)

    def save_weights(self, state: TrainState, series: Path, *, keep: int, averaged: int = 1) -> None:
        """Save weights only, the mean of ``averaged`` checkpoints."""
        tensors = {WEIGHTS: self._strategy.gather_tensors(weights_of(self._strategy.model))}
        self._write(series, state, tensors, keep, averaged=averaged)

    def resume(self, optimizer: Adam) -> TrainState:
        """Restore the newest valid checkpoint, if there is one."""
        newest = self._world.broadcast(self._newest_valid)
        state = TrainState() if newest is None else TrainState.read(newest)
        if not self._world.is_first:  # each process draws its own random numbers
            seed = [self._config.train.seed, self._world.rank, state.update]
            torch.manual_seed(int(np.random.PCG64(seed).random_raw() >> 1))
        if newest is not None:
            saved = read_json(newest / STATE)
            self._check_state(newest, saved)
            self._strategy.load(read_tensors(newest, WEIGHTS), newest)
            restore_optimizer(self._strategy, optimizer, newest)
            restore_rng(newest, self._world)
            self._display.log(f"Resuming after update {state.update}, from {newest}.")
            threads, before, now = saved.get("threads"), saved.get("processes", 1), self._world.size
            self.saved_threads = threads if isinstance(threads, int) else None
            if before != now:
                self._display.log(f"Saved by {before} processes, now {now}: dropout draws other numbers.")
        return state

    def _newest_valid(self) -> Path | None:
        newest = newest_valid(self._run.latest, self._display.warn)
        if newest is None and checkpoints(self._run.latest):
            raise CheckpointError(
                f"{self._run.latest}: none of its checkpoints is valid, so the training cannot resume. The run's "
                "other models can be used. To train from scratch, name another directory."
            )
        return newest

    def _write(
        self, series: Path, state: TrainState, tensors: Mapping[str, Tensors], keep: int, *, averaged: int = 1
    ) -> None:
        if not self._world.is_first:
            return
        description = {
            "counters": asdict(state),
            "threads": torch.get_num_threads(),
            "processes": self._world.size,
            "torch": torch.__version__,
            "model": self._config.model.to_mapping(),
            **self._digests,
            **({"averaged": averaged} if averaged > 1 else {}),
        }
        prune(save_checkpoint(series, state.update, tensors, description), keep)

    def _check_state(self, checkpoint: Path, state: Mapping[str, Any]) -> None:
        """Refuse weights of another model or of other tokenizers."""
        self._run.check_state(self._config, checkpoint, state)
        for name, digest in self._digests.items():
            if state.get(name) != digest:
                raise TokenizerError(
                    f"{self._run.text}: its {name} is not the one that {checkpoint} was trained with. Delete the "
                    "directory: the same command makes it again."
                )
