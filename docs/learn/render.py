"""Carries every lesson out as a notebook and writes what people read: pages with outputs and figures.

    python docs/learn/render.py            all lessons
    python docs/learn/render.py shapes     one of them
    python docs/learn/render.py --check    nothing is carried out; ends with 1 and names each page that is out of date

A lesson is plain Python with cells, ``docs/learn/<name>.py``. Its page, ``docs/learn/pages/<name>.md``, begins with
the SHA-256 of the lesson that it shows, so that an old page is found without running anything. ``statements.json``
keeps what each lesson asserted; the index and "Where the texts slip" are made from it.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGES = HERE / "pages"
RECORD = PAGES / "statements.json"
FIRST = "one_sentence"
LESSONS = {
    FIRST: "One sentence, seven pictures",
    "shapes": "Every shape, end to end",
    "walkthrough": "The paper from scratch",
    "attention": "Attention with numbers",
    "training": "Training notes, complexity and superposition",
    "architecture": "The whole architecture: text and positions",
    "architecture_encoder": "The whole architecture: the encoder",
    "architecture_decoder": "The whole architecture: the decoder",
    "paper_embeddings": "Section 3.4: embeddings and softmax",
    "paper_positions": "Sections 3.5 and 4: positions compared",
    "paper_batching": "Section 5.1: batches",
    "paper_optimizer": "Sections 5.2 and 5.3: optimizer and schedule",
    "paper_regularisation": "Section 5.4: dropout and label smoothing",
    "paper_search": "Section 6.1: beam search and averaging",
    "paper_variations": "Section 6.2 and table 2: sizes and cost",
    "paper_parsing": "Section 6.3: parsing, and what heads look at",
}
BEGIN = (
    f"**Begin here: [{LESSONS[FIRST]}](pages/{FIRST}.md).** Fifteen minutes with one sentence on its way from "
    "English to German. Each picture shows one idea, and after each there is something to do: mask a word, silence a "
    "head, guess the next token."
)
INTRODUCTION = (
    "Five well-known texts on the Transformer, and the sections of the paper that they leave out, made real: "
    "each lesson recomputes what its source states with the model that this package trains and translates with, "
    "and fails if a statement does not hold. What a text gets wrong is shown with the right value, and listed in "
    "[Where the texts slip](slips.md)."
)
TEXTS = (
    "The texts by number: 000 *Shaped Transformer*; 001 *Paper Walkthrough: Attention Is All You Need*; 002 "
    "*Complete Transformer Attention Walkthrough*, a notebook; 003 *Attention is all you need - Training*, notes; "
    "004 *Transformer*."
)
HOW_TO = (
    "A lesson is plain Python: `python docs/learn/shapes.py` carries it out, `make notebooks` makes notebooks of "
    "all, and `make learn` renders the pages below."
)
SLIPS = (
    "Every line is asserted by its lesson: what the text states is computed not to hold, and the value next to it "
    "is what the computation gives. The texts are good; anyone who writes this much makes slips, and anyone who "
    "learns from them should know which."
)
_LAST_CELL = """
import dataclasses, json
found = globals()["lesson"].statements if "lesson" in globals() else []
print("\\x00" + json.dumps([dataclasses.asdict(statement) for statement in found]))
"""
_PICTURE = re.compile(r"^!\[png\]", re.M)
_HEADING = re.compile(r"^#+ (.+)$", re.M)


@dataclass(frozen=True)
class Run:
    """One lesson carried out: what it asserted, how long it took."""

    title: str
    source: str
    machine: str
    seconds: float
    statements: list[dict[str, str]]


def digest(name: str) -> str:
    """What the page of a lesson depends on: its text and its helper's."""
    text = b"".join((HERE / f"{file}.py").read_bytes() for file in (name, "lesson"))
    return hashlib.sha256(text).hexdigest()


def render(name: str) -> Run:
    """Carry the lesson out and write its page and its figures."""
    import jupytext
    from nbclient import NotebookClient
    from nbconvert import MarkdownExporter

    notebook = jupytext.read(HERE / f"{name}.py")
    notebook.cells.append(_cell(_LAST_CELL))
    started = time.monotonic()
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", coalesce_streams=True, resources={"metadata": {"path": HERE}}
    ).execute()
    seconds = time.monotonic() - started
    statements = _statements(notebook.cells.pop())
    notebook.cells = [part for cell in notebook.cells for part in _fold_guess(cell)]
    exporter = MarkdownExporter()
    text, resources = exporter.from_notebook_node(
        notebook, resources={"unique_key": name, "output_files_dir": f"{name}_files"}
    )
    _write_page(name, text, resources["outputs"])
    source = statements[0]["source"] if statements else ""
    return Run(LESSONS[name], source, _machine(), seconds, statements)


def _machine() -> str:
    import torch

    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    )


def _fold_guess(cell: Any) -> list[Any]:
    """The cell, and if it is tagged ``guess`` its output in a fold that a reader opens after guessing."""
    import nbformat

    if "guess" not in cell.metadata.get("tags", []):
        return [cell]
    printed = "".join(output["text"] for output in cell.outputs).rstrip()
    cell.outputs = []
    fold = f"<details>\n<summary>Guess first, then open this.</summary>\n\n```text\n{printed}\n```\n\n</details>"
    return [cell, nbformat.v4.new_markdown_cell(fold)]


def _cell(source: str) -> Any:
    import nbformat

    return nbformat.v4.new_code_cell(source)


