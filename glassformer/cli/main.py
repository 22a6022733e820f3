"""The command line: each command parses, makes one library call, and prints."""

import errno
import io
import logging
import os
import secrets
import shlex
import sys
import tempfile
import traceback
from _thread import interrupt_main
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from glassformer.bundled import CARD
from glassformer.cli import options as opt
from glassformer.cli.evaluate import evaluate, score
from glassformer.cli.explain import diff, explore, trace
from glassformer.cli.import_export import export, import_model
from glassformer.cli.options import INTERRUPTED, OUR_FAULT, argument, option
from glassformer.cli.serve import serve
from glassformer.cli.streams import Console
from glassformer.cli.train import distill, diversify, shortlist, train
from glassformer.cli.translate import translate
from glassformer.errors import ConfigError, GlassformerError, PeerError, RunError, StorageError, torchrun_number
from glassformer.settings import NAMED_MODELS, ModelConfig
from glassformer.text.lines import without_surrogates
from glassformer.version import __version__

_LONGEST_MESSAGE = 3000  # characters
_LOOK = 'glassformer trace "TEXT", or in a browser glassformer explore "TEXT" --open'
_OTHER_NAMES = dict.fromkeys(("explain", "walk", "show", "attention"), _LOOK) | {"help": "glassformer --help"}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}
_PLACES = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR,
    errno.EMFILE, errno.ENFILE, errno.EBUSY, errno.EEXIST,
}  # fmt: skip


class _Commands(TyperGroup):
    """All commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command, or an error that says what is meant."""
        name = args[0]
        if name not in self.commands and (" " in name or name in _OTHER_NAMES):
            meant = _OTHER_NAMES.get(name, f"glassformer translate {shlex.quote(name)}")
            ctx.fail(f"No such command {name!r}. You may want: {meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Carry out the command that was named."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _fail("interrupted.", INTERRUPTED)
        except BrokenPipeError:  # the reader of our output has ended
            _silence_stdout()
            raise SystemExit(0) from None


app = typer.Typer(
    cls=_Commands,
    help="The Transformer of 'Attention Is All You Need': see through it, train it, use it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_DEMO = Path("runs/demo")
_BUNDLED_MODEL = f"The bundled English-German model; {CARD} tells what it is."


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, option("Print the version and end.", "--version")] = False) -> None:
    if version:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit
    logger = logging.getLogger("glassformer")
    if not any(isinstance(handler, _Warnings) for handler in logger.handlers):
        handler = _Warnings(logging.WARNING)
        handler.addFilter(lambda record: not record.name.startswith("glassformer.training"))
        logger.addHandler(handler)
    try:
        Path.cwd()
    except OSError as error:
        raise RunError(
            f"the working directory cannot be read ({error.strerror}): it was deleted or moved. Go to another one."
        ) from error


for _command in (train, diversify, distill, translate, evaluate, score, trace, explore, diff):
    app.command()(_command)
app.command("import")(import_model)
app.command()(export)
app.command()(shortlist)
app.command()(serve)


@app.command()
def summary(
    name: Annotated[str | None, argument(f"A named configuration: {', '.join(NAMED_MODELS)}")] = None,
    run: opt.Run = None,
    all_layers: Annotated[bool, option(opt.ALL_LAYERS, "--all-layers")] = False,
) -> None:
    """The layers of a model: output shapes, parameter counts, the mult-adds of a pass, and sizes in MB.

    [bold]glassformer summary base[/bold]
    [bold]glassformer summary --run runs/first[/bold]
    """
    if name is not None and run is not None:
        raise ConfigError("summary: found both NAME and --run, expected one of them.")
    from glassformer.explain.recording.summary import print_summary
    from glassformer.model.transformer import Transformer
    from glassformer.run_directory import RunDirectory

    if name is not None:
        model = Transformer.without_values(ModelConfig.from_name(name))
        typer.echo(f"The configuration {name}, without weights.\n")
    else:
        loaded = RunDirectory(opt.run_or_bundled(run)).load("cpu")
        model = loaded.model
        typer.echo(f"{_BUNDLED_MODEL if run is None else f'The model {loaded.checkpoint}.'}\n")
    print_summary(model, Console(), all_layers=all_layers)


@app.command()
def average(
    run: opt.TrainedRun = None,
    last: Annotated[int | None, option("How many; the run's train.average_last if not given", min=1)] = None,
) -> None:
    """Average the run's last checkpoints into its final model. Paper, section 6.1: the last 5, or 20 for big."""
    place = opt.require_run(run)
    from glassformer.training.loop.averaging import average_run

    used = average_run(place, last, lambda line: typer.echo(line, err=True))
    typer.echo(f"The final model of {place} is now the mean of {len(used)} checkpoints:")
    for checkpoint in used:
        typer.echo(f"  {checkpoint.name}")


