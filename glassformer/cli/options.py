"""The options that several commands share, with the help a person reads, and how commands end after a stop."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.bundled import BUNDLED
from glassformer.config import DecodeConfig
from glassformer.errors import RunError

INTERRUPTED = 130
TERMINATED = 143

Run = Annotated[
    Path | None,
    typer.Option(
        "--run",
        metavar="DIR",
        help="The run directory of a trained model; the bundled English-German model if none is named.",
        show_default=False,
    ),
]
Runs = Annotated[
    list[Path] | None,
    typer.Option(
        "--run",
        metavar="DIR",
        help="The run directory of a trained model; may be given again, to decide together; the bundled "
        "English-German model if none is named.",
        show_default=False,
    ),
]
NewRun = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="Where to train; a run begun there goes on.", show_default=False),
]
TrainedRun = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="The run directory of a training.", show_default=False),
]
Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, cuda:1 ...")]
Precision = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="Products in float32, bf16 or int8; the model as it is if none"),
]
Workers = Annotated[int, typer.Option(metavar="N", help="Processes that translate beside each other")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change any setting; may be given again and again."),
]

_SEARCH, _RULES, _SAMPLING, _LENGTH = "Search", "Rules", "Sampling", "Length and batches"

Beam = Annotated[
    int | None,
    typer.Option(help="Hypotheses kept at each step; 1 is greedy search. Paper: 4.", rich_help_panel=_SEARCH),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="α of the paper's length penalty; 0 is none. Paper: 0.6.", rich_help_panel=_SEARCH),
]
NBest = Annotated[
    int | None, typer.Option(help="Translations for each text, best first, between tabs.", rich_help_panel=_SEARCH)
]
MinLength = Annotated[
    int | None, typer.Option(help="Fewest tokens before an output may end.", rich_help_panel=_RULES)
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(
        help="Multiplies the log-probability of tokens written before; 1 changes nothing.", rich_help_panel=_RULES
    ),
]
NoRepeatNgram = Annotated[
    int | None,
    typer.Option(help="No sequence of this many tokens occurs twice in an output.", rich_help_panel=_RULES),
]
CoveragePenalty = Annotated[
    float | None,
    typer.Option(help="β of the penalty for source tokens that were not looked at.", rich_help_panel=_SEARCH),
]
BeamGroups = Annotated[
    int | None,
    typer.Option(help="Groups of a diverse beam search, each unlike those before it.", rich_help_panel=_SEARCH),
]
Diversity = Annotated[
    float | None,
    typer.Option(help="λ: what a token costs that an earlier group chose at this step.", rich_help_panel=_SEARCH),
]
Sample = Annotated[
    bool, typer.Option("--sample", help="Draw tokens at random instead of searching.", rich_help_panel=_SAMPLING)
]
Temperature = Annotated[
    float | None,
    typer.Option(
        help="Divides the logits; below 1 keeps to the likeliest tokens. Implies --sample.", rich_help_panel=_SAMPLING
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(help="Draw from the k most probable tokens. Implies --sample.", rich_help_panel=_SAMPLING),
]
TopP = Annotated[
    float | None,
    typer.Option(help="Draw from the smallest set with probability p. Implies --sample.", rich_help_panel=_SAMPLING),
]
MinP = Annotated[
    float | None,
    typer.Option(
        help="Draw from tokens at least this share as probable as the best. Implies --sample.",
        rich_help_panel=_SAMPLING,
    ),
]
TypicalP = Annotated[
    float | None,
    typer.Option(
        help="Draw from the tokens as informative as is expected, with probability p. Implies --sample.",
        rich_help_panel=_SAMPLING,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of sampling. Implies --sample.", rich_help_panel=_SAMPLING)]
Mbr = Annotated[
    int | None,
    typer.Option(
        help="Draw so many samples and take the one that agrees most with all, by chrF. Implies --sample.",
        rich_help_panel=_SAMPLING,
    ),
]
SplitSentences = Annotated[
    bool,
    typer.Option("--split-sentences", help="Translate each sentence of a text by itself.", rich_help_panel=_LENGTH),
]
MaxLengthA = Annotated[
    float | None, typer.Option(help="Longest output: a times the source's tokens ...", rich_help_panel=_LENGTH)
]
MaxLengthB = Annotated[int | None, typer.Option(help="... plus b. Paper: a = 1, b = 50.", rich_help_panel=_LENGTH)]
BatchTokens = Annotated[
    int | None, typer.Option(help="Source tokens in one batch, beams included.", rich_help_panel=_LENGTH)
]

_IMPLY_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "seed", "mbr")


def given_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those options that were given on the command line, and what they imply."""
    changes = {key: value for key, value in given.items() if value is not None and value is not False}
    if any(key in changes for key in _IMPLY_SAMPLING):
        changes["sample"] = True
    return changes


def decode_options(default: DecodeConfig, given: Mapping[str, Any]) -> DecodeConfig:
    """The run's own options, changed by those that were given on the command line.

    Raises ``ConfigError`` for one that would do nothing beside the others.
    """
    from glassformer.decoding.request import changed_by

    return changed_by(default, given_options(given))


def chosen_run(run: Path | None) -> Path:
    """The run directory that was named, or the bundled one."""
    return BUNDLED if run is None else run


def chosen_runs(runs: list[Path] | None) -> list[Path]:
    """The run directories that were named, or the bundled one."""
    return runs or [BUNDLED]


def required_run(run: Path | None) -> Path:
    """The run directory, for a command that changes it; a message that says how to get one where none is named."""
    if run is None:
        raise RunError(
            "--run: found nothing, expected the directory of a training, in which to write. "
            "Make one in two minutes with `glassformer demo`, then use --run runs/demo."
        )
    return run


def exit_after_stop(reason: str) -> typer.Exit:
    """How a command ends whose training a signal stopped; ``reason`` is the training's."""
    return typer.Exit(TERMINATED if "SIGTERM" in reason else INTERRUPTED)
