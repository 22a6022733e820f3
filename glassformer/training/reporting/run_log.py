"""What a training reports: train.log, a display, metrics.jsonl, TensorBoard."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from glassformer.errors import ConfigError, StorageError
from glassformer.files import FREE_SPACE, open_to_append
from glassformer.run_directory import RunDirectory
from glassformer.text.corpus.prepare import PrepareProgress
from glassformer.text.corpus.units import Unit
from glassformer.training.evaluation.metrics import METRICS
from glassformer.training.evaluation.results import Validation

logger = logging.getLogger("glassformer.training")
logger.addHandler(logging.NullHandler())  # its lines are in train.log, and warnings among them on the display
_LOGGED = ("epoch", "loss", "perplexity", "tokens_per_s", "learning_rate", "gradient_norm", "elapsed_s")


@dataclass(frozen=True)
class TrainProgress:
    """The state after an update; means since the last line of the log."""

    update: int
    epoch: int
    loss: float
    perplexity: float
    tokens_per_s: float
    learning_rate: float
    gradient_norm: float
    elapsed_s: float
    left_s: float | None
    fraction_done: float
    may_end_early: bool = False

    @property
    def time_left(self) -> str:
        """The time that is left; empty if it is not known."""
        if self.left_s is None:
            return ""
        return f"{'at most ' if self.may_end_early else ''}{format_duration(self.left_s)}"

    def line(self) -> str:
        """One line for a log; ``legend`` says what the words mean."""
        times = _times(self.elapsed_s, self.time_left)
        return (
            f"update {self.update}  epoch {self.epoch}  loss {self.loss:.3f}  ppl {self.perplexity:.2f}  "
            f"{self.tokens_per_s:,.0f} tokens/s  rate {self.learning_rate:.2e}  {times}"
        )


def legend(unit: Unit) -> str:
    """What the words of the lines mean, with the metrics that fit such texts."""
    part = "words" if unit == "sentences" else "symbols"
    fitting = [each for each in METRICS.values() if unit in each.fits and each.compute]
    lower = [f"loss (how surprised the model is by the right {part})", f"ppl (among how many {part} it hesitates)"]
    lower += [f"{each.title} ({each.meaning})" for each in fitting if not each.higher_is_better]
    higher = [f"{each.title} ({each.meaning})" for each in fitting if each.higher_is_better]
    return (
        "How to read the lines: an update changes the weights once; an epoch is all pairs once. Lower is better: "
        f"{', '.join(lower)}. Higher is better: {', '.join(higher)}, all in percent. "
        "rate is how far an update moves the weights."
    )


def validation_line(validation: Validation, *, best: bool) -> str:
    """One line for a log."""
    suffix = "  (best so far)" if best else ""
    return (
        f"validation at update {validation.update}: loss {validation.loss:.3f}  ppl {validation.perplexity:.2f}  "
        f"{validation.scores.format()}{suffix}"
    )


def sample_lines(validation: Validation, *, width: int) -> Iterator[str]:
    """The sample translations, on one line each if they fit."""
    for source, output, reference in validation.samples:
        mark = "✓" if output == reference else "✗"
        short = f"  {mark} {source} -> {output}" + ("" if output == reference else f"   ({reference})")
        if len(short) <= width:
            yield short
        else:
            yield from (f"  {mark} {source}", f"    output     {output}", f"    reference  {reference}")


def prepare_line(progress: PrepareProgress) -> str:
    """One line for a log."""
    of = "" if progress.total is None else f" of {progress.total:,}"
    times = _times(progress.elapsed_s, "" if progress.left_s is None else format_duration(progress.left_s))
    return f"{progress.stage}  {progress.done:,}{of} pairs  {progress.pairs_per_s:,.0f} pairs/s  {times}"


def _times(elapsed_s: float, left: str) -> str:
    return f"elapsed {format_duration(elapsed_s)}" + (f"  left {left}" if left else "")


def format_duration(seconds: float) -> str:
    """75 s as 1:15, 3,675 s as 1:01:15."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Display:
    """Shows nothing, as all processes but the first."""

    def log(self, line: str) -> None:
        """Show a line of text that stays."""

    def warn(self, line: str) -> None:
        """Show a warning."""
        self.log(line)

    def on_prepare(self, progress: PrepareProgress, *, due: bool) -> None:
        """Called while text is prepared; ``due`` every ten seconds."""

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        """Called after every update; ``due`` is True every ``train.log_every`` updates."""

    def on_validation(self, validation: Validation, *, best: bool) -> None:
        """Called after every validation; ``best`` is True if it is the best so far."""


class RunLog(Display):
    """Writes what is reported to the run, and passes it on."""

    def __init__(self, run: RunDirectory, display: Display, *, tensorboard: bool) -> None:
        self._display, self._path = display, run.path
        with self._storage_errors(), ExitStack() as opened:
            self._metrics = opened.enter_context(open_to_append(run.metrics_file))
            self._lines = opened.enter_context(open_to_append(run.log_file))
            self._events = _open_tensorboard(run.path / "tensorboard") if tensorboard else None
            opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._metrics, self._lines, self._events):
            if file is not None:
                with suppress(OSError):  # a write that failed has raised its own error
                    file.close()

    def log(self, line: str) -> None:
        """Write and show a line of text."""
        self._write_line(line)
        self._display.log(line)

    def warn(self, line: str) -> None:
        """Write and show a line of text that is a warning."""
        self._write_line(line, logging.WARNING)
        self._display.warn(line)

    def on_prepare(self, progress: PrepareProgress, *, due: bool) -> None:
        """Show how far the preparation of the text has come; write it when ``due``."""
        self._display.on_prepare(progress, due=due)
        if due:
            self._write_line(prepare_line(progress))

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        """Show the numbers of an update; write them when ``due``."""
        self._display.on_update(progress, due=due)
        if due:
            self._write_line(progress.line())
            self._write_metrics(progress.update, {name: getattr(progress, name) for name in _LOGGED})

    def on_validation(self, validation: Validation, *, best: bool) -> None:
        """Write and show the numbers of a validation."""
        self._display.on_validation(validation, best=best)
        self._write_line(validation_line(validation, best=best))
        for source, output, reference in validation.samples:
            self._write_line(f"  sample: {source!r} -> {output!r} (reference {reference!r})")
        self._write_metrics(
            validation.update,
            {
                "valid_loss": validation.loss, "valid_perplexity": validation.perplexity,
                **{f"valid_{name}": validation.scores[name] for name in validation.scores.fitting},
                "position_similarity": validation.encoder_collapse,
            },
        )  # fmt: skip

    def _write_line(self, line: str, level: int = logging.INFO) -> None:
        logger.log(level, line)
        with self._storage_errors():
            self._lines.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n")
            self._lines.flush()

    def _write_metrics(self, update: int, values: dict[str, float]) -> None:
        with self._storage_errors():
            self._metrics.write(json.dumps({"update": update, **values}) + "\n")
            self._metrics.flush()
            if self._events is not None:
                for name, value in values.items():
                    self._events.add_scalar(name, value, update)

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self._path}: its log cannot be written: {error.strerror}. {FREE_SPACE}") from error


def _open_tensorboard(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "train.tensorboard: found true, but TensorBoard is not installed. "
            "pip install '.[tensorboard]' in the clone, or leave it false: metrics.jsonl has the same numbers."
        ) from error
    return SummaryWriter(str(directory))
