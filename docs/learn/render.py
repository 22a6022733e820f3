"""Carries every lesson out as a notebook and writes what people read: pages with outputs and figures.

    python docs/learn/render.py            all lessons
    python docs/learn/render.py shapes     one of them
    python docs/learn/render.py --check    nothing is carried out; ends with 1 and names each page that is out of date

A lesson is plain Python with cells, ``docs/learn/<name>.py``. Its page, ``docs/learn/pages/<name>.md``, begins with
the SHA-256 of the lesson that it shows, so that an old page is found without running anything. ``statements.json``
keeps what each lesson asserted and asks; the index and "Where the texts slip" are made from it.

A page is for reading: code is folded, together with the statements that hold, and so are long outputs, the answers to
what a reader is to guess or to work out, and cells tagged ``more``.
"""

import argparse
import hashlib
import html
import json
import os
import platform
import re
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from lesson import CONSEQUENCE

HERE = Path(__file__).resolve().parent
PAGES = HERE / "pages"
RECORD = PAGES / "statements.json"
FIRST, BUILD = "one_sentence", "build_it_yourself"
LESSONS = {
    FIRST: "One sentence, seven pictures",
    BUILD: "Build it yourself",
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
    "English to German. Each picture shows one idea, and after each there is something to do: mask a word, switch "
    "off a head, guess the next token."
)
THEN = (
    f"**Then [build it yourself](pages/{BUILD}.md):** from an empty file to a Transformer that learns to read "
    "dates, in 200 lines; each step is compared with the package."
)
INTRODUCTION = (
    "Five well-known texts on the Transformer, and the sections of the paper that they leave out: each lesson "
    "recomputes the statements of its source with the model of this package, and fails if one does not hold. Where a "
    "text is wrong, the lesson shows the right value; [Where the texts slip](slips.md) lists all of these."
)
TEXTS = (
    "The texts by number: 000 *Shaped Transformer*; 001 *Paper Walkthrough: Attention Is All You Need*; 002 "
    "*Complete Transformer Attention Walkthrough*, a notebook; 003 *Attention is all you need - Training*, notes; "
    "004 *Transformer*."
)
HOW_TO = (
    "A lesson is plain Python: `python docs/learn/shapes.py` runs it, `make notebooks` makes notebooks of "
    "all, and `make learn` renders the pages below."
)
SLIPS = (
    "*Stated* are the text's own words. A *quotation* has the wrong value in these words; a *consequence* would "
    "follow from them. Every line is asserted by its lesson: what is stated, or would follow, is computed not to "
    "hold, and *right* is what the computation gives. What is only roughly said is not listed. The texts are good; "
    "anyone who writes this much makes slips, and anyone who learns from them should know which."
)
_LAST_CELL = """
import dataclasses, json
kept = globals().get("lesson")
found = {name: [dataclasses.asdict(one) for one in getattr(kept, name, ())] for name in ("statements", "exercises")}
print("\\x00" + json.dumps(found))
"""
_READS_CODE = {FIRST, BUILD}  # in these lessons the code is what is read, so it is not folded
_WORDS_A_MINUTE, _SECONDS_A_LINE, _SECONDS_A_PICTURE = 230, 1, 5
_HELD, _END = "✓ ", "lesson.end()"
_MAX_LINES = 14
_FENCED = re.compile(r"^```.*?^```", re.M | re.S)
_SLIP = re.compile(r"^    ✗ (.+)\n      (quotation|consequence): “(.+)”\n      (.+)$", re.M)
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$])")
_PICTURE = re.compile(r"^!\[png\]", re.M)
_HEADING = re.compile(r"^#+ (.+)$", re.M)


@dataclass(frozen=True)
class Run:
    """One lesson carried out: what it asserted and asks, how long it took."""

    title: str
    source: str
    machine: str
    seconds: float
    statements: list[dict[str, str]]
    exercises: list[dict[str, str]]


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
    found = _statements(notebook.cells.pop())
    notebook.cells = _page_cells(notebook.cells, reads_code=name in _READS_CODE)
    exporter = MarkdownExporter()
    text, resources = exporter.from_notebook_node(
        notebook, resources={"unique_key": name, "output_files_dir": f"{name}_files"}
    )
    _write_page(name, text, resources["outputs"])
    source = found["statements"][0]["source"] if found["statements"] else ""
    return Run(LESSONS[name], source, _machine(), seconds, **found)


def _machine() -> str:
    import torch

    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    )


def _page_cells(cells: list[Any], *, reads_code: bool) -> list[Any]:
    """What the page shows of the cells; those tagged ``more``, which a first reader may pass over, go into folds."""
    shown: list[Any] = []
    for more, group in groupby(cells, key=lambda cell: "more" in cell.metadata.get("tags", [])):
        members = list(group)
        parts = [part for cell in members for part in _parts(cell, reads_code=reads_code)]
        if more:
            title, _, members[0].source = members[0].source.lstrip("# ").partition("\n")
            opening = _markdown(f"<details>\n<summary>More: {title}</summary>")
            parts = [opening, *parts, _markdown("</details>")]
        shown += parts
    return shown


