"""Trains a model, from pairs of text to the final model; it resumes."""

import hashlib
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from glassformer.errors import RunError, TextError, check_type
from glassformer.run_directory import MIX, RunDirectory
from glassformer.settings import DecodeConfig, RunConfig, TrainConfig
from glassformer.text.corpus.filtering import find_mistakes
from glassformer.text.corpus.prepare import PreparedText, prepare, read_prepared
from glassformer.text.corpus.units import find_units
from glassformer.text.lines import without_surrogates
from glassformer.text.tokenizer.tokenizer import check_tokenizers
from glassformer.threads import keep_threads
from glassformer.training.evaluation.evaluation import tokenised_warning
from glassformer.training.evaluation.results import Validation
from glassformer.training.loop.cpu import choose_threads
from glassformer.training.loop.trainer import Trainer
from glassformer.training.reporting.diagnosis import describe
from glassformer.training.reporting.report import make_report, read_metrics, write_report
from glassformer.training.reporting.run_log import Display, RunLog, legend
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import TrainingText
from glassformer.training.request.defaults import decode_defaults, describe_settings
from glassformer.training.request.fine_tuning import InitialModel
from glassformer.training.resume_check import check_resume
from glassformer.version import __version__
from glassformer.world import ALONE, World

_MIN_PAIRS, _FEW_PAIRS = 3, 1000


@dataclass(frozen=True)
class Outcome:
    """How a training ended; ``final`` is None if a signal stopped it."""

    run: Path
    reason: str
    updates: int
    elapsed_s: float
    target_tokens: int
    final: Validation | None


def train(request: TrainRequest, display: Display, world: World = ALONE) -> Outcome:
    """Train in ``request.run`` until a limit or a signal stops it; a stopped run is resumed.

    All processes of ``world`` call this together. Raises ``RunError`` for a run with other settings or text, unless
    ``request.force`` is True and its weights fit them.
    """
    check_type("request", request, TrainRequest, "a TrainRequest")
    run, config, init = RunDirectory(request.run), request.config, request.init
    with keep_threads(), _open_log(run, config, display, world) as log:
        with world.first_process_first():
            if world.is_first:
                text, other = _prepare_run(run, request, log, world)
            else:
                text = _read_text(run.text, config)
                other = None if request.mix is None else _read_text(run.text / MIX, config)
        config, _ = run.read_config()  # with the vocabularies and the search that belong to the text
        _check_enough_pairs(len(text.train), config.train, log, init=init is not None)
        trainer = Trainer(run, config, text, log, world, init=init, mix=other)
        _log_start(trainer, reasons=request.verbose)
        reason = trainer.fit()
        log.log(f"Training ended: {reason}.")
        final = None if reason.startswith("stopped") else trainer.finish()
        if final is not None and world.is_first:
            _report(trainer, final)
        state = trainer.state
        return Outcome(run.path, reason, state.update, state.elapsed_s, state.target_tokens, final)


@contextmanager
def _open_log(run: RunDirectory, config: RunConfig, display: Display, world: World) -> Iterator[Display]:
    """Lock the directory and write the log, in the first process."""
    if not world.is_first:
        yield Display()
        return
    run.check_writable()
    run.create()
    with run.lock(), RunLog(run, display, tensorboard=config.train.tensorboard) as log:
        run.recover_interrupted()
        yield log


