"""What the page computes in a browser: how far from PyTorch, how fast, and how large its weights are.

    python benchmarks/page_steps.py [--rounds N] [--chromium FILE] [--json FILE]

Times are of Node.js, and with --chromium of that browser too (through Playwright). On a machine with other work the
least of them tells most. A sentence of 12 source and 12 target tokens; the next step is one more target token with a
cache. Two models: the bundled one, and one of 7.3 million parameters (4 + 2 layers, d_model 256, d_ff 1024,
vocabulary 8000) with int8 rows and with float16. Errors are the largest differences between JavaScript and PyTorch:
of logits, and of any tap in relation to its greatest number. They are of small models with every combination of norm,
positions, activation and two bundles of the other choices, and of the bundled model on 100 sentences.
"""

import base64
import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine, spread
from smoke import new_parser, parse_options, write_json
from verification import grid_models

import glassformer.explain
from glassformer.decoding import Translator
from glassformer.explain.page.weights import count_parameters, pack_model, pack_weights
from glassformer.explain.page.writer import import_map
from glassformer.explain.recording.recording import record_pass
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.tasks import load_task
from glassformer.text import Tokenizer

ASSETS = Path(glassformer.explain.__file__).parent / "page" / "assets"
SCRIPT = Path(__file__).with_suffix(".js")
N_TOKENS = 12
LETTERS = "".join(chr(0x4E00 + number) for number in range(9000))  # more than a tokenizer may take
CHOICES = ("norm", "positions", "activation", "tie_embeddings")  # the two bundles differ in the last one
RUN = """
import { readFileSync } from "node:fs";
import { measure } from "./page_steps.js";
const { living, rounds, n } = JSON.parse(readFileSync(process.argv[2], "utf8"));
console.log(JSON.stringify(measure(living, rounds, n)));
"""
ERRORS = """
import { readFileSync } from "node:fs";
import { createModel } from "./worker/model.js";
import { fromBase64, readWeights } from "./record/weights.js";
const base64 = (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");
const cases = JSON.parse(readFileSync(process.argv[2], "utf8"));
console.log(JSON.stringify(cases.map(({ config, weights, passes }) => {
  const model = createModel(config, readWeights(fromBase64(weights)));
  return passes.map(({ src, tgt }) => {
    const record = { taps: new Map() };
    model.forward(src, tgt, { record });
    return Object.fromEntries([...record.taps].map(([address, { data }]) => [address, base64(data)]));
  });
})));
"""


