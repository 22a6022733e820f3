"""Requests that nobody foresaw, against a live server: none may be answered with 500, and none may be lost.

    python tests/serving/fuzz.py --requests 50000

Half of them are made by schemathesis from the server's own description of itself; half are the requests that clients of
the other contracts send, with something wrong: other types, missing and doubled parameters, odd texts, other bodies.
"""

import argparse
import json
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from live_server import live_server

CLIENTS = 8  # at once
ODD: list[Any] = [
    None, True, -1, 0, 2**70, 1.5, float("nan"), "", " ", "a", "\x00", "\ud800", "ß" * 300, "a" * 5000, "<b>", "</b><b>", "{%", "%s" * 50,
    "{n, plural, one {", "&#x;", "<x id=\"1\"/>", "😀", "\u202e", "\r\n\r\n", [], [[]], ["a", 1], {}, {"a": {}}, "de", "en", "auto", "DE", "xml",
    "html", "1", "-1", "[X1X]", "@@PH1@@", "\n==WEBLATE_PART==\n", '{"strings": []}',
]  # fmt: skip
CHAT = {"model": "en-de", "messages": [{"role": "user", "content": "Good morning."}], "stream": False}
WEBLATE = json.dumps(
    {"source_language": "en", "target_language": "de", "strings": [{"source": "a @@PH1@@", "parts": []}]}
)
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/translate", {"q": "Good morning.", "source": "en", "target": "de", "format": "text", "alternatives": 1, "api_key": ""}),
    ("/detect", {"q": "Good morning."}),
    ("/v1/translate", {"text": "Good morning.", "source": "en", "target": "de", "n_best": 1, "beam": 2, "must": [], "ban": [], "prefix": "",
                       "glossary": [["a", "b"]], "memory": [["a", "b"]], "format": "text", "stream": False, "alignment": False}),
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", CHAT | {"messages": [{"role": "user", "content": WEBLATE}]}),
    ("/v2/translate", {"text": ["Good morning."], "source_lang": "EN", "target_lang": "DE", "tag_handling": "xml", "ignore_tags": "x",
                       "splitting_tags": "p", "non_splitting_tags": "b", "outline_detection": True, "formality": "default",
                       "glossary_id": "", "split_sentences": "1", "model_type": "quality_optimized"}),
    ("/v2/translate", {"text": ["<p>Good <b>morning</b> &amp; <x>no</x>.</p>"], "source_lang": "EN", "target_lang": "DE",
                       "tag_handling": "html", "ignore_tags": "x"}),
    ("/v2/languages", {"type": "target"}),
    ("/translate/batch", {"texts": ["Good morning."], "from": "en", "to": "de"}),
    ("/imme", {"text_list": ["Good morning."], "source_lang": "en", "target_lang": "de"}),
    ("/kiss", {"text": "Good morning.", "texts": [], "from": "auto", "to": "de"}),
    ("/deeplx", {"text": "Good morning.", "source_lang": "EN", "target_lang": "DE"}),
    ("/translate_file", {"source": "en", "target": "de"}),
]  # fmt: skip


