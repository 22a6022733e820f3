"""The lessons run as plain Python, and assert what their pages say they assert; the pages show the lessons of today."""

import json
import os
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
    slips = [slip for run in render.recorded().values() for slip in render.slips(run)]
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


@pytest.mark.slow
@pytest.mark.parametrize("name", render.LESSONS)
def test_a_lesson_runs_as_plain_python_and_asserts_what_its_page_lists(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(LEARN / f"{name}.py")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(LEARN)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.partition("\x00")[2])
    listed = render.recorded()[name]["statements"]
    keys = ("where", "claim", "stated", "why")
    assert [[one[key] for key in keys] for one in found["statements"]] == [
        [one[key] for key in keys] for one in listed
    ]