@app.command()
def demo(
    run: Annotated[Path, option("Where to train", metavar="DIR", parser=opt.new_directory)] = _DEMO,
    max_minutes: Annotated[float, option("Longest training")] = 1.5,
) -> None:
    """See all of it in three minutes: the bundled English-German model, then one that is trained on dates here.

    Of one sentence you see where the model looks, what happens at one step,
    and what changes without one of its heads. Then a model trains on dates in
    20 languages. At the end the living page is opened in your browser.
    """
    from glassformer.cli.demo import demo as run_demo

    outcome = run_demo(run, max_minutes, Console())
    if outcome.final is None:
        raise opt.exit_after_stop(outcome.reason)


class _Warnings(logging.Handler):
    """Prints the package's warnings; those of a training are on its display."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        typer.echo(f"warning: {record.getMessage()}", err=True)


def _fail(message: str, code: int) -> NoReturn:
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[: _LONGEST_MESSAGE - 500]} … {message[-500:]}"
    typer.echo(f"error: {message}", err=True)
    raise SystemExit(code)


def _open_streams() -> None:
    """Open streams that are closed, as /dev/null, and write UTF-8."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """Keep Python from writing to a broken pipe again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line; an error that a person can cause is one line."""
    try:
        _report_faults(_run)
        sys.stdout.flush()
    except BrokenPipeError:  # a reader that has left is no error
        _silence_stdout()
    except KeyboardInterrupt:  # before or after the command itself
        _fail("interrupted.", INTERRUPTED)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich and click end with 1 where the reader has left
            _silence_stdout()
            raise SystemExit(0) from None
        if "TORCHELASTIC_RUN_ID" in os.environ:  # one of torchrun's processes
            from glassformer.world import exit_process

            exit_process(end.code)
        raise


def repeat_interrupt(found: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that was lost because it came where a library may not raise."""
    if isinstance(found.exc_value, KeyboardInterrupt):
        Timer(0.01, interrupt_main).start()
    else:
        sys.__unraisablehook__(found)


def _report_faults(run: Callable[[], None]) -> None:
    """Report an unexpected error as our fault, with its traceback in a file."""
    try:
        run()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a library in Rust is no Exception
        report = Path(tempfile.gettempdir()) / f"glassformer-{secrets.token_hex(4)}.txt"
        try:
            handle = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # it may quote private text
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"glassformer {__version__}, Python {sys.version}\n\n{traceback.format_exc()}")
            where = f"with {report}, which has the details"
        except OSError:
            where = f"with these details:\n{traceback.format_exc()}"
        kind = type(error).__name__
        _fail(f"this is a fault of glassformer, not yours ({kind}: {error}). Please report it {where}.", OUR_FAULT)


def _share_the_machine() -> None:
    """No more threads than cores, and threads that sleep while they wait; before PyTorch is loaded.

    torchrun sets 1 thread where nobody has named a number. ``threads.may_choose`` reads GLASSFORMER_THREADS.
    """
    from glassformer.text.corpus.workers import available_cores

    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    processes = torchrun_number("LOCAL_WORLD_SIZE", "1") if "TORCHELASTIC_RUN_ID" in os.environ else 1
    if os.environ.get("OMP_NUM_THREADS") in (None, "1" if processes > 1 else None):
        os.environ["OMP_NUM_THREADS"] = os.environ["GLASSFORMER_THREADS"] = str(
            max(1, available_cores() // processes)
        )


def _run() -> None:
    _open_streams()
    try:
        _share_the_machine()
        app()
    except PeerError as error:
        raise SystemExit(error.exit_code) from None
    except GlassformerError as error:
        _fail(str(error), error.exit_code)
    except OSError as error:
        place = str(error.filename or "a file")
        if error.errno in _PLACES:
            _fail(f"{place:.300}: {error.strerror}. Correct that, or name another place.", StorageError.exit_code)
        if error.errno in _FULL:
            _silence_stdout()
            place = error.filename or "standard output"
            _fail(f"{place}: cannot be written: {error.strerror}.", StorageError.exit_code)
        raise
    except UnicodeEncodeError:
        odd = next((word for word in sys.argv if without_surrogates(word) != word), None)
        if odd is None:
            raise
        _fail(f"{odd!r}: is a name that is not UTF-8. Name it otherwise.", StorageError.exit_code)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(sign in str(error) for sign in ("allocate", "out of memory")):
            raise
        _fail(
            "out of memory. Lower --batch-tokens or train.batch_tokens, or take a smaller model.", RunError.exit_code
        )