def run_node(script: str, given: object) -> Any:
    """What a script prints, run by Node.js with the page's modules and ``given`` as its argument's file."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        shutil.copytree(ASSETS, place, dirs_exist_ok=True)
        shutil.copy(SCRIPT, place)
        (place / "package.json").write_text('{"type": "module"}')
        (place / "run.js").write_text(script)
        (place / "given.json").write_text(json.dumps(given))
        command = ["node", place / "run.js", place / "given.json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run_chromium(browser: str, living: object, rounds: int) -> Any:
    """The same measurements in a page of Chromium, whose modules are ``data:`` URLs as in a page of ours."""
    from playwright.sync_api import sync_playwright

    modules = {path.relative_to(ASSETS).as_posix(): path.read_text(encoding="utf-8") for path in ASSETS.rglob("*.js")}
    imports = import_map({**modules, SCRIPT.name: SCRIPT.read_text(encoding="utf-8")})
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.set_content(f'<script type="importmap">{imports}</script>')
        body = "async ([living, rounds, n]) => (await import('page/page_steps.js')).measure(living, rounds, n)"
        return page.evaluate(body, [living, rounds, N_TOKENS])


def medium_model(form: str) -> Transformer:
    """7.3 million parameters, which have the values that the form can hold."""
    sizes: dict[str, Any] = {"src_vocab": 8000, "tgt_vocab": 8000, "d_model": 256, "d_ff": 1024, "n_heads": 4}
    model = Transformer(
        ModelConfig(**sizes, n_encoder_layers=4, n_decoder_layers=2, norm="pre", max_length=256)
    ).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if form == "float16" or weight.ndim != 2:
                weight.copy_(weight.half())
            else:
                scales = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
                weight.copy_((weight / scales[:, None]).round() * scales[:, None])
    return model


def models(translator: Translator) -> Iterator[tuple[str, Translator]]:
    yield "bundled", translator
    tokenizer = Tokenizer.train("characters", [LETTERS], 8000)
    for form in ("int8 rows", "float16"):
        model = medium_model(form)
        yield f"7.3 million parameters, {form}", Translator(model, tokenizer, tokenizer, DecodeConfig())


def times_of(translator: Translator, rounds: int, browser: str | None) -> dict[str, Any]:
    results = {}
    for name, one in models(translator):
        living = pack_model(one)
        living["weights"] = base64.b64encode(living["weights"]).decode()
        size = {"parameters": count_parameters(one.model), "packed_mb": len(living["weights"]) / 1e6}
        print(f"\n{name}: {size['parameters']:,} parameters, {size['packed_mb']:.2f} MB in base64")
        found = {"node": run_node(RUN, {"living": living, "rounds": rounds, "n": N_TOKENS})}
        if browser:
            found["chromium"] = run_chromium(browser, living, rounds)
        results[name] = {**size, "milliseconds": {engine: report(engine, times) for engine, times in found.items()}}
    return results


def report(engine: str, times: dict[str, list[float]]) -> dict[str, Any]:
    rows = {what: {"least": min(found), **spread(found)} for what, found in times.items()}
    for what, row in rows.items():
        quartiles = f"{row['lower_quartile']:.2f} to {row['upper_quartile']:.2f}"
        print(f"  {engine:9} {what:38} least {row['least']:8.2f}  median {row['median']:8.2f} ms   {quartiles}")
    return rows


def errors_of(translator: Translator) -> dict[str, Any]:
    """The largest differences between JavaScript and PyTorch: of each cell of the grid, and of the bundled model."""
    small = [model for _, model in grid_models([Tokenizer.train("characters", [LETTERS], 23)])]
    passes = [{"src": [5, 6, 7, 8, 2, 0], "tgt": [1, 9, 4, 5, 8]}]
    cases = [(model, passes) for model in small] + [(translator.model, sentence_passes(translator))]
    given = [
        {
            "config": model.config.to_mapping(),
            "weights": base64.b64encode(pack_weights(model)).decode(),
            "passes": some,
        }
        for model, some in cases
    ]
    found = [
        differences(model, some, taps) for (model, some), taps in zip(cases, run_node(ERRORS, given), strict=True)
    ]
    grid = [
        {**{name: getattr(model.config, name) for name in CHOICES}, **row}
        for model, row in zip(small, found[:-1], strict=True)
    ]
    print("\nlargest difference of a logit, and of any tap in relation to its greatest number (at least 1)")
    for row in grid:
        names = " ".join(f"{row[name]:10}" for name in CHOICES)
        print(f"  {names} {row['logits']:.1e} {row['taps_relative']:.1e}")
    print(f"  bundled, {len(cases[-1][1])} sentences: {found[-1]['logits']:.1e} {found[-1]['taps_relative']:.1e}")
    return {"grid": grid, "bundled": {**found[-1], "sentences": len(cases[-1][1])}}


def sentence_passes(translator: Translator) -> list[dict[str, list[int]]]:
    """100 sentences, half of them phrases with names and numbers, with their greedy translations."""
    config, phrases = translator.model.config, load_task("phrasebook-de").test
    subjects = ("I see", "She has", "We need", "They want", "You know")
    nouns = ("dogs", "houses", "letters", "friends", "words")
    texts = [f"{subject} {number} {noun}." for subject, number, noun in product(subjects, ("two", "three"), nouns)]
    texts += [source for source, _ in phrases[:: len(phrases) // 50][:50]]
    outputs = translator.translate(texts, DecodeConfig(beam=1))
    return [
        {"src": [*translator.src_tokenizer.to_ids(text), config.eos_id],
         "tgt": [config.bos_id, *one.hypotheses[0].ids[:-1]]}
        for text, one in zip(texts, outputs, strict=True)
    ]  # fmt: skip


def differences(
    model: Transformer, passes: list[dict[str, list[int]]], taps: list[dict[str, str]]
) -> dict[str, float]:
    logits = others = 0.0
    for one, found in zip(passes, taps, strict=True):
        trace = record_pass(model, torch.tensor([one["src"]]), torch.tensor([one["tgt"]]))
        assert list(found) == [step.address for step in trace]
        for step in trace:
            value = torch.from_numpy(np.frombuffer(base64.b64decode(found[step.address]), "<f4").copy())
            expected = step.value.float().flatten()
            finite = expected.isfinite()
            assert torch.equal(value[~finite], expected[~finite])
            worst = float((value - expected)[finite].abs().max()) if finite.any() else 0.0
            assert math.isfinite(worst), step.address
            greatest = float(expected[finite].abs().max()) if finite.any() else 0.0
            others = max(others, worst / max(greatest, 1.0))
            logits = max(logits, worst) if step.address == "output_projection.logits" else logits
    return {"logits": logits, "taps_relative": others}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="measurements of each time (default 50)")
    parser.add_argument("--chromium", metavar="FILE", help="also measure in this browser")
    options = parse_options(parser, "--rounds 2")
    torch.manual_seed(1)
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    results: dict[str, Any] = {"machine": {**machine(), "node": node}, "rounds": options.rounds}
    for key, value in results["machine"].items():
        print(f"{key:8} {value}")
    translator = Translator.load()
    results["models"] = times_of(translator, options.rounds, options.chromium)
    results["errors"] = errors_of(translator)
    write_json(options.json, results)


if __name__ == "__main__":
    main()