def _prepare_run(
    run: RunDirectory, request: TrainRequest, log: Display, world: World
) -> tuple[PreparedText, PreparedText | None]:
    """Check that a run can be resumed, prepare text, write config.json."""
    source, config, init, mix = request.source, request.config, request.init, request.mix
    data = _describe_data(request, world)
    trained = run.has_checkpoints
    if trained:
        check_resume(run, request, data, log)
        if init is not None and init.recorded is not None:
            log.log(
                "The model of --init is gone or has been trained further since; this run, which has begun, continues."
            )
    elif run.exists:
        log.log(f"{run.path}: an earlier start has learned nothing yet: the training starts from scratch.")
    for remark in filter(None, (source.describe(), request.preset.reason)):
        log.log(remark)
    tokenizers = None if init is None else init.tokenizers
    if trained:  # it keeps the tokenizers whose ids its weights were trained with
        tokenizers = run.read_tokenizers
    text = prepare(
        source.pairs, source.valid, config.text, run.text,
        source=data["fingerprint"], report=log.log, on_progress=log.on_prepare, tokenizers=tokenizers,
    )  # fmt: skip
    both = text.src_tokenizer, text.tgt_tokenizer
    other = None if mix is None else _prepare_mix(run.text / MIX, mix, config, log, text)
    mistakes = list(find_mistakes(text.counts))
    difference = None if trained or init is None else init.describe_difference(config)
    if difference is not None:
        mistakes.append(difference)
    for mistake in mistakes:
        log.warn(f"Warning: {mistake}")
    _warn_of_seen(text, other, init, log)
    model = replace(config.model, src_vocab=text.src_tokenizer.size, tgt_vocab=text.tgt_tokenizer.size)
    config = replace(config, model=model)
    check_tokenizers(config.model, *both)
    if trained:
        saved, _ = run.read_config()
        named = replace(config.text, languages=config.text.languages or saved.text.languages)
        config = replace(config, text=named, decode=_decode_of_run(config.decode, saved.decode))
    else:
        run.write_tokenizers(*both)
        config = replace(config, decode=decode_defaults(config.decode, text, source))
    run.write_config(config, data)
    return text, other


def _describe_data(request: TrainRequest, world: World) -> dict[str, Any]:
    """What config.json says of the data."""
    source, init, mix = request.source, request.init, request.mix
    return {
        **source.to_mapping(),
        "fingerprint": source.fingerprint(),
        "processes": world.size,
        **({} if request.preset.name is None else {"preset": request.preset.name}),
        **({} if init is None else {"init": init.to_mapping()}),
        **({} if mix is None else {"mix": {**mix.to_mapping(), "fingerprint": mix.fingerprint()}}),
    }


def _prepare_mix(
    directory: Path, mix: TrainingText, config: RunConfig, log: Display, text: PreparedText
) -> PreparedText:
    """Prepare the other text, which joins ``text`` in each epoch."""
    log.log("The other text, for train.mix:")
    valid = hashlib.sha256(repr(text.valid_text).encode("utf-8", "surrogatepass")).hexdigest()
    tokenizers = text.src_tokenizer, text.tgt_tokenizer
    try:
        return prepare(
            mix.pairs, mix.valid, config.text, directory, source=f"{mix.fingerprint()} with {valid}",
            report=log.log, on_progress=log.on_prepare, tokenizers=lambda: tokenizers, held_out=text.valid_text,
        )  # fmt: skip
    except TextError as error:
        raise TextError(f"--mix: {error}") from error


def _warn_of_seen(text: PreparedText, other: PreparedText | None, init: InitialModel | None, log: Display) -> None:
    """Say which scores are of text that was trained on."""
    seen = _valid_seen(text, other, init)
    if seen:
        log.warn(
            f"Warning: {seen:,} of the {len(text.valid_text):,} validation sources are in the training text too"
            f"{'' if init is None else ', or in that of the first model'}. Scores on them are too good, and say "
            "little about text that the model has not seen: leave them out of one of the two."
        )
    if init is not None and init.count_learned([]) is None:
        log.log("The text of the first model is not here: if it has validation pairs, scores on them are too good.")


def _valid_seen(text: PreparedText, other: PreparedText | None, init: InitialModel | None) -> int:
    """How many validation sources are in a text to train on, or in that of the first model."""
    counts = [one.counts.get("valid_seen", 0) for one in (text, other) if one is not None]
    if init is not None:
        counts.append(init.count_learned([pair.src for pair in text.valid_text]) or 0)
    return max(counts)


