"""What no contract sees: too much, too slow, packed, and what nobody foresaw."""

import logging
import socket
from typing import Any

import pytest

from glassformer.serving.config import ServeConfig
from glassformer.serving.server import listen
from glassformer.serving.service import Service

HOUSE = {"q": "The house is small.", "source": "en", "target": "de"}


def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(connect):
    client = connect(body_mb=0.01)
    message = {"error": "the request is larger than 0.01 MB, which is the limit"}
    answer = client.post("/translate", json=HOUSE | {"q": "a" * 20_000})
    assert (answer.status_code, answer.json()) == (413, message)
    answer = client.post(
        "/translate", content=(b"a" * 1000 for _ in range(20)), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()) == (413, message)


def test_what_nobody_foresaw_is_our_fault_and_no_text_of_a_client_is_logged(client, monkeypatch, caplog):
    async def fail(*_: Any, **__: Any) -> None:
        raise KeyError("The house is small.")

    monkeypatch.setattr(Service, "translate", fail)
    with caplog.at_level(logging.DEBUG):
        answer = client.post("/translate", json=HOUSE)
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "the server has failed; its operator finds the cause in its log"},
    )
    assert "POST /translate: KeyError in test_middleware.py" in caplog.text
    assert "house" not in caplog.text


def test_a_request_that_takes_too_long_is_refused(connect):
    client = connect(time_limit_s=0.1)
    many = " ".join(f"House {number} is small." for number in range(2000))
    answer = client.post("/translate", json=HOUSE | {"q": many})
    assert answer.status_code == 503
    assert answer.json() == {"error": "the translation takes longer than the 0.1 seconds that a request may take"}
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.mark.parametrize("path", ["/v2/translate", "/v1/chat/completions", "/translate"])
def test_what_is_not_there_is_said_in_the_shape_of_the_contract(client, path):
    found = client.get(path).json()
    assert found in ({"message": "Method Not Allowed"}, {"error": "Method Not Allowed"}) or found["error"]["message"]


def test_no_part_of_an_answer_waits_for_another_to_be_acknowledged():
    with listen(ServeConfig(port=0)) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
