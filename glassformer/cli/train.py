"""The commands that train: ``train``, ``diversify``, ``distill``, ``shortlist``."""

import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as opt
from glassformer.cli.options import argument, option
from glassformer.cli.streams import Console
from glassformer.errors import ConfigError
from glassformer.settings import NAMED_MODELS, flag
from glassformer.text.formats import endings
from glassformer.training.request.presets import PRESETS

if TYPE_CHECKING:
    from glassformer.training.teachers.diversify import DiversifyResult
    from glassformer.training.train import Outcome

_PAIRS = f"One file of pairs: {' '.join(endings(lambda each: each.pairs, first=True))}, plain or .gz"
*_NAMES, _LAST_NAME = NAMED_MODELS
_MODEL = f"{', '.join(_NAMES)} or {_LAST_NAME}; without it micro for up to 20,000 pairs, else tiny"
_INIT = "Start from the model of this run, or from the bundled one: bundled"
_MIX = "Other pairs to mix in, so that less is forgotten; train.mix is their share"
_PRESET = f"Settings that belong together: {', '.join(PRESETS)}; without it words or sentences, as the pairs are"
_SEEDS = "Train an ensemble of this many models, which start from different weights: RUN/seed-1 ..."
_TEACHERS = "Where to train the teachers and to write."
_OTHER_SETTINGS = "Continue a run with other settings or other text"

Config = Annotated[Path | None, option(r"A TOML file with all of this: run, \[data], \[model] ...")]
Model = Annotated[str | None, option(_MODEL)]


@dataclass(frozen=True, kw_only=True)
class PairOptions(opt.ColumnOptions):
    """Pairs of text: one file, or one of each side."""

    pairs: Annotated[Path | None, argument(_PAIRS)] = None
    src: Annotated[Path | None, option("Source texts, one a line, plain or .gz")] = None
    tgt: Annotated[Path | None, option("Their translations, line by line")] = None

    def names(self) -> dict[str, str]:
        """The files that were named, for ``make_source``."""
        return {name: str(path) for name, path in asdict(self).items() if path is not None}


@dataclass(frozen=True, kw_only=True)
class TrainingPairOptions(PairOptions):
    """Pairs to train on and pairs for validation."""

    valid: Annotated[Path | None, option("A file of pairs for validation, with PAIRS")] = None
    valid_src: Annotated[Path | None, option("Validation sources, with --src")] = None
    valid_tgt: Annotated[Path | None, option("Validation targets, with --tgt")] = None


@dataclass(frozen=True, kw_only=True)
class SettingOptions:
    """Settings that differ from those of the model and the file."""

    max_updates: Annotated[int | None, option("End a training after this many updates")] = None
    max_minutes: Annotated[float | None, option("End a training after this many minutes")] = None
    langs: Annotated[str | None, option(opt.LANGS, metavar="SRC-TGT")] = None
    set_: opt.Set = None

    def overrides(self) -> list[str]:
        """All of them, as ``--set`` takes them; later ones win."""
        own = {
            "train.max_updates": self.max_updates, "train.max_minutes": self.max_minutes,
            "text.languages": self.langs,
        }  # fmt: skip
        return [*(self.set_ or ()), *(f"{key}={value}" for key, value in own.items() if value is not None)]


