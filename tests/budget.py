"""The lines of each folder of the package beside their budget; ends with 1 if a folder has more.

    python tests/budget.py

A smaller house is easier to know. Who needs more lines raises the number here, in a commit that says why.
"""

import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "glassformer"
ASSETS = "explain/page/assets"
OTHERS = "all other files"
BUDGET = {
    "model": 1_700,
    "trace": 700,
    "text": 4_500,
    "interop": 2_250,
    "decoding": 4_050,
    "training": 4_450,
    "explain": 7_400,
    "documents": 1_450,
    "cli": 1_950,
    OTHERS: 2_100,
    ASSETS: 8_963,  # what Prettier made of it, plus 300
}


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


def main() -> int:
    lines = count_lines()
    for folder, budget in BUDGET.items():
        print(f"{folder:22} {lines[folder]:6,} of {budget:6,}{'   TOO MANY' if lines[folder] > budget else ''}")
    print(f"{'Python, in all':22} {sum(lines.values()) - lines[ASSETS]:6,}")
    return int(any(lines[folder] > budget for folder, budget in BUDGET.items()))


if __name__ == "__main__":
    sys.exit(main())
