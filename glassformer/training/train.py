"""Trains a model in a run directory, from pairs of text to the final model; called again, it resumes."""

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

from glassformer.checkpoint import checkpoints, update_number
from glassformer.errors import CheckpointError, RunError, TextError, check_type
from glassformer.run_directory import MIX, RunDirectory
from glassformer.settings import LIMITS, DecodeConfig, RunConfig, TrainConfig
from glassformer.text.corpus.filtering import find_mistakes
from glassformer.text.corpus.prepare import PreparedText, prepare, read_prepared
from glassformer.text.lines import without_surrogates
from glassformer.text.tokenizer.tokenizer import check_tokenizers
from glassformer.threads import keep_threads
from glassformer.training.evaluation.evaluation import tokenised_warning
from glassformer.training.evaluation.results import Validation
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.cpu import choose_threads
from glassformer.training.loop.schedule import cancel_stale_cooldown
from glassformer.training.loop.stopping import stop_reason
from glassformer.training.loop.trainer import Trainer
from glassformer.training.reporting.diagnosis import describe
from glassformer.training.reporting.report import make_report, read_metrics, write_report
from glassformer.training.reporting.run_log import LEGEND, Display, RunLog
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import TrainingText
from glassformer.training.request.defaults import decode_defaults, describe_settings
from glassformer.version import __version__
from glassformer.world import ALONE, World

# Settings of how long, how fast and how verbosely to train: they may change when a run is resumed.
MAY_CHANGE = {f"train.{name}" for name in LIMITS} | {
    "train.log_every", "train.tensorboard", "train.device", "train.sharding", "train.save_minutes",
    "train.average_last", "train.on_divergence", "train.threads", "text.workers", "text.languages",
}  # fmt: skip

# What --force cannot change, with all of the model: the weights belong to it and to ids that these tokenizers make.
FIXED = {"text.tokenizer", "text.vocab_size", "text.joint", "text.lowercase", "text.tokenizer_pairs"}

_TRANSLATIONS = "train.valid_translations"  # may change if the loss, which uses all pairs, decides what is best
_MIN_PAIRS, _FEW_PAIRS = 3, 1000
_ACCUMULATE = "train.accumulate"  # may change with the number of processes


@dataclass(frozen=True)
class Outcome:
    """How a training ended; ``final`` is the validation of the final model, None if a signal stopped the training."""

    run: Path
    reason: str
    updates: int
    elapsed_s: float
    target_tokens: int
    final: Validation | None


def train(request: TrainRequest, display: Display, world: World = ALONE) -> Outcome:
    """Train in ``request.run`` until a limit of its ``config.train`` or a signal stops it; a stopped run is resumed.

    All processes of ``world`` call this together, with one directory that all of them can read. Raises ``RunError``
    if it holds a run with other settings or text, unless ``request.force`` is True and its weights fit them.
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
        _log_start(trainer)
        reason = trainer.fit()
        log.log(f"Training ended: {reason}.")
        final = None if reason.startswith("stopped") else trainer.finish()
        if final is not None and world.is_first:
            _report(trainer, final)
        state = trainer.state
        return Outcome(run.path, reason, state.update, state.elapsed_s, state.target_tokens, final)


@contextmanager
def _open_log(run: RunDirectory, config: RunConfig, display: Display, world: World) -> Iterator[Display]:
    """Lock the directory and write the log in the first process; the others do neither."""
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
    """Check that an existing run can be resumed, prepare the text and the other text, write the configuration."""
    source, config, init, mix = request.source, request.config, request.init, request.mix
    data = _describe_data(request, world)
    trained = run.has_checkpoints
    if trained:
        _check_can_continue(run, request, data, log)
        if init is not None and init.recorded is not None:
            log.log(
                "The model of --init is gone or has been trained further since; this run, which has begun, continues."
            )
    elif run.exists:
        log.log(f"{run.path}: an earlier start has learned nothing yet: the training starts from scratch.")
    if (remark := source.describe()) is not None:
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
    difference = None if trained or init is None else init.describe_difference(config)
    for mistake in [*find_mistakes(text.counts), *([difference] if difference else [])]:
        log.warn(f"Warning: {mistake}")
    if seen := _valid_seen(text, other):
        log.warn(
            f"Warning: {seen:,} of the {len(text.valid_text):,} validation sources are in the training text too. "
            "How well the model translates these says little of text that it has not seen: leave them out of "
            "one of the two."
        )
    config = _with_vocabularies(config, text.src_tokenizer.size, text.tgt_tokenizer.size)
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
    """What config.json says of the data: with a sum of each, so that a change is noticed."""
    source, init, mix = request.source, request.init, request.mix
    return {
        **source.to_mapping(),
        "fingerprint": source.fingerprint(),
        "processes": world.size,
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


def _valid_seen(text: PreparedText, other: PreparedText | None) -> int:
    """How many validation sources are learned too: those in the text or in the other text, whichever has more."""
    return max(one.counts.get("valid_seen", 0) for one in (text, other) if one is not None)


def _read_text(directory: Path, config: RunConfig) -> PreparedText:
    """The text that the first process prepared."""
    text = read_prepared(directory, config.text)
    if text is None:
        raise RunError(
            f"{directory}: holds no prepared text on this machine, though the first process has made it; expected "
            "one directory for all machines. Name a --run on storage that they share."
        )
    return text


def _decode_of_run(asked: DecodeConfig, saved: DecodeConfig) -> DecodeConfig:
    """The settings of this request, except that where one is the default, the run's own is kept."""
    now, default = asked.to_mapping(), DecodeConfig().to_mapping()
    return replace(saved, **{name: value for name, value in now.items() if value != default[name]})


