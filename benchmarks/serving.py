"""What a server answers with 1, 8, 64 and 256 clients at once: throughput, and how long a client waits.

    python benchmarks/serving.py [--clients 1 8 64 256] [--seconds 10] [--json FILE]

Each client sends the next sentence when it has its answer. Beside our server stands a plain one, which gives each
request to the same model by itself, as small servers do; it runs the same HTTP server. The load comes from httpx in a
process of its own: oha, wrk and k6 are not to be had by pip. It takes time of the cores, which the servers lack.
With one client, the time of a request less the time of the same translations in a process is what HTTP costs.
At the end stand the figures that are aimed at: 3 times the plain server's requests with 64 clients, and 2 ms for
HTTP. These two alone take four minutes:

    python benchmarks/serving.py --clients 1 64 --seconds 20 --engines ctranslate2

A server is also asked for a translation while 2,000 connections are open; ``--connections`` takes another number.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import cycle, product
from pathlib import Path
from typing import Any

import httpx
from machine import machine
from smoke import parse_options, write_json

SUBJECTS = ("My sister", "The old man", "Nobody in this town", "Tom", "Our new teacher", "The children", "She", "I")
PREDICATES = (
    "lives in a small house near the river.", "has never seen the sea.", "wants to buy a new car next year.",
    "would like a cup of coffee, please.", "did not understand the question.", "bought two tickets for the museum.",
    "says that it is going to rain.", "must not be late again.", "is reading a letter from Mary.",
    "asked the doctor for help.",
)  # fmt: skip
SENTENCES = [" ".join(pair) for pair in product(SUBJECTS, PREDICATES)]
PLAIN = """
import socket, sys, asyncio, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from glassformer import Translator
translator = Translator.load(engine=sys.argv[1])
translator.translate(["Hello."])
async def translate(request):
    q = (await request.json())["q"]
    found = await asyncio.to_thread(translator.translate, [q])
    return JSONResponse({"translatedText": found[0].text})
listener = socket.create_server(("127.0.0.1", 0))
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(f"http://127.0.0.1:{listener.getsockname()[1]}: plain", file=sys.stderr, flush=True)
app = Starlette(routes=[Route("/translate", translate, methods=["POST"])])
uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_keep_alive=75)).run(sockets=[listener])
"""


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def load(url: str, clients: int, seconds: float) -> dict[str, float]:
    """Requests a second, and the milliseconds of the median, the 95th and the 99th of a hundred."""
    times, errors = list[float](), 0
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients, keepalive_expiry=2.0)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:

        async def one(seed: int, until: float) -> None:
            nonlocal errors
            texts = random.Random(seed).sample(SENTENCES, len(SENTENCES))
            for text in cycle(texts):
                began = time.perf_counter()
                if began > until:
                    return
                answer = await client.post("/translate", json={"q": text, "source": "en", "target": "de"})
                times.append(1000 * (time.perf_counter() - began))
                errors += answer.status_code != 200

        await asyncio.gather(*(one(number, time.perf_counter() + 1.0) for number in range(clients)))  # warm
        began = time.perf_counter()
        warm = len(times)
        await asyncio.gather(*(one(1000 + number, began + seconds) for number in range(clients)))
        passed = time.perf_counter() - began
    requests, times = len(times), times[warm:]
    return {
        "requests": requests, "requests_per_s": len(times) / passed, "errors": errors,
        "p50_ms": statistics.median(times), "p95_ms": percentile(times, 0.95), "p99_ms": percentile(times, 0.99),
    }  # fmt: skip


def in_process(engine: str) -> float:
    """The median milliseconds of one sentence without a server."""
    from glassformer import Translator

    with Translator.load(engine=engine, workers=1) as translator:
        translator.translate(["Hello."])
        times = []
        for text in SENTENCES:
            began = time.perf_counter()
            translator.translate([text])
            times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def answers_beside(url: str, connections: int) -> int:
    """The status of a request while so many connections are open that send nothing."""
    host, port = url.removeprefix("http://").split(":")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as opened:
        for _ in range(connections):
            opened.enter_context(socket.create_connection((host, int(port))))
        body = {"q": "Hello.", "source": "en", "target": "de"}
        return httpx.post(f"{url}/translate", json=body, timeout=60).status_code


def aims(found: dict[str, Any]) -> dict[str, float]:
    """What is aimed at, of the numbers of clients that were measured."""
    ours, plain, figures = found["ours"], found["plain"], {}
    if "64" in ours:
        figures["times_plain_at_64"] = ours["64"]["requests_per_s"] / plain["64"]["requests_per_s"]
        figures["times_plain_at_64_by_cpu"] = plain["64"]["cpu_ms_per_request"] / ours["64"]["cpu_ms_per_request"]
    if "1" in ours:
        figures["http_ms_at_1"] = ours["1"]["p50_ms"] - found["in_process_p50_ms"]
    return figures


def measure(command: list[str], clients: list[int], seconds: float, rest: float, connections: int) -> dict[str, Any]:
    """Start a server and load it."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()  # type: ignore[union-attr]
        url = line.partition(": ")[0]
        httpx.post(
            f"{url}/translate", json={"q": "Hello.", "source": "en", "target": "de"}, timeout=60
        ).raise_for_status()
        found: dict[str, Any] = {"start_to_first_answer_s": time.perf_counter() - began}
        time.sleep(rest)
        for number in clients:
            pids = family(process.pid)
            before = sum(map(cpu_s, pids))
            one = found[str(number)] = asyncio.run(load(url, number, seconds))
            one["cpu_ms_per_request"] = 1000 * (sum(map(cpu_s, pids)) - before) / one["requests"]
            shown = ", ".join(f"{name} {value:.1f}" for name, value in found[str(number)].items())
            print(f"  {number:3} clients: {shown}", flush=True)
        if connections:
            found["status_beside_connections"] = {str(connections): answers_beside(url, connections)}
        found["memory_mb"] = sum(map(resident_mb, family(process.pid)))
        return found
    finally:
        process.terminate()
        process.communicate()


def cpu_s(pid: int) -> float:
    """The processor time of a process so far."""
    path = Path(f"/proc/{pid}/stat")
    fields = path.read_text().rpartition(")")[2].split() if path.exists() else ["0"] * 13
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and those that it has started."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [pid, *map(int, found.split())]


def resident_mb(pid: int) -> float:
    path = Path(f"/proc/{pid}/statm")
    return int(path.read_text().split()[1]) * 4096 / 1e6 if path.exists() else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rest", type=float, default=8.0, help="seconds in which our workers load PyTorch, too")
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--engines", nargs="+", default=["ctranslate2", "torch"])
    options = parse_options(
        parser, "--clients 1 2 --seconds 0.5 --rest 0 --connections 50 --engines ctranslate2",
        modules=["starlette", "httpx", "ctranslate2"], kept="serving.json",
    )  # fmt: skip
    results: dict[str, Any] = {}
    for engine in options.engines:
        ours = [sys.executable, "-m", "glassformer", "serve", "--port", "0", "--engine", engine]
        plain = [sys.executable, "-c", PLAIN, engine]
        results[engine] = {"in_process_p50_ms": in_process(engine)}
        for name, command in (("ours", ours), ("plain", plain)):
            print(f"{engine}, {name}:", flush=True)
            connections = options.connections if name == "ours" else 0
            results[engine][name] = measure(command, options.clients, options.seconds, options.rest, connections)
        results[engine]["aims"] = aims(results[engine])
        print(engine, results[engine]["aims"], flush=True)
    write_json(options.json, {"machine": machine(), "results": results})
    if options.json is None:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
