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
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
from generated_strings import is_whole, make_emojis, make_string
from machine import machine
from smoke import parse_options, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strings", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--emoji", action="store_true", help="strings with several emoji and repeated codes")
    options = parse_options(parser, "--strings 40", modules=["starlette", "httpx"], kept="serving_placeholders.json")
    draw = random.Random(options.seed)
    strings = [(make_emojis if options.emoji else make_string)(draw) for _ in range(options.strings)]
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
