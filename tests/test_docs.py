"""What the pages say is so: generated pages are current, links lead somewhere, commands parse, snippets run."""

import ast
import importlib
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.documents.journal import TEXTS_PER_CHUNK
from glassformer.text.corpus.batches import PAIRS_IN_BLOCK
from glassformer.text.corpus.encoding import PAIRS_IN_CHUNK
from glassformer.text.corpus.workers import CHUNKS_BEFORE_POOL
from glassformer.text.lines import LONGEST_LINE
from glassformer.training.evaluation.calibration import MIN_SENTENCES, SENTENCES
from glassformer.training.request.arguments import TrainRequest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "commands").glob("*.md")),
]
BY_NAME = {page.name: page for page in PAGES}
MARK = "Differs from the paper:"
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(language: str) -> dict[str, str]:
    """Each fenced block of a language, by a name for it."""
    return {
        f"{page.name} {language} {number}": found
        for page in PAGES
        for number, found in enumerate(re.findall(rf"^```{language}\n(.*?)^```", text_of(page), re.M | re.S), 1)
    }


def shell_lines(program: str) -> Iterator[str]:
    for block in blocks("sh").values():
        yield from (line for line in block.splitlines() if line.startswith(program))


def arguments(line: str) -> list[str]:
    """What the shell hands to the program: without the comment, and without where input and output go."""
    return shlex.split(re.split(r"\s[<>|]\s", line)[0], comments=True)[1:]


def help_of(name: str) -> str:
    """What ``--help`` prints, without colours, which some environments ask for."""
    helped = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert helped.exit_code == 0, helped.output
    return re.sub(r"\x1b\[[0-9;]*m", "", helped.output)


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("generate")


@pytest.mark.slow
def test_generated_pages_are_what_the_code_says_and_links_lead_somewhere(generate):
    assert generate.complaints() == []


def test_outputs_in_the_readme_are_what_the_commands_print(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    outputs = importlib.import_module("outputs")
    readme = text_of(BY_NAME["README.md"])
    assert readme.count("<!-- output") == len(outputs._BLOCK.findall(readme)) >= 4
    assert outputs.same(outputs.renew(readme), readme), "run python docs/outputs.py"
    assert not outputs.same(readme.replace(" scores ", " score "), readme)
    assert len(readme.splitlines()) <= 150


def test_a_page_that_is_out_of_date_and_a_dead_link_are_named(generate, monkeypatch, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("steps.md", "index.md"):
        (docs / name).write_text("# Old\n\n[gone](gone.md) [odd](#odd) [fine](#old)\n", encoding="utf-8")
    monkeypatch.setattr(generate, "DOCS", docs)
    monkeypatch.setattr(generate, "NAMING", ())
    monkeypatch.setattr(generate, "PAGES", {"steps.md": lambda: "# New\n"})
    found = "\n".join(generate.complaints())
    assert "docs/steps.md: is not what the code says" in found
    assert "docs/index.md: the link gone.md leads to no file." in found
    assert "docs/index.md: the link #odd leads to no heading of docs/index.md." in found
    assert "README.md: is missing." in found
    assert "#old" not in found


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_commands_names_the_options_that_help_names(name):
    on_the_page = set(re.findall(r"^\| `(--[a-z-]+)", text_of(ROOT / "docs" / "commands" / f"{name}.md"), re.M))
    assert on_the_page == set(re.findall(r"^\W*(--[a-z-]+)", help_of(name), re.M)) - {"--help"}


def test_the_readme_has_the_two_blocks_of_a_newcomer():
    readme = text_of(BY_NAME["README.md"])
    assert readme.count("<!-- newcomer -->") == 2
    assert re.findall(r"<!-- newcomer -->\n```sh\n(.*?)```", readme, re.S) == ["make demo\n", "make test\n"]


@pytest.mark.parametrize("line", sorted({*shell_lines("glassformer")}))
def test_every_command_in_a_block_parses(line):
    name, *rest = arguments(line)
    COMMANDS[name].make_context(name, rest).close()


@pytest.mark.parametrize("line", sorted(line for line in shell_lines("glassformer train") if "--config" not in line))
def test_every_training_in_a_block_is_one_that_could_begin(line):
    given = COMMANDS["train"].make_context("train", arguments(line)[1:]).params
    data = {key: given[key] and str(given[key]) for key in ("pairs", "src", "tgt", "valid", "valid_src", "valid_tgt")}
    overrides = list(given["set_"] or ())
    request = TrainRequest.make(run=given["run"], data=data, model=given["model"], overrides=overrides)
    assert request.run == given["run"]


@pytest.mark.slow
def test_every_command_within_a_sentence_is_one_with_options_that_it_has():
    for page in PAGES:
        for name, rest in re.findall(r"`glassformer ([a-z]+)([^`]*)`", text_of(page)):
            assert name in COMMANDS, f"{page.name}: there is no command {name}"
            helped = help_of(name)
            for option in re.findall(r"--[a-z-]+", rest):
                assert option in helped, f"{page.name}: glassformer {name} has no {option}"


def test_every_make_target_is_in_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.M))
    for page in PAGES:
        named = re.findall(r"(?:^|`)(?:[A-Z]+=\S+ )?make ([a-z]+)(?:`|$)", text_of(page), re.M)
        assert set(named) <= targets, page.name
    contributing = text_of(BY_NAME["CONTRIBUTING.md"])
    assert {target for target in targets if f"`make {target}`" in contributing} == targets


