"""The command as a person meets it: what it lists, what it refuses, what it trains."""

from pathlib import Path

import pytest

from benchmarks.reproduce.__main__ import main


def test_it_lists_its_recipes_and_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr()
    assert "multi30k-en-de: Transformer-Tiny" in listed.out
    assert "41.02 tokenised on test_2016_flickr" in listed.out
    assert listed.err == ""
    assert main(["multi30k-en-de", "--data", str(tmp_path)]) == 2
    missing = capsys.readouterr()
    assert missing.out == ""
    assert missing.err.startswith(f"error: multi30k-en-de: found none of its files in {tmp_path}, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "1,x"], "--seeds: found '1,x', expected different whole numbers such as 1,2,3."),
        (["--seeds", "1,01"], "--seeds: found '1,01', expected different whole numbers"),
        (["--seeds", "9" * 5000], "--seeds: found "),
        (["--run", ""], "--run: found an empty name, expected a directory"),
        (["--variant", "taugt"], "--variant: phrases has none named 'taugt'. Did you mean 'taught'?"),
    ],
)
def test_odd_values_are_refused_in_one_line(phrases, arguments, message, tmp_path, capsys):
    given = [str(phrases / "phrases.toml"), "--data", str(phrases), "--run", str(tmp_path / "run")]
    assert main([*given, *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {message}")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
