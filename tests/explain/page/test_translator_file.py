"""docs/translator.html, which opens from a clone: it has the model of the package and stays small."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("translator_page", DOCS / "translator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_answers_with_the_model_of_the_package(script: ModuleType) -> None:
    page = script.FILE.read_text("utf-8")
    assert script.model_of(page) == script.bundled_model(), "run python docs/translator.py"
    assert 'data-first="translate"' in page


def test_the_file_is_small(script: ModuleType) -> None:
    assert script.FILE.stat().st_size < script.MAX_BYTES
