"""Displays of a training: a live panel in a terminal, plain lines anywhere else."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from glassformer.text.corpus.prepare import PrepareProgress
from glassformer.training.evaluation.results import Validation
from glassformer.training.reporting.run_log import (
    Display,
    TrainProgress,
    format_duration,
    prepare_line,
    sample_lines,
    validation_line,
)

_FRAME = 4  # columns of a panel's border and padding


@contextmanager
def open_display(console: Console) -> Iterator[Display]:
    """A live panel if ``console`` writes to a terminal, plain lines otherwise, whatever FORCE_COLOR says."""
    if console.is_terminal and (console.file is not sys.stdout or sys.stdout.isatty()):
        with Live(console=console, refresh_per_second=4, transient=False) as live:
            yield LiveDisplay(live)
    else:
        yield PlainDisplay(console)


class PlainDisplay(Display):
    """Plain lines, for log files and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def log(self, line: str) -> None:
        """Print a line of text, while somebody reads it."""
        try:
            self._console.print(Text(line), soft_wrap=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def on_prepare(self, progress: PrepareProgress, *, due: bool) -> None:
        """Print a line every ten seconds."""
        if due:
            self.log(prepare_line(progress))

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        """Print a line every ``train.log_every`` updates."""
        if due:
            self.log(progress.line())

    def on_validation(self, validation: Validation, *, best: bool) -> None:
        """Print the validation and the sample translations."""
        self.log(validation_line(validation, best=best))
        for line in sample_lines(validation, width=self._console.width):
            self.log(line)


class LiveDisplay(Display):
    """A panel that changes in place."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._progress: TrainProgress | None = None
        self._validation: Validation | None = None
        self._best: Validation | None = None

    def log(self, line: str) -> None:
        """Print a line of text above the panel."""
        self._live.console.print(Text(line))

    def on_prepare(self, progress: PrepareProgress, *, due: bool) -> None:
        """Show a bar, which pulses while the number of pairs is unknown."""
        bar = ProgressBar(total=progress.total, completed=progress.done, pulse=progress.total is None)
        self._live.update(Panel(Group(Text(prepare_line(progress)), bar), title="text", border_style="cyan"))

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        """Show the newest numbers; the terminal is redrawn a few times a second."""
        self._progress = progress
        self._live.update(self._panel())

    def on_validation(self, validation: Validation, *, best: bool) -> None:
        """Show the newest validation, and the best."""
        self._validation = validation
        if best:
            self._best = validation
        self._live.update(self._panel())

    def _panel(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._progress is not None:
            bar = ProgressBar(total=1.0, completed=self._progress.fraction_done)
            # A bar alone ends without a line feed, and what follows it would be cut off.
            parts += [_numbers(self._progress), Padding(bar, 0)]
        if self._validation is not None:
            parts.append(_validation_table(self._validation, self._best))
            lines = sample_lines(self._validation, width=self._live.console.width - _FRAME)
            parts += [Text(line, overflow="ellipsis", no_wrap=True) for line in lines]
        return Panel(Group(*parts), title="training", border_style="cyan")


def _numbers(progress: TrainProgress) -> Table:
    values = {
        "update": f"{progress.update:,}",
        "epoch": str(progress.epoch),
        "loss": f"{progress.loss:.3f}",
        "ppl": f"{progress.perplexity:.2f}",
        "tokens/s": f"{progress.tokens_per_s:,.0f}",
        "rate": f"{progress.learning_rate:.2e}",
        "elapsed": format_duration(progress.elapsed_s),
        "left": progress.time_left or "?",
    }
    table = Table.grid(expand=True)
    for name in values:
        table.add_column(name, justify="right")
    table.add_row(*(Text(name, style="dim") for name in values))
    table.add_row(*(Text(value, style="bold") for value in values.values()))
    return table


def _validation_table(validation: Validation, best: Validation | None) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim")
    table.add_column()
    for name, one in {"validation": validation, "best": best}.items():
        if one is not None and (name != "best" or one is not validation):
            scores = validation_line(one, best=False).partition(": ")[2]
            table.add_row(name, Text(f"{scores}  (update {one.update})"))
    return table
