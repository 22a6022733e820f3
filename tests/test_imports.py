"""Imports run one way, from the legend up to the command line, and the package's door opens without PyTorch."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "glassformer"
# Rooms from the ground up. A folder stands for all in it that is not named by itself.
LEVELS = """
axes errors files lazy version
settings trace
model
text.languages text.lines text.scripts
text.codes text.columns text.sentence_splitter text.tokenizer
text.formats text.steps
text.corpus
text tasks
checkpoint run_directory world threads bundled
interop
decoding.search
decoding
decoding.confidence
decoding.restore
decoding.engines
decoding.sentence_translator decoding.loading decoding.scoring
decoding.translator
training.objective
training.evaluation
training.reporting
training.loop training.request
training.resume_check
training.train
training.teachers
training
explain.plain explain.addresses
explain.entries
explain.recording
explain.render
explain.compare
explain.page
explain.attribution explain.walk explain.walks explain.gradients explain.verify
explain documents
serving
cli __main__
"""
LEVEL_OF = {name: level for level, names in enumerate(LEVELS.split("\n")) for name in names.split()}
GROUND = {"axes", "errors", "files", "lazy", "version", "settings", "trace"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
ROOT = PACKAGE.parent
OUTSIDE = sorted([*(ROOT / "docs").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])
FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*") if path.suffix in {".py", ".js", ".css"}} - {PACKAGE})
MODULE_NAMES = [str(path.relative_to(PACKAGE)) for path in MODULES]


def room_of(module: str) -> str:
    """The room of a module, such as ``glassformer.decoding.search.beam``: the longest name that LEVELS has."""
    parts = module.split(".")[1:]
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((name for name in names if name in LEVEL_OF), names[-1])


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Each imported module with its line, wherever the import stands; ``from package import name`` as both."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides where it leads"
            if node.module == "glassformer":
                yield from ((node.lineno, f"glassformer.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module or ""


@pytest.mark.parametrize("path", MODULES, ids=MODULE_NAMES)
def test_no_module_imports_what_stands_above_it(path):
    """A folder's ``__init__`` is its door, which opens every room of the folder."""
    module = module_name(path)
    room = room_of(module)
    assert room in LEVEL_OF, f"{room} has no place in the order of imports; give it one in LEVELS"
    for line, name in imported(path):
        is_own = path.name == "__init__.py" and name.startswith(f"{module}.")
        if name.split(".")[0] == "glassformer" and not is_own:
            target = room_of(name)
            assert target in LEVEL_OF, f"{path.name}:{line}: {target} has no place in the order of imports"
            assert LEVEL_OF[target] <= LEVEL_OF[room], (
                f"{path.name}:{line}: {room} may not import {target}, which is above it"
            )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_holds_at_most_fourteen_entries(folder):
    """More doors than that are no longer seen at a glance."""
    entries = [path.name for path in folder.iterdir() if path.name not in {"__init__.py", "README.md", "__pycache__"}]
    assert len(entries) <= 14, f"{folder.relative_to(ROOT)}: {sorted(entries)}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "model").glob("*.py")), ids=lambda path: path.name)
def test_the_model_can_be_copied_out_with_the_four_files_below_it(path):
    for line, name in imported(path):
        top, *rest = name.split(".")
        if top == "glassformer":
            assert rest[0] in GROUND | {"model"}, f"{path.name}:{line}: {name}"
        else:
            assert top in {"torch", "jaxtyping"} | sys.stdlib_module_names, f"{path.name}:{line}: {name}"


def test_the_model_lets_its_shapes_be_checked_at_run_time():
    """Annotations turned into strings would switch the shape checks off without a word."""
    for path in (PACKAGE / "model").glob("*.py"):
        assert "__future__" not in {name for _, name in imported(path)}, path.name


@pytest.mark.parametrize("name", ["axes", "errors", "lazy", "version", "settings/section", "settings/run"])
def test_the_first_files_need_nothing_but_the_standard_library(name):
    tops = {name.split(".")[0] for _, name in imported(PACKAGE / f"{name}.py")}
    assert tops <= sys.stdlib_module_names | {"glassformer"}


