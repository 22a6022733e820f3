"""What a server answers with 1, 8, 64 and 256 clients at once: throughput, and how long a client waits.

    python benchmarks/serving.py [--clients 1 8 64 256] [--seconds 10] [--json FILE]

Each client sends the next sentence when it has its answer. Beside our server stands a plain one, which gives each
request to the same model by itself, as small servers do; it runs the same HTTP server. The load comes from wrk
(``apt install wrk``), which takes little of the cores that the servers need.
What HTTP costs is the time of a request less that of the same work in a process, which takes turns with it.
At the end stand the figures that are aimed at: 3 times the plain server's requests with 64 clients, and 2 ms for
HTTP; and the limit of the first: how much less processor time the model takes for a sentence in batches of 32 than
for one by itself. These alone take two minutes:

    python benchmarks/serving.py --clients 1 64 --seconds 20 --engines ctranslate2

On a machine with other work, one core by itself says more than all: put ``taskset -c 1`` before it. There the time
of the processor for a request says more than the requests a second.

LibreTranslate itself stands beside them where it is installed, with the same model as a package of Argos. It splits
sentences by a model that it downloads; where that cannot be, by the rules of a blank spaCy pipeline in its cache:

    glassformer export --to argos --out packages
    python -m venv other && other/bin/pip install libretranslate spacy
    other/bin/python -c "from pathlib import Path; from argostranslate import package
    package.install_from_path(Path('packages/translate-en_de.argosmodel'))"
    other/bin/python -c "import spacy; from argostranslate import settings; path = settings.cache_dir / 'spacy'
    spacy.blank('xx').to_disk(path); (path / 'senter' / 'model').mkdir(parents=True)"
    ARGOS_CHUNK_TYPE=SPACY python benchmarks/serving.py --libretranslate other/bin/libretranslate

An earlier checkout is compared with this one in turns, each server started anew in each of some rounds:

    python benchmarks/serving.py --servers none --before DIR --rounds 3 --clients 1 8 64 --engines ctranslate2

A server is also asked for a translation while 2,000 connections are open; ``--connections`` takes another number.
"""

import argparse
import json
import math
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from itertools import product
from pathlib import Path
from shutil import which
from typing import Any

import httpx
from machine import machine
from smoke import parse_options, write_json

from glassformer.text.corpus.workers import available_cores

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
WRK = """
local bodies, number = {BODIES}, 0
wrk.method, wrk.path, wrk.headers["Content-Type"] = "POST", "/translate", "application/json"
math.randomseed(1)
for last = #bodies, 2, -1 do
  local other = math.random(last)
  bodies[last], bodies[other] = bodies[other], bodies[last]
end
function request()
  number = number % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[number])
end
function done(summary, latency)
  local failed = summary.errors
  local errors = failed.status + failed.connect + failed.read + failed.write + failed.timeout
  local ms = {latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3}
  local row = '\\n{"requests": %d, "requests_per_s": %f, "errors": %d, "p50_ms": %f, "p95_ms": %f, "p99_ms": %f}'
  io.write(row:format(summary.requests, 1e6 * summary.requests / summary.duration, errors, ms[1], ms[2], ms[3]))
end
"""


def wrk(url: str, clients: int, seconds: float, script: Path) -> dict[str, float]:
    """Requests a second, and the milliseconds of the median, the 95th and the 99th of a hundred."""
    command = ["wrk", "-t1", f"-c{clients}", f"-d{math.ceil(seconds)}s", "--timeout", "120s", "-s", str(script), url]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(json.loads(found.rpartition("\n")[2]))


def write_script(path: Path) -> Path:
    """What wrk sends and writes."""
    bodies = [json.dumps({"q": text, "source": "en", "target": "de"}) for text in SENTENCES]
    path.write_text(WRK.replace("BODIES", ", ".join(f"[[{body}]]" for body in bodies)))
    return path


