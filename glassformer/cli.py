"""The command line: each subcommand parses, makes one library call, and prints.

Libraries are imported where they are used, so that ``--help`` answers at once.
"""

import errno
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from glassformer import options as opt
from glassformer.bundled import CARD
from glassformer.cli_evaluate import evaluate, score
from glassformer.cli_explain import diff, trace
from glassformer.cli_reproduce import reproduce
from glassformer.cli_translate import translate
from glassformer.errors import ConfigError, GlassformerError, PeerError, RunError, StorageError
from glassformer.options import INTERRUPTED
from glassformer.version import __version__

if TYPE_CHECKING:
    from glassformer.training.train import Outcome

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class _Commands(TyperGroup):
    """All commands, ending as a person expects where typer has other ways."""

    def invoke(self, ctx: Any) -> Any:
        """Carry out the command that was named."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _fail("interrupted.", INTERRUPTED)
        except BrokenPipeError:  # whoever read our output has enough
            _let_go_of_output()
            raise SystemExit(0) from None


app = typer.Typer(
    cls=_Commands,
    help="The Transformer of 'Attention Is All You Need': see through it, train it, use it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_BUNDLED_MODEL = f"The bundled English-German model; {CARD} tells what it is."


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False) -> None:
    if version:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


@app.command()
def train(
    pairs: Annotated[
        Path | None,
        typer.Argument(help="One file of pairs: .tsv .jsonl .po .mo .tmx, plain or .gz", show_default=False),
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Source texts, one a line, plain or .gz")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Their translations, line by line")] = None,
    valid: Annotated[Path | None, typer.Option(help="A file of pairs for validation, beside PAIRS")] = None,
    valid_src: Annotated[Path | None, typer.Option(help="Validation sources, beside --src")] = None,
    valid_tgt: Annotated[Path | None, typer.Option(help="Validation targets, beside --tgt")] = None,
    task: Annotated[str | None, typer.Option(help="A generated task: dates, phrasebook-de, scan-length ...")] = None,
    run: opt.NewRun = None,
    config: Annotated[
        Path | None, typer.Option(help=r"A TOML file with all of this: run, \[data], \[model] ...")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="tiny, small, base, big or walkthrough; tiny if none is named")
    ] = None,
    max_updates: Annotated[int | None, typer.Option(help="End after this many updates")] = None,
    max_minutes: Annotated[float | None, typer.Option(help="End after this many minutes of training")] = None,
    set_: opt.Set = None,
) -> None:
    """Train a model on pairs of text, from raw text to a working translator. The same command goes on after a stop.

    [bold]glassformer train --src A.en --tgt A.de --run runs/first[/bold]
    [bold]glassformer train pairs.tsv --run runs/second --model small --max-minutes 30[/bold]
    """
    from glassformer.console import Console
    from glassformer.training.display import display_for
    from glassformer.training.request import TrainRequest
    from glassformer.training.train import train as train_run
    from glassformer.world import join_world

    paths = {"pairs": pairs, "src": src, "tgt": tgt, "valid": valid, "valid_src": valid_src, "valid_tgt": valid_tgt}
    data = {"task": task, **{key: str(path) if path is not None else None for key, path in paths.items()}}
    limits = {"train.max_updates": max_updates, "train.max_minutes": max_minutes}
    overrides = [*(set_ or ()), *(f"{key}={value}" for key, value in limits.items() if value is not None)]
    with join_world() as world:
        request = TrainRequest.make(run=run, data=data, config_file=config, model=model, overrides=overrides)
        with display_for(Console(quiet=not world.is_first)) as display:
            outcome = train_run(request.run, request.source, request.config, display, world)
    if world.is_first:
        _print_outcome(outcome)
    if outcome.final is None:
        raise opt.exit_after_stop(outcome.reason)


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
        f'Use it:  glassformer translate "..." --run {outcome.run}'
    )


app.command()(translate)
app.command()(evaluate)
app.command()(score)
app.command()(reproduce)
app.command()(trace)
app.command()(diff)


@app.command()
def summary(
    name: Annotated[
        str | None,
        typer.Argument(help="A named configuration: tiny, small, base, big, walkthrough", show_default=False),
    ] = None,
    run: opt.Run = None,
    all_layers: Annotated[
        bool, typer.Option("--all-layers", help="Do not fold layers that repeat the first")
    ] = False,
) -> None:
    """The layers of a model, with output shapes and parameter counts.

    [bold]glassformer summary[/bold]
    [bold]glassformer summary base[/bold]
    [bold]glassformer summary --run runs/first[/bold]
    """
    if name is not None and run is not None:
        raise ConfigError(
            "summary: found both NAME and --run, expected one of them or neither: "
            "`glassformer summary base` or `glassformer summary --run DIR`."
        )
    import torch

    from glassformer.config import ModelConfig
    from glassformer.console import Console
    from glassformer.explain.summary import print_summary
    from glassformer.model.transformer import Transformer
    from glassformer.run_directory import RunDirectory

    if name is not None:
        with torch.device("meta"):  # shapes and counts need no memory for weights
            model = Transformer(ModelConfig.named(name))
        typer.echo(f"The configuration {name}, without weights.\n")
    else:
        loaded = RunDirectory(opt.chosen_run(run)).load("cpu")
        model = loaded.model
        typer.echo(f"{_BUNDLED_MODEL if run is None else f'The model {loaded.checkpoint}.'}\n")
    print_summary(model, Console(), all_layers=all_layers)


@app.command()
def average(
    run: opt.TrainedRun = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="How many; the run's train.average_last if not given")
    ] = None,
) -> None:
    """Average the run's last checkpoints into its final model. Paper, section 6.1: the last 5, or 20 for big."""
    place = opt.required_run(run)
    from glassformer.training.average import average_run

    used = average_run(place, last, lambda line: typer.echo(line, err=True))
    typer.echo(f"The final model of {place} is now the mean of {len(used)} checkpoints:")
    for checkpoint in used:
        typer.echo(f"  {checkpoint.name}")


