"""A training shown to a person: live in a terminal, as plain lines anywhere else."""

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from glassformer.text.prepare import PrepareProgress
from glassformer.training.evaluation import Validation
from glassformer.training.run_log import Progress, clock, prepare_line, validation_line


class PlainDisplay:
    """Lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def say(self, line: str) -> None:
        """A line of text that stays."""
        self._console.print(Text(line), soft_wrap=True)

    def advanced(self, progress: PrepareProgress, *, due: bool) -> None:
        """Every ten seconds."""
        if due:
            self.say(prepare_line(progress))

    def progress(self, progress: Progress, *, due: bool) -> None:
        """Every ``train.log_every`` updates."""
        if due:
            self.say(progress.line())

    def validated(self, validation: Validation, *, best: bool) -> None:
        """Every validation, with one sample."""
        self.say(validation_line(validation) + ("  (best so far)" if best else ""))
        source, output, reference = validation.sample
        self.say(f"  source     {source}\n  output     {output}\n  reference  {reference}")


class LiveDisplay:
    """A panel that changes in place: numbers, a bar, the last validation and a sample translation."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._progress: Progress | None = None
        self._validation: Validation | None = None
        self._best: Validation | None = None

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, traceback)

    def say(self, line: str) -> None:
        """A line of text that stays above the panel."""
        self._live.console.print(Text(line))

    def advanced(self, progress: PrepareProgress, *, due: bool) -> None:
        """A bar, which pulses while nobody knows how many pairs there are."""
        bar = ProgressBar(total=progress.total, completed=progress.done, pulse=progress.total is None)
        self._live.update(Panel(Group(Text(prepare_line(progress)), bar), title="text", border_style="cyan"))

    def progress(self, progress: Progress, *, due: bool) -> None:
        """The panel is drawn anew a few times a second, with the newest numbers."""
        self._progress = progress
        self._live.update(self._panel())

    def validated(self, validation: Validation, *, best: bool) -> None:
        """The newest validation, and the best."""
        self._validation = validation
        if best:
            self._best = validation
        self._live.update(self._panel())

    def _panel(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._progress is not None:
            parts += [_numbers(self._progress), ProgressBar(total=1.0, completed=self._progress.share_done)]
        if self._validation is not None:
            parts.append(_validation_table(self._validation, self._best))
        return Panel(Group(*parts), title="training", border_style="cyan")


def _numbers(progress: Progress) -> Table:
    values = {
        "update": f"{progress.update:,}",
        "epoch": str(progress.epoch),
        "loss": f"{progress.loss:.3f}",
        "ppl": f"{progress.perplexity:.2f}",
        "tokens/s": f"{progress.tokens_per_s:,.0f}",
        "rate": f"{progress.learning_rate:.2e}",
        "elapsed": clock(progress.elapsed_s),
        "left": "?" if progress.left_s is None else clock(progress.left_s),
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
    table.add_row(
        "validation", Text(validation_line(validation).partition(": ")[2] + f"  (update {validation.update})")
    )
    if best is not None and best is not validation:
        table.add_row("best", Text(validation_line(best).partition(": ")[2] + f"  (update {best.update})"))
    for name, text in zip(("source", "output", "reference"), validation.sample, strict=True):
        table.add_row(name, Text(text, overflow="ellipsis", no_wrap=True))
    return table


def display_for(console: Console) -> PlainDisplay | LiveDisplay:
    """Live in a terminal, plain lines elsewhere."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)