@pytest.mark.parametrize("name", ["glassformer", "glassformer.settings", "glassformer.cli.main"])
def test_importing_it_does_not_load_pytorch(name):
    """Help and version answer in a moment; PyTorch alone takes seconds to load."""
    check = f"import sys, {name}; print(*sorted({{'torch', 'numpy', 'tokenizers', 'sacrebleu', 'starlette', 'msgspec'}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=False, cwd=PACKAGE.parent
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize("part", ["text", "tasks"])
def test_text_is_read_and_prepared_without_pytorch(part):
    """Only ``collate`` and a batch's ``to`` need it: other engines translate without it."""
    names = [str(path.relative_to(ROOT).with_suffix("")).replace("/", ".") for path in (PACKAGE / part).rglob("*.py")]
    check = (
        f"import sys, importlib\nfor name in {names}:\n    importlib.import_module(name)\n"
        "    assert 'torch' not in sys.modules, name"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


DOORS = [
    "cli.translate",
    "decoding",
    "decoding.sentence_translator",
    "decoding.batching",
    "decoding.engines.engine",
    "decoding.search.job",
    "decoding.request",
    "decoding.sentences",
    "settings",
    "decoding.translation",
    "decoding.translator",
    "run_directory",
    "text",
]


@pytest.mark.parametrize("name", DOORS)
def test_nothing_between_the_shell_and_an_engine_loads_pytorch(name):
    """Another engine than PyTorch starts without waiting for it."""
    check = f"import sys, glassformer.{name}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=False, cwd=PACKAGE.parent
    )
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [["translate", "--engine", "torch"], ["trace"]])
def test_commands_that_run_a_model_do_not_load_the_compiler_of_pytorch(command):
    """It takes a second, and nothing is compiled."""
    program = (
        f"import sys; from glassformer.cli.main import main; sys.argv = ['glassformer', *{command}, 'I love you, too.']\n"
        "try: main()\nfinally: assert 'torch._dynamo' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["glassformer", "glassformer.decoding", "glassformer.text"])
def test_every_lazy_name_is_found_where_type_checkers_find_it(package):
    module = importlib.import_module(package)
    (block,) = [node for node in ast.parse(Path(module.__file__).read_text()).body if isinstance(node, ast.If)]
    told = {alias.name: (node.module, alias.asname) for node in block.body for alias in node.names}
    assert {*told, "__version__"} == {*module.__all__, "__version__"}
    for name, (home, alias) in told.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)
        assert alias == name, f"{name}: as itself, or a type checker takes it for private"
    assert dir(module) == sorted(module.__all__)
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'Transfomer'"):
        _ = module.Transfomer


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_lessons_and_benchmarks_import_what_is_there(path):
    """Few of them are carried out by the quick tests."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "glassformer":
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def run_time_imports(node: ast.AST, known: set[str]) -> Iterator[str]:
    """The known modules imported below a node, inside functions too; what only a type checker reads is left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name in known)
        elif isinstance(child, ast.ImportFrom):
            submodules = {f"{child.module}.{alias.name}" for alias in child.names} & known
            yield from submodules
            if child.module in known and len(submodules) < len(child.names):
                yield child.module
        elif not is_type_checking(child):
            yield from run_time_imports(child, known)


def import_graph() -> dict[str, set[str]]:
    """Which modules of the package each of them imports by name."""
    trees = {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    return {name: set(run_time_imports(tree, set(trees))) for name, tree in trees.items()}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach one another."""

    def reach(name: str) -> set[str]:
        seen, waiting = set(), [name]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    reached = {name: reach(name) for name in graph}
    groups = {
        frozenset({name, *(other for other in seen if name in reached[other])})
        for name, seen in reached.items()
        if name in seen
    }
    return sorted(map(sorted, groups))


def test_no_modules_import_one_another_in_a_circle_not_even_inside_functions():
    assert circles(import_graph()) == []
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}
    assert circles(graph) == [["b", "c"], ["d"]]
