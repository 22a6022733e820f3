"""The lessons run as plain Python, and assert what their pages say they assert; the pages show the lessons of today."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LEARN = Path(__file__).parents[1] / "docs" / "learn"
sys.path.insert(0, str(LEARN))

import render  # noqa: E402
from lesson import Lesson  # noqa: E402

RUNNER = """
import dataclasses, json, runpy, sys, time
started = time.monotonic()
lesson = runpy.run_path(sys.argv[1])["lesson"]
statements = [dataclasses.asdict(statement) for statement in lesson.statements]
print("\\x00" + json.dumps({"seconds": time.monotonic() - started, "statements": statements}))
"""


def test_every_lesson_has_its_page_and_every_page_its_lesson():
    lessons = {path.stem for path in LEARN.glob("*.py")} - {"lesson", "render"}
    assert lessons == render.LESSONS.keys()
    assert {path.stem for path in render.PAGES.glob("*.md")} == lessons


def test_the_pages_show_the_lessons_of_today():
    assert render.complaints() == []


def test_every_slip_that_a_lesson_asserts_is_listed():
    listed = (LEARN / "slips.md").read_text("utf-8")
    slips = [slip for run in render.read_record().values() for slip in render.slips(run)]
    assert len(slips) > 50
    for slip in slips:
        assert render._slip_row(slip) in listed


def test_a_statement_that_does_not_hold_stops_the_lesson():
    lesson = Lesson("000", "a text")
    lesson.states("here", "one and one", 2, 1 + 1)
    lesson.states("here", "nearly", [0.1, 0.2], [0.1, 0.20004], within=1e-3)
    lesson.slips("here", "one and two", 2, 1 + 2, why="It is three.")
    with pytest.raises(AssertionError, match="here: one and three: stated 2, computed 4"):
        lesson.states("here", "one and three", 2, 1 + 3)
    with pytest.raises(AssertionError, match="is right after all"):
        lesson.slips("here", "one and one", 2, 1 + 1, why="It is not.")
    with pytest.raises(AssertionError, match="shape"):
        lesson.states("here", "shape", [1.0, 2.0], [[1.0, 2.0]], within=1e-3)
    assert [statement.is_slip for statement in lesson.statements] == [False, False, True]


def test_the_first_lesson_comes_first_with_seven_pictures_and_a_guess_after_each():
    page = (render.PAGES / f"{render.FIRST}.md").read_text("utf-8")
    parts = re.split(r"^## \d\. ", page.partition("\n## All of it")[0], flags=re.M)[1:]
    assert len(parts) == 7
    for part in parts:
        assert re.findall(r"^!\[|^<details>", part, re.M) == ["![", "<details>"], part.splitlines()[0]
    assert next(iter(render.LESSONS)) == render.FIRST
    index = (LEARN / "index.md").read_text("utf-8")
    assert index.index(f"pages/{render.FIRST}.md") < index.index("second door") < index.index("pages/shapes.md")


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
@pytest.mark.parametrize("name", [name for name in render.LESSONS if name != render.FIRST])
def test_a_lesson_runs_as_plain_python_and_asserts_what_its_page_lists(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(LEARN / f"{name}.py")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(LEARN)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.partition("\x00")[2])
    listed = render.read_record()[name]["statements"]
    keys = ("where", "claim", "stated", "why")
    assert [[one[key] for key in keys] for one in found["statements"]] == [
        [one[key] for key in keys] for one in listed
    ]
