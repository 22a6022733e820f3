"""The options that several commands share. Those of ``DecodeConfig`` are made from its fields."""

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.bundled import BUNDLED
from glassformer.config import DecodeConfig, flag
from glassformer.errors import ConfigError, RunError

OUR_FAULT = 70
INTERRUPTED = 130
TERMINATED = 143


def new_directory(name: str) -> Path:
    """The directory of that name, to write to; an empty name, such as that of an unset variable, is refused."""
    if name == "":
        raise ConfigError("--run: found an empty name, expected a directory. For the current one, write --run .")
    return Path(name)


Run = Annotated[
    Path | None,
    typer.Option(
        "--run",
        metavar="DIR",
        help="The run directory of a trained model; the bundled English-German model by default.",
        show_default=False,
    ),
]
Runs = Annotated[
    list[Path] | None,
    typer.Option(
        "--run",
        metavar="DIR",
        help="The run directory of a trained model; several form an ensemble; the bundled "
        "English-German model by default.",
        show_default=False,
    ),
]
NewRun = Annotated[
    Path | None,
    typer.Option(
        "--run",
        metavar="DIR",
        help="Where to train; an existing run continues.",
        show_default=False,
        parser=new_directory,
    ),
]
TrainedRun = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="The run directory of a training.", show_default=False),
]
Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, cuda:1 ...")]
Precision = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="Compute products in float32, bf16 or int8; by default as the model is"),
]
Engine = Annotated[
    str,
    typer.Option(metavar="NAME", help="What computes: torch; or ctranslate2, pip install 'glassformer\\[fast]'"),
]
Shortlist = Annotated[
    bool,
    typer.Option(
        "--shortlist",
        help="With --engine ctranslate2: write only tokens of the run's shortlist, which is faster; see glassformer "
        "shortlist",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Worker processes that share the batches, by default one; threads of ctranslate2, by default one a core",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change any setting; repeat for several."),
]

_PANELS = {"search": "Search", "sampling": "Sampling", "scoring": "Scoring", "batching": "Batching"}

Command = Callable[..., None]


def decode_options(*stages: str, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Give a command an option for each field of ``DecodeConfig`` that acts in one of ``stages``.

    The command receives those that were given on the command line as its argument ``decode``, ready for
    ``DecodeConfig.updated``. ``without`` names fields that have no effect in the command.
    """
    knobs = [knob for knob in fields(DecodeConfig) if knob.metadata["acts_in"] in stages and knob.name not in without]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [parameter for name, parameter in signature.parameters.items() if name != "decode"]
        options = [
            Parameter(knob.name, Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(knob)) for knob in knobs
        ]

        @wraps(command)
        def with_options(**values: Any) -> None:
            given = {knob.name: value for knob in knobs if (value := values.pop(knob.name)) is not None}
            if any(_implies_sampling(knob) for knob in knobs if knob.name in given):
                given["sample"] = True
            command(**values, decode=given)

        own = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own]
        with_options.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
        return with_options

    return decorate


def _annotation(knob: Field[Any]) -> Any:
    """The option of a field; a switch that is off by default can only be turned on."""
    kind, stage, text = type(knob.default), knob.metadata["acts_in"], knob.metadata["doc"]
    names = [flag(knob.name)]
    if kind is bool and knob.default:
        names = [f"{names[0]}/--no-{names[0][2:]}"]
    text = (
        (text[0].upper() if text[0].isascii() else text[0])  # not a symbol: α stays α
        + text[1:]
        + (". Implies --sample." if _implies_sampling(knob) else ".")
    )
    return Annotated[kind | None, typer.Option(*names, help=text, rich_help_panel=_PANELS[stage], show_default=False)]


def _implies_sampling(knob: Field[Any]) -> bool:
    return knob.metadata["acts_in"] == "sampling" and knob.name != "sample"


def run_or_bundled(run: Path | None) -> Path:
    """The given run directory, or the bundled one."""
    return BUNDLED if run is None else run


def runs_or_bundled(runs: list[Path] | None) -> list[Path]:
    """The given run directories, or the bundled one."""
    return runs or [BUNDLED]


def require_run(run: Path | None) -> Path:
    """The run directory, for a command that changes it; raises ``RunError`` if none is given."""
    if run is None:
        raise RunError(
            "--run: found nothing, expected the directory of a training, in which to write. "
            "Make one with `glassformer demo`, then use --run runs/demo."
        )
    return run


def require_one_process(command: str, instead: str) -> None:
    """Raise ``ConfigError`` in one of several processes of torchrun, which only a training divides among them."""
    processes = os.environ.get("WORLD_SIZE", "1") if "TORCHELASTIC_RUN_ID" in os.environ else "1"
    if processes != "1":
        raise ConfigError(
            f"{command}: found {processes} processes of torchrun, expected one. Start it without torchrun; {instead}."
        )


def exit_after_stop(reason: str) -> typer.Exit:
    """The exit of a command whose training was stopped by a signal; ``reason`` is the training's."""
    return typer.Exit(TERMINATED if "SIGTERM" in reason else INTERRUPTED)
