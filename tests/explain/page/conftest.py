"""Runs the page's modules in Node.js, each time with data of this test; a model as those modules take it; a browser."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import glassformer.explain
from glassformer.decoding import Translator
from glassformer.explain import Walk, walk
from glassformer.model import Transformer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = Path("/usr/bin/chromium")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
ASSETS = Path(glassformer.explain.__file__).parent / "page" / "assets"
PREAMBLE = """
import { readFileSync, writeFileSync } from "node:fs";
function revive(_, value) {
  return value && value.f32 !== undefined ? new Float32Array(new Uint8Array(Buffer.from(value.f32, "base64")).buffer) : value;
}
function replace(_, value) {
  if (value instanceof Map) return Object.fromEntries(value);
  if (!(value instanceof Float32Array)) return value;
  return { f32: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
}
const data = JSON.parse(readFileSync(process.argv[2], "utf8"), revive);
function run() {
  %s
}
writeFileSync(process.argv[3], JSON.stringify(await run() ?? null, replace));
"""


def _pack(value: object) -> object:
    if isinstance(value, np.ndarray):
        return {"f32": base64.b64encode(value.astype("<f4").tobytes()).decode()}
    raise TypeError(f"found {type(value).__name__}")


def _unpack(value: dict[str, Any]) -> Any:
    return np.frombuffer(base64.b64decode(value["f32"]), "<f4") if value.keys() == {"f32"} else value


@pytest.fixture
def run_js(tmp_path: Path) -> Callable[..., Any]:
    """``run_js(imports, body, data)``: what ``body`` returns, run in Node.js with ``data``; arrays are Float32Arrays."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed, which runs the page's modules outside a browser")

    def run(imports: str, body: str, data: object) -> Any:
        shutil.copytree(ASSETS, tmp_path, dirs_exist_ok=True)
        (tmp_path / "package.json").write_text('{"type": "module"}')
        script, given, result = (tmp_path / name for name in ("run.js.mjs", "data.json", "result.json"))
        script.write_text(imports + PREAMBLE.replace("%s", body), encoding="utf-8")
        given.write_text(json.dumps(data, default=_pack), encoding="utf-8")
        done = subprocess.run([node, script, given, result], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr == done.stdout == ""
        return json.loads(result.read_text(encoding="utf-8"), object_hook=_unpack)

    return run


@pytest.fixture
def packed() -> Callable[[Transformer], dict[str, Any]]:
    """Configuration and float32 weights of a model."""

    def pack(model: Transformer) -> dict[str, Any]:
        weights = {
            name: {"shape": list(one.shape), "data": one.detach().numpy()} for name, one in model.named_parameters()
        }
        return {"config": asdict(model.config), "weights": weights}

    return pack


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM.exists(), f"{CHROMIUM}: not there. `make browser` installs it."
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def bundled() -> Walk:
    return walk(Translator.load(), ["I love you, too."])


@pytest.fixture(scope="session")
def bundled_file(bundled, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "bundled.html"
    bundled.to_page(path, run="en-de", run_option="")
    return path
