"""The commands that train: a model, teachers that make more pairs, a student. ``cli`` gives them a place."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as opt
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.training.diversify import DiversifyResult
    from glassformer.training.train import Outcome

Pairs = Annotated[
    Path | None,
    typer.Argument(
        help="One file of pairs: .tsv .csv .jsonl .po .mo .tmx .xliff .xlsx, plain or .gz", show_default=False
    ),
]
Src = Annotated[Path | None, typer.Option(help="Source texts, one a line, plain or .gz")]
Tgt = Annotated[Path | None, typer.Option(help="Their translations, line by line")]
Valid = Annotated[Path | None, typer.Option(help="A file of pairs for validation, with PAIRS")]
ValidSrc = Annotated[Path | None, typer.Option(help="Validation sources, with --src")]
ValidTgt = Annotated[Path | None, typer.Option(help="Validation targets, with --tgt")]
Config = Annotated[Path | None, typer.Option(help=r"A TOML file with all of this: run, \[data], \[model] ...")]
Model = Annotated[
    str | None,
    typer.Option(
        help="micro, tiny, small, base, big or walkthrough; without it micro for up to 20,000 pairs, else tiny"
    ),
]
MaxUpdates = Annotated[int | None, typer.Option(help="End after this many updates")]
MaxMinutes = Annotated[float | None, typer.Option(help="End after this many minutes of training")]


def train(
    pairs: Pairs = None,
    src: Src = None,
    tgt: Tgt = None,
    valid: Valid = None,
    valid_src: ValidSrc = None,
    valid_tgt: ValidTgt = None,
    task: Annotated[str | None, typer.Option(help="A generated task: dates, phrasebook-de, scan-length ...")] = None,
    run: opt.NewRun = None,
    config: Config = None,
    model: Model = None,
    init: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Start from the model of this run, or from the bundled one: bundled"),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Other pairs to mix in, so that less is forgotten; train.mix is their share"
        ),
    ] = None,
    max_updates: MaxUpdates = None,
    max_minutes: MaxMinutes = None,
    set_: opt.Set = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Continue a run with other settings or other text; its log records what changed"
        ),
    ] = False,
) -> None:
    """Train a model on pairs of text, from raw text to a working translator. The same command continues after a stop.

    [bold]glassformer train --src A.en --tgt A.de --run runs/first[/bold]
    [bold]glassformer train pairs.tsv --run runs/second --model small --max-minutes 30[/bold]
    [bold]glassformer train pairs.tsv --run runs/tuned --init bundled[/bold]
    """
    from glassformer.cli.streams import Console
    from glassformer.training.arguments import TrainRequest
    from glassformer.training.display import open_display
    from glassformer.training.train import train as train_run
    from glassformer.world import join_world

    data = {"task": task, "mix": mix, **_paths(pairs, src, tgt, valid, valid_src, valid_tgt)}
    overrides = [*(set_ or ()), *_limits(max_updates, max_minutes)]
    with join_world() as world:
        request = TrainRequest.make(
            run=run, data=data, config_file=config, model=model, init=init, overrides=overrides
        )
        with open_display(Console(quiet=not world.is_first)) as display:
            outcome = train_run(
                request.run, request.source, request.config, display, world, init=request.init, mix=request.mix,
                force=force,
            )  # fmt: skip
    if world.is_first:
        _print_outcome(outcome)
    if outcome.final is None:
        raise opt.exit_after_stop(outcome.reason)


def diversify(
    pairs: Pairs = None,
    src: Src = None,
    tgt: Tgt = None,
    valid: Valid = None,
    valid_src: ValidSrc = None,
    valid_tgt: ValidTgt = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="DIR",
            help="Where to train the teachers and to write.",
            show_default=False,
            parser=opt.new_directory,
        ),
    ] = None,
    config: Config = None,
    model: Model = None,
    max_updates: Annotated[int | None, typer.Option(help="End each teacher after this many updates")] = None,
    max_minutes: Annotated[float | None, typer.Option(help="End each teacher after this many minutes")] = None,
    set_: opt.Set = None,
) -> None:
    """Make more pairs of the same text: a teacher of each direction is trained and translates one side of it.

    The last line says how to train on the result. The same command continues after a stop.

    [bold]glassformer diversify --src A.en --tgt A.de --run runs/more --max-minutes 20[/bold]
    """
    from glassformer.cli.streams import Console
    from glassformer.training.arguments import TrainRequest
    from glassformer.training.data import FileSource
    from glassformer.training.display import open_display
    from glassformer.training.diversify import SOURCE_SIDE
    from glassformer.training.diversify import diversify as diversify_text
    from glassformer.training.train import Outcome

    opt.require_one_process("diversify", "several may learn what it writes")
    overrides = [*(set_ or ()), *_limits(max_updates, max_minutes)]
    data = _paths(pairs, src, tgt, valid, valid_src, valid_tgt)
    request = TrainRequest.make(run=run, data=data, config_file=config, model=model, overrides=overrides)
    if not isinstance(request.source, FileSource):
        raise ConfigError("diversify: found a generated task, expected text of your own: --src A.en --tgt A.de.")
    with open_display(Console()) as display:
        teachers = dict.fromkeys(SOURCE_SIDE, request.config)
        found = diversify_text(request.run, request.source, teachers, display)
    if isinstance(found, Outcome):
        raise opt.exit_after_stop(found.reason)
    settings = [("--config", config), ("--model", model), *(("--set", one) for one in set_ or ())]
    given = [(option, value) for option, value in settings if value is not None]
    _print_pairs(found, [*given, ("--run", request.run / "model")])


def distill(
    teacher: Annotated[
        str, typer.Argument(metavar="RUN", help="The teacher's run directory, or the bundled model: bundled")
    ],
    pairs: Pairs = None,
    src: Src = None,
    tgt: Tgt = None,
    valid: Valid = None,
    valid_src: ValidSrc = None,
    valid_tgt: ValidTgt = None,
    run: opt.NewRun = None,
    decoder_layers: Annotated[int, typer.Option(min=1, help="Decoder layers of the student")] = 1,
    encoder_layers: Annotated[
        int | None, typer.Option(min=1, help="Its encoder layers; by default the teacher's number")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="The teacher's beam as it writes; by default its decode.beam")
    ] = None,
    engine: opt.Engine = "torch",
    precision: opt.Precision = None,
    max_updates: MaxUpdates = None,
    max_minutes: MaxMinutes = None,
    set_: opt.Set = None,
    force: Annotated[bool, typer.Option("--force", help="Continue a run with other settings or other text")] = False,
) -> None:
    """Train a small, fast student on what a trained run writes. The same command continues after a stop.

    The teacher translates the sources that it was trained on, or those of the
    text that is named. The student has the teacher's tokenizers and starts from
    those of its weights that fit.

    [bold]glassformer distill runs/first --decoder-layers 1 --run runs/student[/bold]
    [bold]glassformer distill bundled pairs.tsv --run runs/student --engine ctranslate2 --precision int8[/bold]
    """
    from glassformer.bundled import BUNDLED
    from glassformer.cli.streams import Console
    from glassformer.training.arguments import make_source, require_directory
    from glassformer.training.display import open_display
    from glassformer.training.distill import Student
    from glassformer.training.distill import distill as distill_run
    from glassformer.training.teacher import Teacher
    from glassformer.world import join_world

    overrides = [*(set_ or ()), *_limits(max_updates, max_minutes)]
    data = {name: path for name, path in _paths(pairs, src, tgt, valid, valid_src, valid_tgt).items() if path}
    with join_world() as world:
        place, text = require_directory(run), make_source(data) if data else None
        student = Student.load(teacher)
        config = student.config(decoder_layers=decoder_layers, encoder_layers=encoder_layers, overrides=overrides)
        options = student.run.config.decode.with_changes({} if beam is None else {"beam": beam})
        writer = Teacher(
            BUNDLED if teacher == "bundled" else Path(teacher), options, config.train.device, engine, precision
        )
        with open_display(Console(quiet=not world.is_first)) as display:
            outcome = distill_run(place, writer, student, config, display, world=world, text=text, force=force)
    if world.is_first:
        _print_outcome(outcome)
    if outcome.final is None:
        raise opt.exit_after_stop(outcome.reason)


def shortlist(
    pairs: Pairs = None,
    src: Src = None,
    tgt: Tgt = None,
    run: opt.TrainedRun = None,
) -> None:
    """Count in text pairs which tokens translate which, for translate --engine ctranslate2 --shortlist.

    Without pairs it counts in the text that the run was trained on. It is
    written into the run, and export --to ctranslate2 takes it along.

    [bold]glassformer shortlist --run runs/first[/bold]
    [bold]glassformer shortlist pairs.tsv --run runs/opus[/bold]
    """
    from glassformer.interop.shortlist import make_shortlist
    from glassformer.run_directory import RunDirectory
    from glassformer.training.arguments import make_source

    place = opt.require_run(run)
    data = {name: str(path) for name, path in {"pairs": pairs, "src": src, "tgt": tgt}.items() if path is not None}
    make_shortlist(RunDirectory(place), make_source(data).pairs() if data else None, typer.echo)


def _paths(*places: Path | None) -> dict[str, str | None]:
    names = ("pairs", "src", "tgt", "valid", "valid_src", "valid_tgt")
    return {name: None if path is None else str(path) for name, path in zip(names, places, strict=True)}


def _limits(max_updates: int | None, max_minutes: float | None) -> list[str]:
    limits = {"train.max_updates": max_updates, "train.max_minutes": max_minutes}
    return [f"{key}={value}" for key, value in limits.items() if value is not None]


def _print_outcome(outcome: "Outcome") -> None:
    rate = outcome.target_tokens / outcome.elapsed_s if outcome.elapsed_s else 0.0
    typer.echo(f"{outcome.updates:,} updates, {outcome.target_tokens:,} target tokens, {rate:,.0f} tokens/s in all.")
    if outcome.final is None:
        return
    scores = outcome.final.scores
    typer.echo(
        f"Final model, on validation: loss {outcome.final.loss:.3f}, ppl {outcome.final.perplexity:.2f}, greedy "
        f"BLEU {scores.bleu:.1f}, chrF {scores.chrf:.1f}, exact {scores.exact_match:.1f} % of {scores.sentences}.\n"
        f"BLEU is {scores.signatures['bleu']}, chrF is {scores.signatures['chrf']}.\n"
        f'Use it:  glassformer translate "..." --run {shlex.quote(str(outcome.run))}'
    )


def _print_pairs(found: "DiversifyResult", settings: "list[tuple[str, str | Path]]") -> None:
    text = found.source
    if text.tgt is None:
        files = [("", text.src), ("--valid", text.valid_src)]
    else:
        files = [
            ("--src", text.src),
            ("--tgt", text.tgt),
            ("--valid-src", text.valid_src),
            ("--valid-tgt", text.valid_tgt),
        ]
    parts = [str(part) for option in (*files, *settings) for part in option if part != ""]
    typer.echo(
        f"{found.pairs:,} pairs, {found.original:,} of them the text's own.\n"
        f"Learn them:  glassformer train {shlex.join(parts)}"
    )
