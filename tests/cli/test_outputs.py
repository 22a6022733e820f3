"""Every output of every command: what cannot be written is said before a model is loaded, and no input is overwritten."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import safetensors
import safetensors.torch

from glassformer.cli import options as opt
from glassformer.cli.main import app, main

Refused = Callable[..., str]

# Options that name what a command only reads.
READ = {
    "--src", "--tgt", "--ref", "--valid", "--valid-src", "--valid-tgt", "--config", "--input", "--glossary", "--memory",
}  # fmt: skip
# Every other option that names a path, and the words that the command needs beside it.
FILES = {
    "translate --out": ("--input", "a.txt"),
    "translate --report": ("--input", "a.txt", "--out", "b.out"),
    "evaluate --out": ("--src", "a.txt", "--ref", "b.txt"),
    "trace --json": ("A",),
    "trace --markdown": ("A",),
    "explore --out": ("A",),
}
NEW_DIRECTORIES = {"trace --save": ("A",), "import --run": ("hf:a/b",), "export --out": ("--to", "transformers")}
RUNS = {
    "train --run": ("a.tsv", "--init", "bundled"),
    "diversify --run": ("a.tsv",),
    "distill --run": ("bundled", "a.tsv"),
    "demo --run": (),
}
INPUTS = {"serve --run", "import --vocab", "import --shortlist"}
IN_A_RUN = {"shortlist --run", "average --run"}  # which there has to be: the lock or the first step says it


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Refused:
    """Call a command that must end with an error before it reads any weights; what it says."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("A man sleeps.\n")
    (tmp_path / "a.tsv").write_text("A man sleeps.\tEin Mann schläft.\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    too_early = lambda *_, **__: pytest.fail("a model was read")  # noqa: E731
    for module, name in ((safetensors.torch, "load_file"), (safetensors, "safe_open")):
        monkeypatch.setattr(module, name, too_early)
    monkeypatch.setattr("glassformer.cli.import_export.read_model", too_early)

    def call(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["glassformer", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr().err
        assert ended.value.code in (2, 3, 5), said
        return said

    return call


def path_options() -> set[str]:
    """The options of all commands that name a path, but for those in ``READ`` and runs that are only read."""
    found = set()
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        hints = get_type_hints(command.callback, include_extras=True)
        hints |= {each: one.annotation for each, one in opt.inspect.signature(command.callback).parameters.items()}
        for parameter in opt.inspect.signature(command.callback).parameters.values():
            kind, *infos = get_args(parameter.annotation) or (parameter.annotation,)
            is_path = kind is Path or Path in get_args(kind) or list[Path] in get_args(kind)
            is_read = parameter.annotation in (opt.Run, opt.Runs) or type(infos[0]).__name__ == "ArgumentInfo"
            if is_path and not is_read:
                found.add(f"{name} {opt.option_name(parameter)}")
    return {each for each in found if each.split()[1] not in READ}


def test_every_path_that_a_command_takes_is_known_as_input_or_as_output() -> None:
    assert path_options() == {*FILES, *NEW_DIRECTORIES, *RUNS, *IN_A_RUN, *INPUTS}


@pytest.mark.parametrize("option", [*FILES, *NEW_DIRECTORIES, *RUNS])
def test_an_output_below_a_file_is_refused_before_a_model_is_read(refused: Refused, option: str) -> None:
    command, name = option.split()
    words = {**FILES, **NEW_DIRECTORIES, **RUNS}[option]
    said = refused(command, *words, name, "a.txt/new.txt")
    assert re.search(r"a\.txt/new\.txt: .*cannot be (written|found): .*Not a directory.*(Name|Choose) another", said)


@pytest.mark.parametrize("out", ["none/new.txt", "pipe", "full"])
@pytest.mark.parametrize("option", FILES)
def test_a_file_that_cannot_be_written_is_refused_before_a_model_is_read(refused, option, out):
    command, name = option.split()
    said = refused(command, *FILES[option], name, out)
    assert re.search(rf"{out}: cannot be written: .*Name another {name}\.", said)


@pytest.mark.parametrize("option", [*NEW_DIRECTORIES, *(one for one in RUNS if one != "diversify --run")])
def test_a_directory_that_holds_something_else_is_refused_before_a_model_is_read(refused, option):
    command, name = option.split()
    said = refused(command, *{**NEW_DIRECTORIES, **RUNS}[option], name, "full")
    assert re.search(r"full: (exists and|holds 'file').*(Name|Choose) another", said)
    assert Path("full/file").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (("evaluate", "--src", "a.txt", "--ref", "b.txt", "--out", "b.txt"), "--out: found b.txt, which is --ref"),
        (("evaluate", "a.tsv", "--out", "link"), "--out: found link, which is the file of pairs"),
        (("translate", "--input", "a.txt", "--out", "a.txt"), "--out: found a.txt, which is --input"),
        (("translate", "--input", "a.txt", "--out", "hard"), "--out: found hard, which is --input"),
        (("translate", "--input", "b.tsv", "--out", "a.tsv", "--memory", "a.tsv"), "found a.tsv, which is --memory"),
        (("trace", "A", "--json", "new", "--markdown", "new"), "--markdown: found new, which is --json"),
    ],
)
def test_no_output_overwrites_an_input_or_another_output(refused: Refused, words: tuple[str, ...], same: str) -> None:
    Path("link").symlink_to("a.tsv")
    Path("hard").hardlink_to("a.txt")
    assert same in refused(*words)
    assert Path("a.tsv").read_text() == "A man sleeps.\tEin Mann schläft.\n"
