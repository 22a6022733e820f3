"""Writes the pages that code and results know: commands, settings, speed, results, charts ...; ``--check`` compares.

    python docs/generate.py           writes them
    python docs/generate.py --check   writes nothing; ends with 1 and names each page that differs, each dead link

Everything is read from signatures, fields, stories and stored results, or said by our own errors, and nothing from a
terminal, so the pages are the same on every machine and under every version of the libraries. In the README and where
the project is cited it writes the addresses that ``[project.urls]`` of pyproject.toml names.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from reference.address import NAMING, fill_addresses
from reference.commands import command_pages, commands_page
from reference.errors import errors_page
from reference.links import dead_links
from reference.pictures import charts
from reference.reliability import reliability_page
from reference.results import results_page
from reference.settings import settings_page
from reference.speed import speed_page
from reference.steps import steps_page

DOCS = Path(__file__).resolve().parent
LINKED_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page, "settings.md": settings_page, "steps.md": steps_page,
    "errors.md": errors_page, "speed.md": speed_page, "results.md": results_page,
    "reliability.md": reliability_page, **charts(), **command_pages(),
}  # fmt: skip


def write() -> None:
    for name, make in PAGES.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(make(), encoding="utf-8", newline="\n")
    for name in NAMING:
        path = DOCS.parent / name
        path.write_text(fill_addresses(path.read_text("utf-8")), encoding="utf-8", newline="\n")


def complaints() -> list[str]:
    """The generated pages that are not what the code says now, and the links that lead nowhere."""
    found = [f"docs/{name}: is not what the code says; run `python docs/generate.py`."
             for name, make in PAGES.items() if read_page(DOCS / name) != make()]  # fmt: skip
    root = DOCS.parent
    found += [f"{name}: does not name the addresses of pyproject.toml; run `python docs/generate.py`."
              for name in NAMING if (text := read_page(root / name)) != fill_addresses(text)]  # fmt: skip
    pages = [*DOCS.glob("*.md"), *DOCS.glob("commands/*.md")]
    return found + dead_links(root, [*map(root.joinpath, LINKED_PAGES), *sorted(pages)])


def read_page(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if anything differs")
    if not parser.parse_args().check:
        write()
        return 0
    found = complaints()
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