def _with_vocabularies(config: RunConfig, src_vocab: int, tgt_vocab: int) -> RunConfig:
    return replace(config, model=replace(config.model, src_vocab=src_vocab, tgt_vocab=tgt_vocab))


def _check_can_continue(run: RunDirectory, request: TrainRequest, data: dict[str, Any], log: Display) -> None:
    """Refuse a run that these settings, this text or what it holds do not let continue; log what is forced."""
    changed = _check_same_run(run, request, data)
    run.check_resumable()
    _check_not_ended(run, request.config.train, changed=bool(changed))
    for line in changed:
        log.log(f"--force: {line}")


def _check_same_run(run: RunDirectory, request: TrainRequest, data: dict[str, Any]) -> list[str]:
    """Refuse other settings and text, since one configuration must describe a run; if forced, return the changes."""
    saved, saved_data = run.read_config()
    config = _with_vocabularies(request.config, saved.model.src_vocab, saved.model.tgt_vocab)
    fixed, others = _list_changes(saved, config, saved_data, data)
    if fixed or (others and not request.force):
        advice = " Or continue with them: --force, which records them in the log." if not fixed else ""
        raise RunError(
            f"{run.path}: holds a run with other settings ({'; '.join([*fixed, *others])}). "
            f"Repeat its command to resume it, or name another --run.{advice}"
        )
    return others


