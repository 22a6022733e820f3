"""Why this word: the page computes what ``glassformer.explain.attribution`` computes."""

import pytest
import torch

from glassformer.explain.attribution import direct_logit_attribution, logit_lens, occlusion
from glassformer.explain.recording.recording import record_pass
from glassformer.trace import tracing

IMPORT = """
import { createModel } from "./worker/model.js";
import { directLogits, logitLens, occlusion, runnerUp } from "./worker/attribution.js";
"""
MAKE = """
  const run = ({ config, weights }, edits = []) => {
    const model = createModel(config, new Map(Object.entries(weights))), record = { taps: new Map() };
    model.forward(data.src, data.tgt, { record, edits });
    return [model, record];
  };
"""
SRC, TGT, POSITION, TOKEN = [5, 6, 7, 8, 2], [1, 9, 4, 5, 8], 3, 11
SRC_IDS, TGT_IDS = torch.tensor([SRC]), torch.tensor([TGT])
GIVEN = {"src": SRC, "tgt": TGT}


def test_the_page_finds_the_parts_and_the_lens_that_python_finds(run_js, packed, small_model, options):
    models = [small_model(**choices) for choices in options]
    body = MAKE + "return data.models.map((one) => directLogits(...run(one), data.position, data.token));"
    given = {**GIVEN, "models": [packed(model) for model in models], "position": POSITION, "token": TOKEN}
    for model, found in zip(models, run_js(IMPORT, body, given), strict=True):
        expected = direct_logit_attribution(model, record_pass(model, SRC_IDS, TGT_IDS), POSITION, TOKEN)
        assert [(one["address"], one["head"]) for one in found["parts"]] == [
            (one.address, one.head) for one in expected
        ]
        for one, other in zip(found["parts"], expected, strict=True):
            assert one["value"] == pytest.approx(other.value, abs=2e-5, rel=1e-4)
        assert found["sum"] == pytest.approx(found["logit"], abs=1e-4)
    models = [small_model(**choices) for choices in options]
    body = MAKE + "return data.models.map((one) => logitLens(...run(one), data.position));"
    given = {**GIVEN, "models": [packed(model) for model in models], "position": POSITION}
    for model, found in zip(models, run_js(IMPORT, body, given), strict=True):
        trace = record_pass(model, SRC_IDS, TGT_IDS)
        lens = logit_lens(model, trace)
        assert [one["address"] for one in found] == list(lens)
        for one, logits in zip(found, lens.values(), strict=True):
            at = logits[0, POSITION]
            torch.testing.assert_close(torch.from_numpy(one["logits"].copy()), at, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(
                torch.from_numpy(one["probabilities"].copy()), at.softmax(-1), rtol=1e-4, atol=1e-5
            )
            assert one["best"] == at.topk(5).indices.tolist()
        torch.testing.assert_close(at, trace["output_projection.logits"][0, POSITION], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_runner_up_is_behind_by_the_sum_of_the_parts_also_of_an_edited_pass(run_js, packed, small_model, norm):
    model = small_model(norm=norm)
    found = run_js(IMPORT, MAKE + "return runnerUp(...run(data.model), data.position);",
                   {**GIVEN, "model": packed(model), "position": POSITION})  # fmt: skip
    logits = record_pass(model, SRC_IDS, TGT_IDS)["output_projection.logits"][0, POSITION]
    values, ids = logits.topk(2)
    assert [found["id"], found["runnerUp"]] == ids.tolist()
    assert found["gap"] == pytest.approx(float(values[0] - values[1]), abs=1e-5)
    assert sum(part["value"] for part in found["parts"]) == pytest.approx(found["gap"], abs=1e-4)
    assert all(part["flips"] == (part["value"] > found["gap"]) for part in found["parts"])
    edits = [
        {"address": "decoder.layers.0.self_attention.heads", "index": {"heads": 2}, "operation": "zero"},
        {
            "address": "decoder.layers.1.feed_forward.w_2.weight",
            "index": {"row": 3},
            "operation": "scale",
            "value": 2,
        },
        {"address": "tgt_embedding.tokens.weight", "index": {"row": TOKEN}, "operation": "scale", "value": -1},
    ]
    body = (
        MAKE
        + """
  const [model, record] = run(data.model, data.edits);
  return directLogits(model, record, data.position, data.token, data.edits);"""
    )
    given = {**GIVEN, "model": packed(small_model(norm=norm)), "edits": edits, "position": POSITION, "token": TOKEN}
    found = run_js(IMPORT, body, given)
    assert found["sum"] == pytest.approx(found["logit"], abs=1e-4)
    (silent,) = [
        one for one in found["parts"] if (one["address"], one["head"]) == ("decoder.layers.0.self_attention", 2)
    ]
    assert silent["value"] == 0


def test_a_hidden_source_token_costs_what_python_says(run_js, packed, small_model) -> None:
    model = small_model()
    body = MAKE + "return occlusion(run(data.model)[0], data.src, data.tgt, data.token);"
    found = run_js(IMPORT, body, {**GIVEN, "model": packed(model), "token": TOKEN})
    falls = occlusion(model, SRC_IDS, TGT_IDS, TOKEN)
    whole = found["whole"]["log_prob"]
    torch.testing.assert_close(
        torch.tensor([whole - one["log_prob"] for one in found["without"]]), falls, rtol=0, atol=1e-5
    )
    with torch.no_grad():
        plain = model(SRC_IDS, TGT_IDS)[0, -1]
        with tracing(model, {"src_mask": lambda mask: mask & (torch.arange(5) != 2)}, only=""):
            hidden = model(SRC_IDS, TGT_IDS)[0, -1]
    assert found["whole"]["logit"] == pytest.approx(float(plain[TOKEN]), abs=1e-5)
    assert found["without"][2]["logit"] == pytest.approx(float(hidden[TOKEN]), abs=1e-5)
    assert float(falls[2]) == pytest.approx(float((plain.log_softmax(-1) - hidden.log_softmax(-1))[TOKEN]), abs=1e-5)
