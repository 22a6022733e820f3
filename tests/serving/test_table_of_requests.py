"""The table of docs/serving.md: client, request and answer, each row sent as it stands there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("### Requests and answers")[2].partition("\n#")[0]
ROWS = [tuple(cell.strip() for cell in row.split(" | ")) for row in re.findall(r"^\| (.+) \|$", TABLE, re.M)[2:]]
HOUSE, GERMAN, PAIR = "The house is small.", "Das Haus ist klein.", {"source": "en", "target": "de"}
DEEPL = {"text": [HOUSE], "source_lang": "EN", "target_lang": "DE"}
CHAT = {"model": "en-de", "messages": [{"role": "user", "content": HOUSE}]}
ORIGIN = {
    "Origin": "https://a.example",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "x-stainless-os",
}
LINK = (
    '<p>Hi <a class="mention" href="/u/sam">@sam</a>, see <a href="https://a.b/c"><span>https://</span>a.b/c</a></p>'
)
XML = "<doc><title>A small house</title><par><span>I am</span> <span>hungry.</span></par><raw>No.</raw></doc>"
TAGS = {"tag_handling": "xml", "splitting_tags": "title,par", "non_splitting_tags": "span", "ignore_tags": "raw"}
MANY = [f"{HOUSE} It is number {number}." for number in range(32)]
SENT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "two emoji": ("POST", "/translate", {"json": PAIR | {"q": "😀 from 😀."}}),
    "JSON with a mark of byte order": (
        "POST",
        "/translate",
        {
            "content": json.dumps(PAIR | {"q": HOUSE}).encode("utf-8-sig"),
            "headers": {"Content-Type": "application/json"},
        },
    ),
    "`q` twice in a form": ("POST", "/translate", {"data": PAIR | {"q": [HOUSE, "x"]}}),
    "`//translate`": ("POST", "http://testserver//translate", {"json": PAIR | {"q": HOUSE}}),
    "32 texts with five alternatives": ("POST", "/translate", {"json": PAIR | {"q": MANY, "alternatives": 5}}),
    "a link and a mention as Mastodon and Discourse write them": (
        "POST",
        "/translate",
        {"json": PAIR | {"q": LINK, "format": "html"}},
    ),
    "a file with one line of 1 MB": (
        "POST",
        "/translate_file",
        {"data": PAIR, "files": {"file": ("a.txt", "word " * 200_000)}},
    ),
    "a file in the target language": (
        "POST",
        "/translate_file",
        {"data": {"source": "de", "target": "de"}, "files": {"file": ("a.txt", GERMAN)}},
    ),
    "a document of XML, with `splitting_tags`": ("POST", "/v2/translate", {"json": DEEPL | TAGS | {"text": [XML]}}),
    "`source_lang` XX": ("POST", "/v2/translate", {"json": DEEPL | {"source_lang": "XX"}}),
    "`target_lang` XX": ("POST", "/v2/translate", {"json": DEEPL | {"target_lang": "XX"}}),
    "`model_type`": ("POST", "/v2/translate", {"json": DEEPL | {"model_type": "quality_optimized"}}),
    "`/v3/languages`": ("GET", "/v3/languages?resource=translate_text", {}),
    "`/v3/glossaries`": ("GET", "/v3/glossaries", {}),
    "a browser's question before `openai` asks": ("OPTIONS", "/v1/chat/completions", {"headers": ORIGIN}),
    "`content: null` in the history": (
        "POST",
        "/v1/chat/completions",
        {"json": CHAT | {"messages": [{"role": "assistant", "content": None}, *CHAT["messages"]]}},
    ),
    "`stream: null`": ("POST", "/v1/chat/completions", {"json": CHAT | {"stream": None}}),
    "`n: 2`": ("POST", "/v1/chat/completions", {"json": CHAT | {"n": 2}}),
    "`stop`": ("POST", "/v1/chat/completions", {"json": CHAT | {"stop": ["."]}}),
    "`max_tokens: 1`": ("POST", "/v1/chat/completions", {"json": CHAT | {"max_tokens": 1}}),
    "`usage`": ("POST", "/v1/chat/completions", {"json": CHAT}),
    "a stream with `include_usage`": (
        "POST",
        "/v1/chat/completions",
        {"json": CHAT | {"stream": True, "stream_options": {"include_usage": True}}},
    ),
    "a date in a stream": (
        "POST",
        "/v1/chat/completions",
        {"json": CHAT | {"stream": True, "messages": [{"role": "user", "content": "Open 2024-05-06 now."}]}},
    ),
    "an unknown model": ("POST", "/v1/chat/completions", {"json": CHAT | {"model": "gpt-4o"}}),
    "the page of an explanation": ("GET", f"/v1/explain?text={HOUSE}&source=en&target=de", {}),
}


def test_the_table_has_a_row_for_each_request():
    assert [request for _, request, *_ in ROWS] == list(SENT)


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_an_answer_is_that_of_the_table(client: TestClient, row: tuple[str, ...]) -> None:
    _, request, status, words = row
    method, path, sent = SENT[request]
    answer = client.request(method, path, **sent)
    headers = " ".join(f"{name}: {value}" for name, value in answer.headers.items())
    assert str(answer.status_code) == status, answer.text
    for shown in re.findall(r"`` ?(.*?) ?``|`([^`]+)`", words):
        assert "".join(shown) in f"{answer.text} {headers}", (shown, answer.text[:500])
