"""The lessons run as plain Python, and assert what their pages say they assert; the pages show the lessons of today."""

import importlib
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from covering import sample

from glassformer import ModelConfig, Transformer
from glassformer.bundled import BUNDLED
from glassformer.explain.recording.recording import record_pass

ROOT = Path(__file__).parents[1]
LEARN = ROOT / "docs" / "learn"
SOURCES = ROOT.parent / "shared" / "sources"
sys.path.insert(0, str(LEARN))

import render  # noqa: E402
from lesson import CONSEQUENCE, QUOTATION, Lesson  # noqa: E402

RUNNER = """
import dataclasses, json, runpy, sys
lesson = runpy.run_path(sys.argv[1])["lesson"]
statements = [dataclasses.asdict(statement) for statement in lesson.statements]
exercises = [dataclasses.asdict(exercise) for exercise in lesson.exercises]
print("\\x00" + json.dumps({"statements": statements, "exercises": exercises}))
"""


def test_lessons_pages_and_slips_are_those_of_today():
    lessons = {path.stem for path in LEARN.glob("*.py")} - {"lesson", "render"}
    assert lessons == render.LESSONS.keys()
    assert {path.stem for path in render.PAGES.glob("*.md")} == lessons
    assert render.complaints() == []
    listed = (LEARN / "slips.md").read_text("utf-8")
    slips = [slip for run in render.read_record().values() for slip in render.slips(run)]
    assert len(slips) > 50
    for slip in slips:
        assert render.slip_row(slip) in listed


def test_what_a_text_is_said_to_state_stands_in_the_text_word_for_word():
    sources = {path.name[:3]: " ".join(path.read_text("utf-8").split()) for path in SOURCES.glob("00?_*.txt")}
    if not sources:
        pytest.skip("the five texts are not here: ../shared/sources")
    quoted = 0
    for name, run in render.read_record().items():
        for slip in render.slips(run):
            assert slip["kind"] in {QUOTATION, CONSEQUENCE}, name
            if run["source"] in sources:
                assert " ".join(slip["words"].split()) in sources[run["source"]], f"{name}: {slip['words']}"
                quoted += 1
    assert quoted > 40


def test_a_statement_that_does_not_hold_stops_the_lesson():
    lesson = Lesson("000", "a text")
    lesson.states("here", "one and one", 2, 1 + 1)
    lesson.states("here", "nearly", [0.1, 0.2], [0.1, 0.20004], within=1e-3)
    lesson.slips("here", "one and two", 2, 1 + 2, words="one and two are two", why="It is three.")
    lesson.exercise("What are one and one?", 2, 1 + 1)
    with pytest.raises(AssertionError, match="here: one and three: stated 2, computed 4"):
        lesson.states("here", "one and three", 2, 1 + 3)
    with pytest.raises(AssertionError, match="is right after all"):
        lesson.slips("here", "one and one", 2, 1 + 1, words="one and one are two", why="It is not.")
    with pytest.raises(AssertionError, match="no kind of slip"):
        lesson.slips("here", "one and two", 2, 1 + 2, words="two", why="It is three.", kind="joke")
    with pytest.raises(AssertionError, match="answered 3, computed 2"):
        lesson.exercise("What are one and one?", 3, 1 + 1)
    with pytest.raises(AssertionError, match="shape"):
        lesson.states("here", "shape", [1.0, 2.0], [[1.0, 2.0]], within=1e-3)
    assert [statement.is_slip for statement in lesson.statements] == [False, False, True]


def test_the_first_lesson_comes_first_with_seven_pictures_and_a_guess_after_each():
    page = (render.PAGES / f"{render.FIRST}.md").read_text("utf-8")
    parts = re.split(r"^## \d\. ", page.partition("\n## All of it")[0], flags=re.M)[1:]
    assert len(parts) == 7
    for part in parts:
        assert re.findall(r"^!\[|^<details>", part, re.M) == ["![", "<details>"], part.splitlines()[0]
    for word in ("query", "key", "value"):
        assert f"**{word}**" in page, "the three are named"
    assert next(iter(render.LESSONS)) == render.FIRST
    index = (LEARN / "index.md").read_text("utf-8")
    assert (
        index.index(f"pages/{render.FIRST}.md")
        < index.index("## Other texts, checked")
        < index.index("pages/shapes.md")
    )


@pytest.mark.parametrize("name", render.LESSONS)
def test_a_lesson_says_what_one_will_be_able_to_do_takes_ten_minutes_and_ends_with_three_exercises(name):
    page = (render.PAGES / f"{name}.md").read_text("utf-8")
    opening, _, rest = page.partition("\n```")
    assert "After this lesson you can " in opening
    _, _, end = rest.rpartition("\n## Exercises\n")
    assert len(re.findall(r"^[123]\. ", end, re.M)) == 3
    assert end.count("<details>") >= 3, "an answer in a fold for each"
    run = render.read_record()[name]
    assert len(run["exercises"]) == 3 or name == render.FIRST, "its answers are printed, which another test compares"
    open_page = render.without_folds(page)
    assert open_page.count("<summary>✗ ") == len(render.slips(run)), "each slip has its line"
    assert name == render.FIRST or "✓ " not in open_page, "statements that hold are folded"
    assert render.reading_minutes(page) <= (15 if name in {render.FIRST, render.BUILD} else 10), name


