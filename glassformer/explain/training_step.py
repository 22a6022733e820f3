"""One training step walked through: forward with dropout, loss, backward, clipping, Adam. Section 5 of the paper.

It is made on a copy of the model by the functions that training itself calls; nothing is written anywhere.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from glassformer.checkpoint import newest_valid
from glassformer.config import WARMUP, TrainConfig
from glassformer.decoding import Translator
from glassformer.explain.sentences import read_sentences
from glassformer.explain.walk import Walk, made_walk
from glassformer.run_directory import RunDirectory
from glassformer.trace import note, tracing
from glassformer.training.checkpointing import TrainState, restore_optimizer
from glassformer.training.distributed import ParallelStrategy
from glassformer.training.schedule import cooldown_factor, learning_rate
from glassformer.training.train_step import accumulate_gradients, adam_step, clip_gradients, new_optimizer


def walk_training(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    train: TrainConfig,
    *,
    run: Path | None = None,
    only: str = "*",
) -> Walk:
    """Update a copy of the translator's model once on the pairs, and keep every step with its gradient.

    With ``run``, Adam goes on from the moments of the run's latest checkpoint; without, it begins anew. One pass is
    shown, where R-Drop makes two. Raises what ``walk`` raises.
    """
    train = replace(train, r_drop=0.0, warmup=train.warmup or WARMUP[translator.model.config.norm])
    sentences = read_sentences(translator, sources, targets)
    model = copy.deepcopy(translator.model).train()
    optimizer = new_optimizer(model, train)
    state = TrainState()
    if run is not None and (latest := newest_valid(RunDirectory(run).latest, lambda _: None)) is not None:
        state = TrainState.read(latest)
        restore_optimizer(ParallelStrategy(model, train), optimizer, latest)
    number = state.update + 1
    device = next(model.parameters()).device
    own_dropout = torch.random.fork_rng([device] if device.type == "cuda" else [])
    with own_dropout, tracing(model, only=only, gradients=True) as trace:
        torch.manual_seed(train.seed)
        accumulate_gradients(model, [sentences.batch], train)
        clip_gradients(model, train)
        cooldown = cooldown_factor(state, number)
        note("update.cooldown", torch.tensor(cooldown, dtype=torch.float64), "")
        adam_step(model, optimizer, learning_rate(number, train, model.config.d_model) * cooldown)
    trace.steps = [step for step in (*sentences.steps, *trace) if fnmatchcase(step.address, only)]
    return made_walk(translator, sentences, trace, only=only, kind="training", train=train)