@opt.options()
def train(
    *,
    text: TrainingPairOptions,
    task: Annotated[str | None, option("A generated task: dates, phrasebook-de ...")] = None,
    run: opt.NewRun = None,
    config: Config = None,
    model: Model = None,
    init: Annotated[str | None, option(_INIT, metavar="DIR")] = None,
    mix: Annotated[str | None, option(_MIX, metavar="FILE")] = None,
    preset: Annotated[str | None, option(_PRESET)] = None,
    seeds: Annotated[int, option(_SEEDS, min=1, metavar="N")] = 1,
    settings: SettingOptions,
    force: Annotated[bool, option(f"{_OTHER_SETTINGS}; its log records what changed", "--force")] = False,
    verbose: Annotated[bool, option("Also say why the defaults are what they are", "--verbose", "-v")] = False,
) -> None:
    """Train a model on pairs of text, from raw text to a working translator. The same command continues after a stop.

    [bold]glassformer train --src A.en --tgt A.de --run runs/first[/bold]
    [bold]glassformer train pairs.tsv --run runs/second --model small --max-minutes 30[/bold]
    [bold]glassformer train pairs.tsv --run runs/tuned --init bundled[/bold]
    [bold]glassformer train forms.train --columns 1+3:2 --valid forms.dev --run runs/forms --seeds 5[/bold]
    """
    from glassformer.run_directory import RunDirectory
    from glassformer.training.reporting.display import open_display
    from glassformer.training.request.arguments import TrainRequest
    from glassformer.training.train import train as train_run
    from glassformer.world import join_world

    with join_world() as world:
        request = TrainRequest.make(
            run=run, data={"task": task, "mix": mix, **text.names()}, config_file=config, model=model, init=init,
            preset=preset, overrides=settings.overrides(), force=force,
        )  # fmt: skip
        request = replace(request, verbose=verbose)
        for number, member in enumerate(request.members(seeds), 1):
            if seeds > 1 and RunDirectory(member.run).is_trained:
                continue
            if seeds > 1 and world.is_first:
                typer.echo(f"Model {number} of {seeds}: {member.run}", err=True)
            with open_display(Console(quiet=not world.is_first)) as display:
                outcome = train_run(member, display, world)
            _end(outcome, is_first=world.is_first)
        if seeds > 1 and world.is_first:
            typer.echo(f'All {seeds} as one:  glassformer translate "..." --run {shlex.quote(str(request.run))}')


@opt.options()
def diversify(
    *,
    text: TrainingPairOptions,
    run: Annotated[Path | None, option(_TEACHERS, "--run", metavar="DIR", parser=opt.new_directory)] = None,
    config: Config = None,
    model: Model = None,
    settings: SettingOptions,
) -> None:
    """Make more pairs of the same text: a teacher of each direction is trained and translates one side of it.

    The last line says how to train on the result. The same command continues after a stop.

    [bold]glassformer diversify --src A.en --tgt A.de --run runs/more --max-minutes 20[/bold]
    """
    from glassformer.training.reporting.display import open_display
    from glassformer.training.request.arguments import TrainRequest
    from glassformer.training.request.data import FileSource
    from glassformer.training.teachers.diversify import SOURCE_SIDE
    from glassformer.training.teachers.diversify import diversify as diversify_text
    from glassformer.training.train import Outcome

    opt.require_one_process("diversify", "several may learn what it writes")
    request = TrainRequest.make(
        run=run, data=text.names(), config_file=config, model=model, preset="sentences",
        overrides=settings.overrides(),
    )  # fmt: skip
    if not isinstance(request.source, FileSource):
        raise ConfigError("diversify: found a generated task, expected text of your own: --src A.en --tgt A.de.")
    with open_display(Console()) as display:
        teachers = dict.fromkeys(SOURCE_SIDE, request.config)
        found = diversify_text(request.run, request.source, teachers, display)
    if isinstance(found, Outcome):
        raise opt.exit_after_stop(found.reason)
    named = [("--config", config), ("--model", model), ("--langs", request.config.text.languages or None)]
    named += [("--set", one) for one in settings.set_ or ()]
    named.append(("--run", request.run / "model"))
    _print_pairs(found, [(name, value) for name, value in named if value is not None])


