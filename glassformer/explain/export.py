"""A walk as plain values for JSON. Numbers are exact; what JSON has no number for is "-inf", "inf" or "nan".

Schema: ``format``, ``version``, ``model`` (the configuration), ``sources``, ``targets``, ``tokens`` (src, tgt_in,
tgt_out: labels for each sentence, padding included) and ``steps``; a step has ``number``, ``address``, ``stage``,
``title``, ``sentence``, ``equation``, ``section``, ``axes``, ``symbols``, ``shape``, and with values ``values``
(nested lists, one level for each axis) and ``cells`` (the token behind each id, or null).
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.errors import StorageError

if TYPE_CHECKING:
    from glassformer.explain.walk import Walk, WalkStep


def walk_mapping(walk: "Walk", *, values: bool) -> dict[str, Any]:
    """The whole walk; see the module's schema."""
    sentences = walk.sentences
    return {
        "format": "glassformer walk",
        "version": 1,
        "model": asdict(walk.config),
        "sources": list(sentences.sources),
        "targets": list(sentences.targets),
        "tokens": {
            "src": _lists(sentences.src_tokens),
            "tgt_in": _lists(sentences.tgt_in_tokens),
            "tgt_out": _lists(sentences.tgt_out_tokens),
        },
        "steps": [_step_mapping(step, values=values) for step in walk.steps],
    }


def write_mapping(path: Path, mapping: dict[str, Any]) -> None:
    """One JSON file in UTF-8."""
    try:
        path.write_text(json.dumps(mapping, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}. Choose another place.") from error


def _step_mapping(step: "WalkStep", *, values: bool) -> dict[str, Any]:
    mapping: dict[str, Any] = {
        "number": step.number,
        "address": step.address,
        "stage": step.stage,
        **asdict(step.story),
        "axes": list(step.axes),
        "symbols": list(step.symbols),
        "shape": list(step.shape),
    }
    if values:
        mapping["values"] = exact_values(step.value)
        mapping["cells"] = None if step.cells is None else _lists(step.cells)
    return mapping


def exact_values(value: Tensor) -> Any:
    """Nested lists of a tensor's numbers, where those that are not finite become words."""
    plain = value.tolist()
    if not value.is_floating_point() or bool(torch.isfinite(value).all()):
        return plain
    return _with_words(plain)


def _with_words(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_with_words(entry) for entry in plain]
    return plain if plain - plain == 0 else str(plain)


def _lists(rows: tuple[tuple[str, ...], ...]) -> list[list[str]]:
    return [list(row) for row in rows]