def in_process(engine: str) -> dict[str, float]:
    """The processor's milliseconds for a sentence without a server, alone and in batches."""
    from glassformer import Translator
    from glassformer.documents import FileTranslator

    with Translator.load(engine=engine, workers=1) as translator:
        files = FileTranslator(translator)
        files.translate_texts([(text,) for text in SENTENCES])
        alone = [timed(translator.translate, [text]) for text in SENTENCES]
        together = [timed(translator.translate, SENTENCES[start : start + 32]) for start in range(0, 64, 32)]
        batches = [timed(files.translate_texts, [(text,) for text in SENTENCES[at : at + 32]]) for at in (0, 32)]
    return {
        "cpu_ms_alone": sum(cpu for _, cpu in alone) / len(alone),
        "cpu_ms_in_batches_of_32": sum(cpu for _, cpu in together) / 64,
        "cpu_ms_in_batches_of_32_as_served": sum(cpu for _, cpu in batches) / 64,
    }


def http_ms(url: str, engine: str) -> float:
    """The median of how many milliseconds longer a request takes than the same work in this process."""
    from glassformer import Translator
    from glassformer.documents import FileTranslator

    connection = HTTPConnection(url.removeprefix("http://"))

    def ask(text: str) -> None:
        body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
        connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
        connection.getresponse().read()

    with Translator.load(engine=engine, workers=1) as translator:
        files = FileTranslator(translator)
        pairs = [(timed(ask, text)[0], timed(files.translate_texts, [(text,)])[0]) for text in 3 * SENTENCES]
    connection.close()
    return statistics.median(request - direct for request, direct in pairs[len(SENTENCES) :])


