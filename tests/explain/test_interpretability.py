"""The page on interpretability is true: its cells run one after the other, and none is long."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "interpretability.md"
CELLS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.slow
def test_every_cell_runs_after_those_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for number, cell in enumerate(CELLS, 1):
        exec(compile(cell, f"cell {number}", "exec"), names)
    printed = capsys.readouterr().out
    assert ".output ['▁Hunde']" in printed  # a line of the lens
    assert "layer 0 " in printed  # a row of the heat map


@pytest.mark.parametrize("cell", CELLS)
def test_no_cell_has_more_than_six_lines(cell: str) -> None:
    assert len([line for line in cell.splitlines() if line]) <= 6
