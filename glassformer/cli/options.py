"""Options of several commands, made from the fields of records such as ``EngineOptions`` and ``DecodeConfig``."""

import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from glassformer.bundled import BUNDLED, find_run
from glassformer.errors import ConfigError, RunError
from glassformer.files import json_sha256
from glassformer.settings import IMPLY_SAMPLING, DecodeConfig, flag
from glassformer.settings.section import Section
from glassformer.version import __version__

if TYPE_CHECKING:
    from glassformer.decoding import Translator
    from glassformer.text.columns import Columns

OUR_FAULT = 70
INTERRUPTED = 130
TERMINATED = 143

Command = Callable[..., None]


def option(text: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """An option with its help; a switch without a name also gets --no-NAME."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def argument(text: str, metavar: str | None = None) -> Any:
    """An argument with its help."""
    return typer.Argument(help=text, metavar=metavar, show_default=False)


def option_name(parameter: Parameter) -> str:
    """The name on the command line, such as ``--json``."""
    (info,) = parameter.annotation.__metadata__
    named = isinstance(info.default, str) and info.default.startswith("-")
    return info.default if named else flag(parameter.name)  # in Annotated, typer takes the first name for a default


def new_directory(name: str) -> Path:
    """The directory of that name; an empty name, as of an unset variable, is refused."""
    if name == "":
        raise ConfigError("--run: found an empty name, expected a directory. For the current one, write --run .")
    return Path(name)


_ENSEMBLE = "The run directory of a trained model; several: an ensemble; default: bundled, the English-German model."
_BUNDLED = "The run directory of a trained model; default: bundled, the English-German model."
_NEW_RUN = "Where to train; an existing run continues."
_SET = "Change any setting; repeat for several."
_WORKERS = "Worker processes, default: one; threads of ctranslate2, default: one a core"
_SHORTLIST = "With --engine ctranslate2: write only tokens of the run's shortlist, which is faster"
LANGS = "The source and the target language, which the run keeps: en-de"
_COLUMNS = "Columns of a table, by number or name: 1:2, or 1+3:2 for texts and their features to targets"
ALL_LAYERS = "Do not fold layers that repeat the first"
_ENGINE = (
    "What computes: auto takes ctranslate2 where it is installed (pip install '.\\[fast]') and gives what torch gives"
)
_VERBOSE = "Say which engine is taken, and why; of a file, name the texts that are only doubtful, too"
_PRECISION = (
    "Compute products in float32 or bf16, or by ctranslate2 in int8 or, on a GPU, float16; by default as the model is"
)

Run = Annotated[Path | None, option(_BUNDLED, "--run", metavar="DIR")]
Runs = Annotated[list[Path] | None, option(_ENSEMBLE, "--run", metavar="DIR")]
NewRun = Annotated[Path | None, option(_NEW_RUN, "--run", metavar="DIR", parser=new_directory)]
TrainedRun = Annotated[Path | None, option("The run directory of a training.", "--run", metavar="DIR")]
Device = Annotated[str, option("Where to compute: auto, cpu, cuda, cuda:1 ...")]
Engine = Annotated[str, option(_ENGINE, metavar="NAME")]
Precision = Annotated[str | None, option(_PRECISION, metavar="KIND")]
Set = Annotated[list[str] | None, option(_SET, "--set", metavar="SECTION.KEY=VALUE")]


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which columns of a table are read."""

    columns: Annotated[str | None, option(_COLUMNS, metavar="SRC:TGT")] = None
    separator: Annotated[str | None, option("Between features in a column; default: ;", metavar="SIGN")] = None

    def find(self, recorded: Mapping[str, str] | None = None) -> "Columns | None":
        """The columns that are named, or those that a run has ``recorded``."""
        from glassformer.text.columns import Columns

        named = {"columns": self.columns, "separator": self.separator}
        return Columns.read({**(recorded or {}), **{key: one for key, one in named.items() if one is not None}})


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What computes translations, and where."""

    engine: Engine = "auto"
    precision: Precision = None
    shortlist: Annotated[bool, option(_SHORTLIST, "--shortlist")] = False
    workers: Annotated[int | None, option(_WORKERS, metavar="N")] = None
    device: Device = "auto"
    verbose: Annotated[bool, option(_VERBOSE, "--verbose", "-v")] = False

    @property
    def chosen(self) -> str:
        """The engine, which a precision or a shortlist may choose."""
        from glassformer.decoding.loading import choose_engine

        return choose_engine(self.engine, self.precision, shortlist=self.shortlist)

    def load(self, runs: list[Path] | None) -> "Translator":
        """The translator of these runs, for a ``with`` block."""
        from glassformer.decoding import Translator

        values = asdict(self)
        if values.pop("verbose"):
            handler = logging.Handler()
            handler.emit = lambda record: typer.echo(record.getMessage(), err=True)  # type: ignore[method-assign]
            handler.addFilter(lambda record: record.levelno == logging.INFO)
            logger = logging.getLogger("glassformer.decoding.engines.auto_engine")
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
        return Translator.load(runs_or_bundled(runs), **values)

    def key(self, runs: list[Path] | None) -> str:
        """Changes with weights, engine and version."""
        from glassformer.checkpoint import tensors_sha256
        from glassformer.run_directory import WEIGHTS, RunDirectory

        checkpoints = [RunDirectory(run).usable_checkpoint(lambda _: None) for run in runs_or_bundled(runs)]
        values = asdict(self) | {"verbose": False}
        return json_sha256([__version__, values, [tensors_sha256(each, WEIGHTS) for each in checkpoints]])


def used_engines(translator: "Translator") -> str:
    """The engines that translated, for a closing line; empty if none did."""
    return f" by {' and '.join(sorted(translator.used_engines))}" if translator.used_engines else ""


def options(*stages: str, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Give a command an option for each field of the records that are its parameters.

    Its ``decode`` gets the given fields of ``DecodeConfig`` that act in ``stages`` and are not in ``without``.
    """
    knobs = [knob for knob in fields(DecodeConfig) if knob.metadata["acts_in"] in stages and knob.name not in without]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        groups: dict[str, list[Parameter]] = {}
        for name, parameter in signature.parameters.items():
            if name == "decode":
                groups[name] = [_parameter(knob) for knob in knobs]
            elif isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
                groups[name] = record_parameters(parameter.annotation)

        @wraps(command)
        def with_options(**values: Any) -> None:
            made: dict[str, Any] = {}
            for name, parameters in groups.items():
                own = {one.name: values.pop(one.name) for one in parameters}
                if name == "decode":
                    made[name] = {key: value for key, value in own.items() if value is not None}
                else:
                    made[name] = signature.parameters[name].annotation(**own)
            command(**values, **made)

        expanded = [one for name, own in signature.parameters.items() for one in groups.get(name, [own])]
        with_options.__signature__ = signature.replace(parameters=expanded)  # type: ignore[attr-defined]  # inspect reads it
        return with_options

    return decorate


def record_parameters(record: type[Any]) -> list[Parameter]:
    """A parameter for each field of a dataclass."""
    if issubclass(record, Section):
        return [_parameter(knob).replace(default=knob.default) for knob in fields(record)]
    hints = get_type_hints(record, include_extras=True)
    return [
        Parameter(
            one.name, Parameter.KEYWORD_ONLY, annotation=hints[one.name],
            default=Parameter.empty if one.default is MISSING else one.default,
        )
        for one in fields(record)
    ]  # fmt: skip


def given_options(record: Any) -> list[str]:
    """The names of the options whose values differ from their defaults."""
    parameters = record_parameters(type(record))
    return [option_name(one) for one in parameters if getattr(record, one.name) != one.default]


def _parameter(knob: Field[Any]) -> Parameter:
    """The option of a field of a section; a switch can be turned off, too."""
    kind, stage, text = type(knob.default), knob.metadata["acts_in"], knob.metadata["doc"]
    names = [flag(knob.name)]
    if kind is bool:
        names = [f"{names[0]}/--no-{names[0][2:]}"]
    text = (
        (text[0].upper() if text[0].isascii() else text[0])  # not a symbol: α stays α
        + text[1:]
        + (". Implies --sample." if knob.name in IMPLY_SAMPLING else ".")
    )
    return Parameter(
        knob.name, Parameter.KEYWORD_ONLY, default=None,
        annotation=Annotated[kind | None, option(text, *names, panel=stage.capitalize() or None)],
    )  # fmt: skip


def run_or_bundled(run: Path | None) -> Path:
    """The given run directory, or the bundled one."""
    return BUNDLED if run is None else find_run(run)


def runs_or_bundled(runs: list[Path] | None) -> list[Path]:
    """The given run directories, with those of an ensemble, or the bundled one."""
    from glassformer.run_directory import find_members

    return [member for run in runs or [BUNDLED] for member in find_members(find_run(run))]


def require_run(run: Path | None) -> Path:
    """The run directory; ``RunError`` if none is given."""
    if run is None:
        raise RunError(
            "--run: found nothing, expected the directory of a training. Make one with `glassformer demo`."
        )
    return run


def require_one_process(command: str, instead: str) -> None:
    """Raise ``ConfigError`` in one of several processes of torchrun."""
    processes = os.environ.get("WORLD_SIZE", "1") if "TORCHELASTIC_RUN_ID" in os.environ else "1"
    if processes != "1":
        raise ConfigError(
            f"{command}: found {processes} processes of torchrun, expected one. Start it without torchrun; {instead}."
        )


def exit_after_stop(reason: str) -> typer.Exit:
    """The exit of a command whose training a signal stopped."""
    return typer.Exit(TERMINATED if "SIGTERM" in reason else INTERRUPTED)
