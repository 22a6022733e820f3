"""Which checkpoints a training writes, what stands in them, and how it goes on from them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim import Adam

from glassformer.checkpoint import (
    load_weights,
    newest_valid,
    prune,
    read_json,
    read_tensors,
    save_checkpoint,
    weights_of,
)
from glassformer.config import RunConfig
from glassformer.model.transformer import Transformer
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.text.prepare import PreparedText
from glassformer.training.state import (
    OPTIMIZER,
    RANDOM,
    TrainState,
    optimizer_tensors,
    random_tensors,
    restore_optimizer,
    restore_random,
)


class Keeper:
    """Saves and restores one model: ``latest`` to go on, ``history`` to average, ``best`` and ``final`` to use."""

    def __init__(self, run: RunDirectory, config: RunConfig, text: PreparedText, say: Callable[[str], None]) -> None:
        self._run, self._config, self._say = run, config, say
        self._digests = {"src_tokenizer": text.src_tokenizer.digest, "tgt_tokenizer": text.tgt_tokenizer.digest}

    def save_latest(self, model: Transformer, optimizer: Adam, state: TrainState) -> None:
        """All that is needed to go on; the two newest are kept."""
        tensors = {
            WEIGHTS: weights_of(model),
            OPTIMIZER: optimizer_tensors(model, optimizer),
            RANDOM: random_tensors(),
        }
        save_checkpoint(self._run.latest, state.update, tensors, self._description(state))
        prune(self._run.latest, keep=2)

    def save_weights(self, model: Transformer, state: TrainState, series: Path, *, keep: int) -> None:
        """The weights alone, to average or to use."""
        save_checkpoint(series, state.update, {WEIGHTS: weights_of(model)}, self._description(state))
        prune(series, keep)

    def resume(self, model: Transformer, optimizer: Adam) -> TrainState:
        """Put the newest valid checkpoint's weights, moments and random state back, if there is one."""
        newest = newest_valid(self._run.latest, self._say)
        if newest is None:
            return TrainState()
        load_weights(model, read_tensors(newest, WEIGHTS), newest)
        restore_optimizer(model, optimizer, newest)
        restore_random(newest)
        state = TrainState.read(newest)
        self._say(f"Going on after update {state.update}, from {newest}.")
        threads = read_json(newest / "state.json").get("threads")
        if threads != torch.get_num_threads():
            self._say(f"Saved with {threads} threads, now {torch.get_num_threads()}: sums differ in their last bits.")
        return state

    def load_best(self, model: Transformer) -> bool:
        """Put the best single checkpoint's weights into ``model``; False if there is none."""
        best = newest_valid(self._run.best, self._say)
        if best is not None:
            load_weights(model, read_tensors(best, WEIGHTS), best)
        return best is not None

    def _description(self, state: TrainState) -> dict[str, Any]:
        return {
            "counters": state.to_mapping(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "model": self._config.model.to_mapping(),
            **self._digests,
        }
