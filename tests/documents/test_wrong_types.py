"""A wrong value at a door of the Python API is one of our errors, never a bare TypeError or AttributeError."""

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from glassformer import DecodeConfig, ModelConfig, RunConfig, TrainConfig, Translator
from glassformer.decoding import Request
from glassformer.documents import FileTranslator, FormatOptions, Glossary, Memory
from glassformer.errors import GlassformerError
from glassformer.explain import (
    narrate_step,
    print_attention,
    print_heads,
    print_heatmap,
    print_summary,
    print_walk,
    record_pass,
    resolved_axes,
    story_of,
    summary_rows,
    symbols,
    walk,
)
from glassformer.explain.walks import walk_generation
from glassformer.tasks import load_task
from glassformer.text import Tokenizer, read_lines
from glassformer.text.corpus.corpus import Pair, fingerprint, read_pairs
from glassformer.trace import Trace

WRONG: list[Any] = [
    7, -1, 2.5, float("nan"), b"x", "x", [None], [1], [b"x"], [[1]], {"a": 1}, {"encoder.memory": 1}, {1}, object(), int,
    lambda *_: None, Path("x"), np.zeros(2), torch.zeros(2), iter([]),
]  # fmt: skip
SCREEN, IDS = Console(file=io.StringIO()), torch.tensor([[1, 2]])
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
    "translator of documents": lambda _, value: document(value),
    "options of documents": lambda one, value: document(one, options=value),
    "glossary of documents": lambda one, value: document(one, glossary=value),
    "memory of documents": lambda one, value: document(one, memory=value),
    "progress": lambda one, value: document(one, progress=value),
    "key": lambda one, value: document(one, key=value),
    "a document": lambda one, value: document(one, path=value),
    "an output": lambda one, value: document(one, out=value),
    "columns": lambda one, value: document(one, columns=value),
    "columns of a table": lambda _, value: FormatOptions(columns=value),
    "a language": lambda _, value: FormatOptions(language=value),
    "a file of terms": lambda _, value: Glossary.read(value),
    "a file of pairs": lambda _, value: Memory.read(value),
    "engine": lambda _, value: Translator.load(engine=value),
    "start of a stream": lambda one, value: list(one.stream("A man.", start=value)),
    "start of scores": lambda one, value: one.score_tokens(["A man."], ["x"], start=value),
    "an address": lambda _, value: story_of(value),
    "a text file": lambda _, value: list(read_lines(value)),
    "two files": lambda _, value: list(read_pairs(Path("a"), value)),
    "a tokenizer": lambda _, value: Tokenizer.load(value),
    "a kind of tokenizer": lambda _, value: Tokenizer.train(value, ["a b"], 300),
    "texts of a tokenizer": lambda _, value: Tokenizer.train("bpe", value, 300),
    "a size": lambda _, value: Tokenizer.train("bpe", ["a b"], value),
    "a text for a tokenizer": lambda one, value: one.src_tokenizer.to_ids(value),
    "a task": lambda _, value: load_task(value),
    "a trace": lambda _, value: Trace.load(value),
    "precision": lambda _, value: Translator.load(precision=value),
    "shortlist": lambda _, value: Translator.load(shortlist=value),
    "attention": lambda one, value: one.translate(["A man."], attention=value),
    "attention of a stream": lambda one, value: list(one.translate_stream(["A man."], attention=value)),
    "texts to encode": lambda one, value: one.src_tokenizer.to_ids_batch(value),
    "texts for words": lambda one, value: one.src_tokenizer.word_starts_batch(value),
    "a text for offsets": lambda one, value: one.src_tokenizer.offsets(value),
    "a text to derive": lambda one, value: one.src_tokenizer.derive(value),
    "ids for a text": lambda one, value: one.src_tokenizer.to_text(value),
    "ids for tokens": lambda one, value: one.src_tokenizer.to_tokens(value),
    "an id": lambda one, value: one.src_tokenizer.entry(value),
    "where a tokenizer is saved": lambda one, value: one.src_tokenizer.save(value),
    "JSON of a tokenizer": lambda _, value: Tokenizer(value),
    "a text with terms": lambda _, value: Glossary([]).terms_in(value),
    "files to sum up": lambda _, value: fingerprint(value),
    "a choice of decoding": lambda _, value: DecodeConfig(length_norm=value),
    "a choice of a model": lambda _, value: ModelConfig(norm=value),
    "a choice of training": lambda _, value: TrainConfig(precision=value),
    "a number of threads": lambda _, value: TrainConfig(threads=value),
    "a translation to look into": lambda _, value: print_attention(value, SCREEN),
    "a console for attention": lambda one, value: print_attention(
        one.translate(["A man."], attention=True)[0], value
    ),
    "attention of heads": lambda _, value: print_heads(value, SCREEN),
    "a console for heads": lambda _, value: print_heads(torch.ones(1, 1, 1, 1), value),
    "weights": lambda _, value: print_heatmap(value, ["a"], ["b"], SCREEN),
    "source tokens": lambda _, value: print_heatmap(torch.ones(1, 1), value, ["b"], SCREEN),
    "target tokens": lambda _, value: print_heatmap(torch.ones(1, 1), ["a"], value, SCREEN),
    "a console for weights": lambda _, value: print_heatmap(torch.ones(1, 1), ["a"], ["b"], value),
    "a walk to print": lambda _, value: print_walk(value, SCREEN),
    "a walk to narrate": lambda _, value: narrate_step(value, 0),
    "a model to sum up": lambda _, value: print_summary(value, SCREEN),
    "a console for a summary": lambda one, value: print_summary(one.model, value),
    "rows of a summary": lambda _, value: summary_rows(value),
    "a number of source tokens": lambda one, value: summary_rows(one.model, n_src=value),
    "a number of target tokens": lambda one, value: summary_rows(one.model, n_tgt=value),
    "a model to record": lambda _, value: record_pass(value, IDS, IDS),
    "source ids": lambda one, value: record_pass(one.model, value, IDS),
    "target ids": lambda one, value: record_pass(one.model, IDS, value),
    "steps to record": lambda one, value: record_pass(one.model, IDS, IDS, value),
    "a step": lambda _, value: resolved_axes(value),
    "a step with symbols": lambda _, value: symbols(value),
    "a section": lambda _, value: RunConfig(model=value),
}