def _statements(cell: Any) -> list[dict[str, str]]:
    printed = "".join(output.get("text", "") for output in cell.outputs)
    found: list[dict[str, str]] = json.loads(printed.partition("\x00")[2])
    return found


def _write_page(name: str, text: str, figures: dict[str, bytes]) -> None:
    PAGES.mkdir(exist_ok=True)
    shutil.rmtree(PAGES / f"{name}_files", ignore_errors=True)
    for path, content in figures.items():
        (PAGES / path).parent.mkdir(exist_ok=True)
        (PAGES / path).write_bytes(content)
    head = f"<!-- {digest(name)} -->\n<!-- Written by docs/learn/render.py from docs/learn/{name}.py. -->\n\n"
    body = describe_pictures("\n".join(line.rstrip() for line in text.strip().splitlines()))
    (PAGES / f"{name}.md").write_text(head + body + "\n", encoding="utf-8", newline="\n")


def describe_pictures(page: str) -> str:
    """The page with the heading above each picture as its description, for those who do not see it."""

    def describe(picture: re.Match[str]) -> str:
        above = re.sub(r"^```.*?^```", "", page[: picture.start()], flags=re.M | re.S)
        return f"![{_HEADING.findall(above)[-1]}]"

    return _PICTURE.sub(describe, page)


def index_page(runs: dict[str, dict[str, Any]]) -> str:
    """Which lessons there are, what each asserts, how long it takes."""
    rows = [
        f"| [{run['title']}](pages/{name}.md) | {run['source']} | {len(run['statements'])} | {len(slips(run))} "
        f"| {run['seconds']:.0f} s |"
        for name, run in runs.items()
        if name != FIRST
    ]
    total = sum(len(run["statements"]) for run in runs.values())
    slipped = sum(len(slips(run)) for run in runs.values())
    seconds = sum(run["seconds"] for name, run in runs.items() if name != FIRST)
    machines = "; ".join(sorted({run["machine"] for run in runs.values()}))
    lines = [
        "# Lessons", "", BEGIN, "", "## The second door: other texts, checked", "",
        INTRODUCTION, "", TEXTS, "", HOW_TO, "",
        "| lesson | source | statements | slips | time |", "| --- | --- | ---: | ---: | ---: |", *rows,
        f"| all | | {total} | {slipped} | {seconds:.0f} s |", "",
        f"Times of one run each, notebook start included: {machines}.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def slips_page(runs: dict[str, dict[str, Any]]) -> str:
    """Every slip with its place, what the text says, what is right, and why."""
    lines = [
        "# Where the texts slip", "",
        SLIPS, "", TEXTS, "",
    ]  # fmt: skip
    for name, run in runs.items():
        if slips(run):
            lines += [f"## {run['title']} ({run['source']}, [lesson](pages/{name}.md))", ""]
            lines += ["| where | what | stated | computed | why |", "| --- | --- | --- | --- | --- |"]
            lines += [_slip_row(slip) for slip in slips(run)]
            lines.append("")
    return "\n".join(lines)


def slips(run: dict[str, Any]) -> list[dict[str, str]]:
    return [statement for statement in run["statements"] if statement["why"]]


def _slip_row(slip: dict[str, str]) -> str:
    cells = [slip[key].replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
             for key in ("where", "claim", "stated", "computed", "why")]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def read_record() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {}
    return {name: found[name] for name in LESSONS if name in found}


def write_summaries(runs: dict[str, dict[str, Any]]) -> None:
    RECORD.write_text(json.dumps(runs, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline="\n")
    (HERE / "index.md").write_text(index_page(runs), encoding="utf-8", newline="\n")
    (HERE / "slips.md").write_text(slips_page(runs), encoding="utf-8", newline="\n")


def complaints() -> list[str]:
    """Each page that does not show the lesson as it is now."""
    found = [f"docs/learn/pages/{name}.md: is not of this lesson; run `make learn`."
             for name in LESSONS if not _is_current(name)]  # fmt: skip
    runs = read_record()
    for file, make in (("index.md", index_page), ("slips.md", slips_page)):
        path = HERE / file
        if not path.is_file() or path.read_text("utf-8") != make(runs):
            found.append(f"docs/learn/{file}: is not what the lessons assert; run `make learn`.")
    return found


def _is_current(name: str) -> bool:
    page = PAGES / f"{name}.md"
    return page.is_file() and page.read_text("utf-8").startswith(f"<!-- {digest(name)} -->")


def write_notebooks(folder: Path) -> None:
    """Every lesson as a notebook without outputs, and the module that they import."""
    import jupytext

    folder.mkdir(parents=True, exist_ok=True)
    for name in LESSONS:
        jupytext.write(jupytext.read(HERE / f"{name}.py"), folder / f"{name}.ipynb")
    shutil.copy(HERE / "lesson.py", folder / "lesson.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"lessons: {', '.join(LESSONS)}; all of them if none")
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    parser.add_argument("--notebooks", type=Path, metavar="DIR", help="only write the lessons as notebooks to DIR")
    given = parser.parse_args()
    if given.check:
        found = complaints()
        print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
        return 1 if found else 0
    if given.notebooks:
        write_notebooks(given.notebooks)
        return 0
    unknown = set(given.names) - LESSONS.keys()
    if unknown:
        parser.error(f"no lessons named {', '.join(sorted(unknown))}; there are {', '.join(LESSONS)}")
    runs = read_record()
    for name in given.names or LESSONS:
        runs[name] = asdict(render(name))
        write_summaries({name: runs[name] for name in LESSONS if name in runs})
        print(f"{name}: {len(runs[name]['statements'])} statements, {runs[name]['seconds']:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