def _parts(cell: Any, *, reads_code: bool) -> list[Any]:
    """What the page shows of a cell: what is to be guessed or worked out, and what only proves, in folds."""
    tags = cell.metadata.get("tags", [])
    if "guess" in tags:
        return [cell, _fold("Guess first, then open this.", _fence(_take_output(cell)))]
    if "exercises" in tags:
        return _exercises(cell)
    if "fold" in tags:
        return [_fold("Code, and all that it prints", _fence(cell.source, "python"), _fence(_take_output(cell)))]
    if cell.cell_type != "code" or (reads_code and not {"figure", "check"} & set(tags)):
        return [cell]
    return _fold_code(cell)


def _take_output(cell: Any) -> str:
    """What the cell printed, which it shows no longer."""
    printed = "".join(output.get("text", "") for output in cell.outputs)
    cell.outputs = [output for output in cell.outputs if output.output_type != "stream"]
    return printed.rstrip()


def _fold_code(cell: Any) -> list[Any]:
    """The code with the statements that hold in a fold; then what else it shows, in a fold too if that is long."""
    lines = "".join(output.get("text", "") for output in cell.outputs).splitlines()
    held = [line for line in lines if line.startswith(_HELD)]
    shown = [line for line in lines if line not in held]
    count = {0: "", 1: ", and a statement that holds"}.get(len(held), f", and {len(held)} statements that hold")
    blocks = [_fence(cell.source, "python"), *([_fence("\n".join(held))] if held else [])]
    _take_output(cell)
    cell.metadata["transient"] = {"remove_source": True}
    folds = [] if cell.source.endswith(_END) else [_fold(f"Code{count}", *blocks)]
    if len(shown) > _MAX_LINES and not any(line.startswith("✗") for line in shown):
        folds.append(_fold(f"What it prints, {len(shown)} lines", _fence("\n".join(shown))))
    elif shown:
        cell.outputs.insert(0, _stream("\n".join(shown) + "\n"))
    return [*folds, cell]


def _exercises(cell: Any) -> list[Any]:
    """Each question, with its answer in a fold, and at last the code that computes the answers."""
    printed = _take_output(cell).splitlines()
    asked = [part for pair in zip(printed[0::2], printed[1::2], strict=True)
             for part in (_markdown(pair[0]), _fold("Answer", pair[1].strip()))]  # fmt: skip
    return [*asked, _fold("How the answers are computed", _fence(cell.source, "python"))]


def _fold(summary: str, *blocks: str) -> Any:
    return _markdown("\n\n".join([f"<details>\n<summary>{summary}</summary>", *blocks, "</details>"]))


def _fence(text: str, language: str = "text") -> str:
    return f"```{language}\n{text}\n```"


def _markdown(text: str) -> Any:
    import nbformat

    return nbformat.v4.new_markdown_cell(text)


def _stream(text: str) -> Any:
    import nbformat

    return nbformat.v4.new_output("stream", text=text)


def _cell(source: str) -> Any:
    import nbformat

    return nbformat.v4.new_code_cell(source)


def _statements(cell: Any) -> dict[str, list[dict[str, str]]]:
    """The statements and the exercises of the lesson, which the last cell printed."""
    found: dict[str, list[dict[str, str]]] = json.loads(_take_output(cell).partition("\x00")[2])
    return found


def without_folds(page: str) -> str:
    """What is seen of a page before a fold is opened, with the slips; a fold may stand in another."""
    kept, depth = [], 0
    for line in page.splitlines():
        depth += line == "<details>"
        if not depth or line.startswith("<summary>✗ "):
            kept.append(line)
        depth -= line == "</details>"
    return "\n".join(kept)


def reading_minutes(page: str) -> float:
    """How long it takes to read what a page shows unfolded: its words, its code and numbers, its pictures."""
    open_text = without_folds(page)
    prose = _FENCED.sub("", re.sub(r"^(    |<!--|!\[).*$", "", open_text, flags=re.M))
    words = [word for word in prose.split() if any(map(str.isalnum, word))]
    lines = sum(len(block.splitlines()) - 2 for block in _FENCED.findall(open_text))
    lines += len(re.findall(r"^    \S", open_text, re.M))
    pictures = len(re.findall(r"^!\[", open_text, re.M))
    return len(words) / _WORDS_A_MINUTE + (lines * _SECONDS_A_LINE + pictures * _SECONDS_A_PICTURE) / 60


