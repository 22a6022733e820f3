"""Does a server's memory stay flat? Clients of all contracts ask for some minutes; memory is compared with requests.

    python benchmarks/serving_soak.py [--minutes 15] [--clients 16] [--json FILE]

No two requests have the same text, so that whatever keeps something of each would show. The first third of the time
is for what grows once: PyTorch, its buffers, pools of connections. Of the rest the growth for 10,000 requests is
given, by least squares: of the server, of its workers, and of all; asked is less than 1 MB.
"""

import argparse
import asyncio
import random
import re
import statistics
import subprocess
import sys
import time
from itertools import count
from typing import Any

import httpx
from machine import machine
from serving import PREDICATES, SUBJECTS, family, resident_mb
from smoke import parse_options, write_json

PAUSE_S = 5.0


def request(draw: random.Random, number: int) -> tuple[str, dict[str, Any]]:
    """A path and what to send it."""
    text = f"{draw.choice(SUBJECTS)} {draw.choice(PREDICATES)} It is number {number}."
    pair, upper = {"source": "en", "target": "de"}, {"source_lang": "EN", "target_lang": "DE"}
    html = f"<p>{text} <b>{text}</b></p>"
    subtitles = f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n"
    return draw.choice(
        [
            ("/translate", {"json": {"q": text, **pair}}),
            ("/translate", {"data": {"q": html, "format": "html", "alternatives": 2, **pair}}),
            ("/translate", {"json": {"q": [text, f"Open {{file_{number}}}."], **pair}}),
            ("/v1/translate", {"json": {"text": text, "n_best": 3, **pair}}),
            ("/v1/translate", {"json": {"text": text, "stream": True, **pair}}),
            ("/v2/translate", {"data": {"text": text, **upper}}),
            ("/v2/translate", {"json": {"text": [f"<p>{text}</p>"], "tag_handling": "xml", **upper}}),
            ("/imme", {"json": {"text_list": [text], **upper}}),
            ("/v1/translate", {"json": {"text": text, "must": ["Nummer"], **pair}}),
            ("/translate_file", {"data": pair, "files": {"file": ("a.srt", subtitles)}}),
            ("/v1/chat/completions", {"json": {"model": "en-de", "messages": [{"role": "user", "content": text}]}}),
            ("/translate", {"content": f'{{"q": "{text}', "headers": {"Content-Type": "application/json"}}),
        ]
    )  # fmt: skip


async def soak(url: str, pid: int, clients: int, seconds: float) -> list[dict[str, float]]:
    """The requests so far and the memory of server and workers, every few seconds."""
    began, numbers = time.monotonic(), count()
    until = began + seconds
    statuses, samples = dict[int, int](), list[dict[str, float]]()
    failures = list[str]()
    limits = httpx.Limits(max_connections=clients, keepalive_expiry=2.0)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:

        async def ask(seed: int) -> None:
            draw = random.Random(seed)
            while time.monotonic() < until:
                path, sent = request(draw, next(numbers))
                answer = await client.post(path, **sent)
                statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
                if answer.status_code >= 500:
                    failures.append(f"{time.monotonic() - began:.1f} s: {path}: {answer.status_code} {answer.text}")

        async def watch() -> None:
            while time.monotonic() < until:
                server, *workers = family(pid)
                done = sum(statuses.values())
                samples.append(
                    {"requests": done, "server_mb": resident_mb(server), "workers_mb": sum(map(resident_mb, workers))}
                )
                await asyncio.sleep(PAUSE_S)

        await asyncio.gather(watch(), *map(ask, range(clients)))
    print("statuses:", dict(sorted(statuses.items())), flush=True)
    assert not failures, failures
    return samples


def growth(samples: list[dict[str, float]]) -> dict[str, float]:
    """The MB that each grew by for 10,000 requests, after the first third of the time."""
    later = samples[len(samples) // 3 :]
    requests = [one["requests"] for one in later]
    found = {}
    for name in ("server_mb", "workers_mb", "all_mb"):
        values = [one["server_mb"] + one["workers_mb"] if name == "all_mb" else one[name] for one in later]
        found[name] = 10_000 * statistics.linear_regression(requests, values).slope
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--clients", type=int, default=16)
    options = parse_options(
        parser, "--minutes 0.3 --clients 2", modules=["starlette", "httpx", "ctranslate2"], kept="serving_soak.json"
    )
    command = [sys.executable, "-m", "glassformer", "serve", "--port", "0", "--time-limit-s", "600"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()  # type: ignore[union-attr]
        found = re.match(r"(http\S+): ", line)
        assert found, line
        samples = asyncio.run(soak(found[1], process.pid, options.clients, 60 * options.minutes))
    finally:
        process.terminate()
        process.communicate()
    result = {"machine": machine(), "minutes": options.minutes, "clients": options.clients, "first": samples[0]}
    result |= {"last": samples[-1], "mb_per_10000_requests": growth(samples), "samples": samples[::6]}
    print(result["mb_per_10000_requests"], result["first"], result["last"], flush=True)
    write_json(options.json, result)


if __name__ == "__main__":
    main()
