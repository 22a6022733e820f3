"""How many placeholders and tags come back whole through a server's own contract, of generated strings.

    python benchmarks/serving_placeholders.py [--strings 10000] [--seed 1] [--json FILE]

The strings have one to six codes of mixed syntaxes: nested tags, codes side by side, the same one twice. They go to a
live server with the bundled model. Of each string, every code has to be in the answer as often as in the string; an
answer that lacks one without saying so in its field ``check`` is counted as silent. The file keeps the counts of each
seed, so that many strings are asked in several runs.
"""

import argparse
import json
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
from machine import machine
from smoke import parse_options, write_json

WORDS = [
    "the",
    "a",
    "my",
    "our",
    "your",
    "house",
    "garden",
    "train",
    "friend",
    "letter",
    "water",
    "question",
    "window",
    "small",
    "new",
    "old",
    "green",
    "is",
    "was",
    "sees",
    "opens",
    "reads",
    "sends",
    "needs",
    "has",
    "please",
    "now",
    "today",
    "never",
    "always",
    "with",
    "for",
    "from",
    "near",
    "and",
    "but",
    "click",
    "open",
    "save",
    "delete",
    "file",
    "user",
]
CODES = [
    "%s", "%d", "%1$s", "%(count)d", "{name}", "{0}", "{{ user.name }}", "${HOME}", "$name", "@@PH1@@", "@@PH27@@",
    '<x id="7"/>', '<x id="7"></x>', "<br/>",
    "https://example.org/a?b=1", "info@example.org", "&nbsp;", "[X7X]", "%%",
    "{n}", "__NAME__", "--force", "/usr/bin/env", "`code`", ":user_id",
]  # fmt: skip
PAIRS = [
    ("<b>", "</b>"),
    ("<i>", "</i>"),
    ('<a href="/x">', "</a>"),
    ('<g id="1">', "</g>"),
    ("[b]", "[/b]"),
    ("<1>", "</1>"),
]


def make_string(draw: random.Random) -> tuple[str, Counter[str]]:
    """A string, and its codes."""
    words = [draw.choice(WORDS) for _ in range(draw.randint(2, 12))]
    codes = Counter[str]()
    for _ in range(draw.randint(1, 4)):
        if draw.random() < 0.35:
            opening, closing = draw.choice(PAIRS)
            start = draw.randint(0, len(words) - 1)
            end = draw.randint(start, len(words) - 1)
            words[start], words[end] = opening + words[start], words[end] + closing
            codes.update((opening, closing))
        else:
            code = draw.choice(CODES)
            place = draw.randint(0, len(words))
            times = draw.choice((1, 1, 1, 2))
            beside = code.startswith(("<", "{", "@@")) and draw.random() < 0.5
            words[place:place] = [code * times] if beside else [code] * times
            codes[code] += times
    text = " ".join(words)
    return text[:1].upper() + text[1:] + draw.choice([".", "!", "?", ""]), codes


def count(text: str, code: str) -> int:
    """How often a code stands in a text, not inside a longer one."""
    return len(re.findall(re.escape(code) + (r"(?!\w)" if code[-1].isalnum() else ""), text))


def is_whole(source: str, codes: Counter[str], text: str) -> bool:
    """Whether each code is there as often as in the source."""
    return all(count(text, code) == count(source, code) for code in codes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strings", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parse_options(parser, "--strings 40", modules=["starlette", "httpx"], kept="serving_placeholders.json")
    draw = random.Random(options.seed)
    strings = [make_string(draw) for _ in range(options.strings)]
    process = subprocess.Popen(
        [sys.executable, "-m", "glassformer", "serve", "--port", "0", "--time-limit-s", "600"],
        stderr=subprocess.PIPE,
        text=True,
    )
    texts = [text for text, _ in strings]
    slices = [tuple(texts[start : start + 20]) for start in range(0, len(texts), 20)]
    try:
        url = process.stderr.readline().partition(": ")[0]  # type: ignore[union-attr]
        with httpx.Client(timeout=600) as client, ThreadPoolExecutor(4) as pool:

            def ask(texts: tuple[str, ...]) -> list[dict]:  # type: ignore[type-arg]
                body = {"text": list(texts), "source": "en", "target": "de"}
                answer = client.post(f"{url}/v1/translate", json=body)
                answer.raise_for_status()
                return answer.json()["translations"]

            answers = [one for each in pool.map(ask, slices) for one in each]
    finally:
        process.terminate()
        process.communicate()
    found = Counter(strings=0, whole=0, told=0, silent=0, told_needlessly=0)
    for (source, codes), answer in zip(strings, answers, strict=True):
        whole = is_whole(source, codes, answer["text"])
        found["strings"] += 1
        found["whole"] += whole
        found["told"] += not whole and bool(answer["check"])
        found["told_needlessly"] += whole and bool(answer["check"])
        if not whole and not answer["check"]:
            found["silent"] += 1
            print(f"silent: {source!r} -> {answer['text']!r}")
        elif not whole:
            print(f"told: {source!r} -> {answer['text']!r}: {answer['check']}")
    print(dict(found))
    is_kept = options.json is not None and options.json.is_file()
    by_seed = json.loads(options.json.read_text("utf-8"))["by_seed"] if is_kept else {}
    by_seed[str(options.seed)] = dict(found)
    total = sum(map(Counter, by_seed.values()), Counter[str]())
    write_json(
        options.json, {"machine": machine(), "results": {name: total[name] for name in found}, "by_seed": by_seed}
    )


if __name__ == "__main__":
    main()
