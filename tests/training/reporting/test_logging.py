"""What a program that embeds the package gets from ``logging``, and that nothing is printed twice."""

import io
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from glassformer import Translator
from glassformer.cli.main import app
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig
from glassformer.training.reporting.display import PlainDisplay
from glassformer.training.reporting.run_log import Display, RunLog
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

MakeConfig = Callable[..., RunConfig]
LOST = "final: holds no model that can be used"


@pytest.fixture
def without_final(trained: Path) -> Path:
    """A run whose final model is lost, so that another checkpoint stands in for it."""
    shutil.rmtree(trained / "final")
    return trained


def test_a_program_gets_every_line_of_train_log_with_its_level(corpus, small_config, tmp_path, caplog):
    run = tmp_path / "run"
    with caplog.at_level(logging.INFO, "glassformer"):
        train(TrainRequest(run, FileSource(*corpus), small_config()), Display())
    records = [record for record in caplog.records if record.name == "glassformer.training"]
    written = [line.partition("  ")[2] for line in (run / "train.log").read_text("utf-8").splitlines()]
    assert [record.getMessage() for record in records] == written
    assert any("left out: 0 empty" in line for line in written)
    assert any(line.startswith("update 20  epoch") for line in written)
    (warning,) = (record for record in records if record.levelno == logging.WARNING)
    assert "pairs are few" in warning.getMessage()


def test_a_warning_of_a_training_reaches_the_display_the_file_and_the_logger(tmp_path, caplog):
    out = io.StringIO()
    run = RunDirectory(tmp_path)
    with RunLog(run, PlainDisplay(Console(file=out, width=80)), tensorboard=False) as log:
        log.warn("100 % of it is wrong.")
    assert out.getvalue() == "100 % of it is wrong.\n"
    assert run.log_file.read_text("utf-8").endswith("  100 % of it is wrong.\n")
    assert caplog.record_tuples == [("glassformer.training", logging.WARNING, "100 % of it is wrong.")]


def test_a_model_that_stands_in_for_another_is_a_warning_that_the_shell_prints_once(without_final, caplog):
    Translator.load(without_final)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("glassformer.run_directory", logging.WARNING)
    assert LOST in record.getMessage()
    for _ in range(2):  # the second command in this process adds no second handler
        done = CliRunner().invoke(app, ["translate", "abc", "--run", str(without_final)])
        assert done.stderr.count("warning: ") == done.stderr.count(LOST) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "where"),
    [("", "stderr"), ("import logging, sys; logging.basicConfig(stream=sys.stdout, format='%(name)s')", "stdout")],
)
def test_a_program_without_logging_still_sees_it_and_one_with_logging_decides_where(without_final, setup, where):
    program = f"{setup}\nfrom glassformer import Translator\nTranslator.load({str(without_final)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    shown = {"stdout": done.stdout, "stderr": done.stderr}
    (line,) = shown.pop(where).splitlines()
    assert line == "glassformer.run_directory" if setup else LOST in line
    assert not "".join(shown.values())
