"""The examples run as their index says, and show what they are there to show."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from covering import only_full

EXAMPLES = Path(__file__).parents[1] / "examples"
INDEX = (EXAMPLES / "README.md").read_text("utf-8")


def run(name: str, *arguments: Path) -> str:
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_the_index_names_every_example_and_the_scripts_are_short() -> None:
    linked = set(re.findall(r"\]\(([^)#]+)\)", INDEX))
    assert all((EXAMPLES / path).exists() for path in linked)
    scripts = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".ipynb"}}
    assert scripts <= linked
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"__pycache__"} <= {
        path.partition("/")[0] for path in linked
    }
    for name in scripts - {"translators_files.py", "look_inside.ipynb"}:
        assert len((EXAMPLES / name).read_text("utf-8").splitlines()) <= 50, name


@pytest.mark.slow
def test_a_catalog_is_filled(tmp_path: Path) -> None:
    out = tmp_path / "app.de.po"
    assert "6 messages filled" in run("fill_a_catalog.py", EXAMPLES / "data" / "app.po", out)
    filled = out.read_text("utf-8")
    assert 'msgstr "Abbrechen"' in filled
    assert 'msgstr[1] "%(count)d Tage"' in filled
    assert filled.count('msgstr ""') == 1  # the header's
    assert "%(name)s" in re.findall(r'msgid "I have not found.*\nmsgstr (.*)', filled)[0]


@pytest.mark.slow
def test_patched_heads_of_the_last_layer_move_the_word_most() -> None:
    rows = re.findall(r"^ +(\d) +(\d) +(-?[\d.]+)", run("patch_a_head.py"), re.M)
    first, last = ([float(gain) for layer, _, gain in rows if layer == number] for number in "01")
    assert len(first) == len(last) == 4
    assert min(last) > max(first) > 0


@pytest.mark.slow
def test_a_memory_teaches_the_terms_of_a_house_and_little_is_forgotten(tmp_path: Path) -> None:
    told = run("train_on_tmx.py", tmp_path / "run")
    shown = re.findall(r"^(.+)\n  before  (.*)\n  after   (.*)$", told, re.M)
    assert len(shown) == 4
    before, after = (" ".join(one[column] for one in shown) for column in (1, 2))
    assert "Arbeitsmappe" in after
    assert "Arbeitsmappe" not in before
    assert shown[-1][1:] == ("Ich liebe dich.", "Ich liebe dich.")


@only_full
@pytest.mark.slow
def test_two_models_decide_together(tmp_path: Path) -> None:
    found = dict(re.findall(r"^(seed 1|seed 2|together) +([\d.]+) %", run("ensemble.py", tmp_path), re.M))
    assert found.keys() == {"seed 1", "seed 2", "together"}
    assert float(found["together"]) > min(float(found["seed 1"]), float(found["seed 2"])) > 0


@pytest.mark.slow
def test_words_are_said_and_each_sound_names_its_letter(tmp_path: Path) -> None:
    told = run("spelling_to_sounds.py", tmp_path, Path("600"))
    shown = re.findall(r"^(right|wrong)  (\w+) +(.*?)  +(.*)$", told, re.M)
    assert len(shown) == 10
    assert [one[0] for one in shown].count("right") >= 5
    assert "ɲ←ñ" in shown[1][3]
    assert "Preset words: 100 % of the sources are one word" in told


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_was_saved_with(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    cells = json.loads((EXAMPLES / "look_inside.ipynb").read_text("utf-8"))["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    for cell in codes:
        exec("".join(cell["source"]), names)
        printed = [output["text"] for output in cell["outputs"] if output["output_type"] == "stream"]
        assert capsys.readouterr().out == "".join("".join(text) for text in printed)
        assert not any(output["output_type"] == "error" for output in cell["outputs"])
    shown = [kind for cell in codes for output in cell["outputs"] for kind in output.get("data", {})]
    assert {"text/html", "image/png"} <= set(shown)
