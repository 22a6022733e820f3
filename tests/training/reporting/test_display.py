"""The progress of preparing text, in a terminal and elsewhere."""

import io
import math

import pytest
from rich.console import Console

from glassformer.run_directory import RunDirectory
from glassformer.text.corpus.prepare import PrepareProgress
from glassformer.training.evaluation.evaluation import score
from glassformer.training.evaluation.results import Validation
from glassformer.training.loop.trainer import RunningMeans
from glassformer.training.loop.update import UpdateMetrics
from glassformer.training.reporting.display import PlainDisplay, open_display
from glassformer.training.reporting.run_log import RunLog, TrainProgress, prepare_line

HALF = PrepareProgress("encoding", 50_000, 200_000, 10.0)
LINE = "encoding  50,000 of 200,000 pairs  5,000 pairs/s  elapsed 0:10  left 0:30"


def test_a_line_shows_what_is_known_and_is_printed_when_due():
    assert prepare_line(HALF) == LINE
    assert (
        prepare_line(PrepareProgress("pairs read", 2_000, None, 4.0))
        == "pairs read  2,000 pairs  500 pairs/s  elapsed 0:04"
    )
    out = io.StringIO()
    display = PlainDisplay(Console(file=out, width=120))
    display.on_prepare(HALF, due=False)
    assert not out.getvalue()
    display.on_prepare(HALF, due=True)
    assert out.getvalue() == LINE + "\n"


@pytest.mark.parametrize("total", [200_000, None])
def test_a_terminal_shows_a_bar(total: int | None) -> None:
    out = io.StringIO()
    with open_display(Console(file=out, width=120, force_terminal=True)) as display:
        display.on_prepare(PrepareProgress("encoding", 50_000, total, 10.0), due=False)
    assert "50,000" in out.getvalue()
    assert out.getvalue().count("━") > 20


def test_the_log_of_the_run_holds_the_lines_that_are_due(tmp_path) -> None:
    run = RunDirectory(tmp_path)
    out = io.StringIO()
    with RunLog(run, PlainDisplay(Console(file=out, width=120)), tensorboard=False) as log:
        log.on_prepare(HALF, due=False)
        log.on_prepare(HALF, due=True)
    assert run.log_file.read_text().count(LINE) == out.getvalue().count(LINE) == 1


@pytest.mark.parametrize("terminal", [False, True])
def test_a_validation_shows_the_same_samples_right_and_wrong(terminal: bool) -> None:
    long = "a long sentence " * 5
    samples = (
        ("3 March 2031", "2031-03-03", "2031-03-03"),
        ("1 May 1999", "1991-05-01", "1999-05-01"),
        (long, long, "x"),
    )
    out = io.StringIO()
    with open_display(Console(file=out, width=80, force_terminal=terminal, color_system=None)) as display:
        display.on_validation(Validation(7, 0.5, score(["a"], ["a"]), samples, 0.0), best=True)
    shown = out.getvalue()
    assert "✓ 3 March 2031 -> 2031-03-03" in shown
    assert "✗ 1 May 1999 -> 1991-05-01   (1999-05-01)" in shown
    assert "reference  x" in shown


@pytest.mark.parametrize("width", [80, 120])
def test_the_panel_shows_the_scores_below_the_bar(width: int) -> None:
    progress = TrainProgress(
        update=1200, epoch=3, loss=2.5, perplexity=12.18, tokens_per_s=4321.0, learning_rate=1e-3,
        gradient_norm=0.5, elapsed_s=75.0, left_s=225.0, fraction_done=0.25,
    )  # fmt: skip
    out = io.StringIO()
    with open_display(Console(file=out, width=width, force_terminal=True, color_system=None)) as display:
        display.on_validation(Validation(1000, 0.5, score(["a b"], ["a c"]), (), 0.0), best=True)
        display.on_validation(Validation(1100, 0.6, score(["a b"], ["a c"]), (), 0.0), best=False)
        display.on_update(progress, due=False)
    lines = [line.strip("│ ") for line in out.getvalue().splitlines()]
    bar = max(at for at, line in enumerate(lines) if "━" in line)
    assert set(lines[bar]) <= {"━", "╸", "╺"}
    shown = " ".join(" ".join(lines[bar + 1 :]).split())
    assert shown.startswith(
        "validation loss 0.600 ppl 1.82 BLEU 0.0 chrF 25.0 exact 0.0 % (update 1100) best loss 0.500"
    )
    assert lines[bar - 1].startswith("1,200")


def test_running_means_are_weighted_by_tokens() -> None:
    means = RunningMeans()
    means.add(UpdateMetrics(loss=2.0, nll=1.0, tokens=300, rate=0.1, gradient_norm=1.0))
    means.add(UpdateMetrics(loss=4.0, nll=5.0, tokens=100, rate=0.1, gradient_norm=1.0))
    assert means.loss == pytest.approx(2.5)
    assert means.perplexity == pytest.approx(math.exp(2.0))
