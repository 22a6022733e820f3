"""The lines of each folder of the package beside their budget; ends with 1 if a folder has more, or a function over 60.

    python tests/budget.py

A smaller package is easier to know: these numbers fall. An issue that adds says how many lines, and raises them by that.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "glassformer"
LONGEST_FUNCTION = 60
ASSETS = "explain/page/assets"
OTHERS = "all other files"
BUDGET = {
    "model": 1_690,
    "trace": 700,
    "text": 7_790,
    "interop": 3_130,
    "decoding": 5_660,
    "training": 5_320,
    "explain": 8_640,
    "documents": 940,
    "cli": 2_320,
    "serving": 2_400,
    OTHERS: 2_490,
    ASSETS: 14_060,
}
ALL_PYTHON = 41_030


def count_lines() -> dict[str, int]:
    """The lines of Python in each folder, and those of the page's JavaScript and CSS."""
    lines = dict.fromkeys(BUDGET, 0)
    for path in PACKAGE.rglob("*.py"):
        folder = path.relative_to(PACKAGE).parts[0]
        lines[folder if folder in BUDGET else OTHERS] += lines_of(path)
    lines[ASSETS] = sum(lines_of(path) for path in (PACKAGE / ASSETS).rglob("*") if path.suffix in {".js", ".css"})
    return lines


def lines_of(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def long_functions() -> Iterator[str]:
    """Where each function starts that is longer than a screen."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and node.end_lineno - node.lineno >= LONGEST_FUNCTION:
                yield f"{path}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines"


def main() -> int:
    lines = count_lines()
    for folder, budget in BUDGET.items():
        print(f"{folder:22} {lines[folder]:6,} of {budget:6,}{'   TOO MANY' if lines[folder] > budget else ''}")
    python = sum(lines.values()) - lines[ASSETS]
    print(f"{'Python, in all':22} {python:6,} of {ALL_PYTHON:6,}{'   TOO MANY' if python > ALL_PYTHON else ''}")
    long = sorted(long_functions())
    print(*long, sep="\n", end="\n" if long else "")
    return int(bool(long) or python > ALL_PYTHON or any(lines[folder] > budget for folder, budget in BUDGET.items()))


if __name__ == "__main__":
    sys.exit(main())
