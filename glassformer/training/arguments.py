"""What a person asked to train, from TOML, named configurations and overrides, made into one exact request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.config import RunConfig, named_model
from glassformer.errors import ConfigError, nearest
from glassformer.settings import apply_overrides, read_toml
from glassformer.training.data import FileSource, Source, TaskSource

DATA_KEYS = ("src", "tgt", "valid_src", "valid_tgt", "pairs", "valid", "task")


@dataclass(frozen=True)
class TrainRequest:
    """Where to train, on what, and how."""

    run: Path
    source: Source
    config: RunConfig

    @classmethod
    def make(
        cls,
        *,
        run: Path | None = None,
        data: Mapping[str, str | None] | None = None,
        config_file: Path | None = None,
        model: str | None = None,
        overrides: Sequence[str] = (),
    ) -> "TrainRequest":
        """Layer, each over the one before: defaults and ``tiny``, the task's settings, the TOML file, the arguments.

        A named model sets the sizes that it names and leaves the rest.

        ``data`` and the TOML's ``[data]`` name ``src`` and ``tgt`` (with ``valid_src``, ``valid_tgt``), or ``pairs``
        (with ``valid``), or ``task``. Paths in the TOML, ``run`` among them, are taken from its own directory.
        """
        values = _read_config_file(config_file) if config_file else {}
        named_in_file = values.pop("data", {})
        run = run or values.pop("run", None)
        values.pop("run", None)
        given = {key: value for key, value in (data or {}).items() if value is not None}
        source = _source(given or named_in_file)
        changes: dict[str, dict[str, Any]] = {}
        apply_overrides(changes, overrides)
        model = changes.get("model", {}).pop("name", model)
        if run is None:
            raise ConfigError(
                "--run: found nothing, expected the directory to train in, for example --run runs/first."
            )
        layers: dict[str, dict[str, Any]] = {"model": {"name": model or "tiny"}}
        for layer in (source.task.settings if isinstance(source, TaskSource) else {}, values):
            for section, settings in layer.items():
                _merge(layers, section, settings)
        if model is not None:
            layers["model"] = {**layers["model"], "name": model, **named_model(model)}
        for section, settings in changes.items():
            _merge(layers, section, settings)
        config = RunConfig.from_mapping(layers)
        asked_to_stop = any(one.get("train", {}).get("stop_at") for one in (values, changes))
        if asked_to_stop and config.train.stop_at and config.train.metric == "loss":
            raise ConfigError(
                f"train.stop_at: found {config.train.stop_at} with metric 'loss', expected bleu, chrf or "
                "exact_match, of which it is a percentage. Set train.metric with it, or leave it out."
            )
        return cls(run, source, config)


def _merge(layers: dict[str, dict[str, Any]], section: str, settings: Any) -> None:
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{section}: found {settings!r}, expected a section [{section}] of settings.")
    if section == "model" and "name" in settings:
        layers["model"] = {}
    layers.setdefault(section, {}).update(settings)


def _read_config_file(path: Path) -> dict[str, Any]:
    values = read_toml(path)
    values.pop("recipe", None)  # what `glassformer reproduce` reads
    home = path.parent
    if "run" in values:
        values["run"] = home / str(values["run"])
    data = values.get("data", {})
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: data: found {data!r}, expected a section [data].")
    values["data"] = {key: value if key == "task" else str(home / str(value)) for key, value in data.items()}
    return values


def _source(data: Mapping[str, Any]) -> Source:
    for key in data:
        if key not in DATA_KEYS:
            raise ConfigError(
                f"data.{key}: there is no such setting.{nearest(key, DATA_KEYS)} Known: {', '.join(DATA_KEYS)}."
            )
        if not isinstance(data[key], str):
            raise ConfigError(f"data.{key}: found {data[key]!r}, expected one name.")
    kinds = [key for key in ("src", "pairs", "task") if key in data]
    if len(kinds) != 1:
        raise ConfigError(
            f"training text: found {' and '.join(kinds) or 'none'}, expected one of: --src A.en --tgt A.de; "
            "a file of pairs; --task dates."
        )
    belonging = {"src": ("src", "tgt", "valid_src", "valid_tgt"), "pairs": ("pairs", "valid"), "task": ("task",)}[
        kinds[0]
    ]
    for key in data:
        if key not in belonging:
            raise ConfigError(
                f"--{key.replace('_', '-')}: does not go with {kinds[0]}, expected only {', '.join(belonging)}. "
                "Leave it out, or see `glassformer train --help`."
            )
    if kinds == ["task"]:
        return TaskSource.load(data["task"])
    if kinds == ["pairs"]:
        valid = data.get("valid")
        return FileSource(Path(data["pairs"]), None, Path(valid) if valid else None, None)
    if "tgt" not in data:
        raise ConfigError("--src: found alone, expected --tgt with it: the translations, line by line.")
    places = [Path(data[key]) if key in data else None for key in ("tgt", "valid_src", "valid_tgt")]
    return FileSource(Path(data["src"]), *places)
