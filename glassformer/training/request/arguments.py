"""A request to train, from a TOML file, a model, overrides and names of data."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, ConfigError, RunError, TextError
from glassformer.run_directory import MEMBER, RunDirectory
from glassformer.settings import RunConfig, TextConfig, TrainConfig, named_model
from glassformer.settings.section import apply_overrides, check_known, read_toml
from glassformer.text.columns import Columns
from glassformer.text.corpus.corpus import Pair
from glassformer.training.evaluation.metrics import METRICS
from glassformer.training.request.data import FileSource, TaskSource, TrainingText
from glassformer.training.request.defaults import FEW_PAIRS, default_model, language_settings, train_defaults
from glassformer.training.request.fine_tuning import InitialModel
from glassformer.training.request.presets import NO_CHOICE, Choice, Settings, choose_preset

_KEYS_OF_KIND = {
    "src": ("src", "tgt", "valid_src", "valid_tgt"), "pairs": ("pairs", "valid", "columns", "separator"),
    "task": ("task",),
}  # fmt: skip
_NO_PATHS = ("task", "columns", "separator")
DATA_KEYS = (*(key for keys in _KEYS_OF_KIND.values() for key in keys), "mix")


@dataclass(frozen=True)
class TrainRequest:
    """Where to train, on what, and how; ``mix``: other pairs."""

    run: Path
    source: TrainingText
    config: RunConfig
    init: InitialModel | None = None
    mix: TrainingText | None = None
    force: bool = False
    preset: Choice = NO_CHOICE
    verbose: bool = False
    """Whether the reasons for the defaults are told."""

    @classmethod
    def make(
        cls,
        *,
        run: Path | None = None,
        data: Mapping[str, str | None] | None = None,
        config_file: Path | None = None,
        model: str | None = None,
        init: str | None = None,
        preset: str | None = None,
        overrides: Sequence[str] = (),
        force: bool = False,
    ) -> "TrainRequest":
        """Merge the settings; later ones win: the defaults, the task's, the preset's, the TOML file's, the arguments.

        ``data`` and the TOML's ``[data]``, whose paths are relative to it, name ``src`` and ``tgt`` (``valid_src``,
        ``valid_tgt``), or ``pairs`` (``valid``, ``columns``, ``separator``), or ``task``, and ``mix``. A named model
        sets its sizes only.
        """
        values = _read_config_file(config_file) if config_file else {}
        file_data = values.pop("data", {})
        file_run, file_init = values.pop("run", None), values.pop("init", None)
        run, init = run or file_run, init or file_init
        named = preset or values.pop("preset", None)
        names = _merge_data(file_data, {key: value for key, value in (data or {}).items() if value is not None})
        mix = names.pop("mix", None)
        if not isinstance(mix, str | None):
            raise ConfigError(f"data.mix: found {mix!r}, expected one name.")
        source = make_source(names)
        changes: dict[str, dict[str, Any]] = {}
        apply_overrides(changes, overrides)
        model = changes.get("model", {}).pop("name", model)
        run = require_directory(run)
        task_settings = source.task.settings if isinstance(source, TaskSource) else {}
        initial = None if init is None else InitialModel.load_for(run, init)
        choice = _choose_preset(named, source, run, is_free=initial is None)
        chosen: Mapping[str, Any] = _without_kinds(choice.settings, values, changes)
        if initial is None:
            base: dict[str, Any] = {"model": {"name": model or default_model(source, run)}}
            merged = _merge_settings([base, language_settings(source), task_settings, chosen, values], model, changes)
            config = train_defaults(RunConfig.from_mapping(merged), merged.get("train", {}), run)
        else:
            if model is not None:
                raise ConfigError(
                    f"--model: found {model!r} with --init {init}, expected one of them: a training that starts "
                    "from a model keeps its shape."
                )
            layers = [initial.settings, language_settings(source), chosen, values]
            config = RunConfig.from_mapping(_merge_settings(layers, None, changes))
            initial.check(config)
        _check_options(config.train, (values, changes), has_mix=mix is not None)
        pair = config.text.language_pair
        others = None if mix is None else FileSource(Path(mix)).take_languages(pair)
        source = source.take_languages(pair) if isinstance(source, FileSource) else source
        return cls(run, source, config, initial, others, force, choice)

    def members(self, seeds: int) -> "list[TrainRequest]":
        """The requests for an ensemble of so many models, each with its seed and its directory; of one, this."""
        if seeds == 1:
            return [self]
        trains = [replace(self.config.train, seed=self.config.train.seed + number) for number in range(seeds)]
        return [
            replace(self, run=self.run / f"{MEMBER}{number}", config=replace(self.config, train=train))
            for number, train in enumerate(trains, 1)
        ]


def _choose_preset(name: str | None, source: TrainingText, run: Path, *, is_free: bool) -> Choice:
    """The preset of that name; else that of a run that has begun, or of the pairs of a training that ``is_free``."""
    place = RunDirectory(run)
    if name is None and isinstance(source, FileSource) and place.has_checkpoints:
        with suppress(CheckpointError, RunError):  # a damaged run: train() says so
            name = place.read_config()[1].get("preset")
            is_free = False
    pairs = list[Pair]()
    if isinstance(source, FileSource) and (is_free or name is not None):
        with suppress(TextError):  # a missing or damaged file: train() says so
            pairs = list(islice(source.pairs(), FEW_PAIRS))
    is_chosen = name is not None or (is_free and bool(pairs))
    return choose_preset(name, pairs) if is_chosen else NO_CHOICE


def _without_kinds(chosen: Settings, *layers: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """A preset's settings; where a later layer names one kind of tokenizer for both sides, without the kinds."""
    if not any("tokenizer" in layer.get("text", {}) for layer in layers):
        return dict(chosen)
    text = {
        key: one for key, one in chosen.get("text", {}).items() if not key.endswith("_tokenizer") and key != "joint"
    }
    return {**chosen, "text": text}