def _list_changes(
    saved: RunConfig, config: RunConfig, saved_data: dict[str, Any], data: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """What is another than the run has: what its weights cannot do without, and the rest."""
    before, now = _flatten(saved), _flatten(config)
    may_change = {*MAY_CHANGE, _ACCUMULATE, *([_TRANSLATIONS] if saved.train.metric == "loss" else ())}
    fixed, others = list[str](), list[str]()
    for key in before:
        if before[key] != now[key] and key not in may_change and not key.startswith("decode."):
            is_fixed = key.startswith("model.") or key in FIXED
            (fixed if is_fixed else others).append(f"{key}: {before[key]!r}, now {now[key]!r}")
    processes = saved_data.get("processes", 1)
    if saved.train.accumulate * processes != config.train.accumulate * data["processes"]:  # batches per update
        others.append(
            f"{_ACCUMULATE} times processes: {saved.train.accumulate} times {processes}, now "
            f"{config.train.accumulate} times {data['processes']}"
        )
    if saved_data.get("fingerprint") != data["fingerprint"]:
        others += _list_text_changes(saved_data, data)
    first_model = "the teacher" if "teacher" in data else "the model of --init"
    for name, option, key in (("init", first_model, "sha256"), ("mix", "the text of --mix", "fingerprint")):
        if saved_data.get(name, {}).get(key) != data.get(name, {}).get(key):
            others.append(f"{option} is another")
    return fixed, others


def _list_text_changes(saved_data: dict[str, Any], data: dict[str, Any]) -> list[str]:
    """What is another in the training text; where a teacher writes it, what is of its search, not its weights."""
    before, now = (one.get("written_by", {}) for one in (saved_data, data))
    if not before or not now or saved_data["text"]["fingerprint"] != data["text"]["fingerprint"]:
        return ["the training text has changed"]
    before, now = ({**one, **one["search"]} for one in (before, now))
    return [
        f"{key}: {before.get(key)!r}, now {value!r}"
        for key, value in now.items()
        if key not in {"weights", "search"} and before.get(key) != value
    ]


def _check_not_ended(run: RunDirectory, settings: TrainConfig, *, changed: bool) -> None:
    """Refuse to continue a run that has ended unless a new limit is named: it might train for hours unexpectedly.

    Where a limit has been reached, nothing would be learned: that is refused if settings or text have ``changed``.
    """
    final, latest = checkpoints(run.final), checkpoints(run.latest)
    if not final or not latest or update_number(final[-1]) != update_number(latest[-1]):
        return
    try:
        state = cancel_stale_cooldown(settings, TrainState.read(latest[-1]))
    except CheckpointError:  # damaged: an earlier one is resumed
        return
    reached = stop_reason(settings, state, state.elapsed_s)
    if reached is not None and not changed:
        return
    before, default = run.read_config()[0].train, TrainConfig()
    now = {name: getattr(settings, name) for name in LIMITS}
    if reached or all(value in (getattr(before, name), getattr(default, name)) for name, value in now.items()):
        more = f"--max-minutes {state.elapsed_s / 30 + 1:.0f}"
        if state.update >= settings.max_updates:
            more = f"--max-updates {2 * state.update}"
        raise RunError(
            f"{run.path}: this run has ended, after {state.update:,} updates and {state.elapsed_s / 60:.0f} minutes; "
            f"expected a new limit to continue. Name one that counts what was done, such as {more}, or another --run."
        )


def _check_enough_pairs(pairs: int, settings: TrainConfig, log: Display, *, init: bool) -> None:
    """Warn of a text that is too small to learn a language from; refuse one that teaches nothing."""
    if pairs < _MIN_PAIRS:
        raise TextError(
            f"The training text holds {pairs:,} usable pair{'' if pairs == 1 else 's'}, not counting the validation "
            f"text, expected at least {_MIN_PAIRS}, and better thousands. Collect more."
        )
    if pairs < _FEW_PAIRS and settings.metric != "exact_match" and not init:
        log.warn(
            f"Warning: {pairs:,} pairs are few. A model that learns from these alone will hardly translate a "
            f"sentence that it has not seen; from some {_FEW_PAIRS:,} on it begins to be of use for one kind of "
            "text. With --init it starts from a model that exists, and learns more from few pairs."
        )


def _report(trainer: Trainer, final: Validation) -> None:
    """Say in words what the training came to, and write report.html."""
    run, text = trainer.run, trainer.text
    records, seen = read_metrics(run), _valid_seen(text, trainer.mix)
    lines = describe(
        final.examples,
        records,
        len(text.train),
        seen=seen,
        loss_is_comparable=trainer.loss_is_comparable,
        limited=final.scores.limited,
    )
    for line in lines:
        trainer.display.log(line)
    title = f"The training of {run.path.absolute().name}"
    headline = f"{final.scores.format(separator=', ')} on {final.scores.sentences:,} held-out sentences"
    facts = {
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        "command": without_surrogates(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])),
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


def _flatten(config: RunConfig) -> dict[str, Any]:
    sections = config.to_mapping().items()
    return {f"{section}.{key}": value for section, values in sections for key, value in values.items()}


def _log_start(trainer: Trainer) -> None:
    n_weights = sum(parameter.numel() for parameter in trainer.model.parameters())
    processes = f", {trainer.world.size} processes" if trainer.world.size > 1 else ""
    trainer.display.log(
        f"Model: {n_weights:,} parameters on {trainer.device}{processes}. Text: {len(trainer.text.train):,} pairs in "
        f"{len(trainer.stream):,} batches an epoch, {100 * trainer.stream.padding_fraction:.1f} % padding."
    )
    trainer.display.log(describe_settings(trainer.config, len(trainer.text.train), init=trainer.init is not None))
    if warning := tokenised_warning(pair.tgt for pair in trainer.text.valid_text):
        trainer.display.warn(warning)
    if trainer.device.type == "cpu":
        choose_threads(trainer.config, trainer.world, trainer.display, trainer.checkpoints.saved_threads)
    trainer.display.log(LEGEND)
