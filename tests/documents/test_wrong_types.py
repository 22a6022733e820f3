"""A wrong value at a door of the Python API is one of our errors, never a bare TypeError or AttributeError."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer import Translator
from glassformer.decoding import Request
from glassformer.documents import Glossary, Memory
from glassformer.errors import GlassformerError
from glassformer.explain import walk
from glassformer.explain.walks import walk_generation
from glassformer.text.corpus.corpus import Pair

WRONG: list[Any] = [
    7, -1, 2.5, float("nan"), b"x", "x", [None], [1], [b"x"], [[1]], {"a": 1}, {"encoder.memory": 1}, {1}, object(), int,
    lambda *_: None, Path("x"), np.zeros(2), torch.zeros(2), iter([]),
]  # fmt: skip
DOORS: dict[str, Callable[[Translator, Any], object]] = {
    "prefixes": lambda one, value: one.translate(["A man."], prefixes=value),
    "constraints": lambda one, value: one.translate(["A man."], constraints=value),
    "banned": lambda one, value: one.translate(["A man."], banned=value),
    "options": lambda one, value: one.translate(["A man."], value),
    "texts": lambda one, value: one.translate([value]) if not isinstance(value, str) else one.translate(value),
    "chunk": lambda one, value: list(one.translate_stream([], chunk=value)),
    "start": lambda one, value: list(one.translate_stream([], start=value)),
    "must": lambda _, value: Request("A man.", must=value),
    "ban": lambda _, value: Request("A man.", ban=value),
    "a text to stream": lambda one, value: list(one.stream([value])),  # type: ignore[arg-type]
    "sources to score": lambda one, value: one.score_tokens(value, ["x", "x", "x"]),
    "targets to score": lambda one, value: one.score_tokens(["x", "x", "x"], value),
    "run": lambda _, value: Translator.load([value]),
    "device": lambda _, value: Translator.load(device=value),
    "sources of a walk": lambda one, value: walk(one, value, ["x", "x", "x"]),
    "targets of a walk": lambda one, value: walk(one, ["x", "x", "x"], value),
    "translator of a walk": lambda _, value: walk(value, ["x"], ["x"]),
    "only": lambda one, value: walk(one, ["x"], ["x"], only=value),
    "edits": lambda one, value: walk(one, ["x"], ["x"], edits=value),
    "memory": lambda _, value: Memory(value if not hasattr(value, "__next__") else [value]),
    "a source for a memory": lambda _, value: Memory([Pair("a", "b")]).near([value]),  # type: ignore[arg-type]
    "glossary": lambda _, value: Glossary(value),
}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(device="cpu")


@pytest.mark.parametrize("door", DOORS)
def test_a_wrong_value_is_one_of_our_errors(door: str, translator: Translator) -> None:
    for value in WRONG:
        if (door, value if isinstance(value, int) else None) in {("chunk", 7), ("start", 7)}:
            continue  # is right
        with pytest.raises(GlassformerError):
            DOORS[door](translator, value)


@pytest.mark.parametrize("value", [7, None, b"x", object()])
def test_a_generation_refuses_wrong_sources_and_another_glob(value: Any, translator: Translator) -> None:
    with pytest.raises(GlassformerError):
        walk_generation(translator, value)
    with pytest.raises(GlassformerError):
        walk_generation(translator, ["x"], only=value)
