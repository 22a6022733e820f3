"""Greedy and beam search of the page find what those of Python find, with the same scores and the same tree."""

from dataclasses import fields
from typing import Any

import pytest
import torch

from glassformer.decoding import SearchJob
from glassformer.decoding.search.beam import DROPPED, FINISHED, LIVE
from glassformer.decoding.search.search import search
from glassformer.decoding.search.steps import DecoderSteps
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig
from glassformer.trace import tracing

IMPORT = """
import { createModel } from "./worker/model.js";
import { beam, greedy, ignoredSettings, logSoftmax, runToEnd, topK } from "./worker/search.js";
"""
BODY = """
  return data.models.map(({ config, weights }) => {
    const model = createModel(config, new Map(Object.entries(weights)));
    return data.sources.map((ids) => data.options.map((options) => runToEnd((options.beam === 1 ? greedy : beam)(model, ids, options))));
  });"""
SOURCES = [[5, 6, 7, 8, 2], [9, 2], [11, 12, 13, 14, 15, 16, 2]]
OPTIONS = [
    DecodeConfig(beam=1, max_length_b=6),
    DecodeConfig(beam=4, n_best=4, max_length_b=6),
    DecodeConfig(beam=3, length_penalty=0.0, max_length_a=0.0, max_length_b=9),
    DecodeConfig(beam=5, n_best=2, length_penalty=1.3, max_length_a=2.5, max_length_b=1),
    DecodeConfig(
        beam=3, n_best=2, length_norm="power", length_penalty=1.0, early_stopping="heuristic", max_length_b=6
    ),
    DecodeConfig(beam=3, length_norm="power", length_penalty=0.7, early_stopping="never", max_length_b=6),
    DecodeConfig(
        beam=4,
        n_best=2,
        length_norm="power",
        word_penalty=0.3,
        early_stopping="shrink",
        allow_unk=False,
        max_length_b=6,
    ),
]


def limit(ids: list[int], options: DecodeConfig, model: Transformer) -> int:
    return min(int(options.max_length_a * (len(ids) - 1)) + options.max_length_b, model.config.max_length)


def python_search(model: Transformer, ids: list[int], options: DecodeConfig) -> list[Any]:
    steps = DecoderSteps(model, torch.tensor([ids]), options)
    with torch.no_grad():
        return search(steps, SearchJob([ids], [limit(ids, options, model)], options))[0]


def lively(model: Transformer) -> Transformer:
    """With logits far enough apart that rounding decides nothing, and an end that is probable."""
    with torch.no_grad():
        model.output_projection.linear.weight.mul_(3)
    return model


@pytest.mark.slow
def test_candidates_are_those_of_python(run_js, small_model, options, packed) -> None:
    models = [lively(small_model(**choices)) for choices in options]
    given = {"models": [packed(model) for model in models], "sources": SOURCES,
             "options": [one.to_mapping() for one in OPTIONS]}  # fmt: skip
    lengths = set()
    for model, of_model in zip(models, run_js(IMPORT, BODY, given), strict=True):
        for ids, of_source in zip(SOURCES, of_model, strict=True):
            for settings, found in zip(OPTIONS, of_source, strict=True):
                expected = python_search(model, ids, settings)
                assert [one["ids"] for one in found["candidates"]] == [one.ids for one in expected]
                assert [one["truncated"] for one in found["candidates"]] == [one.truncated for one in expected]
                for name in ("log_prob", "score"):
                    torch.testing.assert_close(
                        [one[name] for one in found["candidates"]], [getattr(one, name) for one in expected],
                        rtol=1e-5, atol=1e-4,
                    )  # fmt: skip
                lengths |= {(len(one.ids), one.truncated) for one in expected}
    assert len(lengths) > 5  # not all ran to their limits, or ended at once