def timed(call: Callable[[Any], Any], argument: Any) -> tuple[float, float]:
    """The milliseconds that a call takes, and those of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    call(argument)
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)


def cost_of_640(url: str, pids: list[int]) -> float:
    """The milliseconds of the processor for each of 640 requests by 64 clients: other work changes it little."""

    def ask(number: int) -> None:
        connection = HTTPConnection(url.removeprefix("http://"))
        for text in random.Random(number).choices(SENTENCES, k=10):
            body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
            connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        connection.close()

    before = sum(map(cpu_s, pids))
    with ThreadPoolExecutor(64) as pool:
        list(pool.map(ask, range(64)))
    return 1000 * (sum(map(cpu_s, pids)) - before) / 640


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
    ours, plain, limit = found["ours"], found["plain"], found["in_process"]
    figures = {"limit_of_times_plain": limit["cpu_ms_alone"] / limit["cpu_ms_in_batches_of_32"]}
    if "64" in ours:
        figures["times_plain_at_64"] = ours["64"]["requests_per_s"] / plain["64"]["requests_per_s"]
        figures["times_plain_at_64_by_cpu"] = plain["64"]["cpu_ms_per_request"] / ours["64"]["cpu_ms_per_request"]
    figures["http_ms_at_1"] = ours["http_ms"]
    return figures


def measure(
    command: list[str], options: argparse.Namespace, engine: str, url: str = "", path: Path | None = None
) -> dict[str, Any]:
    """Start a server and load it; of ours, which has an ``engine``, more is measured.

    One without ``url`` says it in its first line; ``path`` is a checkout, by default this one.
    """
    began = time.perf_counter()
    environment = os.environ | ({} if path is None else {"PYTHONPATH": str(path), "PYTHONSAFEPATH": "1"})
    process = subprocess.Popen(
        command, stderr=subprocess.DEVNULL if url else subprocess.PIPE, text=True, env=environment
    )
    try:
        if not url:
            url = process.stderr.readline().partition(": ")[0]  # type: ignore[union-attr]
        wait_for_answer(url)
        found: dict[str, Any] = {"start_to_first_answer_s": time.perf_counter() - began}
        found |= {str(number): load(url, number, options.seconds, family(process.pid)) for number in options.clients}
        found["cpu_ms_of_640_requests"] = cost_of_640(url, family(process.pid))
        print(f"  64 clients, 640 requests: processor ms {found['cpu_ms_of_640_requests']:.2f}", flush=True)
        if engine:
            found["http_ms"] = http_ms(url, engine)
            found["status_beside_connections"] = {str(options.connections): answers_beside(url, options.connections)}
        found["memory_mb"] = sum(map(resident_mb, family(process.pid)))
        return found
    finally:
        process.terminate()
        process.communicate()


def compare(command: list[str], options: argparse.Namespace, engine: str) -> dict[str, list[dict[str, Any]]]:
    """The figures of an earlier checkout and of this one, round by round."""
    found: dict[str, list[dict[str, Any]]] = {"before": [], "now": []}
    paths = {"before": options.before, "now": Path(__file__).parents[1]}
    for _, name in product(range(options.rounds), found):
        print(f"{engine}, {name}:", flush=True)
        found[name].append(measure(command, options, "", path=paths[name]))
        one = found[name][-1]
        print(f"  first answer {one['start_to_first_answer_s']:.2f} s, memory {one['memory_mb']:.0f} MB", flush=True)
    return found


def wait_for_answer(url: str) -> None:
    """Wait until a server has translated something."""
    body = {"q": "Hello.", "source": "en", "target": "de"}
    for _ in range(600):
        try:
            httpx.post(f"{url}/translate", json=body, timeout=60).raise_for_status()
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit(f"{url}: does not answer")


def load(url: str, clients: int, seconds: float, pids: list[int]) -> dict[str, float]:
    """The figures of one number of clients, and the processor time that these processes take for a request."""
    with tempfile.TemporaryDirectory() as directory:
        script = write_script(Path(directory) / "requests.lua")
        wrk(url, clients, 1, script)
        before = [cpu_s(pid) for pid in pids]
        found = wrk(url, clients, seconds, script)
    spent = sum(cpu_s(pid) - start for pid, start in zip(pids, before, strict=True))
    found |= {"cpu_ms_per_request": 1000 * spent / found["requests"]}
    shown = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    print(f"  {clients:3} clients: {shown}", flush=True)
    return found


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
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--servers", nargs="*", default=["ours", "plain"], choices=["ours", "plain", "none"])
    parser.add_argument("--before", type=Path, metavar="DIR", help="an earlier checkout to compare with")
    parser.add_argument("--rounds", type=int, default=1, help="of the comparison with an earlier checkout")
    parser.add_argument("--libretranslate", metavar="PROGRAM", help="LibreTranslate's own command")
    parser.add_argument("--engines", nargs="+", default=["ctranslate2", "torch"])
    options = parse_options(
        parser, "--clients 1 2 --seconds 0.5 --connections 50 --engines ctranslate2",
        modules=["starlette", "httpx", "ctranslate2"], files=[which("wrk") or "/usr/bin/wrk"], kept="serving.json",
    )  # fmt: skip
    if which("wrk") is None:
        parser.error("wrk is not installed, which makes the load: apt install wrk")
    results: dict[str, Any] = {}
    for engine in options.engines:
        ours = [sys.executable, "-m", "glassformer", "serve", "--port", "0", "--engine", engine]
        plain = [sys.executable, "-c", PLAIN, engine]
        results[engine] = {"in_process": in_process(engine)} if "plain" in options.servers else {}
        for name, command in (("ours", ours), ("plain", plain)):
            if name in options.servers:
                print(f"{engine}, {name}:", flush=True)
                results[engine][name] = measure(command, options, engine if name == "ours" else "")
        if len(results[engine]) == 3:
            results[engine]["aims"] = aims(results[engine])
            print(engine, results[engine]["aims"], flush=True)
        if options.before is not None:
            results[engine]["turns"] = compare(ours, options, engine)
    if options.libretranslate:
        print("LibreTranslate:", flush=True)
        address, port = "http://127.0.0.1:5999", ["--port", "5999", "--load-only", "en,de", "--disable-web-ui"]
        results["libretranslate"] = measure([options.libretranslate, *port], options, "", address)
    found = {"machine": machine(), "cores_used": available_cores(), "load": os.getloadavg()[1], "results": results}
    write_json(options.json, found)
    if options.json is None:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
