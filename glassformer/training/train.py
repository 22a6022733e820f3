"""One call from pairs of text to a trained model in a run directory; called again, it goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from glassformer.config import RunConfig
from glassformer.decoding.batching import check_tokenizers
from glassformer.errors import RunError
from glassformer.run_directory import RunDirectory
from glassformer.text.prepare import PreparedText, prepare, read_prepared
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.cpu import fewer_threads
from glassformer.training.data import Source
from glassformer.training.evaluation import Validation, tokenised_remark
from glassformer.training.run_log import Display, RunLog, Silence
from glassformer.training.trainer import Trainer
from glassformer.world import ALONE, World

# Settings that say how long, how fast or how loudly to train, and so may change when a run goes on.
MAY_CHANGE = {
    "train.max_updates", "train.max_minutes", "train.stop_at", "train.patience", "train.log_every",
    "train.tensorboard", "train.device", "train.sharding", "train.save_minutes", "train.average_last",
    "text.workers",
}  # fmt: skip

_TRANSLATIONS = "train.valid_translations"  # may change where the loss, which is of all pairs, decides what is best
_ACCUMULATE = "train.accumulate"  # may change with the number of processes


@dataclass(frozen=True)
class Outcome:
    """How a training ended: ``final`` is the validation of the model that is kept, None after a stop by signal."""

    run: Path
    reason: str
    updates: int
    elapsed_s: float
    target_tokens: int
    final: Validation | None


def train(run_path: Path, source: Source, config: RunConfig, display: Display, world: World = ALONE) -> Outcome:
    """Train in ``run_path`` on ``source`` until a limit of ``config.train`` or a signal ends it.

    A run that was stopped goes on. All processes of ``world`` call it together, with one ``run_path`` that all can
    read. Raises ``RunError`` when the directory holds a run of other settings or text.
    """
    run = RunDirectory(run_path)
    with _log(run, config, display, world) as log:
        with world.first_ahead():
            text = _begin(run, source, config, log, world) if world.is_first else _begun(run, config)
        config = _with_vocabularies(config, text)
        trainer = Trainer(run, config, text, log, world)
        _say_what_begins(trainer, log)
        reason = trainer.fit()
        log.say(f"Training ended: {reason}.")
        final = None if reason.startswith("stopped") else trainer.finish()
        state = trainer.state
        return Outcome(run_path, reason, state.update, state.elapsed_s, state.target_tokens, final)


@contextmanager
def _log(run: RunDirectory, config: RunConfig, display: Display, world: World) -> Iterator[Display]:
    """The first process holds the directory for itself and writes in it; the others do neither."""
    if not world.is_first:
        yield Silence()
        return
    run.create()
    with run.locked(), RunLog(run, display, tensorboard=config.train.tensorboard) as log:
        yield log


def _begin(run: RunDirectory, source: Source, config: RunConfig, log: Display, world: World) -> PreparedText:
    """Refuse what does not go on, prepare the text, and write down what is trained."""
    data = {**source.to_mapping(), "fingerprint": source.fingerprint(), "processes": world.size}
    if run.exists:
        _refuse_other_run(run, config, data)
    text = _prepare(run, source, config, data["fingerprint"], log)
    config = _with_vocabularies(config, text)
    check_tokenizers(config.model, text.src_tokenizer, text.tgt_tokenizer)
    if not run.exists:
        run.write_tokenizers(text.src_tokenizer, text.tgt_tokenizer)
    run.write_config(config, data)
    return text


def _begun(run: RunDirectory, config: RunConfig) -> PreparedText:
    """What the first process prepared."""
    text = read_prepared(run.text, config.text)
    if text is None:
        raise RunError(
            f"{run.path}: holds no prepared text on this machine, though the first process has made it; expected one "
            "directory for all machines. Name a --run on storage that they share."
        )
    return text


def _prepare(run: RunDirectory, source: Source, config: RunConfig, fingerprint: str, log: Display) -> PreparedText:
    """A run that goes on keeps its tokenizers, whatever has become of its text: its weights are for their ids."""
    has_valid = source.valid() is not None
    return prepare(
        source.pairs,
        (lambda: source.valid() or iter(())) if has_valid else None,
        config.text,
        run.text,
        source=fingerprint,
        report=log.say,
        on_progress=log.advanced,
        tokenizers=partial(_tokenizers_of, run, config) if run.exists else None,
    )


def _tokenizers_of(run: RunDirectory, config: RunConfig) -> tuple[Tokenizer, Tokenizer]:
    src, tgt = run.read_tokenizers()
    return src, src if config.text.joint else tgt


def _with_vocabularies(config: RunConfig, text: PreparedText) -> RunConfig:
    src_vocab, tgt_vocab = text.src_tokenizer.size, text.tgt_tokenizer.size
    return replace(config, model=replace(config.model, src_vocab=src_vocab, tgt_vocab=tgt_vocab))


def _refuse_other_run(run: RunDirectory, config: RunConfig, data: dict[str, Any]) -> None:
    """Going on under other settings or with other text would make a run that nobody could describe."""
    before, data_before = run.read_config()
    asked = replace(
        config, model=replace(config.model, src_vocab=before.model.src_vocab, tgt_vocab=before.model.tgt_vocab)
    )
    found, wanted = _flat(before), _flat(asked)
    may_change = {*MAY_CHANGE, _ACCUMULATE, *([_TRANSLATIONS] if before.train.metric == "loss" else ())}
    changed = [
        f"{key}: {found[key]!r}, now {wanted[key]!r}"
        for key in found
        if found[key] != wanted[key] and key not in may_change and not key.startswith("decode.")
    ]
    batches, processes = _batches_an_update(before, data_before), data_before.get("processes", 1)
    if batches != _batches_an_update(asked, data):
        changed.append(
            f"{_ACCUMULATE} times processes: {before.train.accumulate} times {processes}, now "
            f"{asked.train.accumulate} times {data['processes']}"
        )
    if data_before.get("fingerprint") != data["fingerprint"]:
        changed.append("the training text is another")
    if changed:
        raise RunError(
            f"{run.path}: holds a run of other settings ({'; '.join(changed)}). "
            "Repeat its command to go on with it, or name another --run."
        )


def _batches_an_update(config: RunConfig, data: dict[str, Any]) -> int:
    """What makes an update the same one, whatever the number of processes."""
    return config.train.accumulate * int(data.get("processes", 1))


def _flat(config: RunConfig) -> dict[str, Any]:
    return {
        f"{section}.{key}": value for section, values in config.to_mapping().items() for key, value in values.items()
    }


def _say_what_begins(trainer: Trainer, log: Display) -> None:
    n_weights = sum(parameter.numel() for parameter in trainer.model.parameters())
    processes = f", {trainer.world.size} processes" if trainer.world.size > 1 else ""
    log.say(
        f"Model: {n_weights:,} parameters on {trainer.device}{processes}. Text: {len(trainer.text.train):,} pairs in "
        f"{len(trainer.stream):,} batches an epoch, {100 * trainer.stream.padding_fraction:.1f} % padding."
    )
    if remark := tokenised_remark(pair.tgt for pair in trainer.text.valid_text):
        log.say(remark)
    if trainer.device.type == "cpu" and trainer.world.size == 1:
        _say_what_hinders(trainer, log)


def _say_what_hinders(trainer: Trainer, log: Display) -> None:
    fewer = fewer_threads(trainer.config.model.d_model, trainer.config.model.d_ff)
    if fewer:
        log.say(
            f"{torch.get_num_threads()} threads wait for one another: the model is small for them, or other programs "
            f"use the cores. In a test of a second, {fewer.threads} made a feed-forward layer {fewer.gain:.1f} times "
            f"as fast; to train so, Ctrl-C, then the same command after OMP_NUM_THREADS={fewer.threads}."
        )
