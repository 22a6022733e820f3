"""DeepL's contract: what apps with a field for a key send."""

from typing import Any

import pytest
from starlette.testclient import TestClient

GERMAN = "Das Haus ist klein."
HOUSE = {"text": ["The house is small."], "source_lang": "EN", "target_lang": "DE"}


def translate(client: TestClient, **more: Any) -> Any:
    answer = client.post("/v2/translate", json=HOUSE | more, headers={"Authorization": "DeepL-Auth-Key any:fx"})
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"]


def test_texts_in_json_and_in_a_form(client):
    assert translate(client) == [{"detected_source_language": "EN", "text": GERMAN}]
    form = {"text": ["The house is small.", "I love you, too."], "target_lang": "de", "auth_key": "x"}
    answer = client.post("/v2/translate", data=form)
    assert [one["detected_source_language"] for one in answer.json()["translations"]] == ["EN", "EN"]
    assert answer.json()["translations"][0]["text"] == GERMAN
    assert translate(client, show_billed_characters=True)[0]["billed_characters"] == 19


def test_placeholders_of_weblate_and_what_is_not_to_be_translated_come_back_whole(client):
    text = 'The house of <x id="7"></x> is small. <keep>small house</keep>'
    (found,) = translate(client, text=[text], tag_handling="xml", ignore_tags=["x", "keep"])
    assert found["text"].count('<x id="7"></x>') == found["text"].count("<keep>small house</keep>") == 1
    (found,) = translate(client, text=["The <b>house</b> is small."], tag_handling="html")
    assert found["text"] == "Das <b>Haus</b> ist klein."


def test_languages_usage_and_pairs_of_glossaries(client):
    assert client.get("/v2/languages").json() == [{"language": "EN", "name": "English"}]
    targets = client.get("/v2/languages?type=target").json()
    assert targets == [{"language": "DE", "name": "German", "supports_formality": False}]
    assert client.get("/v2/usage").json() == {"character_count": 0, "character_limit": 1_000_000_000_000}
    translate(client)
    assert client.get("/v2/usage").json()["character_count"] == 19
    assert client.get("/v2/glossary-language-pairs").json() == {
        "supported_languages": [{"source_lang": "en", "target_lang": "de"}]
    }


def test_a_glossary_is_kept_used_shown_and_deleted(client):
    made = {
        "name": "mine",
        "source_lang": "en",
        "target_lang": "de",
        "entries": "house\tGebäude\n",
        "entries_format": "tsv",
    }
    glossary = client.post("/v2/glossaries", json=made)
    assert glossary.status_code == 201
    number = glossary.json()["glossary_id"]
    assert (glossary.json()["entry_count"], glossary.json()["ready"]) == (1, True)
    assert "Gebäude" in translate(client, glossary_id=number)[0]["text"]
    assert client.get(f"/v2/glossaries/{number}/entries").text == "house\tGebäude"
    assert [one["glossary_id"] for one in client.get("/v2/glossaries").json()["glossaries"]] == [number]
    assert client.delete(f"/v2/glossaries/{number}").status_code == 204
    assert client.get(f"/v2/glossaries/{number}").json() == {"message": "Glossary not found"}


def test_a_document_is_translated_and_fetched_once(client, serving):
    form = {"source_lang": "EN", "target_lang": "DE"}
    sent = client.post("/v2/document", data=form, files={"file": ("a.txt", b"The house is small.\n")})
    assert sent.status_code == 200, sent.text
    path, key = f"/v2/document/{sent.json()['document_id']}", {"document_key": sent.json()["document_key"]}
    for _ in range(1000):
        state = client.post(path, json=key).json()
        if state["status"] != "translating":
            break
    assert (state["status"], state["billed_characters"]) == ("done", 20)
    assert client.post(path, json={"document_key": "wrong"}).status_code == 404
    assert client.post(f"{path}/result", json=key).text == f"{GERMAN}\n"
    assert client.post(f"{path}/result", json=key).json() == {"message": "Document not found"}
    assert not [one for one in serving.files.directory.glob("*/*") if one.read_text("utf-8") == f"{GERMAN}\n"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"target_lang": "DE"}, "Parameter 'text' not specified"),
        ({"text": ["a"]}, "Parameter 'target_lang' not specified"),
        (HOUSE | {"target_lang": "XX"}, "XX is not supported"),
        (HOUSE | {"formality": "more"}, "'formality' is not supported for given 'target_lang': DE"),
        (
            HOUSE | {"formality": "loud"},
            "Value for 'formality' not supported, expected default, more, less, prefer_more or prefer_less",
        ),
        (HOUSE | {"tag_handling": "json"}, "Value for 'tag_handling' not supported, expected xml or html"),
        (HOUSE | {"text": ["a"] * 51}, "Too many texts: found 51, expected at most 50"),
    ],
)
def test_refusals_have_the_shape_that_its_clients_read(client, body, message):
    answer = client.post("/v2/translate", json=body)
    assert (answer.status_code, answer.json()) == (400, {"message": message})


@pytest.mark.parametrize("entries", ["", "house", "house\t", "a\tb\nc"])
def test_entries_that_are_no_pairs_are_refused(client, entries):
    body = {"name": "n", "source_lang": "en", "target_lang": "de", "entries": entries, "entries_format": "tsv"}
    answer = client.post("/v2/glossaries", json=body)
    assert answer.status_code == 400
    assert answer.json()["message"]
