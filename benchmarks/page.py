"""The living page measured in a headless Chromium: size, first paint, a typed sentence, an edit, and a large trace.

    python benchmarks/page.py [--rounds 5] [--json FILE]

The page of the bundled model is opened from disk anew in every round. A living step is measured from the keystroke or
the click until the page shows what follows. The large page is eight sentences of twenty source and twenty target
tokens through an untrained model of the paper's base configuration.

While a page is scrolled from its top to its end, ``longest_task_ms`` is the processor time of the main thread's
longest task, which other programs do not change, and ``long_tasks`` counts those that the browser reports as longer
than 50 ms.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from machine import machine, spread
from playwright.sync_api import Browser, Page, sync_playwright
from smoke import new_parser, parse_options, write_json

from glassformer.decoding import Translator
from glassformer.explain import walk
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text import Tokenizer

SENTENCE, OTHERS = "I love you, too.", ["She reads a book.", "He sleeps.", "Where is my friend?"]
WORDS = "the house is near a river and we have two dogs with three children who read good books"
TOKENS = 20
SCROLLED = ("", "#attention", "#encoder", "#decoder")
OBSERVE = """() => {
    window.longTasks = 0;
    new PerformanceObserver((list) => { window.longTasks += list.getEntries().length; }).observe({type: "longtask"});
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
TYPE = """text => new Promise((done) => {
    const app = window.glassformer, start = performance.now();
    app.living.text = text;
    app.living.recompute().then(() => done(performance.now() - start));
})"""
EDIT = """head => new Promise((done) => {
    const app = window.glassformer, start = performance.now();
    app.edits.length = 0;
    app.edits.push({address: "decoder.layers.0.cross_attention.heads", index: {heads: head}, operation: "zero"});
    app.living.recompute().then(() => done(performance.now() - start));
})"""
STEP = """step => {
    const start = performance.now();
    window.glassformer.set({step});
    return performance.now() - start;
}"""


def open_page(browser: Browser, path: Path, place: str = "") -> Page:
    page = browser.new_context(offline=True, viewport={"width": 1280, "height": 800}).new_page()
    page.set_default_timeout(180_000)
    page.goto(path.as_uri() + place)
    page.wait_for_selector("#view .view")
    return page


def until(page: Page, expression: str) -> float:
    start = time.monotonic()
    while not page.evaluate(expression):
        page.wait_for_timeout(10)
    return time.monotonic() - start


def measure_bundled(browser: Browser, path: Path, rounds: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {"first_paint_ms": [], "typed_sentence_ms": [], "edit_ms": [], "step_ms": []}
    for _ in range(rounds):
        page = open_page(browser, path)
        until(page, f"window.glassformer.living?.ready && {PAINT}")
        found["first_paint_ms"].append(page.evaluate(PAINT))
        found["typed_sentence_ms"] += [page.evaluate(TYPE, text) for text in OTHERS]
        found["edit_ms"] += [page.evaluate(EDIT, head) for head in range(3)]
        found["step_ms"] += [page.evaluate(STEP, step) for step in (1, 2, 3, 0)]
        page.context.close()
    return {name: spread(values) for name, values in found.items()}


def measure_scrolling(browser: Browser, path: Path, rounds: int, places: int) -> dict[str, Any]:
    longest, counts = [], []
    for place in SCROLLED[:places]:
        for _ in range(rounds):
            page = open_page(browser, path, place)
            page.wait_for_timeout(2_000)  # the model wakes up
            page.evaluate(OBSERVE)
            browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
            scroll_through(page)
            longest.append(max(main_thread_tasks(browser.stop_tracing())))
            counts.append(page.evaluate("window.longTasks"))
            page.context.close()
    return {
        "longest_task_ms": {"most": max(longest), **spread(longest)},
        "long_tasks": sum(counts),
        "scrolls": len(counts),
    }


def scroll_through(page: Page) -> None:
    page.mouse.move(640, 400)
    step = max(200, page.evaluate("document.documentElement.scrollHeight") / 12)
    for _ in range(12):
        page.mouse.wheel(0, step)
        page.wait_for_timeout(40)
    page.wait_for_timeout(200)


def main_thread_tasks(trace: bytes) -> list[float]:
    """The processor time of each task, in ms."""
    events = json.loads(trace)["traceEvents"]
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one.get("name") == "thread_name"}
    main = {thread for thread, name in names.items() if name == "CrRendererMain"}
    return [
        one["tdur"] / 1000
        for one in events
        if (one["pid"], one["tid"]) in main and one["name"].endswith("RunTask") and "tdur" in one
    ]


def sentence_of(tokenizer: Tokenizer, first: int) -> str:
    """A text of TOKENS tokens."""
    words: list[str] = []
    for at in range(10 * TOKENS):
        longer = [*words, WORDS.split()[(first + at) % len(WORDS.split())]]
        words = longer if len(tokenizer.to_ids(" ".join(longer))) <= TOKENS else words
    assert len(tokenizer.to_ids(" ".join(words))) == TOKENS
    return " ".join(words)


def write_large(path: Path) -> None:
    tokenizer = Translator.load().src_tokenizer
    torch.manual_seed(1)
    config = ModelConfig.base(src_vocab=tokenizer.size, tgt_vocab=tokenizer.size)
    translator = Translator(Transformer(config), tokenizer, tokenizer, DecodeConfig())
    texts = [sentence_of(tokenizer, first) for first in range(8)]
    walk(translator, texts, texts[::-1]).to_page(path)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--places", type=int, default=len(SCROLLED), help="of the page, that are scrolled from")
    options = parse_options(
        parser, "--rounds 2 --places 1", modules=["playwright"], files=["/usr/bin/chromium"], kept="page.json"
    )
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as started:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        bundled, large = Path(scratch, "bundled.html"), Path(scratch, "large.html")
        walk(Translator.load(), [SENTENCE]).to_page(bundled)
        write_large(large)
        results = measure_bundled(browser, bundled, options.rounds)
        scrolled = [
            measure_scrolling(browser, path, min(3, options.rounds), options.places) for path in (bundled, large)
        ]
        paints = []
        for _ in range(options.rounds):
            page = open_page(browser, large)
            until(page, PAINT)
            paints.append(page.evaluate(PAINT))
            page.context.close()
        report = {
            "machine": machine(), "browser": browser.version, "rounds": options.rounds,
            "bundled": {"size_mb": bundled.stat().st_size / 1e6, **results, "scrolling": scrolled[0]},
            "base_8_sentences": {
                "size_mb": large.stat().st_size / 1e6, "tokens": [TOKENS, TOKENS], "first_paint_ms": spread(paints),
                "scrolling": scrolled[1],
            },
        }  # fmt: skip
        browser.close()
    print(json.dumps(report, indent=1))
    write_json(options.json, report)


if __name__ == "__main__":
    main()