def _check_options(train: TrainConfig, layers: Sequence[Mapping[str, Any]], *, has_mix: bool) -> None:
    """Raise ``ConfigError`` for settings of a training that would do nothing."""
    if train.mix and not has_mix:
        raise ConfigError(f"train.mix: found {train.mix} without other pairs, expected --mix FILE, which names them.")
    is_set = any(layer.get("train", {}).get("stop_at") for layer in layers)
    if is_set and train.stop_at and train.metric == "loss":
        raise ConfigError(
            f"train.stop_at: found {train.stop_at} with metric 'loss', which is no percentage, expected "
            f"one of {', '.join(METRICS)}. Set train.metric too, or leave train.stop_at out."
        )


def _merge_data(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Names of data; later ones replace all but ``mix``."""
    kept = {"mix"} & earlier.keys() if later.keys() & _KEYS_OF_KIND.keys() else earlier.keys()
    return {**{key: earlier[key] for key in kept}, **later}


def require_directory(run: Path | None) -> Path:
    """The directory to train in; raises ``ConfigError`` if none is named."""
    if run is None:
        raise ConfigError("--run: found nothing, expected the directory to train in, for example --run runs/first.")
    return run


def _merge_settings(
    layers: Sequence[Mapping[str, Any]], model: str | None, changes: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, settings in layer.items():
            _merge_section(merged, section, settings)
    if model is not None:
        merged["model"] = {**merged.get("model", {}), "name": model, **named_model(model)}
    for section, settings in changes.items():
        _merge_section(merged, section, settings)
    if not TextConfig.from_mapping(merged.get("text", {})).joint:  # what two vocabularies can share
        merged["model"].setdefault("tie_embeddings", "target")
    return merged


def _merge_section(merged: dict[str, dict[str, Any]], section: str, settings: Any) -> None:
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{section}: found {settings!r}, expected a section [{section}] of settings.")
    if section == "model" and "name" in settings:
        merged["model"] = {}
    merged.setdefault(section, {}).update(settings)


def _read_config_file(path: Path) -> dict[str, Any]:
    values = read_toml(path)
    values.pop("recipe", None)  # only `python -m benchmarks.reproduce` reads it
    if "run" in values:
        values["run"] = path.parent / str(values["run"])
    if values.get("init", "bundled") != "bundled":
        values["init"] = str(path.parent / str(values["init"]))
    data = values.get("data", {})
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: data: found {data!r}, expected a section [data].")
    values["data"] = {
        key: str(path.parent / value) if key not in _NO_PATHS and isinstance(value, str) else value
        for key, value in data.items()
    }
    return values


def _option(key: str) -> str:
    """A key of [data] as the command line has it."""
    return "a file of pairs" if key == "pairs" else f"--{key.replace('_', '-')}"


def make_source(data: Mapping[str, Any]) -> TrainingText:
    """The source that ``data`` names by the options' names. Raises ``ConfigError``."""
    check_known("data", data, DATA_KEYS)
    for key, name in data.items():
        if not isinstance(name, str):
            raise ConfigError(f"data.{key}: found {name!r}, expected one name.")
    kinds = [kind for kind in _KEYS_OF_KIND if kind in data]
    if len(kinds) != 1:
        if list(data) == ["tgt"]:
            raise ConfigError("--tgt: found alone, expected --src with it: the sources, line for line.")
        raise ConfigError(
            f"training text: found {' and '.join(kinds) or 'none'}, expected one of: --src A.en --tgt A.de; "
            "a file of pairs; --task dates."
        )
    (kind,) = kinds
    allowed = _KEYS_OF_KIND[kind]
    for key in data:
        if key not in allowed:
            raise ConfigError(
                f"{_option(key)}: does not go with {_option(kind)}, expected only "
                f"{', '.join(map(_option, allowed))}. Leave it out, or see `glassformer train --help`."
            )
    if kind == "task":
        return TaskSource.load(data["task"])
    if kind == "src" and "tgt" not in data:
        raise ConfigError("--src: found alone, expected --tgt with it: the translations, line for line.")
    names = {"pairs": "src", "valid": "valid_src"}
    files = {names.get(key, key): Path(value) for key, value in data.items() if key not in _NO_PATHS}
    return FileSource(**files, turned=False, languages=None, columns=Columns.read(data))