def test_the_tree_has_every_candidate_that_python_considers_with_its_outcome(run_js, small_model, packed) -> None:
    model, settings = lively(small_model()), OPTIONS[1]
    given = {"models": [packed(model)], "sources": SOURCES[:1], "options": [settings.to_mapping()]}
    tree = run_js(IMPORT, BODY, given)[0][0][0]["tree"]
    with tracing(model, only="search.candidate_*") as trace:
        python_search(model, SOURCES[0], settings)
    outcomes = {"dropped": DROPPED, "live": LIVE, "finished": FINISHED}
    for step, (ids, found) in enumerate(
        zip(trace.select("search.candidate_ids"), trace.select("search.candidate_outcomes"), strict=True)
    ):
        of_step = [one for one in tree if one["step"] == step]
        assert [one["id"] for one in of_step] == ids.value[0].tolist()
        assert [outcomes[one["outcome"]] for one in of_step] == found.value[0].tolist()
    for at, one in enumerate(tree):
        assert one["node"] == at
        parent = [] if one["parent"] is None else tree[one["parent"]]["ids"]
        assert one["ids"] == [*parent, one["id"]]


def test_edits_and_hidden_tokens_reach_every_step(run_js, small_model, packed) -> None:
    model, settings = lively(small_model()), OPTIONS[1]
    body = """
  const model = createModel(data.model.config, new Map(Object.entries(data.model.weights)));
  const edits = [{ address: "decoder.layers.0.cross_attention.heads", index: { heads: 1 }, operation: "zero" }];
  return runToEnd(beam(model, data.ids, { ...data.options, edits, srcMask: [1, 0, 1, 1, 1] }));"""
    found = run_js(IMPORT, body, {"model": packed(model), "ids": SOURCES[0], "options": settings.to_mapping()})

    def silence(heads: torch.Tensor) -> torch.Tensor:
        heads[:, 1] = 0.0
        return heads

    def hide(mask: torch.Tensor) -> torch.Tensor:
        mask[..., 1] = False
        return mask

    with tracing(model, {"decoder.layers.0.cross_attention.heads": silence, "src_mask": hide}, only="src_mask"):
        expected = python_search(model, SOURCES[0], settings)
    assert [one["ids"] for one in found["candidates"]] == [one.ids for one in expected]


OTHERS = {  # another value of each setting that is not the default
    "beam": 5, "length_penalty": 1.0, "length_norm": "power", "early_stopping": "never", "n_best": 2, "min_length": 2,
    "word_penalty": 0.2, "allow_unk": False, "repetition_penalty": 1.2, "no_repeat_ngram": 2, "coverage_penalty": 0.2,
    "max_length_a": 2.0, "max_length_b": 7, "cache": False, "sample": True, "temperature": 0.5, "top_k": 3,
    "top_p": 0.9, "min_p": 0.1, "typical_p": 0.9, "seed": 1, "mbr": 4, "split_sentences": True, "batch_tokens": 100,
    "src_language": "de", "tgt_language": "spa", "match_style": True, "copy_wordless": False, "keep_codes": False,
}  # fmt: skip
CARRIED_OUT = {
    "beam",
    "length_penalty",
    "length_norm",
    "early_stopping",
    "n_best",
    "max_length_a",
    "max_length_b",
    "word_penalty",
    "allow_unk",
}
CHANGES_NO_OUTPUT = {"cache", "batch_tokens"}
BEFORE_THE_SEARCH = {
    "split_sentences",
    "src_language",
    "tgt_language",
    "match_style",
    "copy_wordless",
    "keep_codes",
}  # how texts are cut, and which a model reads
WITH_ANOTHER = {"temperature", "top_k", "top_p", "min_p", "typical_p", "seed"}  # sample


def test_each_setting_is_carried_out_or_named_as_left_out(run_js) -> None:
    names = [field.name for field in fields(DecodeConfig)]
    given = [{**DecodeConfig().to_mapping(), name: OTHERS[name]} for name in names]
    found = run_js(IMPORT, "return data.map(ignoredSettings);", [DecodeConfig().to_mapping(), *given])
    assert found[0] == []
    for name, ignored in zip(names, found[1:], strict=True):
        assert ignored == (
            [] if name in CARRIED_OUT | CHANGES_NO_OUTPUT | BEFORE_THE_SEARCH | WITH_ANOTHER else [name]
        )


def test_top_k_takes_the_first_of_equals(run_js) -> None:
    found = run_js(IMPORT, "return topK([1, 3, 3, -Infinity, 2, 3], 4);", None)
    assert found == [1, 2, 5, 4]
