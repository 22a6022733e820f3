"""The page of mistakes, from the table of the tests: each mistake is made here, and its real message shown."""

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
        "Each message says in one line where the mistake is, what was found, what was expected and what to do; "
        "[a test](../tests/test_teaching_errors.py) makes each mistake below and checks its message. On the command "
        "line a message is on standard error, after `error:`, and the command ends with the [exit "
        "code](commands.md#exit-codes) of its kind.",
        "In Python every one of them is a `GlassformerError`. Shapes and types are checked whenever the model is "
        "called, which costs nothing; values, on a CPU only. `glassformer.check_batch` finds what neither shows in a "
        "batch, such as a target that is not shifted: call it once before you train in a loop of your own. "
        "`glassformer train` does.",
        "Some things are allowed. A source of only padding gets no attention, and its row gives no NaN. Neither does "
        "a mask that hides everything. A batch of only padding has the loss 0.",
        f"Below, {tests.SCENE}",
        *(
            f"## {group}\n\n" + table(["mistake", "what is written", "the message"], rows(tests, mistakes))
            for group, mistakes in tests.MISTAKES.items()
        ),
    )


def table_of_mistakes() -> ModuleType:
    """The module of the tests, loaded by its path because it is in no package."""
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
    """Any text as inline code: its fence is longer than any run of backticks in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
