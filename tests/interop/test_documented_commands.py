"""Every command of docs/exchange.md, run in its order: in, out, fine-tuning, comparison."""

import re
import shlex
from pathlib import Path

import pytest
from interop.marian_release import write_release
from interop.random_marian import sentences, write_marian, write_run, write_spm
from interop.test_export import zip_of
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.interop.transformers import import_transformers
from glassformer.run_directory import load_run

PAGE = (Path(__file__).parents[2] / "docs/exchange.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    for line in block.splitlines()
    if line.strip()
]
BRIEF = ["train.max_updates=12", "train.validate_every=6", "train.batch_tokens=256", "decode.max_length_b=9"]


@pytest.fixture
def workshop(tmp_path, monkeypatch) -> Path:
    """A directory with what the page begins with."""
    pytest.importorskip("ctranslate2")
    monkeypatch.chdir(tmp_path)
    write_marian(Path("models/opus-mt-en-de"))
    write_run(Path("runs/first"), norm="post")
    import_transformers(Path("models/opus-mt-en-de")).write(Path("made"))
    write_release(load_run(Path("made"), "cpu"), Path("release"))
    write_spm(Path("release"))
    zip_of(Path("release"), Path("opus-2020-02-26.zip"))
    for side, seed in (("en", 5), ("de", 6)):
        Path(f"new.{side}").write_text("".join(f"{line}\n" for line in sentences(120, seed)))
    return tmp_path


@pytest.mark.slow
def test_the_commands_of_the_page_do_what_they_say(workshop):
    assert len(COMMANDS) >= 10
    for line in COMMANDS:
        arguments = shlex.split(line)[1:]
        if arguments[0] == "train":
            arguments += [part for setting in BRIEF for part in ("--set", setting)]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code in ({0, 1} if arguments[0] == "diff" else {0}), (line, done.output, done.exception)
    again = import_transformers(workshop / "tuned-hf")
    before, after = (load_run(workshop / "runs" / name, "cpu") for name in ("opus", "tuned"))
    assert [one.digest for one in again.tokenizers] == [
        one.digest for one in (after.src_tokenizer, after.tgt_tokenizer)
    ]
    assert before.src_tokenizer.digest == after.src_tokenizer.digest
    assert before.tgt_tokenizer.digest == after.tgt_tokenizer.digest != after.src_tokenizer.digest
    prepared = workshop / "runs/tuned/text/tgt.tokenizer.json"
    assert prepared.read_text(encoding="utf-8") == after.tgt_tokenizer.json, "each side is cut by its own tokenizer"
    assert not before.model.src_embedding.tokens.weight.equal(after.model.src_embedding.tokens.weight)
