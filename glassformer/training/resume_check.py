"""Whether a run may be resumed with the settings and the text of a request."""

from collections.abc import Mapping
from shlex import quote
from typing import Any

from glassformer.checkpoint import STATE, checkpoints, newest_valid, read_json, update_number
from glassformer.errors import CheckpointError, RunError
from glassformer.run_directory import RunDirectory
from glassformer.settings import LIMITS, RunConfig, TrainConfig
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.schedule import cancel_stale_cooldown
from glassformer.training.loop.stopping import stop_reason
from glassformer.training.reporting.run_log import Display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.fine_tuning import TOKENIZER_SETTINGS

# Settings of how long, how fast and how verbosely to train.
MAY_CHANGE = {f"train.{name}" for name in LIMITS} | {
    "train.log_every", "train.tensorboard", "train.device", "train.sharding", "train.save_minutes",
    "train.average_last", "train.on_divergence", "train.threads", "text.workers", "text.languages",
}  # fmt: skip
# Not even --force changes these, nor the model: the weights belong to it and to the ids of these tokenizers.
_FIXED = {f"text.{name}" for name in (*TOKENIZER_SETTINGS, "tokenizer_pairs")}
# The text determines the vocabularies. What counts of train.accumulate is its product with the processes.
_NOT_COMPARED = {"model.src_vocab", "model.tgt_vocab", "train.accumulate"}


def check_resume(run: RunDirectory, request: TrainRequest, data: Mapping[str, Any], log: Display) -> None:
    """Raise ``RunError`` for other settings or text, unless forced, and for an ended run."""
    saved, saved_data = run.read_config()
    fixed, others = _compare_settings(saved, request.config)
    others += _compare_data(saved.train, saved_data, request.config.train, data)
    if fixed or (others and not request.force):
        advice = "" if fixed else " Or continue with them: --force, which records them in the log."
        raise RunError(
            f"{run.path}: holds a run with other settings ({'; '.join([*fixed, *others])}). "
            f"Repeat its command to resume it, or name another --run.{advice}"
        )
    # Before its second validation a training that was killed may have saved weights and no state.
    if not checkpoints(run.latest) and (checkpoints(run.final) or len(checkpoints(run.history)) > 1):
        raise RunError(
            f"{run.path}: holds a model, but in {run.latest.name}/ no state to continue its training from. To "
            f"train on from the model: glassformer train ... --init {quote(str(run.path))} --run NEW."
        )
    newest = newest_valid(run.latest, lambda _: None)
    if newest is not None:
        run.check_state(saved, newest, read_json(newest / STATE))
    _check_not_ended(run, saved.train, request.config.train, changed=bool(others))
    for line in others:
        log.log(f"--force: {line}")


def _compare_settings(saved: RunConfig, config: RunConfig) -> tuple[list[str], list[str]]:
    """What differs and cannot change, or can be forced."""
    fixed, others = list[str](), list[str]()
    may_change = MAY_CHANGE | _NOT_COMPARED
    if saved.train.metric == "loss":  # uses all validation pairs, however many are translated
        may_change |= {"train.valid_translations"}
    now = config.to_mapping()
    for section, values in saved.to_mapping().items():
        for name, before in values.items():
            key = f"{section}.{name}"
            if section == "decode" or key in may_change or before == now[section][name]:
                continue
            found = fixed if section == "model" or key in _FIXED else others
            found.append(f"{key}: {before!r}, now {now[section][name]!r}")
    return fixed, others


def _compare_data(
    saved: TrainConfig, saved_data: Mapping[str, Any], settings: TrainConfig, data: Mapping[str, Any]
) -> list[str]:
    """What differs in batches, text and other models."""
    found = []
    processes = saved_data.get("processes", 1)
    if saved.accumulate * processes != settings.accumulate * data["processes"]:
        found.append(
            f"train.accumulate times processes: {saved.accumulate} times {processes}, now "
            f"{settings.accumulate} times {data['processes']}"
        )
    if saved_data.get("fingerprint") != data["fingerprint"]:
        found += _compare_texts(saved_data, data)
    first_model = "the teacher" if "teacher" in data else "the model of --init"
    for name, title, key in (("init", first_model, "sha256"), ("mix", "the text of --mix", "fingerprint")):
        if saved_data.get(name, {}).get(key) != data.get(name, {}).get(key):
            found.append(f"{title} is another")
    return found


def _compare_texts(saved_data: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """What differs in the text; of a teacher its search counts."""
    before, now = (one.get("written_by", {}) for one in (saved_data, data))
    if not before or not now or saved_data["text"]["fingerprint"] != data["text"]["fingerprint"]:
        return ["the training text has changed"]
    before, now = ({**one, **one["search"]} for one in (before, now))
    return [
        f"{key}: {before.get(key)!r}, now {value!r}"
        for key, value in now.items()
        if key not in {"weights", "search"} and before.get(key) != value
    ]


def _check_not_ended(run: RunDirectory, before: TrainConfig, settings: TrainConfig, *, changed: bool) -> None:
    """Refuse to continue an ended run without a new limit."""
    final, latest = checkpoints(run.final), checkpoints(run.latest)
    if not final or not latest or update_number(final[-1]) != update_number(latest[-1]):
        return
    try:
        state = cancel_stale_cooldown(settings, TrainState.read(latest[-1]))
    except CheckpointError:  # damaged: an earlier one is resumed
        return
    reached = stop_reason(settings, state, state.elapsed_s)
    if reached and not changed:
        return
    default = TrainConfig()
    names_limit = any(
        getattr(settings, name) not in (getattr(before, name), getattr(default, name)) for name in LIMITS
    )
    if reached or not names_limit:
        more = f"--max-minutes {state.elapsed_s / 30 + 1:.0f}"
        if state.update >= settings.max_updates:
            more = f"--max-updates {2 * state.update}"
        raise RunError(
            f"{run.path}: this run has ended, after {state.update:,} updates and {state.elapsed_s / 60:.0f} minutes; "
            f"expected a new limit to continue. Name one that counts what was done, such as {more}, or another --run."
        )