def test_lessons_lead_forward_and_back():
    names = list(render.LESSONS)
    for before, after in itertools.pairwise(names):
        assert f"]({after}.md) →" in (render.PAGES / f"{before}.md").read_text("utf-8")
        assert f"← [{render.LESSONS[before]}]({before}.md)" in (render.PAGES / f"{after}.md").read_text("utf-8")


def test_the_addresses_that_lessons_name_for_the_living_page_are_there():
    with torch.device("meta"):
        model = Transformer(
            ModelConfig.from_mapping(json.loads((BUNDLED / "config.json").read_text())["config"]["model"])
        )
    trace = record_pass(model, torch.ones(1, 3, dtype=torch.long), torch.ones(1, 4, dtype=torch.long))
    named = 0
    for page in render.PAGES.glob("*.md"):
        for address in re.findall(r"`#([a-z][\w.]+)`", page.read_text("utf-8")):
            assert trace.select(address), f"{page.name}: {address}"
            named += 1
    assert named >= 9


def test_on_the_site_the_living_page_stands_below_each_line_that_says_see_it_live(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    build = importlib.import_module("build")
    embedded = 0
    for page in render.PAGES.glob("*.md"):
        text = page.read_text("utf-8")
        whole = build.embed_living_page(text, 11.6)
        addresses = re.findall(r'src="\.\./\.\./\.\./try\.html(#[\w.]+)?"', whole)
        assert len(addresses) == len(re.findall(r"^(?:- )?\*\*See it live:", text, re.M)), page.name
        assert all(f"`{address}`" in text for address in addresses if address), page.name
        kept = re.sub(r"\n\n *<details>\n *<summary>The living page(?:.|\n)*?</details>\n", "", whole)
        assert kept == text, "nothing else changes"
        embedded += len(addresses)
    assert embedded >= 11
    assert "../../../" + build.TRY in build._FRAME, "the pages of lessons lie three folders down"


def test_the_page_of_differences_names_every_kind_of_positions():
    differences = (ROOT / "docs" / "differences.md").read_text("utf-8")
    for kind in set(ModelConfig.choices("positions")) - {"sinusoidal"}:
        assert kind in differences.lower(), f"docs/differences.md: {kind} positions are missing"


def _built_code() -> str:
    """What a reader of the lesson that builds a Transformer types: its cells but for the checks."""
    cells = re.split(r"^# %%", (LEARN / f"{render.BUILD}.py").read_text("utf-8"), flags=re.M)
    code = [cell.partition("\n")[2] for cell in cells if not re.match(r" \[markdown\]| tags=", cell)]
    return "\n".join(code)


def test_a_transformer_is_built_in_200_lines_that_need_pytorch_alone():
    code = _built_code()
    assert 100 < len([line for line in code.splitlines() if line.strip()]) <= 200
    assert set(re.findall(r"^(?:import|from) (\w+)", code, re.M)) == {"math", "random", "datetime", "torch"}


def test_every_picture_of_a_page_says_what_it_is_and_is_there():
    for page in render.PAGES.glob("*.md"):
        for words, place in re.findall(r"^!\[([^\]]*)\]\(([^)]+)\)", page.read_text("utf-8"), re.M):
            assert words not in {"", "png"}, page.name
            assert (render.PAGES / place).is_file()


@pytest.mark.slow
def test_the_first_lesson_prints_what_its_page_shows(tmp_path):
    done = subprocess.run(
        [sys.executable, str(LEARN / f"{render.FIRST}.py")], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
    )  # fmt: skip
    page = re.sub(r"```python.*?```", "", (render.PAGES / f"{render.FIRST}.md").read_text("utf-8"), flags=re.S)
    shown = re.findall(r"^```text\n(.*?)^```|^    ([^\n]*\n)", page, re.M | re.S)
    assert "".join(guess or line for guess, line in shown) == done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", sample([name for name in render.LESSONS if name != render.FIRST], 6))
def test_a_lesson_runs_as_plain_python_and_asserts_what_its_page_lists(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(LEARN / f"{name}.py")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(LEARN)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.partition("\x00")[2])
    listed = render.read_record()[name]
    keys = ("where", "claim", "stated", "why", "words", "kind")
    assert [[one[key] for key in keys] for one in found["statements"]] == [
        [one[key] for key in keys] for one in listed["statements"]
    ]
    assert found["exercises"] == listed["exercises"]
