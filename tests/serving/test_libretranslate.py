"""LibreTranslate's contract: every row of what its clients send and read, and every text of an error."""

import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

HOUSE = {"q": "The house is small.", "source": "en", "target": "de"}
GERMAN = "Das Haus ist klein."


def post(client: TestClient, path: str, body: Any) -> tuple[int, Any]:
    answer = client.post(path, json=body)
    return answer.status_code, answer.json()


def test_parameters_may_be_in_json_in_a_form_in_parts_of_a_form_and_in_the_address(client):
    answers = [
        client.post("/translate", json=HOUSE),
        client.post("/translate", data=HOUSE),
        client.post("/translate", files={name: (None, value) for name, value in HOUSE.items()}),
        client.post("/translate", params=HOUSE),
    ]
    assert [(one.status_code, one.json()) for one in answers] == [(200, {"translatedText": GERMAN})] * 4
    assert {one.headers["X-Glassformer-Check"] for one in answers} == {"ok"}


def test_a_list_gives_a_list_in_its_order(client):
    texts = ["The house is small.", "", "I love you, too.", "42 😀"]
    status, found = post(client, "/translate", HOUSE | {"q": texts})
    assert status == 200
    assert found["translatedText"][0] == GERMAN
    assert found["translatedText"][1::2] == ["", "42 😀"]


def test_languages_may_be_found_and_are_told_for_each_text(client):
    texts = ["The house is very small, but we like it.", "Das Haus ist sehr klein, aber wir mögen es."]
    status, found = post(client, "/translate", {"q": texts, "source": "auto", "target": "de"})
    assert status == 200
    assert [one["language"] for one in found["detectedLanguage"]] == ["en", "de"]
    assert all(0 <= one["confidence"] <= 100 for one in found["detectedLanguage"])
    assert found["translatedText"][1] == texts[1]
    _, one = post(client, "/translate", {"q": texts[0], "source": "auto", "target": "de"})
    assert one["detectedLanguage"]["language"] == "en"


def test_alternatives_are_further_outputs_and_none_for_html(client):
    _, found = post(client, "/translate", HOUSE | {"alternatives": 2})
    assert len(found["alternatives"]) == 2
    assert GERMAN not in found["alternatives"]
    _, found = post(client, "/translate", HOUSE | {"alternatives": "1", "q": [HOUSE["q"]] * 2})
    assert [len(each) for each in found["alternatives"]] == [1, 1]
    _, found = post(client, "/translate", HOUSE | {"alternatives": 2, "format": "html"})
    assert found["alternatives"] == []
    assert "alternatives" not in post(client, "/translate", HOUSE | {"alternatives": 0})[1]


def test_html_keeps_its_tags(client):
    _, found = post(client, "/translate", HOUSE | {"q": "<p>The <b>house</b> is small.</p>", "format": "html"})
    assert found["translatedText"] == "<p>Das <b>Haus</b> ist klein.</p>"
    assert post(client, "/translate", HOUSE | {"format": "html"})[1]["translatedText"] == GERMAN


def test_what_mastodon_sends_and_reads(client):
    languages = client.request("GET", "/languages", headers={"Content-Type": "application/json"}).json()
    assert languages == [
        {"code": "en", "name": "English", "targets": ["en", "de"]},
        {"code": "de", "name": "German", "targets": ["de"]},
    ]
    body = {"q": ["<p>Hello!</p>", "Thanks."], "source": "auto", "target": "de", "format": "html", "api_key": None}
    status, found = post(client, "/translate", body)
    assert (status, len(found["translatedText"]), len(found["detectedLanguage"])) == (200, 2, 2)


def test_what_discourse_sends_and_reads(client):
    text = "<p>The house is very small, but we like it.</p>"
    detected = client.post("/detect", data={"q": text, "api_key": ""}).json()[0]["language"]
    assert detected in [one["code"] for one in client.get("/languages").json()]
    form = {"q": text, "source": detected, "target": "de", "format": "html", "api_key": ""}
    assert client.post("/translate", data=form).json()["translatedText"].startswith("<p>Das Haus ist")


def test_what_is_not_text_in_html_is_not_translated(client):
    html = "<p>Tom &amp; Mary</p><script>var house = 'The house';</script><p title=\"The house\">I love you.</p>"
    found = post(client, "/translate", HOUSE | {"q": html, "format": "html"})[1]["translatedText"]
    assert "<script>var house = 'The house';</script>" in found
    assert found.startswith("<p>Tom und Mar")
    assert found.endswith("Ich liebe dich.</p>")


def test_the_languages_are_told_to_who_sends_a_form_with_the_question(client):
    assert client.request("GET", "/languages", data={"api_key": "x"}).status_code == 200


def test_a_language_is_detected(client):
    status, found = post(client, "/detect", {"q": "Das Haus ist sehr klein, aber wir mögen es."})
    assert (status, found[0]["language"], found[0]["confidence"] > 90) == (200, "de", True)
    assert post(client, "/detect", {"q": "12 34"})[1] == [{"confidence": 0.0, "language": "en"}]


def test_what_a_page_for_people_has_to_know(client):
    found = client.get("/frontend/settings").json()
    assert (found["charLimit"], found["keyRequired"], found["suggestions"]) == (50_000, False, False)
    assert {".txt", ".html", ".po", ".srt"} <= set(found["supportedFilesFormat"])
    assert found["language"] == {
        "source": {"code": "en", "name": "English"},
        "target": {"code": "de", "name": "German"},
    }