def _write_page(name: str, text: str, figures: dict[str, bytes]) -> None:
    PAGES.mkdir(exist_ok=True)
    shutil.rmtree(PAGES / f"{name}_files", ignore_errors=True)
    for path, content in figures.items():
        (PAGES / path).parent.mkdir(exist_ok=True)
        (PAGES / path).write_bytes(content)
    head = f"<!-- {digest(name)} -->\n<!-- Written by docs/learn/render.py from docs/learn/{name}.py. -->\n\n"
    body = show_slips(describe_pictures("\n".join(line.rstrip() for line in text.strip().splitlines())))
    page = f"{head}{body}\n\n{ways(name)}\n"
    (PAGES / f"{name}.md").write_text(page, encoding="utf-8", newline="\n")


def ways(name: str) -> str:
    """The last line of a page: the lesson before, all lessons, and the next."""
    names = list(LESSONS)
    place = names.index(name)
    back = [f"← [{LESSONS[one]}]({one}.md)" for one in names[:place][-1:]]
    on = [f"[{LESSONS[one]}]({one}.md) →" for one in names[place + 1 :][:1]]
    return "---\n\n" + " · ".join([*back, "[All lessons](../index.md)", *on])


def describe_pictures(page: str) -> str:
    """The page with the heading above each picture as its description, for those who do not see it."""

    def describe(picture: re.Match[str]) -> str:
        above = re.sub(r"^```.*?^```", "", page[: picture.start()], flags=re.M | re.S)
        return f"![{_HEADING.findall(above)[-1]}]"

    return _PICTURE.sub(describe, page)


def show_slips(page: str) -> str:
    """The page with each slip that a lesson printed as a line that opens: the text's words, and why."""

    def fold(slip: re.Match[str]) -> str:
        what, kind, words, why = slip.groups()
        words, why = (_SPECIAL.sub(r"\\\1", part) for part in (words, why))
        what = html.escape(what, quote=False)
        return f"\n<details>\n<summary>✗ {what}</summary>\n\n*{kind}*: “{words}”\\\n{why}\n\n</details>\n"

    return _SLIP.sub(fold, page)


def index_page(runs: dict[str, dict[str, Any]]) -> str:
    """Which lessons there are, what each asserts, how long it takes."""
    rows = [
        f"| [{run['title']}](pages/{name}.md) | {run['source']} | {len(run['statements'])} | {len(slips(run))} "
        f"| {reading_minutes((PAGES / f'{name}.md').read_text('utf-8')):.0f} min | {run['seconds']:.0f} s |"
        for name, run in runs.items()
        if name != FIRST
    ]
    total = sum(len(run["statements"]) for run in runs.values())
    slipped = sum(len(slips(run)) for run in runs.values())
    seconds = sum(run["seconds"] for name, run in runs.items() if name != FIRST)
    machines = "; ".join(sorted({run["machine"] for run in runs.values()}))
    lines = [
        "# Lessons", "", BEGIN, "", THEN, "", "## Other texts, checked", "",
        INTRODUCTION, "", TEXTS, "", HOW_TO, "",
        "| lesson | source | statements | slips | to read | to run |",
        "| --- | --- | ---: | ---: | ---: | ---: |", *rows,
        f"| all | | {total} | {slipped} | | {seconds:.0f} s |", "",
        f"To read: {_WORDS_A_MINUTE} words a minute, {_SECONDS_A_LINE} second for a line of code or of numbers, "
        f"{_SECONDS_A_PICTURE} for a picture; what is folded is not counted. To run: one run each, notebook start "
        f"included: {machines}.", "",
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
            lines += ["| where | stated | kind | right | why |", "| --- | --- | --- | --- | --- |"]
            lines += [slip_row(slip) for slip in slips(run)]
            lines.append("")
    return "\n".join(lines)


def slips(run: dict[str, Any]) -> list[dict[str, str]]:
    return [statement for statement in run["statements"] if statement["why"]]


def slip_row(slip: dict[str, str]) -> str:
    """A line of the table: the text's words, whether the value is in them or would follow, and what is right."""
    instead = f", not {slip['stated']}" if slip["kind"] == CONSEQUENCE else ""
    right = f"{slip['claim']}: {slip['computed']}{instead}"
    cells = (slip["where"], f"“{slip['words']}”", f"*{slip['kind']}*", right, slip["why"])
    return f"| {' | '.join(map(_in_cell, cells))} |"


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;").replace("$", "\\$")


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
    text = page.read_text("utf-8") if page.is_file() else ""
    return text.startswith(f"<!-- {digest(name)} -->") and text.endswith(f"{ways(name)}\n")


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
    for name in given.names or LESSONS:
        run = asdict(render(name))
        runs = {**read_record(), name: run}  # another process may have rendered another lesson meanwhile
        write_summaries({name: runs[name] for name in LESSONS if name in runs})
        print(f"{name}: {len(run['statements'])} statements, {run['seconds']:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
