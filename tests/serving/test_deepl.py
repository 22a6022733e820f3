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


def test_languages_and_usage(client):
    assert client.get("/v2/languages").json() == [{"language": "EN", "name": "English"}]
    targets = client.get("/v2/languages?type=target").json()
    assert targets == [{"language": "DE", "name": "German", "supports_formality": False}]
    assert client.get("/v2/usage").json() == {"character_count": 0, "character_limit": 1_000_000_000_000}
    translate(client)
    assert client.get("/v2/usage").json()["character_count"] == 19


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"target_lang": "DE"}, "Parameter 'text' not specified"),
        ({"text": ["a"]}, "Parameter 'target_lang' not specified"),
        (HOUSE | {"target_lang": "XX"}, "Value for 'target_lang' not supported: XX is not supported"),
        (HOUSE | {"formality": "more"}, "'formality' is not supported for given 'target_lang': DE"),
        (
            HOUSE | {"formality": "loud"},
            "Value for 'formality' not supported: Invalid enum value 'loud', expected one of default, more, less, "
            "prefer_more, prefer_less",
        ),
        (
            HOUSE | {"tag_handling": "json"},
            "Value for 'tag_handling' not supported: Invalid enum value 'json', expected one of xml, html",
        ),
        (HOUSE | {"text": ["a"] * 51}, "Too many texts: found 51, expected at most 50"),
    ],
)
def test_refusals_have_the_shape_that_its_clients_read(client, body, message):
    answer = client.post("/v2/translate", json=body)
    assert (answer.status_code, answer.json()) == (400, {"message": message})