def spoil(draw: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    """The parameters with one or two that are missing, odd or nested oddly."""
    found = dict(body)
    for _ in range(draw.randint(1, 2)):
        name = draw.choice([*found, "more"]) if found else "more"
        if draw.random() < 0.2:
            found.pop(name, None)
        else:
            found[name] = draw.choice(ODD)
    return found


def send(draw: random.Random, client: httpx.Client, path: str, body: dict[str, Any]) -> httpx.Response:
    """Send it as JSON, as a form, in the address, with a file, or as bytes that are none of these."""
    plain = {name: value if isinstance(value, str) else json.dumps(value) for name, value in body.items()}
    plain = {name: value.encode("utf-8", "replace").decode().replace("\x00", "") for name, value in plain.items()}
    way = draw.randrange(6)
    if way <= 1:
        return client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    if way == 2:
        return client.post(path, data=plain)
    if way == 3:
        return client.post(path, params={name: value[:500] for name, value in plain.items()})
    if way == 4:
        name = draw.choice(["a.txt", "a.html", "a.po", "a.srt", "a.xlf", "a.json", "", "a"])
        content = draw.choice([b"Good morning.\n", b"", b"\xff\xfe\x00", b"<a><b>", b'msgid "a"\nmsgstr ""\n'])
        return client.post(path, data=plain, files={"file": (name, content)})
    kind = draw.choice(
        [
            "application/json",
            "multipart/form-data; boundary=x",
            "multipart/form-data",
            "text/plain",
            "application/x-www-form-urlencoded",
        ]
    )
    return client.post(path, content=draw.randbytes(draw.randint(0, 200)), headers={"Content-Type": kind})


def fuzz(url: str, requests: int, seed: int) -> Counter[int]:
    """The statuses of so many spoilt requests, of several clients at once; prints each that is answered with 500."""
    shares = [requests // CLIENTS + (number < requests % CLIENTS) for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        draws = [random.Random(f"{seed} {number}") for number in range(CLIENTS)]
        return sum(pool.map(partial(fuzz_as_client, url), shares, draws), Counter())


def fuzz_as_client(url: str, requests: int, draw: random.Random) -> Counter[int]:
    statuses = Counter[int]()
    with httpx.Client(base_url=url, timeout=90, limits=httpx.Limits(keepalive_expiry=2.0)) as client:
        for _ in range(requests):
            path, body = draw.choice(REQUESTS)
            spoilt = spoil(draw, body)
            answer = send(draw, client, path, spoilt)
            statuses[answer.status_code] += 1
            if answer.status_code >= 500 and answer.status_code != 503:
                print(f"{path} {spoilt!r:.300}: {answer.status_code} {answer.text:.200}", file=sys.stderr)
    return statuses


def schemathesis(url: str, requests: int, seed: int) -> tuple[int, int]:
    """Let schemathesis make requests from the description; its exit code, and how many it has made."""
    operations = 20
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/spec", "--checks", "not_a_server_error", "--phases", "fuzzing",
               "--max-examples", str(max(1, requests // operations)), "--request-timeout", "90", "--workers", "4",
               "--suppress-health-check", "too_slow",  # of making requests, on a machine with other work
               "--exclude-path-regex", "/v1/explain|/download_file", "--seed", str(seed)]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    print(done.stdout[-1500:] if done.returncode == 0 else done.stdout)
    made = re.search(r"(\d+) generated", done.stdout)
    return done.returncode, int(made[1]) if made else 0


def add_up(path: Path, statuses: Counter[int], generated: int, seed: int) -> None:
    """Add the requests of one run to those in a file."""
    found = {"seeds": [], "spoilt_requests": 0, "statuses": {}, "generated_requests": 0}
    if path.is_file():
        found = json.loads(path.read_text("utf-8"))
    total = Counter(found["statuses"]) + Counter({str(status): count for status, count in statuses.items()})
    found = {
        "seeds": [*found["seeds"], seed],
        "spoilt_requests": found["spoilt_requests"] + sum(statuses.values()),
        "statuses": dict(sorted(total.items())),
        "generated_requests": found["generated_requests"] + generated,
    }
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file that adds up the requests of several runs")
    given = parser.parse_args()
    with live_server("--queue", "100000") as live:
        statuses = fuzz(live.url, given.requests // 2, given.seed)
        print(f"{sum(statuses.values())} spoilt requests:", dict(sorted(statuses.items())))
        code, generated = schemathesis(live.url, given.requests // 2, given.seed)
        alive = live.translate().status_code == 200
    if given.json is not None:
        add_up(given.json, statuses, generated, given.seed)
    failed = [status for status in statuses if status >= 500 and status != 503]
    return int(bool(failed) or code != 0 or not alive)


if __name__ == "__main__":
    sys.exit(main())
