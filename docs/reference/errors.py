"""The page of mistakes, from the table of the tests: each is made here, and answered with the real message."""

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from reference.markdown import page, table

TESTS = Path(__file__).resolve().parents[2] / "tests" / "test_teaching_errors.py"


def errors_page() -> str:
    tests = table_of_mistakes()
    return page(
        "Mistakes and their messages",
        "Each message says in one line where the mistake is, what was found, what was expected and what to do. What "
        "is written below is run as it stands by [a test](../tests/test_teaching_errors.py) that holds each message "
        "to these four. On the command line a message stands on standard error, after `error:`, and the command ends "
        "with the [exit code](commands.md#exit-codes) of its kind.",
        "In Python every one of them is a `GlassformerError`. Shapes and types are looked at whenever the model is "
        "called, which costs nothing; values, on a CPU alone. What neither shows, such as a target that is not "
        "shifted, `glassformer.check_batch` finds in a batch: call it once before you train in a loop of your own. "
        "`glassformer train` does.",
        "Some things are no mistake here. A source of padding alone gets no attention, and its row gives no NaN. "
        "Neither does a mask that hides everything. A batch of nothing but padding has the loss 0.",
        f"Below, {tests.SCENE}",
        *(
            f"## {group}\n\n" + table(["mistake", "what is written", "the message"], rows(tests, mistakes))
            for group, mistakes in tests.MISTAKES.items()
        ),
    )


def table_of_mistakes() -> ModuleType:
    """The module of the tests, which belongs to no package, by its path."""
    spec = spec_from_file_location("teaching_errors", TESTS)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def rows(tests: ModuleType, mistakes: list[Any]) -> Iterator[list[str]]:
    for mistake in mistakes:
        origin = f" ({mistake.origin})" if mistake.origin else ""
        yield [mistake.name + origin, span(mistake.written), span(tests.answer(mistake))]


def span(text: str) -> str:
    """As code, whatever it holds: a run of backticks longer than any inside stands around it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