@app.command()
def demo(
    run: Annotated[Path, typer.Option(metavar="DIR", help="Where to train")] = Path("runs/demo"),
    max_minutes: Annotated[float, typer.Option(help="Longest training")] = 1.8,
) -> None:
    """See all of it in two minutes: the bundled English-German model, then one that is trained on dates here.

    First it translates a few sentences and walks through one, with the model that ships with the package. Then it
    trains on dates in 20 languages, translates unseen ones and walks through one of them.
    """
    from glassformer.console import Console
    from glassformer.demo import demo as run_demo

    outcome = run_demo(run, max_minutes, Console())
    if outcome.final is None:
        raise opt.exit_after_stop(outcome.reason)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise SystemExit(code)


def _open_streams() -> None:
    """Standard streams that a shell has closed lead nowhere; what is written is UTF-8, as what is read."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def _let_go_of_output() -> None:
    """Python would complain of it again while flushing at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line; every error a person can cause is one line on standard error."""
    try:
        _run()
    except SystemExit as end:
        if "TORCHELASTIC_RUN_ID" in os.environ:  # one of torchrun's processes
            from glassformer.world import leave

            leave(end.code)
        raise


def _run() -> None:
    _open_streams()
    try:
        app()
    except PeerError as error:
        raise SystemExit(error.exit_code) from None
    except GlassformerError as error:
        _fail(str(error), error.exit_code)
    except PermissionError as error:
        place = error.filename or "a file"
        _fail(f"{place}: {error.strerror}. Correct its permissions, or name another.", StorageError.exit_code)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _let_go_of_output()
        _fail(f"{error.filename or 'standard output'}: cannot be written: {error.strerror}.", StorageError.exit_code)
    except MemoryError:
        _fail(*_out_of_memory())
    except RuntimeError as error:
        if "allocate" not in str(error) and "out of memory" not in str(error):
            raise
        _fail(*_out_of_memory())


def _out_of_memory() -> tuple[str, int]:
    return "out of memory. Lower train.batch_tokens or --batch-tokens, or take a smaller --model.", RunError.exit_code