REFUSED = [
    ("/translate", {}, "missing q parameter"),
    ("/translate", {"q": "a"}, "missing source parameter"),
    ("/translate", {"q": "a", "source": "en"}, "missing target parameter"),
    ("/translate", HOUSE | {"alternatives": "x"}, "Expected `int`, got `str` - at `alternatives`"),
    ("/translate", HOUSE | {"alternatives": 11}, "alternatives parameter must be <= 10"),
    ("/translate", HOUSE | {"q": "a" * 50_001}, "request (50001) exceeds text limit (50000)"),
    ("/translate", HOUSE | {"q": ["a"] * 257}, "request (257) exceeds text limit (256)"),
    ("/translate", HOUSE | {"q": 7}, "Expected `str | array`, got `int` - at `q`"),
    ("/detect", {}, "missing q parameter"),
]


@pytest.mark.parametrize(("path", "body", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_a_request_that_is_refused_says_why(client, path, body, message):
    assert post(client, path, body) == (400, {"error": f"Invalid request: {message}"})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (HOUSE | {"source": "zz"}, "zz is not supported"),
        (HOUSE | {"target": "zz"}, "zz is not supported"),
        (
            HOUSE | {"format": "pdf"},
            "Invalid request: Invalid enum value 'pdf', expected one of text, html - at `format`",
        ),
        (
            HOUSE | {"source": "de", "target": "en"},
            "English (en) is not available as a target language from German (de)",
        ),
    ],
)
def test_languages_and_formats_that_are_not_served_are_named(client, body, message):
    assert post(client, "/translate", body) == (400, {"error": message})


@pytest.mark.parametrize("body", ["{", "[1]", '"a"', "", "[" * 100_000, b"\xff\xfe"])
def test_what_is_no_json_object_is_refused(client, body):
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid JSON format"})


def test_codes_are_read_in_any_case_and_with_a_region(client):
    assert post(client, "/translate", HOUSE | {"source": "EN-gb", "target": "DE"})[1] == {"translatedText": GERMAN}


def test_a_key_is_ignored_by_a_server_without_keys(client):
    assert post(client, "/translate", HOUSE | {"api_key": "anything"})[0] == 200


def test_a_file_is_translated_in_its_own_form(client):
    text = "1\n00:00:01,000 --> 00:00:02,000\n<i>The house is small.</i>\n"
    form = {"source": "en", "target": "de", "api_key": ""}
    answer = client.post("/translate_file", data=form, files={"file": ("film.srt", text)})
    url = answer.json()["translatedFileUrl"]
    assert (answer.status_code, url.startswith("http://testserver/download_file/")) == (200, True)
    loaded = client.get(url)
    assert loaded.text == text.replace("The house is small.", GERMAN)
    assert "film_de.srt" in loaded.headers["content-disposition"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pdf", b"x", "file format not supported"),
        ("a.txt", b"", "empty file"),
        ("a.txt", b"\x1f\x8b\x08", "the file is packed, expected it as it is"),
    ],
)
def test_a_file_that_is_refused_says_why(client, name, content, message):
    answer = client.post("/translate_file", data={"source": "en", "target": "de"}, files={"file": (name, content)})
    assert (answer.status_code, answer.json()) == (400, {"error": f"Invalid request: {message}"})


def test_a_damaged_file_is_named_as_its_client_names_it(client):
    form = {"source": "en", "target": "de"}
    answer = client.post("/translate_file", data=form, files={"file": ("a.xlf", b"<xliff><file>")})
    assert answer.status_code == 400
    assert "/tmp" not in answer.text
    assert answer.json()["error"].startswith("Invalid request: ")


def test_files_may_be_off(connect):
    closed = connect(files=False)
    form = {"source": "en", "target": "de"}
    answer = closed.post("/translate_file", data=form, files={"file": ("a.txt", b"x")})
    assert (answer.status_code, answer.json()) == (403, {"error": "Files translation are disabled on this server."})


def test_a_file_has_to_be_there(client):
    answer = client.post("/translate_file", data={"source": "en", "target": "de"})
    assert answer.json() == {"error": "Invalid request: missing file parameter"}


def test_health_metrics_and_the_way_to_everything(client):
    assert client.get("/health").json() == {"status": "ok"}
    post(client, "/translate", HOUSE)
    text = client.get("/metrics").text
    assert 'glassformer_requests_total{route="/translate",status="200"} 1.0' in text
    assert client.get("/").json()["models"] == ["en-de"]


def test_every_answer_may_be_read_by_pages_of_others(client):
    origin = {"Origin": "https://a.example"}
    answers = [client.get("/languages", headers=origin), client.post("/translate", json={}, headers=origin),
               client.get("/nowhere", headers=origin), client.get("/translate", headers=origin)]  # fmt: skip
    assert [one.status_code for one in answers] == [200, 400, 404, 405]
    for one in answers:
        assert one.headers["Access-Control-Allow-Origin"] == "*"
        assert "X-Glassformer-Check" in one.headers["Access-Control-Expose-Headers"]
    assert all(json.loads(one.text)["error"] for one in answers[1:])


def test_the_description_has_every_contract(client):
    spec = client.get("/spec").json()
    assert {"/translate", "/v1/translate", "/v2/translate", "/v1/chat/completions"} <= set(spec["paths"])
    assert "TranslateRequest" in spec["components"]["schemas"]
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(spec)))
    assert named <= set(spec["components"]["schemas"])
