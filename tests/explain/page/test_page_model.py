"""The Transformer of the page, in JavaScript, computes what PyTorch computes, at every tap."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.explain.recording.recording import record_pass
from glassformer.settings import ModelConfig
from glassformer.trace import Trace, tracing

IMPORT = 'import { createModel, erf, SETTINGS } from "./worker/model.js";'
MAKE = """
  const make = ({ config, weights }) => createModel(config, new Map(Object.entries(weights)));
"""
SRC, TGT = [5, 6, 7, 8, 2, 0, 0], [1, 9, 4, 5, 8]
TOLERANCE = {"rtol": 1e-5, "atol": 2e-5}


def assert_same_taps(found: dict[str, Any], expected: Trace) -> None:
    assert list(found) == [step.address for step in expected]
    for step in expected:
        tap = found[step.address]
        assert (tap["axes"], tap["shape"]) == (list(step.axes), list(step.shape)), step.address
        value = torch.from_numpy(tap["data"].copy()).reshape(step.shape)
        torch.testing.assert_close(value, step.value.float(), **TOLERANCE, msg=lambda m, s=step: f"{s.address}: {m}")


def forward(run_js: Any, models: Iterable[Any], **options: Any) -> list[dict[str, Any]]:
    """The taps of a pass of each model."""
    body = """
  return data.models.map((one) => {
    const record = { taps: new Map() };
    make(one).forward(data.src, data.tgt, { record, ...data.options });
    return record.taps;
  });"""
    return run_js(IMPORT, MAKE + body, {"models": [*models], "src": SRC, "tgt": TGT, "options": options})


@pytest.mark.slow
def test_every_choice_of_the_config_gives_pytorchs_taps(run_js, small_model, every_option, packed) -> None:
    models = [small_model(**options) for options in every_option]
    for model, taps in zip(models, forward(run_js, map(packed, models)), strict=True):
        assert_same_taps(taps, record_pass(model, torch.tensor([SRC]), torch.tensor([TGT])))


EDITS = [
    {"address": "decoder.layers.1.cross_attention.weights", "index": {"heads": 1}, "operation": "zero"},
    {"address": "encoder.layers.*.feed_forward.activated", "operation": "scale", "value": -0.5},
    {"address": "tgt_embedding.tokens.weight", "index": {"row": 4, "column": 2}, "operation": "set", "value": 1.5},
    {"address": "causal_mask", "index": {"query": 1, "key": 3}, "operation": "set", "value": 1},
]


def test_edits_act_as_those_of_a_trace(run_js, small_model, packed) -> None:
    model = small_model()

    def change(address: str, cells: tuple[Any, ...], make: Any) -> dict[str, Any]:
        def edit(value: torch.Tensor) -> torch.Tensor:
            value[cells] = make(value[cells])
            return value

        return {address: edit}

    edits = (
        change(EDITS[0]["address"], (slice(None), 1), torch.zeros_like)
        | change(EDITS[1]["address"], (slice(None),), lambda x: -0.5 * x)
        | change(EDITS[2]["address"], (4, 2), lambda x: torch.full_like(x, 1.5))
        | change("causal_mask", (0, 0, 1, 3), torch.ones_like)
    )
    (found,) = forward(run_js, [packed(model)], edits=EDITS)
    assert_same_taps(found, record_pass(model, torch.tensor([SRC]), torch.tensor([TGT]), edits=edits))


def test_hidden_source_tokens_and_a_source_that_is_hidden_whole_act_as_in_pytorch(run_js, small_model, packed):
    model, seen = small_model(), torch.tensor([1, 0, 1, 1, 1, 1, 1], dtype=torch.bool)
    (found,) = forward(run_js, [packed(model)], srcMask=seen.tolist())
    hide = {"src_mask": lambda mask: mask & seen}
    assert_same_taps(found, record_pass(model, torch.tensor([SRC]), torch.tensor([TGT]), edits=hide))
    model = small_model()
    (found,) = forward(run_js, [packed(model)], srcMask=[False] * len(SRC))
    hide = {"src_mask": torch.zeros_like}
    assert_same_taps(found, record_pass(model, torch.tensor([SRC]), torch.tensor([TGT]), edits=hide))


def test_steps_with_a_cache_have_the_logits_and_taps_of_pytorchs_steps(run_js, small_model, options, packed) -> None:
    models = [small_model(**choices) for choices in options]
    found = run_js(
        IMPORT,
        MAKE
        + """
  return data.models.map((one) => {
    const model = make(one), memory = model.encode(data.src), cache = model.newCache();
    model.decode(data.tgt.slice(0, 2), memory, { cache });
    const other = cache.clone();
    model.decode([13], memory, { cache: other });  // must not disturb the first
    const record = { taps: new Map() };
    for (const id of data.tgt.slice(2)) model.decode([id], memory, { cache, record });
    return record.taps;
  });""",
        {"models": [packed(model) for model in models], "src": SRC, "tgt": TGT},
    )
    for model, taps in zip(models, found, strict=True):
        with torch.no_grad():
            memory, mask = model.encode(torch.tensor([SRC]))
            cache = model.new_cache()
            model.decode(torch.tensor([TGT[:-1]]), memory, mask, cache)
            with tracing(model) as trace:
                model.decode(torch.tensor([TGT[-1:]]), memory, mask, cache)
        # Cross-attention's keys and values are computed at the first step of a cache alone.
        assert_same_taps(taps, trace)


PLACED = [
    {"address": "decoder.layers.0.cross_attention.weights", "index": {"query": 2, "heads": 1}, "operation": "zero"},
    {"address": "decoder.layers.1.self_attention.weights", "index": {"query": 3, "key": 1}, "operation": "zero"},
    {"address": "decoder.layers.0.self_attention.k", "index": {"key": 1}, "operation": "scale", "value": -2},
    {"address": "decoder.layers.1.output", "index": {"tgt": 4}, "operation": "scale", "value": 3},
    {"address": "tgt_embedding.position_vectors", "index": {"position": 1}, "operation": "zero"},
]


def test_an_edit_of_a_position_waits_for_it_in_steps_with_a_cache(run_js, small_model, packed) -> None:
    body = (
        MAKE
        + """
  const model = make(data.model), cache = model.newCache(), { edits } = data;
  const whole = model.forward(data.src, data.tgt, { edits }), plain = model.forward(data.src, data.tgt);
  const steps = data.tgt.map((id) => model.decode([id], model.encode(data.src, { edits }), { edits, cache }).data);
  const [last] = [model.next(data.tgt, whole.memory, edits)];
  return { whole: whole.logits.data, plain: plain.logits.data, steps, last };"""
    )
    found = run_js(IMPORT, body, {"model": packed(small_model()), "src": SRC, "tgt": TGT, "edits": PLACED})
    np.testing.assert_allclose(np.concatenate(found["steps"]), found["whole"], atol=1e-6)
    np.testing.assert_array_equal(found["last"], found["whole"][-19:])
    changed = np.abs(found["whole"] - found["plain"]).reshape(5, 19).max(axis=1)
    assert changed[0] == 0
    assert (changed[1:] > 1e-3).all()


def test_every_setting_is_known_by_its_name_and_choices(run_js) -> None:
    known = run_js(IMPORT, "return SETTINGS;", {})
    assert set(known) == {field.name for field in fields(ModelConfig)}
    for name, choices in known.items():
        if choices and isinstance(choices[0], str):
            assert tuple(choices) == ModelConfig.choices(name)


@pytest.mark.parametrize(("setting", "value"), [("positions", "spiral"), ("gate", True), ("norm", None)])
def test_a_choice_that_is_not_known_is_refused_by_name(run_js, small_config, setting, value) -> None:
    config = {**asdict(small_config()), setting: value}
    message = run_js(IMPORT, "try { createModel(data, new Map()); } catch (error) { return error.message; }", config)
    assert f"that the page does not know: {setting}" in message


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({"address": "decoder.layers.9.output", "operation": "zero"}, "decoder.layers.9.output: matched no tap"),
        ({"address": "decoder.output", "index": {"key": 0}, "operation": "zero"}, "decoder.output: has no axis key"),
        ({"address": "decoder.output", "index": {"tgt": 5}, "operation": "zero"}, "decoder.output: tgt 5 is not in"),
        ({"address": "output_projection.probabilities", "operation": "zero"}, "output_projection.probabilities: is shown"),
        ({"address": "decoder.output", "operation": "set", "value": [1, 2]}, "decoder.output: the edit gives 2 numbers"),
    ],
)  # fmt: skip
def test_an_edit_without_effect_is_refused(run_js, small_model, edit, expected, packed) -> None:
    message = run_js(
        IMPORT,
        MAKE + "try { make(data.model).forward([5, 2], data.tgt, { edits: [data.edit] }); } catch (error) { return error.message; }",
        {"model": packed(small_model()), "tgt": TGT, "edit": edit},
    )  # fmt: skip
    assert message.startswith(expected)


def test_erf_is_exact_to_rounding(run_js) -> None:
    x = np.concatenate([np.linspace(-7, 7, 2001), [1e-8, -1e-30, 0.0]]).astype("f4")
    found = run_js(IMPORT, "return Array.from(data, erf);", x)
    np.testing.assert_allclose(found, torch.erf(torch.from_numpy(x).double()).numpy(), rtol=1e-14, atol=1e-300)
