"""The page that translates in a browser: its size, how soon it answers, how fast it is, and whether it answers as Python.

    python benchmarks/translator_page.py [--sentences 1000] [--tatoeba en-de-large.tsv.gz] [--json FILE]

It is opened from disk in a headless Chromium without a network. Sentences are those of the corpus that have ten tokens
for the speed, and any for the comparison, in which both search in float32: a difference is a tie if Python's own score
of both is equal to five digits.
"""

import gzip
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine import machine
from playwright.sync_api import Page, sync_playwright
from smoke import new_parser, parse_options, write_json

from glassformer import Translator
from glassformer.explain import walk

CHROMIUM = "/usr/bin/chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
TOKENS = 10
TIMED = 100  # sentences
LONG_WORDS = 20_000
TRANSLATE = """async ([texts, options]) => {
  const start = performance.now();
  const found = await window.glassformer.translate(texts, options);
  return { texts: found.map((one) => one.text), ms: performance.now() - start, since: performance.now() };
}"""
PAINT = "performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint')?.startTime ?? 0"
# Every pause of the main thread while a long text is translated, and how long it takes to end that.
CANCEL = """async ([text, wait]) => {
  const stop = new AbortController();
  const job = window.glassformer.translate([text], { signal: stop.signal }).catch((error) => error.name);
  let [last, longest] = [performance.now(), 0];
  const end = last + wait;
  while (last < end) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  }
  stop.abort();
  const name = await job, aborted = performance.now();
  await window.glassformer.translate(["I am here."]);
  return { name, longest, next: performance.now() - aborted };
}"""


def main() -> None:
    parser = new_parser(__doc__, smoke="--tatoeba {data}/tatoeba/en-de-large.tsv.gz --sentences 20", browser=True)
    parser.add_argument("--tatoeba", type=Path, required=True, metavar="FILE")
    parser.add_argument("--sentences", type=int, default=1000, metavar="N")
    options = parse_options(parser)
    translator = Translator.load(engine="torch")
    sentences = list(read(options.tatoeba, options.sentences))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path = Path(folder) / "translator.html"
        walk(translator, ["I love you, too."]).to_page(path, run="en-de", run_option="", first="translate")
        browser = started.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        found: dict[str, Any] = {"machine": machine(), "bytes": path.stat().st_size}
        with browser.new_context(offline=True) as context:
            page = context.new_page()
            page.goto(path.as_uri())
            found |= measure(page, translator, sentences)
            found |= compare(page, translator, sentences)
        browser.close()
    write_json(options, found)
    for name, value in found.items():
        print(f"{name:24} {value}")


def read(path: Path, count: int) -> Iterator[str]:
    """Sentences of the corpus, from all of it."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        lines = [line.split("\t")[0] for line in stream]
    yield from lines[:: max(1, len(lines) // count)][:count]


def measure(page: Page, translator: Translator, sentences: list[str]) -> dict[str, Any]:
    """First paint and first translation in ms since opening, sentences a second on one core, and how a paste ends."""
    first = page.evaluate(TRANSLATE, [["The house is green."], {}])
    count = len(translator.src_tokenizer.to_ids("The quick fox jumps over two old dogs at noon."))
    short = [text for text in sentences if len(translator.src_tokenizer.to_ids(text)) in range(TOKENS - 1, TOKENS + 2)]
    short = (short * TIMED)[: min(TIMED, len(sentences))] or ["The quick fox jumps over two old dogs at noon."]
    speeds = {}
    for name, options in (("greedy", {"greedy": True}), ("beam", {})):
        page.evaluate(TRANSLATE, [short[:5], options])
        speeds[name] = round(1000 * len(short) / page.evaluate(TRANSLATE, [short, options])["ms"], 1)
    pasted = page.evaluate(CANCEL, [" ".join((" ".join(sentences).split() * LONG_WORDS)[:LONG_WORDS]), 3000])
    return {
        "first paint ms": round(page.evaluate(PAINT)),
        "first translation ms": round(first["since"]),
        "greedy sentences/s": speeds["greedy"],
        "beam sentences/s": speeds["beam"],
        "tokens of each": f"{TOKENS - 1} to {TOKENS + 1}; {count} in the longest of those written",
        "paste: longest pause ms": round(pasted["longest"]),
        "paste: next answer ms": round(pasted["next"]),
        "paste: ends with": pasted["name"],
    }


def compare(page: Page, translator: Translator, sentences: list[str]) -> dict[str, Any]:
    """How many answers differ from Python's, and which of these are ties."""
    found: dict[str, Any] = {"sentences compared": len(sentences)}
    for name, beam in (("greedy", 1), ("beam", translator.config.beam)):
        options = replace(translator.config, beam=beam)
        expected = translator.translate(sentences, options)
        answers = page.evaluate(TRANSLATE, [sentences, {"greedy": beam == 1}])["texts"]
        others = [(one.source, one.text, answer) for one, answer in zip(expected, answers, strict=True) if one.text != answer]
        ties = [each for each in others if is_tie(translator, *each)]
        found |= {f"{name}: different": len(others), f"{name}: ties": ties, f"{name}: others": [each for each in others if each not in ties]}
    return found


def is_tie(translator: Translator, source: str, text: str, other: str) -> bool:
    """Whether Python's model gives both answers the same probability, to five digits."""
    first, second = translator.score([source, source], [text, other])
    return abs(first - second) <= 1e-5 * abs(first)


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{'seconds':24} {time.perf_counter() - started:.0f}")