def _read_text(directory: Path, config: RunConfig) -> PreparedText:
    """The text that the first process prepared."""
    text = read_prepared(directory, config.text)
    if text is None:
        raise RunError(
            f"{directory}: holds no prepared text on this machine, though the first process has made it. "
            "Name a --run on storage that all machines share."
        )
    return text


def _decode_of_run(asked: DecodeConfig, saved: DecodeConfig) -> DecodeConfig:
    """The settings of this request, but the run's own for defaults."""
    now, default = asked.to_mapping(), DecodeConfig().to_mapping()
    return replace(saved, **{name: value for name, value in now.items() if value != default[name]})


def _check_enough_pairs(pairs: int, settings: TrainConfig, log: Display, *, init: bool) -> None:
    """Warn of a text that is too small; refuse one that teaches nothing."""
    if pairs < _MIN_PAIRS:
        raise TextError(
            f"The training text holds {pairs:,} usable pair{'' if pairs == 1 else 's'}, not counting the validation "
            f"text, expected at least {_MIN_PAIRS}, and better thousands. Collect more."
        )
    if pairs < _FEW_PAIRS and settings.metric != "exact_match" and not init:
        log.warn(
            f"Warning: {pairs:,} pairs are few: a model of these alone will hardly translate a new sentence. It "
            f"begins to be useful, for one kind of text, from some {_FEW_PAIRS:,} pairs on. With --init, which "
            "starts from an existing model, fewer are enough."
        )


def _report(trainer: Trainer, final: Validation) -> None:
    """Log the result in words, and write report.html."""
    run, text = trainer.run, trainer.text
    records = read_metrics(run)
    lines = describe(
        final.examples, records, len(text.train), seen=_valid_seen(text, trainer.mix, trainer.init),
        loss_is_comparable=trainer.loss_is_comparable, limited=final.scores.limited,
        kept_first=trainer.kept_first,
    )  # fmt: skip
    for line in lines:
        trainer.display.log(line)
    title = f"The training of {run.path.absolute().name}"
    headline = f"{final.scores.format(separator=', ')} on {final.scores.count_text.replace(' ', ' held-out ')}"
    facts = {
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        "command": without_surrogates(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])),
        "first model": "none" if trainer.init is None else trainer.init.to_mapping()["checkpoint"],
        "directory": str(run.path.absolute()),
        "version": f"glassformer {__version__}, PyTorch {torch.__version__}",
        "settings": describe_settings(trainer.config, len(text.train), init=trainer.init is not None),
        "training": f"{final.update:,} updates; all settings are in config.json and train.log of the directory",
    }
    page = make_report(
        title, headline=headline, facts=facts, lines=lines, examples=final.examples, records=records,
        counts=text.counts,
    )  # fmt: skip
    write_report(run, page)
    trainer.display.log(f"All this on one page, with curves and more translations: {run.report_file}")


def _log_start(trainer: Trainer, *, reasons: bool) -> None:
    n_weights = sum(parameter.numel() for parameter in trainer.model.parameters())
    processes = f", {trainer.world.size} processes" if trainer.world.size > 1 else ""
    trainer.display.log(
        f"Model: {n_weights:,} parameters on {trainer.device}{processes}. Text: {len(trainer.text.train):,} pairs in "
        f"{len(trainer.stream):,} batches an epoch, {100 * trainer.stream.padding_fraction:.1f} % padding."
    )
    has_first = trainer.init is not None
    trainer.display.log(describe_settings(trainer.config, len(trainer.text.train), init=has_first, reasons=reasons))
    warning = tokenised_warning(pair.tgt for pair in trainer.text.valid_text)
    if warning:
        trainer.display.warn(warning)
    if trainer.device.type == "cpu":
        choose_threads(trainer.config, trainer.world, trainer.display, trainer.checkpoints.saved_threads)
    trainer.display.log(legend(find_units(trainer.text.valid_text)[1]))
