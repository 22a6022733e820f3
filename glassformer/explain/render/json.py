"""A walk as plain values for JSON. Numbers are exact; those that JSON lacks are "-inf", "inf" or "nan".

Schema: ``format``, ``version``, ``kind`` (forced, generation or training), ``model`` (the configuration), ``decode``
and ``train`` (the options of a generation and of a training step, else null), ``sources``, ``targets``, ``tokens``
(src, tgt_in, tgt_out: labels for each sentence, padding included) and ``steps``. A step has

- ``number``, ``address``, ``call`` (which pass of this address, from 0), ``stage``,
- ``title``, ``sentence``, ``equation``, ``section``,
- ``axes``, ``symbols``, ``shape``, ``row_sentences`` (the sentence, from 0, of each row along batch),
- ``lines`` (the step in words, a list for each row along batch; or null),
- ``gradient`` (null, or its ``norm``),

and with values ``values`` (nested lists, one level for each axis), ``cells`` (the token behind each id, or null) and
in ``gradient`` its own ``values``. Version 1 had no kinds, ``call``, ``row_sentences``, ``lines`` or ``gradient``.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.explain.recording.walk_data import WalkData, WalkStep
from glassformer.files import storage_errors, write_output


def walk_mapping(walk: WalkData, *, values: bool) -> dict[str, Any]:
    """The whole walk, in the schema above."""
    sentences = walk.sentences
    return {
        "format": "glassformer walk",
        "version": 2,
        "kind": walk.kind,
        "model": asdict(walk.config),
        "decode": None if walk.decode is None else asdict(walk.decode),
        "train": None if walk.train is None else asdict(walk.train),
        "sources": list(sentences.sources),
        "targets": list(sentences.targets),
        "tokens": {
            "src": _lists(sentences.src_tokens),
            "tgt_in": _lists(sentences.tgt_in_tokens),
            "tgt_out": _lists(sentences.tgt_out_tokens),
        },
        "steps": [_step_mapping(step, values=values) for step in walk.steps],
    }


def write_text(path: str | Path, text: str) -> None:
    """Write a file in UTF-8; raises ``StorageError`` when it cannot be written."""
    with storage_errors(path, "Choose another place."), write_output(Path(path)) as stream:
        stream.write(text)


def _step_mapping(step: WalkStep, *, values: bool) -> dict[str, Any]:
    mapping: dict[str, Any] = {
        "number": step.number,
        "address": step.address,
        "call": step.call,
        "stage": step.stage,
        **asdict(step.story),
        "axes": list(step.axes),
        "symbols": list(step.symbols),
        "shape": list(step.shape),
        "row_sentences": list(step.sentences),
        "lines": _lists(step.lines),
        "gradient": None if step.gradient is None else {"norm": exact_values(step.gradient.norm())},
    }
    if values:
        mapping["values"] = exact_values(step.value)
        mapping["cells"] = _lists(step.cells)
        if step.gradient is not None:
            mapping["gradient"]["values"] = exact_values(step.gradient)
    return mapping


def exact_values(value: Tensor) -> Any:
    """Nested lists of a tensor's numbers; those that are not finite become words."""
    plain = value.tolist()
    if not value.is_floating_point() or bool(torch.isfinite(value).all()):
        return plain
    return _with_words(plain)


def _with_words(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_with_words(entry) for entry in plain]
    return plain if plain - plain == 0 else str(plain)


def _lists(rows: tuple[tuple[str, ...], ...] | None) -> list[list[str]] | None:
    return None if rows is None else [list(row) for row in rows]