MAP = re.findall(r"^\| (.+) \| `(\w+)` \| \[[^\]]+\]\(([^)]+)\) \|$", text_of(BY_NAME["CONTRIBUTING.md"]), re.M)


@pytest.mark.parametrize(("what", "name", "path"), MAP, ids=[what for what, _, _ in MAP])
def test_the_map_names_a_definition_that_lives_where_it_says(what, name, path):
    definition = rf"^(export )?(def|class|function|async function|const) {name}\b|^{name}\b.* = "
    assert re.search(definition, text_of(ROOT / path), re.M), f"{what}: {path} defines no {name}"


def test_each_row_of_the_map_is_tested():
    table = text_of(BY_NAME["CONTRIBUTING.md"]).partition("| to change |")[2].partition("\n\n")[0]
    assert len(MAP) == table.count("\n") - 1 > 50


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"\b(?:benchmarks|docs|examples)/\w+\.py", " ".join(map(text_of, PAGES)))))
)
def test_every_script_that_is_named_is_there(path):
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("where", blocks("python"))
def test_python_snippets_run_or_at_least_name_what_exists(where):
    snippet = blocks("python")[where]
    tree = ast.parse(snippet, where)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            names = (alias.name for alias in node.names)
            assert all(hasattr(module, name) or find_spec(f"{node.module}.{name}") for name in names), where
    free_standing = "import torch" in snippet and "Translator" not in snippet
    if free_standing:
        exec(compile(tree, where, "exec"), {"print": lambda *_: None})


@pytest.mark.parametrize("where", blocks("toml"))
def test_toml_examples_are_requests_that_could_begin(where, tmp_path):
    snippet = blocks("toml")[where]
    file = tmp_path / "first.toml"
    file.write_text(snippet, encoding="utf-8")
    request = TrainRequest.make(config_file=file)
    assert request.run == tmp_path / tomllib.loads(snippet)["run"], where


def marked_differences() -> set[tuple[str, str]]:
    """File and sentences of each mark, to the end of its paragraph in a docstring or a comment."""
    found = set()
    for path in sorted((ROOT / "glassformer").rglob("*.py")):
        lines = [line.strip() for line in text_of(path).splitlines()]
        for number, line in enumerate(lines):
            if MARK in line:
                words = " ".join(_paragraph(lines[number:])).partition(MARK)[2]
                found.add((path.relative_to(ROOT).as_posix(), words.strip().replace("``", "`")))
    return found


