"""The process: it ends as it is told to, replaces what is killed, loads anew, and stands clients that do not behave."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from live_server import GERMAN, HOUSE, live_server, wait_for

from glassformer.bundled import BUNDLED

pytestmark = pytest.mark.slow
THINGS = ("tea", "a car", "more time", "a book", "an apple", "the key", "to sleep", "some water")
LONG = " ".join(f"The house of number {number} is small." for number in range(80))
LONGER = " ".join(f"The garden of number {number} is small." for number in range(1200))


@pytest.fixture(scope="module")
def live():
    with live_server("--workers", "2", "--door-s", "1.5") as live:
        yield live


def test_it_says_where_it_listens_what_it_serves_and_by_what(live):
    assert live.translate().json() == {"translatedText": GERMAN}
    assert httpx.get(f"{live.url}/health").json() == {"status": "ok"}


def test_a_worker_that_is_killed_is_replaced_and_every_request_is_answered(live):
    texts = [f"The house of number {number} is small." for number in range(60)]
    before = set(live.workers())
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(live.translate, q=text) for text in texts]
        for pid in before:
            time.sleep(0.05)
            os.kill(pid, signal.SIGKILL)
        found = [answer.result() for answer in answers]
    assert {one.status_code for one in found} <= {200, 503}
    assert all(one.json()["error"].startswith("a worker ended") for one in found if one.status_code == 503)
    wait_for(lambda: len(set(live.workers()) - before) == 2)
    assert live.translate().json() == {"translatedText": GERMAN}


def test_models_are_loaded_anew_without_a_lost_request(live):
    before, statuses, stop = set(live.workers()), list[int](), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            statuses.append(live.translate().status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    live.process.send_signal(signal.SIGHUP)
    wait_for(lambda: len(live.workers()) == 2 and not before & set(live.workers()))
    stop.set()
    asking.join()
    assert set(statuses) == {200}


def test_an_answer_of_any_size_comes_from_the_same_worker(live, tmp_path):
    before = set(live.workers())
    texts = [f"{who} would like {what}." for who in ("The old man", "Nobody", "Tom", "She") for what in THINGS]
    answer = live.translate(q=texts, alternatives=3)
    assert answer.status_code == 200
    assert [len(others) > 0 for others in answer.json()["alternatives"]] == [True] * 32

    asked = {"text": HOUSE["q"], "source": "en", "target": "de"}
    explained = httpx.post(f"{live.url}/v1/explain", json=asked, timeout=120)
    page = httpx.get(f"{live.url}{explained.json()['page']}", timeout=120)
    assert page.status_code == 200
    assert len(page.content) > 5_000_000

    for name, text in (("line.txt", "word " * 200_000), ("line.md", "[" * 20_000)):
        sent = httpx.post(
            f"{live.url}/translate_file",
            data={"source": "en", "target": "de"},
            files={"file": (name, text.encode())},
            timeout=120,
        )
        assert sent.status_code == 200, sent.text
        assert httpx.get(sent.json()["translatedFileUrl"]).text
    assert before <= set(live.workers())


def test_a_server_that_ends_while_a_page_is_made_logs_no_fault():
    with live_server("--workers", "1", "--drain-s", "0") as live, ThreadPoolExecutor(1) as pool:
        asked = {"text": HOUSE["q"], "source": "en", "target": "de", "values": True}
        running = pool.submit(httpx.post, f"{live.url}/v1/explain", json=asked, timeout=60)
        wait_for(lambda: len(live.workers()) == 2)
        assert live.stop() == 0
        assert running.result().status_code == 503
    assert "Traceback" not in live.log
    assert "failed" not in live.log


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /translate HT",
        b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: text/json\r\nContent-Length: 9\r\n\r\n{",
    ],
)
def test_a_client_that_sends_slowly_or_nothing_is_not_waited_for(live, sent):
    with socket.create_connection(("127.0.0.1", live.port)) as client:
        client.settimeout(10)
        client.sendall(sent)
        began = time.monotonic()
        try:
            answer = client.recv(1000)
        except ConnectionResetError:
            answer = b""
    assert time.monotonic() - began < 8
    assert answer == b"" or b" 408 " in answer


def test_a_request_whose_head_does_not_end_is_ended(live):
    with socket.create_connection(("127.0.0.1", live.port)) as client:
        client.sendall(b"POST /translate HTTP/1.1\r\nX: ")
        with pytest.raises(OSError):
            client.sendall(b"a" * 50_000_000)


def test_a_client_that_leaves_frees_what_it_had_waiting(live):
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{live.url}/translate", json={"q": LONGER, "source": "en", "target": "de"}, timeout=0.3)

    wait_for(lambda: live.waiting() == 0, 5)


@pytest.fixture
def many_files():
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 5000:
        pytest.skip("this process may not have as many open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))


def test_2_000_connections_at_once(live, many_files):
    connections = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(2000)]
    try:
        assert live.translate().status_code == 200
    finally:
        for one in connections:
            one.close()


def test_it_finishes_what_it_has_begun_and_refuses_the_rest():
    with live_server("--workers", "1", "--drain-s", "20") as live, ThreadPoolExecutor(1) as pool:
        running = pool.submit(live.translate, q=LONG)
        wait_for(lambda: live.waiting() > 0)
        live.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        refused = live.translate()
        assert (refused.status_code, refused.json()["error"][:16]) == (503, "the server stops")
        assert refused.headers["Retry-After"] == "20"
        assert httpx.get(f"{live.url}/health").status_code == 503
        assert running.result().status_code == 200
        assert live.process.wait(timeout=10) == 0


def test_it_ends_within_its_limit_and_refuses_what_is_not_done():
    with live_server("--workers", "1", "--drain-s", "1") as live, ThreadPoolExecutor(1) as pool:
        running = pool.submit(live.translate, q=LONGER)
        wait_for(lambda: live.waiting() > 0)
        began = time.monotonic()
        live.process.send_signal(signal.SIGTERM)
        assert running.result().status_code == 503
        assert live.process.wait(timeout=10) == 0
        assert time.monotonic() - began < 6


def test_no_worker_outlives_a_server_that_is_killed():
    with live_server("--workers", "1") as live:
        (worker,) = live.workers()
        live.process.kill()
        live.process.wait()
        wait_for(lambda: not _is_alive(worker), 10)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--run", "nowhere", "--langs", "en-de"], "nowhere: is not a run directory"),
        (["--run", "nowhere"], "nowhere: is not a run directory"),
        (["--require-key"], "--require-key: found without --keys"),
        (["--keys", "nowhere.txt"], "nowhere.txt"),
        (["--host", "203.0.113.7"], "cannot be listened at"),
        (["--char-limit", "-1"], "expected a value at least 0"),
    ],
)
def test_what_cannot_be_served_is_one_clear_error(options, message, tmp_path):
    command = [sys.executable, "-m", "glassformer", "serve", "--port", "0", *options]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path, env=os.environ
    )
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_the_log_has_a_line_for_each_request_only_if_asked_and_never_a_text():
    with live_server("--workers", "1", "--access-log") as live:
        httpx.post(f"{live.url}/translate", params={"q": "a secret", "source": "en", "target": "de"})
        assert live.stop() == 0
    assert "POST /translate 200" in live.log
    assert "secret" not in live.log


def test_two_models_lead_by_way_of_a_third_language(tmp_path):
    copy = tmp_path / "other"
    shutil.copytree(BUNDLED, copy)
    config = copy / "config.json"
    config.write_text(config.read_text("utf-8").replace('"en-de"', '""'), "utf-8")  # which says no languages
    with live_server("--workers", "1", "--run", "bundled", "--run", str(copy), "--langs", "de-fr") as live:
        codes = {one["code"]: one["targets"] for one in httpx.get(f"{live.url}/languages").json()}
        assert codes == {"en": ["en", "de", "fr"], "de": ["de", "fr"], "fr": ["fr"]}
        answer = live.translate(q="The house of {name} is small.", target="fr")
        assert answer.json()["translatedText"].count("{name}") == 1
        assert answer.headers["X-Glassformer-Check"] == "ok"
        kept = {"text": "The <k>small house</k> is old.", "source_lang": "EN", "target_lang": "FR"}
        form = kept | {"tag_handling": "xml", "ignore_tags": "k"}
        (found,) = httpx.post(f"{live.url}/v2/translate", json=form, timeout=60).json()["translations"]
        assert found["text"].count("<k>small house</k>") == 1
        body = {"text": "The house.", "source": "en", "target": "fr", "glossary": [["house", "maison"]]}
        refused = httpx.post(f"{live.url}/v1/translate", json=body)
        assert refused.status_code == 400
        assert "a glossary or a memory from en to fr, by way of de" in refused.json()["error"]
