"""Our own contract: what the model and the documents have, for programs."""

import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from glassformer.explain.page.packing import unpack

HOUSE = {"text": "The house is small.", "source": "en", "target": "de"}
GERMAN = "Das Haus ist klein."


def translate(client: TestClient, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/translate", json=HOUSE | more)
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"][0]


def test_a_translation_says_what_made_it_and_how_sure_that_is(client):
    found = translate(client)
    assert (found["text"], found["source"], found["target"]) == (GERMAN, "en", "de")
    assert found["engine"] in ("ctranslate2", "torch")
    assert found["log_prob"] < 0
    assert 0 < found["confidence"] <= 1
    assert (found["check"], found["flags"], "hypotheses" in found) == ([], [], False)


def test_several_texts_have_several_translations_in_their_order(client):
    answer = client.post("/v1/translate", json=HOUSE | {"text": ["I love you, too.", HOUSE["text"], ""]})
    assert [one["text"] for one in answer.json()["translations"]][1:] == [GERMAN, ""]


def test_outputs_of_the_model_their_tokens_and_where_they_come_from(client):
    found = translate(client, n_best=3, alignment=True)
    assert len(found["hypotheses"]) == 3
    assert found["hypotheses"][0]["text"] == found["text"] == GERMAN
    assert [one["score"] for one in found["hypotheses"]] == sorted(
        (one["score"] for one in found["hypotheses"]), reverse=True
    )
    assert found["alignment"]
    sources, targets = len(found["source_tokens"]), len(found["hypotheses"][0]["tokens"])
    assert all(source < sources and target < targets for source, target in found["alignment"])


def test_a_prefix_required_and_banned_phrases_and_the_engine_that_has_them(client):
    assert translate(client, prefix="Das Gebäude")["text"].startswith("Das Gebäude")
    found = translate(client, must=["winzig"])
    assert "winzig" in found["text"]
    assert found["engine"] == "torch"
    assert "klein" not in translate(client, ban=["klein"])["text"].split()


def test_terms_of_a_glossary_and_pairs_of_a_memory_are_used(client):
    assert "Gebäude" in translate(client, glossary=[["house", "Gebäude"]])["text"]
    assert translate(client, memory=[[HOUSE["text"], "Ein Häuschen."]])["text"] == "Ein Häuschen."


def test_placeholders_and_tags_come_back_once(client):
    text = 'Click <x id="7"/> to see {name} and %d files @@PH1@@.'
    found = translate(client, text=text)
    assert found["check"] == found["flags"]
    assert all(found["text"].count(code) == 1 for code in ('<x id="7"/>', "{name}", "%d", "@@PH1@@"))


@pytest.mark.parametrize("more", [{"n_best": 3}, {"must": ["Datei"]}, {"ban": ["Datei"]}, {"alignment": True}])
def test_codes_are_taken_out_and_put_back_where_the_models_own_outputs_are_asked_for(client, more):
    text = "Open {file_name} at https://example.org/a?b=1 now. It has %d <b>small</b> windows."
    found = translate(client, text=text, **more)
    assert (found["check"], found["hypotheses"][0]["text"]) == (found["flags"], found["text"])
    codes = ("{file_name}", "https://example.org/a?b=1", "%d", "<b>", "</b>")
    assert all(one["text"].count(code) == 1 for one in found["hypotheses"] for code in codes)
    assert all(one["check"] for one in found["hypotheses"])


def test_a_code_that_a_client_places_itself_is_not_put_in_twice(client):
    found = translate(client, text="Hello {name}.", prefix="Hallo {name}")
    assert found["text"].startswith("Hallo {name}")
    assert found["text"].count("{name}") == 1


def test_what_seems_to_lack_a_word_or_is_doubted_is_flagged_as_in_a_file(client):
    [lacking] = translate(client, text="A fire destroyed an old theatre in the city centre.")["flags"]
    assert lacking == "nothing seems to stand for 'theatre'"
    found = translate(client, text="Winter is coming.")
    [doubt] = found["flags"]
    assert doubt.endswith(found["doubt"]["text"])


def events(client: TestClient, **more: Any) -> list[tuple[str, Any]]:
    answer = client.post("/v1/translate", json=HOUSE | {"stream": True} | more)
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    found = [dict(line.split(": ", 1) for line in one.splitlines()) for one in answer.text.strip().split("\n\n")]
    return [(one["event"], json.loads(one["data"])) for one in found]


def test_a_text_is_streamed_sentence_by_sentence(client):
    found = events(client, text="The house is small. I love you, too.")
    pieces = [body["text"] for name, body in found[:-1]]
    assert {name for name, _ in found[:-1]} == {"piece"}
    assert (found[-1][0], found[-1][1]["text"]) == ("translation", "".join(pieces))
    assert pieces[0] == "Das Haus ist klein. "


def test_a_text_with_codes_is_streamed_whole(client):
    found = events(client, text="The <b>house</b> is small.")
    assert [name for name, _ in found] == ["piece", "translation"]
    assert found[0][1]["text"] == found[1][1]["text"] == "Das <b>Haus</b> ist klein."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "missing required field `text`"),
        (HOUSE | {"texts": []}, "contains unknown field `texts`, expected some of format"),
        (HOUSE | {"text": 1}, "Expected `str | array`, got `int` - at `text`"),
        (HOUSE | {"beam": 0}, "Expected `int` >= 1 - at `beam`"),
        (HOUSE | {"n_best": 11}, "n_best must be <= 10"),
        (HOUSE | {"n_best": 3, "beam": 2}, "n_best: found 3 with a beam of 2, expected at most that"),
        (HOUSE | {"stream": True, "text": ["a", "b"]}, "stream: found 2 texts, expected one"),
        (HOUSE | {"glossary": [["house"]]}, "a term of the glossary has no translation"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request_is_named(client, body, message):
    answer = client.post("/v1/translate", json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_what_the_search_cannot_do_is_said_as_the_command_line_says_it(client):
    answer = client.post("/v1/translate", json=HOUSE | {"must": ["Haus"], "ban": ["Haus"]})
    assert answer.status_code == 400
    assert "no output can have the one without the other" in answer.json()["error"]


def test_one_wrong_text_does_not_harm_the_others_of_its_batch(client):
    body = {"text": ["One.", "Two."], "source": "en", "target": "de", "must": ["Haus"], "ban": ["Haus"]}
    assert client.post("/v1/translate", json=body).status_code == 400
    assert translate(client)["text"] == GERMAN


@pytest.fixture(scope="session")
def explained(serving, portal) -> tuple[Any, dict[str, Any]]:
    from glassformer.serving.app import make_app

    client = TestClient(make_app(serving))
    client.portal = portal
    answer = client.post("/v1/explain", json=HOUSE)
    assert answer.status_code == 200, answer.text
    return client, answer.json()


@pytest.mark.slow
def test_an_answer_is_explained_by_its_walk_and_by_a_page(explained):
    client, found = explained
    assert found["text"] == GERMAN
    page = client.get(found["page"])
    assert page.headers["content-type"].startswith("text/html")
    record = re.search(r'id="record">(.*?)</script>', page.text, re.DOTALL)
    assert GERMAN.split()[1] in unpack(record[1]).decode()
    again = client.post("/v1/explain", json=HOUSE).json()
    assert (again["ids"], again["log_prob"]) == (found["ids"], found["log_prob"])
    assert "decoder.layers.0.cross_attention.weights" in json.dumps(found["walk"])


def test_what_cannot_be_explained_is_refused(client):
    assert client.get("/v1/explain?text=a&source=en&target=en").status_code == 400
    assert client.post("/v1/explain", json=HOUSE | {"text": "Two\nlines."}).status_code == 400


@pytest.mark.parametrize(("target", "token"), [("de", ">>deu<<"), ("ES", ">>spa<<")])
def test_a_request_chooses_its_target_of_a_model_of_several(client, serving, monkeypatch, target, token):
    models = serving.models
    (path,) = models.translators
    monkeypatch.setattr(models.translators[path], "targets", ("deu", "spa"))
    monkeypatch.setattr(models, "languages", models.languages.with_targets({path: ("deu", "spa")}))
    found = translate(client, target=target, n_best=2)
    assert "".join(found["source_tokens"]).replace("▁", "").startswith(token)
    assert not any("target language" in flag for flag in found["flags"])
