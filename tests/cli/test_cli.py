"""The command line as a person meets it: results on standard output, one line for each mistake, no traceback."""

import errno
import gzip
import io
import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer import world
from glassformer.cli.main import app, main
from glassformer.cli.streams import read_stdin
from glassformer.errors import ConfigError, RunError
from glassformer.run_directory import RunDirectory

SMALL = [
    "--set", "model.d_model=32", "--set", "model.n_heads=2", "--set", "model.d_ff=48", "--set", "model.n_encoder_layers=1",
    "--set", "model.n_decoder_layers=1", "--set", "text.tokenizer=characters", "--set", "train.warmup=20",
    "--set", "train.optimizer=adam",
]  # fmt: skip


@dataclass
class Result:
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Call the command in this process, with these arguments and these bytes on standard input."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["glassformer", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return Result(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("text")
    words = [f"{first}{second} {second}{first}" for first in "abcdefgh" for second in "abcdefgh"]
    src, tgt = home / "a.src", home / "a.tgt.gz"
    src.write_text("\n".join(words) + "\n")
    tgt.write_bytes(gzip.compress(("\n".join(word[::-1] for word in words) + "\n").encode()))
    return src, tgt


@pytest.fixture(scope="module")
def trained(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few updates: it translates badly, but it translates."""
    run = tmp_path_factory.mktemp("runs") / "small"
    src, tgt = map(str, files)
    command = ["glassformer", "train", "--src", src, "--tgt", tgt, "--run", str(run), "--max-updates", "4", *SMALL]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
    said, warned = (stream.buffer.getvalue().decode() for stream in (out, err))
    assert (ended.value.code or 0, warned) == (0, "")
    assert "glassformer translate" in said
    return run


@pytest.mark.parametrize("command", [one.name or one.callback.__name__ for one in app.registered_commands])
def test_every_command_has_help_worth_reading(call, command):
    result = call(command, "--help")
    assert result.code == 0
    assert len(result.out) > 300


def test_as_many_lines_come_out_as_went_in_whatever_they_hold(call: Run, trained: Path) -> None:
    lines = [
        b"ab ba", b"", b"   ", "a\u2028b\u0085c\x0bd\x0ce".encode(), b"</s> <pad>", b"\xff\xfe broken", b"ab\r", b"x"
        * 3000,
    ]  # fmt: skip
    result = call(
        "translate",
        "--run",
        trained,
        "--beam",
        "1",
        *("--max-length-a", "0", "--max-length-b", "5"),
        stdin=b"\n".join(lines),
    )
    assert result.code == 0
    assert result.out.count("\n") == len(lines)
    assert result.out.split("\n")[1:3] == ["", ""]
    assert "standard input:6:1" in result.err


@pytest.mark.parametrize(("typed", "meant"), [("I am hungry", "glassformer translate"), ("explain", "glassformer trace"),
                                               ("translat", "'translate'")])  # fmt: skip
def test_a_command_that_is_none_leads_to_the_one_that_is_meant(call: Run, typed: str, meant: str) -> None:
    result = call(typed)
    assert (result.code, result.out) == (2, "")
    assert meant in " ".join(result.err.replace("│", " ").split())


def test_a_command_that_reads_a_terminal_says_that_it_waits(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    for is_terminal in (True, False):
        typed = io.TextIOWrapper(io.BytesIO(b"Hello.\n"))
        monkeypatch.setattr(typed, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr(sys, "stdin", typed)
        assert list(read_stdin()) == ["Hello."]
        assert capsys.readouterr().err.startswith("Type a sentence") == is_terminal


def test_n_best_and_json_and_attention(call: Run, trained: Path) -> None:
    plain = call("translate", "ab ba", "--run", trained, "--n-best", "3")
    assert plain.out.count("\t") == 2
    result = call("translate", "ab ba", "cd", "--run", trained, "--n-best", "2", "--json", "--attention")
    first, second = (json.loads(line) for line in result.out.splitlines())
    assert [len(translation["hypotheses"]) for translation in (first, second)] == [2, 2]
    scores = [hypothesis["score"] for hypothesis in first["hypotheses"]]
    assert scores == sorted(scores, reverse=True)
    assert len(first["hypotheses"][0]["attention"][0]) == 2


def test_sampling_is_repeatable_and_depends_on_its_seed(call: Run, trained: Path) -> None:
    outputs = [call("translate", "abc", "--run", trained, "--seed", seed).out for seed in ("1", "1", "2")]
    assert outputs[0] == outputs[1] != outputs[2]


def test_a_file_is_translated_as_standard_input_is_and_may_demand(call: Run, trained: Path, tmp_path: Path) -> None:
    lines, plain, packed = ["ab ba", "", "cd dc ab"], tmp_path / "in.txt", tmp_path / "in.gz"
    plain.write_text("\n".join(lines))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    expected = call("translate", "--run", trained, stdin=plain.read_bytes()).out
    for path in (plain, packed):
        result = call("translate", "--run", trained, "--input", path)
        assert (result.code, result.out, result.err) == (0, expected, "")
    asked = tmp_path / "in.jsonl"
    asked.write_text("".join(json.dumps({"text": line, "prefix": "abc", "ban": ["d"]}) + "\n" for line in lines))
    first, blank, third = call("translate", "--run", trained, "--input", asked, "--beam", "2").out.splitlines()
    assert first.startswith("abc")
    assert blank == ""
    assert third.startswith("abc")
    assert "d" not in first + third
    same = call("translate", "ab ba", "--run", trained, "--prefix", "abc", "--ban", "d", "--ban", "x", "--beam", "2")
    assert same.out.rstrip("\n") == first
    must = call("translate", "ab ba", "--run", trained, "--must", "fe", "--must", "hh", "--json")
    best = json.loads(must.out)["hypotheses"][0]
    assert "unmet" in best or ("fe" in best["text"] and "hh" in best["text"])


def test_several_runs_decide_together(call: Run, trained: Path) -> None:
    alone = call("translate", "ab ba", "--run", trained, "--json")
    twice = call("translate", "ab ba", "--run", trained, "--run", trained, "--json")
    one, two = (json.loads(result.out)["hypotheses"][0] for result in (alone, twice))
    assert one["text"] == two["text"]
    assert one["log_prob"] == pytest.approx(two["log_prob"], abs=1e-4)


def test_alignments_stand_behind_the_translation(call: Run, trained: Path) -> None:
    plain = call("translate", "ab ba", "cd", "--run", trained).out.splitlines()
    for options in ((), ("--layer", "0", "--head", "1")):
        aligned = call("translate", "ab ba", "cd", "--run", trained, "--align", *options).out.splitlines()
        for line, text in zip(aligned, plain, strict=True):
            shown, _, links = line.partition(" |||")
            assert shown == text
            assert all(link.replace("-", "").isdigit() for link in links.split())
    document = json.loads(call("translate", "ab ba", "--run", trained, "--align", "--json").out)
    assert "attention" not in document["hypotheses"][0]
    assert all(len(link) == 2 for link in document["links"])


def test_sentences_risk_and_filters_can_be_asked_for(call: Run, trained: Path) -> None:
    whole = call("translate", "ab. Cd! ef", "--run", trained, "--split-sentences").out
    parts = call("translate", "ab.", "Cd! ef", "--run", trained).out.splitlines()
    assert whole == f"{parts[0]} {parts[1]}\n"
    document = json.loads(call("translate", "ab ba", "--run", trained, "--mbr", "5", "--json").out)
    assert document["hypotheses"][0]["utility"] >= 0
    outputs = {
        call("translate", "ab", "--run", trained, "--typical-p", str(p), "--seed", "1").out for p in (0.1, 1.0)
    }
    assert len(outputs) == 2


def test_score_prints_a_line_for_each_pair(call: Run, trained: Path, files: tuple[Path, Path]) -> None:
    src, tgt = files
    plain = call("score", "--src", src, "--tgt", tgt, "--run", trained, "--length-penalty", "1")
    whole = call("score", "--src", src, "--tgt", tgt, "--run", trained, "--length-penalty", "1", "--json")
    assert plain.out.count("\n") == 64
    for line, document in zip(plain.out.splitlines(), map(json.loads, whole.out.splitlines()), strict=True):
        log_prob, scored = map(float, line.split("\t"))
        assert log_prob == pytest.approx(sum(document["token_log_probs"]), abs=1e-3)
        assert scored == pytest.approx(document["score"], abs=1e-3)
        assert len(document["tokens"]) == len(document["token_log_probs"])


@pytest.mark.slow
def test_a_bar_on_standard_error_counts_a_file(trained: Path, tmp_path: Path) -> None:
    """Only where it is a terminal, and the translations go elsewhere."""
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("ab\n" * 30)
    code = (
        "import pty, sys; "
        f"pty.spawn(['bash', '-c', '{sys.executable} -m glassformer translate --beam 1 --run {trained} --input {source} > {out}'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=120)
    assert b"translating" in done.stdout
    assert b"100%" in done.stdout
    assert out.read_text().count("\n") == 30


def test_evaluate_prints_one_json_object_with_its_signatures(call, trained, files):
    src, tgt = files
    out = trained.parent / "out.txt"
    result = call("evaluate", "--src", src, "--ref", tgt, "--run", trained, "--json", "--out", out)
    scores = json.loads(result.out)
    of_words = {"word_error_rate", "symbol_error_rate", "edit_distance"}  # its texts are letters
    of_all = {"bleu", "chrf", "exact_match", "signatures", "sentences", "limited", "engine"}
    assert scores.keys() == of_all | of_words
    assert scores["sentences"] == 64 > scores["limited"]
    limits = "--max-length-a", "0", "--max-length-b", "1"
    result = call("evaluate", "--src", src, "--ref", tgt, "--run", trained, "--json", *limits)
    assert json.loads(result.out)["limited"] == 64
    assert "warning: the length limit cut 64 of 64 translations; raise --max-length-a" in result.err
    assert scores["signatures"]["bleu"].startswith("nrefs:1|case:mixed")
    assert len(out.read_text().splitlines()) == 64


def test_pairs_with_an_empty_side_do_not_count_in_any_form(call: Run, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "a.src").write_text("ab\n\nba\ncd\n")
    (tmp_path / "a.tgt").write_text("ba\nab\n \ndc\n")
    (tmp_path / "a.jsonl").write_text(
        '{"src": "ab", "tgt": "ba"}\n{"src": "ba", "tgt": ""}\n{"src": "cd", "tgt": "dc"}\n'
    )
    two_files = ["--src", tmp_path / "a.src", "--ref", tmp_path / "a.tgt", "--out", tmp_path / "out"]
    plain, pairs = (call("evaluate", *files, "--run", trained) for files in (two_files, [tmp_path / "a.jsonl"]))
    assert plain.out == pairs.out
    assert "of 2 sentences" in plain.out
    assert "2 of 4 pairs have an empty side and are not counted." in plain.err
    assert "1 of 3 pairs have an empty side" in pairs.err
    lines = (tmp_path / "out").read_text().split("\n")
    assert [bool(line) for line in lines] == [True, False, False, True, False]


def test_scores_are_told_even_where_the_translations_cannot_be_written_any_more(
    call, trained, files, tmp_path, monkeypatch
):
    def fill_the_disk(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    src, tgt = files
    monkeypatch.setattr("glassformer.cli.streams.write_output", fill_the_disk)
    result = call("evaluate", "--src", src, "--ref", tgt, "--run", trained, "--out", tmp_path / "out.txt")
    assert result.code == 5
    assert result.out.startswith("exact")
    assert "cannot be written" in result.err


def test_trace_prints_the_walk_and_writes_it(call: Run, trained: Path, tmp_path: Path) -> None:
    result = call("trace", "ab", "--tgt", "ba", "--run", trained, "--json", tmp_path / "walk.json")
    assert "decoder.layers.0.cross_attention" in result.out
    steps = json.loads((tmp_path / "walk.json").read_text())["steps"]
    assert any(step["address"] == "decoder.layers.0.cross_attention.weights" for step in steps)
    values = call("trace", "ab", "--run", trained, "--only", "*cross_attention.weights", "--values")
    assert values.code == 0
    assert "self_attention" not in values.out


def test_summary_of_the_walkthrough_counts_its_parameters(call: Run, trained: Path) -> None:
    assert "44,312,696" in call("summary", "walkthrough").out
    assert call("summary", "--run", trained).code == 0


def test_average_makes_a_final_model(call: Run, trained: Path) -> None:
    result = call("average", "--run", trained, "--last", "1")
    assert result.code == 0
    assert "update-00000004" in result.out


def test_diff_compares_ways_and_names_where_they_part(call: Run, trained: Path) -> None:
    same = call("diff", trained, "--text", "ab", "--b", "cached")
    assert (same.code, same.err) == (0, "")
    parted = call("diff", trained, "--text", "ab", "--b", "bf16", "--tolerance", "0", "--json")
    assert (parted.code, parted.err) == (1, "")
    assert json.loads(parted.out)["first"]["address"]
    told = call("diff", trained, "--text", "ab", "--b", "bf16", "--tolerance", "0")
    assert json.loads(parted.out)["first"]["address"] in told.out


MISTAKES = [
    (["translate", "a", "--run", "{run}", "--seed", "1", "--beam", "8", "--coverage-penalty", "3"], "--beam, --coverage-penalty: found with sampling", 2),
    (["translate", "a", "--run", "{run}", "--stream", "--workers", "2"], "--stream: found with --workers, expected alone", 2),
    (["translate", "a", "--run", "{run}", "--device", "meta"], "device: 'meta' is not available here, expected auto", 2),
    (["translate", "hello", "--run", "nowhere"], "is not a run directory: it does not exist", 2),
    (["explore", "hello", "--run", "nowhere"], "nowhere: is not a run directory: it does not exist", 2),
    (["explore", "{run}"], "the directory of a model, expected a sentence. Name the model: --run", 2),
    (["translate", "hello", "--run", "{run}", "--beam", "0"], "decode.beam: found 0", 2),
    (["translate", "hello", "--run", "{run}", "--precision", "int4"], "precision: found 'int4', expected one of", 2),
    (["translate", "hello", "--run", "{run}", "--workers", "0"], "workers: found 0, expected a whole number from 1 to ", 2),
    (["translate", "hello", "--run", "{run}", "--device", "tpu9"], "device: 'tpu9' is not available", 2),
    (["translate", "x", "--run", "{run}", "--n-best", "5", "--beam", "2"], "decode.n_best", 2),
    (["train", "--run", "{tmp}/r"], "training text: found none", 2),
    (["train", "--src", "{src}", "--run", "{tmp}/r"], "--src: found alone", 2),
    (["train", "--tgt", "{tgt}", "--run", "{tmp}/r"], "--tgt: found alone, expected --src", 2),
    (["train", "--src", "{src}", "--tgt", "{tgt}"], "--run: found nothing", 2),
    (["train", "--task", "datess", "--run", "{tmp}/r"], "dates", 2),
    (["train", "--task", "dates", "--model", "tinny", "--run", "{tmp}/r"], "Did you mean 'tiny'?", 2),
    (["train", "--src", "{tmp}/no.en", "--tgt", "{tgt}", "--run", "{tmp}/r"], "no.en", 2),
    (["train", "--src", "{src}", "--tgt", "{tgt}", "--run", "{src}/r"], "cannot be written", 5),
    (["train", "--src", "{src}", "--tgt", "{tgt}", "--run", "{run}"], "holds a run with other settings", 2),
    (["train", "--config", "{tmp}/none.toml"], "none.toml", 2),
    (["evaluate", "--src", "{src}", "--ref", "{tmp}/short", "--run", "{run}"], "64", 2),
    (["summary", "base", "--run", "{run}"], "summary: found both NAME and --run", 2),
    (["summary", "huge"], "there is no configuration named 'huge'", 2),
    (["trace", "a", "b", "--tgt", "c", "--run", "{run}"], "--tgt: found 1", 2),
    (["trace", "a", "--run", "{run}", "--training"], "--training: found no --tgt", 2),
    (["trace", "a", "--run", "{run}", "--training", "--generate"], "found --generate and --training, expected one", 2),
    (["trace", "a", "--run", "{run}", "--generate", "--tgt", "b"], "a generation makes its own target", 2),
    (["trace", "a", "--run", "{run}", "--top-p", "0.5"], "--top-p: found without --generate", 2),
    (["trace", "a", "--run", "{run}", "--edit", "x", "--verify"], "no equation holds for an edited step", 2),
    (["trace", "a", "--run", "{run}", "--no-cache"], "--no-cache: found without --generate", 2),
    (["trace", "a", "--run", "{run}", "--verify", "--only", "src_mask"], "found --only, but --verify and --edit", 2),
    (["trace", "a", "--run", "{run}", "--verify", "--values"], "--values: found with --verify or --edit", 2),
    (["trace", "a", "--run", "{run}", "--only", "src_mask", "--layer", "0"], "match no step of 'src_mask'", 2),
    (["trace", "a", "--run", "{run}", "--generate", "--sample", "--beam", "4"], "--beam: found with sampling", 2),
    (["trace", "a", "--run", "{run}", "--edit", "nothing=0"], "nothing: no such tap or weight", 2),
    (["trace", "a", "--run", "{run}", "--head", "9"], "--head: found 9, expected 0 to 1", 2),
    (["diff", "{run}", "--b", "cached"], "diff: found no text", 2),
    (["diff", "{run}", "--text", "a", "--b", "sideways"], "sideways", 2),
    (["diff", "nowhere", "--text", "a"], "nowhere", 2),
    (["average", "--run", "nowhere"], "is not a run directory", 2),
    (["translate", "a", "--run", "{run}", "--input", "{src}"], "found TEXT and --input, expected one", 2),
    (["translate", "--run", "{run}", "--input", "{tmp}/none"], "none: cannot be read", 2),
    (["translate", "--run", "{run}", "--input", "{tmp}/bad.jsonl"], "bad.jsonl:2: is JSON of another shape", 2),
    (["translate", "a", "--run", "{run}", "--stream", "--json"], "--stream: found with --json", 2),
    (["translate", "a", "--run", "{run}", "--head", "0"], "found without --attention or --align", 2),
    (["translate", "a", "--run", "{run}", "--align", "--layer", "4"], "layer: found 4, expected 0 to 0", 2),
    (["translate", "a", "--run", "{run}", "--mbr", "3", "--n-best", "4"], "expected at most mbr = 3", 2),
    (["translate", "a", "--run", "{run}", "--must", "ab", "--sample"], "must: found 1 phrases with sampling", 2),
    (["translate", "a", "--run", "{run}", "--run", "nowhere"], "nowhere: is not a run directory", 2),
    (["score", "--src", "{src}", "--tgt", "{tmp}/short", "--run", "{run}"], "64", 2),
    (["average"], "--run: found nothing, expected the directory of a training", 2),
]  # fmt: skip


@pytest.mark.parametrize(
    "mode",
    [(), ("--generate", "--beam", 2), ("--generate", "--no-cache", "--top-k", 3), ("--training", "--tgt", "ba")],
)
def test_trace_verifies_every_kind_of_walk(call: Run, trained: Path, mode: tuple[str, ...]) -> None:
    result = call("trace", "ab", "--run", trained, "--verify", *mode)
    assert (result.code, result.err) == (0, "")
    assert result.out.rstrip().endswith("All checks passed.")
    assert "steps recomputed" in result.out
    assert ("operations carried out" in result.out) == (mode == ())


def test_trace_edits_keeps_and_narrows(call, trained, tmp_path):
    result = call("trace", "ab", "--run", trained, "--edit", "encoder.memory=0", "--edit", "*.weights[heads=1]=0")
    assert (result.code, result.err) == (0, "")
    assert "next tokens changed" in result.out
    kept = tmp_path / "kept"
    result = call("trace", "ab", "--run", trained, "--save", kept, "--markdown", tmp_path / "walk.md")
    assert (result.code, result.err) == (0, "")
    assert sorted(path.name for path in kept.iterdir()) == ["trace.json", "values.safetensors", "walk.json"]
    assert "encoder.memory" in (tmp_path / "walk.md").read_text("utf-8")
    again = call("trace", "ab", "--run", trained, "--edit", f"encoder.memory=@{kept}")
    assert "0 of" in again.out, "patching in what is there already changes nothing"
    result = call("trace", "ab", "--run", trained, "--layer", 0, "--head", 1, "--values")
    assert "h = " not in result.out
    assert "weights" in result.out
    assert "memory" not in result.out


def test_trace_shows_the_numbers_of_any_sentence_and_the_ids_of_all(call: Run, trained: Path, tmp_path: Path) -> None:
    page = tmp_path / "walk.md"
    asked = ("trace", "ab", "ba", "--run", trained, "--only", "*cross_attention.weights", "--values", "--sentence", 1)
    result = call(*asked, "--ids", "--markdown", page)
    assert result.code == 0, result.err
    assert "values: those of sentence 1" in result.out
    for text in (result.out, page.read_text().replace("\\", "")):
        assert "src_ids (nbatches, n_seq_src) = (2, " in text
    assert "Values are those of sentence 1, counted from 0." in page.read_text()
    assert "sentence: found 2, expected 0 to 1." in call(*asked[:-1], 2).err
    assert "--sentence: found without --values" in call("trace", "a", "b", "--run", trained, "--sentence", 1).err


def test_a_walk_of_ids_is_that_of_their_text(call: Run, trained: Path) -> None:
    run = RunDirectory(trained).load("cpu")
    ids = run.src_tokenizer.to_ids("ab ba")
    numbers = " ".join(map(str, ids))
    whole = call("trace", "ab ba", "--run", trained, "--values").out
    for given in (numbers, f"{numbers} {run.model.config.eos_id}"):
        assert call("trace", given, "--from-ids", "--run", trained, "--values").out == whole
    assert "All checks passed." in call("trace", numbers, "--from-ids", "--run", trained, "--verify").out
    for given, message in (
        ("ab", "--from-ids: found 'ab', expected numbers from 0 to "),
        (" ", "--from-ids: found ' ', expected numbers from 0 to "),
        (f"{numbers} {run.src_tokenizer.size}", f"found '{run.src_tokenizer.size}', expected numbers from 0 to "),
        (f"{numbers} 0", f"but the model reads that as '{numbers} {run.model.config.eos_id}'. Give those ids"),
    ):
        result = call("trace", given, "--from-ids", "--run", trained)
        assert (result.code, result.out) == (2, "")
        assert message in result.err


@pytest.mark.parametrize(("arguments", "message", "code"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_mistake_gets_one_clear_line_and_no_traceback(arguments, message, code, call, trained, files, tmp_path):
    (tmp_path / "short").write_text("one\ntwo\n")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"txt": "b"}\n')
    places = {"run": trained, "tmp": tmp_path, "src": files[0], "tgt": files[1]}
    result = call(*(argument.format(**places) for argument in arguments))
    assert result.code == code
    assert message in result.err
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err + result.out


def test_a_place_that_may_not_be_read_is_named(call: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: RunDirectory) -> bool:
        raise PermissionError(13, "Permission denied", "private/config.json")

    monkeypatch.setattr(RunDirectory, "exists", property(forbidden))
    found = call("translate", "a", "--run", "private")
    assert (found.code, found.err.count("\n")) == (5, 1)
    assert found.err.startswith("error: private/config.json: Permission denied. Correct that, or name another place")


def test_a_reader_that_is_gone_is_no_error(call: Run, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        result = call("trace", "ab", "--values", "--run", trained)
    assert (result.code, result.out, result.err) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "code", "err"),
    [
        ("> /dev/full", 5, "error: standard output: cannot be written: No space left on device.\n"),
        (">&-", 0, ""),
        ("--json <&- | grep --count 日", 0, ""),
    ],
)
def test_odd_streams_end_in_words_or_well(trained: Path, redirected: str, code: int, err: str) -> None:
    if "/dev/full" in redirected and not Path("/dev/full").exists():
        pytest.skip("/dev/full, a disk that is always full, is not here")
    command = f"{sys.executable} -m glassformer translate --beam 1 --run {trained} 日本 {redirected}"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1" if "--json" in redirected else "utf-8"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False, env=environment
    )
    said = "".join(line for line in done.stderr.splitlines(keepends=True) if "the length limit cut" not in line)
    assert (done.returncode, said) == (code, err)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="names what is open as a file in /dev/fd")
def test_an_input_may_be_a_pipe_that_can_be_read_once(call: Run, trained: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"ab\n")
    os.close(writing)
    found = call("translate", "--run", trained, "--beam", "1", "--input", f"/dev/fd/{reading}")
    os.close(reading)
    assert found == call("translate", "ab", "--run", trained, "--beam", "1")
    said = [line for line in found.err.splitlines() if "the length limit cut" not in line]
    assert (found.code, found.out.count("\n"), said) == (0, 1, [])


def test_what_was_lost_is_told_beside_the_line(call: Run, trained: Path) -> None:
    short = ("--beam", "1", "--max-length-a", "0", "--max-length-b", "5")
    found = call("translate", "ab " * 2000, "ab", "--run", trained, *short)
    cut = "the length limit cut the translation; raise --max-length-a or --max-length-b.\n"
    lost = "warning: text 1: is longer than the model takes; its end was not translated.\n"
    assert found.err == f"{lost}warning: text 1: {cut}warning: text 2: {cut}"
    assert call("translate", "ab " * 2000, "--run", trained, *short, "--json").err == ""
    found = call(
        "translate", "ab", "--run", trained, "--must", "ha gb ed", "--max-length-a", "0", "--max-length-b", "1"
    )
    assert found.err == f"warning: text 1: {cut}warning: text 1: does not contain 'ha gb ed', which must occur.\n"


def test_a_stream_draws_by_the_place_of_each_text(call: Run, trained: Path) -> None:
    options = ("--run", trained, "--seed", "3", "--temperature", "1.5")
    streamed = call("translate", "ab", "ab", "ab", "--stream", *options)
    assert len(set(streamed.out.splitlines())) > 1
    assert streamed.out == call("translate", "ab", "ab", "ab", *options).out


def test_score_names_a_pair_by_its_line(call: Run, trained: Path, tmp_path: Path) -> None:
    src, tgt = tmp_path / "a.src", tmp_path / "a.tgt"
    src.write_text("ab\n" * 1001)
    tgt.write_text("ba\n" * 1000 + "ba " * 2000 + "\n")
    assert "targets[1000]: has more than" in call("score", "--src", src, "--tgt", tgt, "--run", trained).err


@pytest.mark.slow
def test_diversify_writes_pairs_and_says_how_to_learn_them(call, files, tmp_path):
    src, tgt = files
    place = tmp_path / "more pairs"
    done = call("diversify", "--src", src, "--tgt", tgt, "--run", place, "--max-updates", "4", *SMALL)
    assert (done.code, done.err) == (0, "")
    counts, learn = done.out.splitlines()[-2:]
    learned, own = ((place / "pairs" / name).read_text().count("\n") for name in ("train.src", "own.src"))
    assert counts == f"{learned:,} pairs, {own:,} of them the text's own."
    command = shlex.split(learn.removeprefix("Learn them:  glassformer "))
    assert command[-2:] == ["--run", str(place / "model")]
    assert call(*command, "--max-updates", "2").code == 0
    config, _ = RunDirectory(place / "model").read_config()
    assert config.model.d_model == 32


@pytest.mark.slow
def test_diversify_refuses_what_it_cannot_do(call, files, tmp_path, monkeypatch):
    src, tgt = files
    nowhere = call("diversify", "--src", src, "--tgt", tgt)
    assert (nowhere.code, nowhere.err[:20]) == (2, "error: --run: found ")
    (tmp_path / "dates.toml").write_text('run = "runs/x"\n[data]\ntask = "dates"\n')
    task = call("diversify", "--config", tmp_path / "dates.toml")
    assert task.err == "error: diversify: found a generated task, expected text of your own: --src A.en --tgt A.de.\n"


@pytest.mark.parametrize(
    ("command", "instead"),
    [("translate", "--input 'shards/*.txt'"), ("evaluate", "--workers"), ("diversify", "several may learn")],
)
def test_only_a_training_is_shared_by_the_processes_of_torchrun(monkeypatch, command, instead):
    monkeypatch.setenv("WORLD_SIZE", "2")  # a scheduler may set this in every shell
    assert "torchrun" not in str(CliRunner().invoke(app, [command, "--input", "no.txt"]).exception)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    error = CliRunner().invoke(app, [command]).exception
    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"{command}: found 2 processes of torchrun, expected one. Start it without torchrun")
    assert instead in str(error)


@pytest.mark.slow
def test_distill_trains_a_student_and_says_how_to_use_it(call, trained, tmp_path, monkeypatch):
    student = tmp_path / "student"
    command = ("distill", trained, "--run", student, "--beam", "1", "--max-updates", "2", "--set", "model.d_ff=24")
    untrained = call(*command)
    assert "no translation of it is complete, expected a teacher that ends its outputs" in untrained.err
    shutil.rmtree(trained / "distilled")
    monkeypatch.setattr("glassformer.training.teachers.teacher._complete_text", lambda one: one.source[::-1])
    done = call(*command)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == f'Use it:  glassformer translate "..." --run {student}'
    config, data = RunDirectory(student).read_config()
    assert (config.model.n_decoder_layers, config.model.d_ff) == (1, 24)
    assert data["teacher"] == str(trained)
    assert "Resuming after update 2" in call(*command).out


def test_distill_refuses_what_it_cannot_do(call: Run, trained: Path, tmp_path: Path) -> None:
    nowhere = call("distill", trained)
    assert (nowhere.code, nowhere.err[:28]) == (2, "error: --run: found nothing,")
    bundled = call("distill", "bundled", "--run", tmp_path / "student")
    assert (bundled.code, bundled.err.count("\n")) == (RunError.exit_code, 1)
    assert "does not say which text it was trained on. Name the text to distil with: PAIRS" in bundled.err
    none = call("distill", tmp_path / "none", "--run", tmp_path / "student")
    assert "none: is not a run directory" in none.err
    odd = call("distill", trained, "--run", tmp_path / "student", "--engine", "abacus")
    assert "engine: found 'abacus', expected one of auto, torch, ctranslate2" in odd.err


@pytest.mark.slow
def test_a_training_goes_on_when_the_reader_of_its_lines_leaves(files: tuple[Path, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "glassformer", "train", "--src", files[0], "--tgt", files[1], "--run", run]
    limits = ["--max-updates", "30", "--set", "train.log_every=1", "--set", "train.validate_every=10"]
    words = shlex.join(map(str, [*command, *SMALL, *limits]))
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | head -1"],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1
    log = (run / "train.log").read_text()
    assert "update 30 " in log
    assert "Training ended: reached train.max_updates = 30." in log
    assert (run / "final").is_dir()


class PanicException(BaseException):
    """As PyO3 has it."""


@pytest.mark.parametrize(
    "fault", [ZeroDivisionError("nobody foresaw this"), PanicException("x" * 10_000)], ids=["error", "panic"]
)
def test_what_nobody_foresaw_is_said_to_be_our_fault_with_the_details_in_a_file(call, monkeypatch, fault):
    def fail(self: RunDirectory) -> None:
        raise fault

    monkeypatch.setattr(RunDirectory, "read_config", fail)
    result = call("translate", "A", "--run", "anywhere")
    assert result.code == 70
    assert "Traceback" not in result.err
    assert len(result.err) < 4000
    assert f"this is a fault of glassformer, not yours ({type(fault).__name__}: {str(fault)[:19]}" in result.err
    report = Path(result.err.partition("report it with ")[2].partition(", which")[0])
    assert str(fault) in report.read_text()
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    report.unlink()


def test_names_that_are_not_utf_8_and_a_working_directory_that_is_gone_are_said(call, tmp_path, monkeypatch):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    result = call("export", "--to", "transformers", "--out", odd)
    assert result.code == 5
    assert "is a name that is not UTF-8" in result.err
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = call("translate", "A")
    assert result.code == 2
    assert "the working directory cannot be read (No such file or directory)" in result.err


def test_an_output_of_shards_that_cannot_be_written_is_said_before_a_model_is_loaded(call, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("A man sleeps.\n")
    (tmp_path / "out" / "a.txt").mkdir(parents=True)
    monkeypatch.setattr(RunDirectory, "load", lambda *_, **__: pytest.fail("the model was loaded"))
    for pattern, out, message in (
        ("*.txt", "out", "holds a.txt, which is no file"),
        ("*.txt", "a.txt/out", "cannot be written: Not a directory"),
        ("*.po", "new", "matches no file"),
    ):
        result = call("translate", "--input", tmp_path / pattern, "--out", tmp_path / out)
        assert result.code in (2, 5)
        assert message in result.err


@pytest.mark.slow
def test_a_second_signal_of_the_other_kind_ends_a_training_at_once(files: tuple[Path, Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "glassformer", "train", "--src", files[0], "--tgt", files[1]]
    for first, second in ((signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)):
        run = tmp_path / first.name
        process = subprocess.Popen(
            [*command, "--run", run, *SMALL, "--set", "train.log_every=1"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        while not process.stdout.readline().startswith("update 2 "):
            pass
        process.send_signal(first)
        process.send_signal(second)
        _, errors = process.communicate(timeout=60)
        assert "race condition" not in errors
        assert "Traceback" not in errors
        assert process.returncode != 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["--help"], ["translate", "--help"], ["--version"], ["summary", "tiny"]], ids=str
)
def test_help_for_a_reader_that_has_left_is_no_error(arguments: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "glassformer", *arguments]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["train", "diversify", "distill", "demo"])
def test_an_empty_name_of_a_run_is_not_the_current_directory(call, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    arguments = {
        "train": ["--task", "dates"],
        "diversify": ["pairs.tsv"],
        "distill": ["bundled", "pairs.tsv"],
        "demo": [],
    }
    result = call(command, *arguments[command], "--run", "")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "--run: found an empty name, expected a directory" in result.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("where", ["/dev/null/x", "loop/x", "/", "a/" * 3000, "."])
def test_the_demo_refuses_a_place_before_it_shows_anything(call, tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    result = call("demo", "--run", where)
    assert (result.code not in {0, 70}, result.out, result.err.count("\n")) == (True, "", 1), result.err


def test_a_message_about_half_a_character_is_one_line_even_on_a_strict_stream(call, tmp_path, monkeypatch):
    """Where the stream of errors is not Python's own, as in another program that calls the command line."""
    with (tmp_path / "errors").open("w", encoding="utf-8", errors="strict") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        result = call("evaluate", "\udcff")
    said = (tmp_path / "errors").read_text()
    assert (result.code not in {0, 70}, said.count("\n")) == (True, 1), said


def test_what_was_lost_of_a_stream_is_told_as_of_a_line(call: Run, trained: Path) -> None:
    arguments = ("translate", "ab " * 2000, "", "ab", "--run", trained, "--max-length-a", "0", "--max-length-b", "5")
    found = call(*arguments, "--stream", "--must", "ha gb ed")
    assert "text 3: the length limit cut" in found.err
    assert found == call(*arguments, "--must", "ha gb ed")


def test_a_document_says_its_languages(call: Run, trained: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "a.xlf", tmp_path / "b.xlf"
    unit = '<trans-unit id="1"><source>ab</source></trans-unit>'
    source.write_text(f'<xliff version="1.2"><file source-language="fr-FR"><body>{unit}</body></file></xliff>')
    options = ("translate", "--input", source, "--out", out, "--run", trained, "--language", "de")
    found = call(*options, "--no-split-sentences")
    assert f"{source}: translations from fr-FR to de.\n" in found.err
    assert "the model translates from" not in found.err  # it is not known
    found = call(*options, "--src-language", "en")
    assert f"warning: {source}: its texts are in fr-FR, and the model translates from en.\n" in found.err


@pytest.mark.parametrize(("name", "value"), [("LOCAL_WORLD_SIZE", "abc"), ("RANK", ""), ("WORLD_SIZE", "-1")])
def test_a_variable_of_torchrun_that_is_no_number_is_named(call, monkeypatch, tmp_path, name, value):
    monkeypatch.setattr(world, "exit_process", sys.exit)
    for variable in ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(variable, "2")
    monkeypatch.setenv(name, value)
    result = call("train", "--task", "dates", "--run", tmp_path / "run")
    assert result.code == 2
    assert f"{name}: found {value!r} with TORCHELASTIC_RUN_ID, expected a number" in result.err


def test_ctrl_c_that_a_library_loses_is_repeated():
    code = """
import signal, time
import sys
from glassformer.cli.main import repeat_interrupt
sys.unraisablehook = repeat_interrupt

class Loses:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

Loses()
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("repeated")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("repeated\n", "")
