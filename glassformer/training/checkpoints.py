"""Which checkpoints a training writes, what stands in them, and how it goes on from them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.optim import Adam

from glassformer.checkpoint import (
    Tensors,
    at_update,
    checkpoints,
    newest_valid,
    prune,
    read_json,
    read_tensors,
    save_checkpoint,
    weights_of,
    whole,
)
from glassformer.config import RunConfig
from glassformer.errors import CheckpointError, TokenizerError
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.text.prepare import PreparedText
from glassformer.training.distributed import Spread
from glassformer.training.state import (
    OPTIMIZER,
    RANDOM,
    TrainState,
    draw_apart,
    optimizer_tensors,
    random_tensors,
    restore_optimizer,
    restore_random,
)


class Keeper:
    """Saves and restores one model: ``latest`` to go on, ``history`` to average, ``best`` and ``final`` to use.

    All processes call it together; the first one alone writes, and says which checkpoint they all read.
    """

    def __init__(
        self,
        run: RunDirectory,
        config: RunConfig,
        text: PreparedText,
        say: Callable[[str], None],
        spread: Spread,
    ) -> None:
        self._run, self._config, self._say, self._spread = run, config, say, spread
        self._world = spread.world
        self._digests = {"src_tokenizer": text.src_tokenizer.digest, "tgt_tokenizer": text.tgt_tokenizer.digest}

    def save_latest(self, optimizer: Adam, state: TrainState) -> None:
        """All that is needed to go on; the two newest are kept."""
        gathered = self._spread.gathered
        tensors = {
            WEIGHTS: gathered(weights_of(self._spread.model)),
            OPTIMIZER: gathered(optimizer_tensors(self._spread.model, optimizer)),
            RANDOM: random_tensors(self._world),
        }
        self._write(self._run.latest, state, tensors, keep=2)

    def save_weights(self, state: TrainState, series: Path, *, keep: int, averaged: int = 0) -> None:
        """The weights alone, to average or to use; of how many checkpoints they are the mean, 0 for one by itself."""
        tensors = {WEIGHTS: self._spread.gathered(weights_of(self._spread.model))}
        self._write(series, state, tensors, keep, averaged=averaged)

    def resume(self, optimizer: Adam) -> TrainState:
        """Put the newest valid checkpoint's weights, moments and random state back, if there is one."""
        newest = self._world.from_first(self._newest)
        state = TrainState() if newest is None else TrainState.read(newest)
        draw_apart(self._world, self._config.train.seed, state.update)
        if newest is not None:
            self._refuse_other_tokenizers(newest)
            self._spread.load(read_tensors(newest, WEIGHTS), newest)
            restore_optimizer(self._spread, optimizer, newest)
            restore_random(newest, self._world)
            self._say(f"Going on after update {state.update}, from {newest}.")
            self._say_what_differs(newest)
        return state

    def _newest(self) -> Path | None:
        found = newest_valid(self._run.latest, self._say)
        if found is None and checkpoints(self._run.latest):
            raise CheckpointError(
                f"{self._run.latest}: none of its checkpoints is whole, so that the training cannot go on. Nothing "
                "was changed: the run's other models can be used. To train anew, name another --run."
            )
        return found

    def load_best(self, state: TrainState) -> bool:
        """Put the best single checkpoint's weights into the model; False if it is gone or damaged."""
        best = at_update(self._run.best, state.best_update)
        usable = self._world.from_first(lambda: whole(best, self._say))
        if usable:
            self._spread.load(read_tensors(best, WEIGHTS), best)
        return usable

    def _write(
        self, series: Path, state: TrainState, tensors: Mapping[str, Tensors], keep: int, *, averaged: int = 0
    ) -> None:
        if self._world.is_first:
            description = self._description(state) | ({"averaged": averaged} if averaged else {})
            prune(save_checkpoint(series, state.update, tensors, description), keep)

    def _refuse_other_tokenizers(self, checkpoint: Path) -> None:
        saved = read_json(checkpoint / "state.json")
        for name, digest in self._digests.items():
            if saved.get(name) != digest:
                raise TokenizerError(
                    f"{self._run.path}: its text is cut by another {name} than {checkpoint} was trained with. Put "
                    f"the original tokenizer.{name[:3]}.json back and remove {self._run.text}, or name another --run."
                )

    def _say_what_differs(self, checkpoint: Path) -> None:
        saved = read_json(checkpoint / "state.json")
        threads, processes = saved.get("threads"), saved.get("processes", 1)
        if threads != torch.get_num_threads():
            self._say(f"Saved with {threads} threads, now {torch.get_num_threads()}: sums differ in their last bits.")
        if processes != self._world.size:
            self._say(f"Saved by {processes} processes, now {self._world.size}: dropout draws other numbers.")

    def _description(self, state: TrainState) -> dict[str, Any]:
        return {
            "counters": state.to_mapping(),
            "threads": torch.get_num_threads(),
            "processes": self._world.size,
            "torch": torch.__version__,
            "model": self._config.model.to_mapping(),
            **self._digests,
        }
