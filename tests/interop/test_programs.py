"""The register of programs: a new one is an entry, and what recognizes, reads, writes and explains them asks there."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.bundled import BUNDLED
from glassformer.cli.main import app
from glassformer.errors import ConfigError, RunError
from glassformer.interop import programs
from glassformer.interop.programs import PROGRAMS, Program, export_model, export_targets, find_program, read_model

PAGE = (Path(__file__).parents[2] / "docs/exchange.md").read_text(encoding="utf-8")


def write_toy(run, out, *, scale=1):
    out.mkdir()
    (out / "model.toy").write_text(f"{run.config.model.d_model * scale}")
    return ["A toy."]


TOY = Program(
    name="toy",
    title="Toy",
    recognizes=lambda place: (place / "model.toy").is_file(),
    read=lambda place: (place / "model.toy").read_text(),
    source="a directory with model.toy",
    write=write_toy,
    takes=("scale",),
)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(programs, "PROGRAMS", (*PROGRAMS, TOY))


def test_a_new_program_is_one_entry_with_options_of_its_own(toy, tmp_path):
    done = CliRunner().invoke(app, ["export", "--to", "toy", "--out", str(tmp_path / "out")])
    assert (done.exit_code, done.stderr) == (0, "note: A toy.\n")
    assert find_program(tmp_path / "out") is TOY
    assert read_model(str(tmp_path / "out"), print) == "256"
    with pytest.raises(RunError, match=r"and vocabularies\), or a directory with model\.toy\."):
        read_model(str(tmp_path), print)
    export_model(BUNDLED, "toy", tmp_path / "scaled", scale=2)
    assert (tmp_path / "scaled/model.toy").read_text() == "512"
    with pytest.raises(ConfigError, match="--scale: found with --to ctranslate2, expected --to toy, which alone"):
        export_model(BUNDLED, "ctranslate2", tmp_path / "other", scale=2)


@pytest.mark.parametrize("to", ["nowhere"])
def test_a_program_that_nothing_goes_to_is_refused(to, tmp_path):
    with pytest.raises(ConfigError, match=f"--to: found '{to}', expected transformers or marian or ctranslate2"):
        export_model(BUNDLED, to, tmp_path / "out")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_each_program_is_recognized_explained_and_on_the_page(program, tmp_path):
    assert not program.recognizes(tmp_path)
    assert not program.recognizes(BUNDLED)
    assert program.source if program.read else program.advice
    assert program.title in PAGE
    assert (f"glassformer export RUN --to {program.name}" in PAGE) is (program.name in export_targets())
