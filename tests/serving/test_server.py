"""The process: it ends as it is told to, loads anew, and stands clients that do not behave."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
    with live_server("--threads", "2") as live:
        yield live


def test_it_says_where_it_listens_what_it_serves_and_by_what(live):
    assert live.translate().json() == {"translatedText": GERMAN}
    assert httpx.get(f"{live.url}/health").json() == {"status": "ok"}


def test_a_client_that_leaves_frees_what_it_had_waiting(live):
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{live.url}/translate", json={"q": LONGER, "source": "en", "target": "de"}, timeout=0.3)

    wait_for(lambda: live.waiting() == 0, 5)


def test_the_process_with_pytorch_is_replaced_and_ends_with_its_server():
    asked = {"text": HOUSE["q"], "source": "en", "target": "de", "must": ["winzig"]}
    with live_server() as live:
        for _ in range(2):
            answer = httpx.post(f"{live.url}/v1/translate", json=asked, timeout=60)
            assert "winzig" in answer.json()["translations"][0]["text"]
            (process,) = live.processes()
            os.kill(process, signal.SIGKILL)
            wait_for(lambda: not live.processes())
            assert httpx.post(f"{live.url}/v1/translate", json=asked, timeout=60).status_code in (200, 503)
        httpx.post(f"{live.url}/v1/translate", json=asked, timeout=60)
        (process,) = live.processes()
        live.process.kill()
        live.process.wait()
        wait_for(lambda: not Path(f"/proc/{process}/exe").exists(), 10)


def test_answers_of_any_size(live):
    texts = [f"{who} would like {what}." for who in ("The old man", "Nobody", "Tom", "She") for what in THINGS]
    answer = live.translate(q=texts, alternatives=5)
    assert answer.status_code == 200
    assert [len(others) > 0 for others in answer.json()["alternatives"]] == [True] * 32

    asked = {"text": HOUSE["q"], "source": "en", "target": "de"}
    explained = httpx.post(f"{live.url}/v1/explain", json=asked, timeout=120)
    page = httpx.get(f"{live.url}{explained.json()['page']}", timeout=120)
    assert page.status_code == 200
    assert len(page.content) > 5_000_000
    sent = {"file": ("line.txt", b"word " * 200_000)}
    form = {"source": "en", "target": "de"}
    answer = httpx.post(f"{live.url}/translate_file", data=form, files=sent, timeout=120)
    assert answer.status_code == 200, answer.text
    assert httpx.get(answer.json()["translatedFileUrl"]).text


def test_a_server_that_ends_while_a_page_is_made_logs_no_fault():
    with live_server("--drain-s", "0") as live, ThreadPoolExecutor(1) as pool:
        asked = {"text": HOUSE["q"], "source": "en", "target": "de", "values": True}
        running = pool.submit(httpx.post, f"{live.url}/v1/explain", json=asked, timeout=60)
        wait_for(live.processes)
        assert live.stop() == 0
        assert running.result().status_code == 503
    assert "Traceback" not in live.log
    assert "Please report" not in live.log


@pytest.mark.parametrize(("drain", "text", "status"), [("20", LONG, 200), ("1", LONGER, 503)])
def test_it_finishes_what_it_has_begun_in_time(drain, text, status):
    with live_server("--drain-s", drain) as live, ThreadPoolExecutor(1) as pool:
        running = pool.submit(live.translate, q=text)
        wait_for(lambda: live.waiting() > 0)
        live.process.send_signal(signal.SIGTERM)
        assert running.result().status_code == status
        assert live.process.wait(timeout=10) == 0


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


def test_no_text_of_a_client_is_logged():
    with live_server() as live:
        httpx.post(f"{live.url}/translate", params={"q": "a secret", "source": "en", "target": "de"})
        assert live.stop() == 0
    assert "secret" not in live.log


def test_two_models_lead_by_way_of_a_third_language(tmp_path):
    copy = tmp_path / "other"
    shutil.copytree(BUNDLED, copy)
    config = copy / "config.json"
    config.write_text(config.read_text("utf-8").replace('"en-de"', '""'), "utf-8")  # which says no languages
    with live_server("--run", "bundled", "--run", str(copy), "--langs", "de-fr") as live:
        codes = {one["code"]: one["targets"] for one in httpx.get(f"{live.url}/languages").json()}
        assert codes == {"en": ["en", "de", "fr"], "de": ["de", "fr"], "fr": ["fr"]}
        answer = live.translate(q="The house of {name} is small.", target="fr")
        assert answer.json()["translatedText"].count("{name}") == 1
        kept = {"text": "The <k>small house</k> is old.", "source_lang": "EN", "target_lang": "FR"}
        form = kept | {"tag_handling": "xml", "ignore_tags": "k"}
        (found,) = httpx.post(f"{live.url}/v2/translate", json=form, timeout=60).json()["translations"]
        assert found["text"].count("<k>small house</k>") == 1
        body = {"text": "The house.", "source": "en", "target": "fr", "glossary": [["house", "maison"]]}
        refused = httpx.post(f"{live.url}/v1/translate", json=body)
        assert refused.status_code == 400
        assert "a glossary or a memory from en to fr, by way of de" in refused.json()["error"]