def _paragraph(lines: list[str]) -> Iterator[str]:
    if lines[0].startswith("#"):
        yield from (line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines))
        return
    for line in takewhile(bool, lines):
        yield line.partition('"""')[0] if line is not lines[0] else line.removesuffix('"""')
        if line.endswith('"""'):
            return


def figures() -> Iterator[tuple[str, str]]:
    """What a page that is written by hand repeats of the code or of a result: the page, and its words today."""
    steps = json.loads((ROOT / "benchmarks/results/verification.json").read_text("utf-8"))
    bundled = json.loads((ROOT / "benchmarks/results/bundled.json").read_text("utf-8"))["bundled"]["by_words"]["all"]
    checked = sum(one["checked"] for one in steps.values() if "checked" in one)
    yield "tracing.md", f"{checked:,} steps"
    yield "README.md", f"{checked:,} of {checked:,} steps"
    yield "README.md", f"BLEU {bundled['bleu']:.1f} on {bundled['sentences']:,} held-out sentences"
    yield "translating.md", f"each {TEXTS_PER_CHUNK} of its texts"
    yield "translating.md", f"fewer than {MIN_SENTENCES} validation sentences"
    yield "translating.md", f"on up to {SENTENCES:,} validation translations"
    yield "training.md", f"From about {PAIRS_IN_CHUNK * CHUNKS_BEFORE_POOL // 1000 * 1000:,} pairs on"
    yield "training.md", f"blocks of {PAIRS_IN_BLOCK:,} adjacent pairs"
    yield "training.md", f"lines of more than {LONGEST_LINE // 10**6} MB"
    faults = tomllib.loads((ROOT / "benchmarks/faults.toml").read_text("utf-8"))
    yield "tracing.md", f"of {sum(map(len, faults.values()))} deliberate faults"


@pytest.mark.parametrize(("page", "words"), [*figures()])
def test_a_figure_on_a_page_is_that_of_the_code_or_the_result(page, words):
    assert words in " ".join(text_of(BY_NAME[page]).split())


def test_the_list_of_differences_is_the_list_of_marks_in_the_code():
    section = text_of(BY_NAME["differences.md"]).partition("## Marked in the code")[2].partition("\n## ")[0]
    listed = {(path, " ".join(words.split())) for path, words in
              re.findall(r"^- \[([^\]]+)\]\([^)]*\): (.*(?:\n  .*)*)", section, re.M)}  # fmt: skip
    assert listed == marked_differences()


def test_the_table_of_exit_codes_is_that_of_the_command_line():
    def codes(page: str) -> set[str]:
        return set(re.findall(r"^\| `?(\d+)`? \|", text_of(BY_NAME[page]), re.M))

    assert codes("training.md") == codes("commands.md") - {"1"} == {"0", "2", "3", "4", "5", "70", "130", "143"}


def test_extras_are_installed_from_the_clone_since_no_index_has_the_project():
    places = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "docs").rglob("*.py"),
    ]
    for folder in ("glassformer", "examples", "benchmarks"):
        places += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".ipynb", ".txt"}]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = set()
    for path in places:
        text = path.read_text("utf-8")
        assert not re.search(r"pip install[^\n`]*\bglassformer\[", text), (
            f"{path}: pip install '.[name]' in the clone"
        )
        named.update(re.findall(r"pip install[^\n`]*'\.\[(\w+)\]'", text))
    assert {"plot", "fast", "import", "xlsx", "tensorboard"} <= named <= set(extras)


def test_the_rooms_of_the_house_are_all_there_are():
    """A part of the package that the house does not mention would be a room without a door."""
    house = text_of(BY_NAME["design.md"])
    for path in (ROOT / "glassformer").iterdir():
        if path.name.startswith("_") or path.name in {"version.py", "py.typed"}:
            continue
        shown = f"`{path.name}/`" if path.is_dir() else f"`{path.name}`"
        assert shown in house, shown
