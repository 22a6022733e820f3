"""What a training says: numbers for metrics.jsonl and TensorBoard, lines for train.log and the display."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from glassformer.errors import ConfigError, StorageError
from glassformer.run_directory import FREE_SPACE, RunDirectory
from glassformer.text.prepare import PrepareProgress
from glassformer.training.evaluation import Validation


@dataclass(frozen=True)
class Progress:
    """The state of a training after one update; rates per second.

    ``loss``, in nats per token, ``perplexity`` and ``tokens_per_s`` are those of all updates since the last line.
    """

    update: int
    epoch: int
    loss: float
    perplexity: float
    tokens_per_s: float
    learning_rate: float
    gradient_norm: float
    elapsed_s: float
    left_s: float | None
    share_done: float

    def line(self) -> str:
        """One line for a log."""
        left = "" if self.left_s is None else f"  left {clock(self.left_s)}"
        return (
            f"update {self.update}  epoch {self.epoch}  loss {self.loss:.3f}  ppl {self.perplexity:.2f}  "
            f"{self.tokens_per_s:,.0f} tokens/s  rate {self.learning_rate:.2e}  elapsed {clock(self.elapsed_s)}{left}"
        )


def validation_line(validation: Validation) -> str:
    """One line for a log."""
    scores = validation.scores
    return (
        f"validation at update {validation.update}: loss {validation.loss:.3f}  ppl {validation.perplexity:.2f}  "
        f"BLEU {scores.bleu:.1f}  chrF {scores.chrf:.1f}  exact {scores.exact_match:.1f} %"
    )


def prepare_line(progress: PrepareProgress) -> str:
    """One line for a log."""
    of = "" if progress.total is None else f" of {progress.total:,}"
    left = "" if progress.left_s is None else f"  left {clock(progress.left_s)}"
    rate = f"{progress.pairs_per_s:,.0f} pairs/s  elapsed {clock(progress.elapsed_s)}"
    return f"{progress.stage}  {progress.done:,}{of} pairs  {rate}{left}"


def clock(seconds: float) -> str:
    """75 s as 1:15, 3,675 s as 1:01:15."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Display(Protocol):
    """Who shows a training to a person."""

    def say(self, line: str) -> None:
        """A line of text that stays."""

    def advanced(self, progress: PrepareProgress, *, due: bool) -> None:
        """A few times a second while text is prepared; ``due`` every ten seconds."""

    def progress(self, progress: Progress, *, due: bool) -> None:
        """Every update; ``due`` every ``train.log_every``."""

    def validated(self, validation: Validation, *, best: bool) -> None:
        """Every validation."""


class Silence:
    """The display of a process that is not the first one: it shows and writes nothing."""

    def say(self, line: str) -> None:
        """Not shown."""

    def advanced(self, progress: PrepareProgress, *, due: bool) -> None:
        """Not shown."""

    def progress(self, progress: Progress, *, due: bool) -> None:
        """Not shown."""

    def validated(self, validation: Validation, *, best: bool) -> None:
        """Not shown."""


class RunLog:
    """Writes what happens to the run directory and passes it to the display."""

    def __init__(self, run: RunDirectory, display: Display, *, tensorboard: bool) -> None:
        self._display, self._place = display, run.path
        with self._writing():
            self._metrics = run.metrics_file.open("a", encoding="utf-8")
            self._lines = run.log_file.open("a", encoding="utf-8")
            self._events = _event_writer(run.path / "tensorboard") if tensorboard else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for file in (self._metrics, self._lines, self._events):
            if file is not None:
                with suppress(OSError):  # told when what it still holds was written
                    file.close()

    def say(self, line: str) -> None:
        """A line for people."""
        self._write_line(line)
        self._display.say(line)

    def advanced(self, progress: PrepareProgress, *, due: bool) -> None:
        """How far the preparation of the text is; written when ``due``."""
        self._display.advanced(progress, due=due)
        if due:
            self._write_line(prepare_line(progress))

    def progress(self, progress: Progress, *, due: bool) -> None:
        """The numbers of an update; written when ``due``."""
        self._display.progress(progress, due=due)
        if due:
            self._write_line(progress.line())
            self._write_metrics(
                progress.update,
                {
                    "epoch": progress.epoch, "loss": progress.loss, "perplexity": progress.perplexity,
                    "tokens_per_s": progress.tokens_per_s, "learning_rate": progress.learning_rate,
                    "gradient_norm": progress.gradient_norm, "elapsed_s": progress.elapsed_s,
                },
            )  # fmt: skip

    def validated(self, validation: Validation, *, best: bool) -> None:
        """The numbers of a validation."""
        self._display.validated(validation, best=best)
        self._write_line(validation_line(validation) + ("  (best so far)" if best else ""))
        source, output, reference = validation.sample
        self._write_line(f"  sample: {source!r} -> {output!r} (reference {reference!r})")
        scores = validation.scores
        self._write_metrics(
            validation.update,
            {
                "valid_loss": validation.loss, "valid_perplexity": validation.perplexity, "valid_bleu": scores.bleu,
                "valid_chrf": scores.chrf, "valid_exact_match": scores.exact_match,
                "position_similarity": validation.position_similarity,
            },
        )  # fmt: skip

    def _write_line(self, line: str) -> None:
        with self._writing():
            self._lines.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n")
            self._lines.flush()

    def _write_metrics(self, update: int, values: dict[str, float]) -> None:
        with self._writing():
            self._metrics.write(json.dumps({"update": update, **values}) + "\n")
            self._metrics.flush()
            if self._events is not None:
                for name, value in values.items():
                    self._events.add_scalar(name, value, update)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self._place}: its log cannot be written: {error.strerror}. {FREE_SPACE}") from error


def _event_writer(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "train.tensorboard: found true, but TensorBoard is not installed. "
            "pip install 'glassformer[tensorboard]', or leave it false: metrics.jsonl has the same numbers."
        ) from error
    return SummaryWriter(str(directory))
