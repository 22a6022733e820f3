"""What a page carries is exactly the model, in the smallest form that loses nothing; the worker computes with it."""

import base64
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

import glassformer.explain
from glassformer.decoding import Translator
from glassformer.explain.page.weights import count_parameters, pack_model, pack_weights
from glassformer.explain.recording.recording import record_pass
from glassformer.model import Transformer

ASSETS = Path(glassformer.explain.__file__).parent / "page" / "assets"
READ = 'import { fromBase64, readWeights } from "./record/weights.js";'
WORKER = 'import { PageWorker } from "./worker/worker.js";'
FILES = [ASSETS / "record" / "weights.js", *ASSETS.glob("worker/**/*.js")]


def int8_rows(model: Transformer) -> None:
    """Give matrices the values that int8 rows with float32 scales have."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                scales = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
                weight.copy_((weight / scales[:, None]).round() * scales[:, None])


FORMS = {
    "F32": lambda model: None,
    "F16": lambda model: [weight.data.copy_(weight.data.half()) for weight in model.parameters()],
    "BF16": lambda model: [weight.data.copy_(weight.data.bfloat16()) for weight in model.parameters()],
    "I8": int8_rows,
}
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I8": 1}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_recognised_and_read_back_bit_for_bit(run_js, small_model, form) -> None:
    model = small_model(positions="learned")
    FORMS[form](model)
    packed = pack_weights(model)
    assert load(packed)["encoder.layers.0.feed_forward.w_1.weight"].itemsize == BYTES[form]
    found = run_js(READ, "return readWeights(fromBase64(data));", base64.b64encode(packed).decode())
    assert found.keys() == dict(model.named_parameters()).keys()
    for name, weight in model.named_parameters():
        assert found[name]["shape"] == list(weight.shape)
        assert torch.equal(torch.from_numpy(found[name]["data"].copy()).reshape(weight.shape), weight), name


def test_extreme_numbers_survive(run_js, small_model) -> None:
    model = small_model()
    extremes = torch.tensor([0.0, -0.0, 6e-8, 65504.0, 1e-7, -(2.0**-24), 2.0**-14])
    with torch.no_grad():
        model.encoder.layers[0].feed_forward.w_1.bias[:7] = extremes.half().float()
    found = run_js(READ, "return readWeights(fromBase64(data));", base64.b64encode(pack_weights(model)).decode())
    name = "encoder.layers.0.feed_forward.w_1.bias"
    expected = dict(model.named_parameters())[name]
    assert torch.equal(torch.from_numpy(found[name]["data"].copy()), expected)


def test_the_bundled_model_takes_the_room_that_it_ships_in(run_js) -> None:
    translator = Translator.load()
    model = translator.model
    living = pack_model(translator)
    living["weights"] = base64.b64encode(living["weights"]).decode()
    assert len(living["weights"]) < 1.02 * 4 / 3 * 2 * count_parameters(model)
    assert living["tokenizers"]["tgt"] is None
    body = """
  const worker = new PageWorker(), answers = [];
  const call = (name, ...args) => answers[answers.push(worker.answer({ id: answers.length, call: name, args })) - 1].result;
  const loaded = call("load", data.living);
  const { ids } = call("encodeText", "src", data.text), src = [...ids, data.living.config.eos_id];
  const { best } = call("beam", src, data.living.decode);
  const { text } = call("decodeIds", "tgt", best.ids);
  const record = call("pass", src, [data.living.config.bos_id, ...best.ids.slice(0, -1)]);
  const parts = call("directLogits", 0, best.ids[0]);
  call("runnerUp", 0); call("logitLens", 0); call("occlusion", src, [1], best.ids[0]); call("greedy", src);
  return { loaded, best, text, parts, logits: record.taps.get("output_projection.logits").data, errors: answers.map((one) => one.error ?? null) };"""
    text = "I love you, too."
    found = run_js(WORKER, body, {"living": living, "text": " I\u00a0love  you, too.\n"})  # as translate reads it
    assert set(found["errors"]) == {None}
    assert found["loaded"] == {"parameters": count_parameters(model), "ignored": [], "targets": []}
    expected = translator.translate([text])[0].hypotheses[0]
    assert (found["best"]["ids"], found["text"]) == (expected.ids, expected.text)
    src_ids = torch.tensor([[*translator.src_tokenizer.to_ids(text), model.config.eos_id]])
    trace = record_pass(model, src_ids, torch.tensor([[model.config.bos_id, *expected.ids[:-1]]]))
    logits = trace["output_projection.logits"]
    torch.testing.assert_close(
        torch.from_numpy(found["logits"].copy()).reshape(logits.shape), logits, rtol=0, atol=1e-4
    )
    assert found["parts"]["sum"] == pytest.approx(float(logits[0, 0, expected.ids[0]]), abs=1e-4)


@pytest.mark.parametrize(
    ("call", "expected"),
    [("constructor", "call: found constructor"), ("pass", "load: expected before"), ("runnerUp", "load: expected")],
)
def test_the_worker_answers_a_wrong_call_with_an_error(run_js, call, expected) -> None:
    body = "return new PageWorker().answer({ id: 7, call: data, args: [[5, 2], [1]] });"
    found = run_js(WORKER, body, call)
    assert found["id"] == 7
    assert found["error"].startswith(expected)


def test_no_two_files_of_the_worker_have_one_name_at_the_top() -> None:
    """They stand end to end in one script."""
    homes: dict[str, Path] = {}
    for file in FILES:
        source = file.read_text(encoding="utf-8")
        for name in re.findall(r"^(?:export )?(?:class|const|let|function\*?) (\w+)", source, re.M):
            assert homes.setdefault(name, file) == file, f"{name}: in {homes[name]} and {file}"
    assert {"createModel", "createTokenizer", "beam", "PageWorker", "UNKNOWN", "CONTROL_TOKENS"} <= homes.keys()