@opt.options()
def distill(
    *,
    teacher: Annotated[str, argument("The teacher's run directory, or the bundled model: bundled", "RUN")],
    text: TrainingPairOptions,
    run: opt.NewRun = None,
    decoder_layers: Annotated[int, option("Decoder layers of the student", min=1)] = 1,
    encoder_layers: Annotated[int | None, option("Its encoder layers; default: the teacher's", min=1)] = None,
    beam: Annotated[int | None, option("The teacher's beam; default: its decode.beam", min=1)] = None,
    engine: opt.Engine = "auto",
    precision: opt.Precision = None,
    settings: SettingOptions,
    force: Annotated[bool, option(_OTHER_SETTINGS, "--force")] = False,
) -> None:
    """Train a small, fast student on what a trained run writes. The same command continues after a stop.

    The teacher translates the sources that it was trained on, or those of the
    text that is named. The student starts from its weights, as far as they fit.

    [bold]glassformer distill runs/first --decoder-layers 1 --run runs/student[/bold]
    [bold]glassformer distill bundled pairs.tsv --run runs/student --engine ctranslate2 --precision int8[/bold]
    """
    from glassformer.bundled import find_run
    from glassformer.run_directory import RunDirectory
    from glassformer.training.reporting.display import open_display
    from glassformer.training.request.arguments import make_source, require_directory
    from glassformer.training.teachers.distill import Student
    from glassformer.training.teachers.distill import distill as distill_run
    from glassformer.training.teachers.teacher import Teacher
    from glassformer.world import join_world

    with join_world() as world:
        place, names = require_directory(run), text.names()
        source = make_source(names) if names else None
        RunDirectory(place).check_writable()
        student = Student.load(teacher)
        config = student.config(
            decoder_layers=decoder_layers, encoder_layers=encoder_layers, overrides=settings.overrides()
        )
        options = student.run.config.decode.with_changes({} if beam is None else {"beam": beam})
        writer = Teacher(find_run(teacher), options, config.train.device, engine, precision)
        with open_display(Console(quiet=not world.is_first)) as display:
            outcome = distill_run(place, writer, student, config, display, world=world, text=source, force=force)
    _end(outcome, is_first=world.is_first)


@opt.options()
def shortlist(*, text: PairOptions, run: opt.TrainedRun = None) -> None:
    """Count in text pairs which tokens translate which, for translate --engine ctranslate2 --shortlist.

    Without pairs it counts in the run's own text. export takes the list along.

    [bold]glassformer shortlist --run runs/first[/bold]
    [bold]glassformer shortlist pairs.tsv --run runs/opus[/bold]
    """
    from glassformer.interop.shortlist import make_shortlist
    from glassformer.run_directory import RunDirectory
    from glassformer.training.request.arguments import make_source

    place = opt.require_run(run)
    names = text.names()
    make_shortlist(RunDirectory(place), make_source(names).pairs() if names else None, typer.echo)


def _end(outcome: "Outcome", *, is_first: bool) -> None:
    """Print what came of a training, and end the command."""
    if is_first:
        _print_outcome(outcome)
    if outcome.final is None:
        raise opt.exit_after_stop(outcome.reason)


def _print_outcome(outcome: "Outcome") -> None:
    rate = outcome.target_tokens / outcome.elapsed_s if outcome.elapsed_s else 0.0
    typer.echo(f"{outcome.updates:,} updates, {outcome.target_tokens:,} target tokens, {rate:,.0f} tokens/s in all.")
    if outcome.final is None:
        return
    from glassformer.training.evaluation.metrics import METRICS

    scores = outcome.final.scores
    signatures = [
        f"{METRICS[name].title} is {text}" for name, text in scores.signatures.items() if name in scores.fitting
    ]
    told = f"{', '.join(signatures)}.\n" if signatures else ""
    typer.echo(
        f"Final model, on validation: loss {outcome.final.loss:.3f}, ppl {outcome.final.perplexity:.2f}, greedy "
        f"{scores.format(separator=', ')} of {scores.sentences}.\n"
        f"{told}"
        f'Use it:  glassformer translate "..." --run {shlex.quote(str(outcome.run))}'
    )


def _print_pairs(found: "DiversifyResult", settings: "list[tuple[str, str | Path]]") -> None:
    text = found.source
    files: list[tuple[str, Path | None]] = [(flag(name), path) for name, path in text.files().items()]
    if text.tgt is None:
        files = [("", text.src), ("--valid", text.valid_src)]
    parts = [str(part) for option in (*files, *settings) for part in option if part != ""]
    typer.echo(
        f"{found.pairs:,} pairs, {found.original:,} of them the text's own.\n"
        f"Learn them:  glassformer train {shlex.join(parts)}"
    )