PATHS = ("a document", "an output", "a file of terms", "a file of pairs", "a text file", "a tokenizer", "a trace")
UNFIT = ("x\0y", "\ud800")  # what no file can have as its name


def document(
    translator: Any, *, path: Any = None, out: Any = None, columns: Any = None, options: Any = None, **more: Any
) -> None:
    """Translate a small file."""
    with TemporaryDirectory() as home:
        source = Path(home, "in.txt")
        source.write_text("A man.\n")
        given = [source if path is None else path, Path(home, "out.txt") if out is None else out, columns]
        FileTranslator(translator, options, **more).translate(*given)


RIGHT: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("a number of source tokens", "a number of target tokens"),
        lambda value: isinstance(value, int) and value == 7,
    ),
    **dict.fromkeys(("source tokens", "target tokens"), lambda value: isinstance(value, dict)),
    "steps to record": lambda value: isinstance(value, str),
    "a text for a tokenizer": lambda value: isinstance(value, str),
    "texts of a tokenizer": lambda value: isinstance(value, Iterable),
    **dict.fromkeys(("start of a stream", "start of scores"), lambda value: isinstance(value, int) and value == 7),
    "chunk": lambda value: isinstance(value, int) and value == 7,
    "start": lambda value: isinstance(value, int) and value == 7,
    "progress": callable,
    "key": lambda value: isinstance(value, str),
    **dict.fromkeys(("an output", "where a tokenizer is saved"), lambda value: isinstance(value, str | Path)),
    "an id": lambda value: isinstance(value, int),
    "a number of threads": lambda value: isinstance(value, int) and value == 7,
    **dict.fromkeys(("texts to encode", "texts for words"), lambda value: isinstance(value, dict | Iterator)),
    **dict.fromkeys(
        ("ids for a text", "ids for tokens"),
        lambda value: isinstance(value, np.ndarray | torch.Tensor | set | bytes | Iterator) or value == [1],
    ),
    **dict.fromkeys(
        ("a text for offsets", "a text to derive", "a text with terms"), lambda value: isinstance(value, str)
    ),
    **dict.fromkeys(("a column", "a column to fill", "a language"), lambda value: isinstance(value, str)),
}


def wrong_values(door: str) -> list[Any]:
    """All but those that are right at this door."""
    return [value for value in WRONG if door not in RIGHT or not RIGHT[door](value)]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(device="cpu")


@pytest.mark.parametrize("door", DOORS)
def test_a_wrong_value_is_one_of_our_errors(door: str, translator: Translator) -> None:
    for value in [*wrong_values(door), *(UNFIT if door in PATHS else ())]:
        with pytest.raises(GlassformerError):
            DOORS[door](translator, value)


@pytest.mark.parametrize("value", [7, None, b"x", object()])
def test_a_generation_refuses_wrong_sources_and_another_glob(value: Any, translator: Translator) -> None:
    with pytest.raises(GlassformerError):
        walk_generation(translator, value)
    with pytest.raises(GlassformerError):
        walk_generation(translator, ["x"], only=value)
