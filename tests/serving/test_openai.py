"""OpenAI's contract: models, chats, streams, and the two protocols of Weblate."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

GERMAN = "Das Haus ist klein."


def chat(client: TestClient, text: str, **more: Any) -> Any:
    messages = [{"role": "system", "content": "Translate."}, {"role": "user", "content": text}]
    return client.post("/v1/chat/completions", json={"model": "en-de", "messages": messages, "temperature": 0} | more)


def content(answer: Any) -> str:
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    assert (choice["finish_reason"], choice["message"]["role"]) == ("stop", "assistant")
    return choice["message"]["content"]


def test_the_models_are_pairs_of_languages_and_say_what_they_do_not_do(client):
    found = client.get("/v1/models").json()
    assert found["object"] == "list"
    assert [(one["id"], one["object"], one["owned_by"]) for one in found["data"]] == [
        ("en-de", "model", "glassformer")
    ]
    assert "follows no instructions" in found["data"][0]["description"]
    assert client.get("/v1/models/en-de").json() == found["data"][0]
    assert client.get("/v1/models/xx").json()["error"]["type"] == "invalid_request_error"


def test_the_last_message_of_the_user_is_translated(client):
    answer = chat(client, "The house is small.")
    assert content(answer) == GERMAN
    assert answer.headers["X-Glassformer-Check"] == "ok"
    assert (
        content(
            chat(
                client, "x", messages=[{"role": "user", "content": [{"type": "text", "text": "The house is small."}]}]
            )
        )
        == GERMAN
    )


def test_a_stream_is_the_same_text_in_chunks(client):
    answer = chat(client, "The house is small.", stream=True)
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert {one["object"] for one in chunks} == {"chat.completion.chunk"}
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in chunks) == GERMAN
    assert (chunks[0]["choices"][0]["delta"]["role"], chunks[-1]["choices"][0]["finish_reason"]) == (
        "assistant",
        "stop",
    )


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 400, "missing required field `messages`"),
        ({"model": "en-de", "messages": []}, 400, "messages has no text"),
        ({"model": "gpt", "messages": [{"role": "user", "content": "a"}]}, 404, "the model 'gpt' does not exist, expected one of en-de"),
    ],
)  # fmt: skip
def test_refusals_have_the_shape_that_its_clients_read(client, body, status, message):
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_the_private_format_of_weblate_is_refused_with_what_to_do(client):
    message = json.dumps({"source_language": "en", "target_language": "de", "strings": [{"source": "a"}]})
    answer = chat(client, message)
    assert answer.status_code == 400
    assert "Weblate" in answer.json()["error"]["message"]


def test_weblates_older_protocol_has_as_many_parts_as_it_was_given(client):
    found = content(chat(client, "The house is small.\n==WEBLATE_PART==\nHello [X7X], how are you?"))
    first, second = found.split("\n==WEBLATE_PART==\n")
    assert first == GERMAN
    assert second.count("[X7X]") == 1
