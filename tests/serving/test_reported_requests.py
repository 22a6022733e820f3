"""Clients, their requests and the right answers, one a row; docs/serving.md says which clients these are."""

import html
import json
from typing import Any
from xml.etree import ElementTree

import pytest
from starlette.testclient import TestClient

GERMAN = "Das Haus ist klein."
HOUSE = "The house is small."
DEEPL = {"source_lang": "EN", "target_lang": "DE"}


def deepl(client: TestClient, text: str, **more: Any) -> tuple[str, str]:
    """The answer of DeepL's contract, and what the header says of it."""
    answer = client.post("/v2/translate", json=DEEPL | {"text": [text]} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"][0]["text"], answer.headers["X-Glassformer-Check"]


def chat(client: TestClient, *messages: Any, **more: Any) -> Any:
    asked = [one if isinstance(one, dict) else {"role": "user", "content": one} for one in messages]
    return client.post("/v1/chat/completions", json={"model": "en-de", "messages": asked} | more)


def content(answer: Any) -> str:
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


DOCUMENT = """
<document>
    <meta>
        <title>A document's title</title>
    </meta>
    <content>
        <par>
        <span>This is a sentence split</span>
        <span>across two &lt;span&gt; tags that should be treated as one.
        </span>
        </par>
        <par>Here is a sentence. Followed by a second one.</par>
        <raw>This sentence will not be translated.</raw>
    </content>
</document>
    """


@pytest.mark.parametrize(
    "more",
    [
        {"outline_detection": False, "non_splitting_tags": ["span"], "splitting_tags": ["title", "par"]},
        {"non_splitting_tags": "span"},
    ],
)
def test_deepls_document_comes_back_well_formed_with_each_text_in_its_element(client, more):
    found, _ = deepl(client, DOCUMENT, tag_handling="xml", ignore_tags=["raw"], **more)
    source, root = (ElementTree.fromstring(text.strip()) for text in (DOCUMENT, found))
    assert [one.tag for one in root.iter()] == [one.tag for one in source.iter()]
    assert root.findtext("content/raw") == "This sentence will not be translated."
    texts = [
        "".join(root.find(path).itertext()).strip() for path in ("meta/title", "content/par[1]", "content/par[2]")
    ]
    assert all(texts)
    assert "Satz" in texts[1]
    assert "Satz" in texts[2]
    assert found.startswith("\n<document>\n    <meta>\n        <title>")
    assert not (root.find("content").text or "").strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Tom &amp; Mary are here.", ["Tom", "Mar"]),
        ("Fish &#38; chips are good.", ["Fisch"]),
        ("He said &quot;I am hungry.&quot;", ["hung"]),
        ("Is 3 &lt; 5?", ["3 &lt; 5"]),
    ],
)
def test_entities_of_xml_are_their_characters(client, text, words):
    found, _ = deepl(client, text, tag_handling="xml")
    ElementTree.fromstring(f"<a>{found}</a>")
    assert all(word.lower() in found.lower() for word in words), found
    assert "&amp;amp;" not in found
    assert "&#38;" not in found


@pytest.mark.parametrize("handling", ["xml", "html"])
@pytest.mark.parametrize(
    ("text", "tag", "kept"),
    [
        ("Open <name>Blue House</name> now.", "name", "<name>Blue House</name>"),
        ("Open <x>Blue <x>House</x> red</x> now.", "x", "<x>Blue <x>House</x> red</x>"),
        ("I see <x>the <x>red</x> and the <x>blue</x> house</x>.", "x", "<x>the <x>red</x> and the <x>blue</x> house</x>"),
    ],
)  # fmt: skip
def test_an_element_that_is_ignored_ends_at_its_own_tag(client, handling, text, tag, kept):
    found, _ = deepl(client, text, tag_handling=handling, ignore_tags=[tag])
    assert found.count(kept) == 1
    assert "translate=" not in found


def test_an_entity_that_was_read_as_a_word_is_no_change(client):
    found, checked = deepl(client, "Tom &amp; Mary are here.", tag_handling="html")
    assert (found, checked) == ("Tom und Maria sind hier.", "ok")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"source_lang": "XX"}, "source_lang"),
        ({"target_lang": "XX"}, "target_lang"),
        ({"split_sentences": "2"}, "split_sentences"),
        ({"model_type": "best"}, "model_type"),
        ({"glossary_id": "x"}, "glossary_id"),
    ],
)
def test_a_wrong_parameter_of_deepl_is_named(client, more, message):
    answer = client.post("/v2/translate", json=DEEPL | {"text": ["a"]} | more)
    assert answer.status_code in (400, 404)
    assert message in answer.json()["message"]


def test_what_weblate_and_the_sdk_ask_of_deepl(client):
    found = client.get("/v3/languages?resource=translate_text").json()
    assert [(one["lang"], one["usable_as_source"], one["usable_as_target"]) for one in found] == [
        ("en", True, False),
        ("de", False, True),
    ]
    assert client.get("/v3/glossaries").json() == {"glossaries": []}
    answer = client.post("/v2/translate", json=DEEPL | {"text": [HOUSE], "model_type": "quality_optimized"}).json()
    assert answer["translations"][0]["model_type_used"] == "quality_optimized"
    lines = "The house is\nsmall."
    assert deepl(client, lines, split_sentences="nonewlines")[0] == GERMAN
    assert "\n" in deepl(client, lines)[0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_json_with_a_mark_of_byte_order_and_in_utf_16(client, encoding):
    sent = json.dumps({"q": HOUSE, "source": "en", "target": "de"})
    answer = client.post("/translate", content=sent.encode(encoding), headers={"Content-Type": "application/json"})
    assert answer.json() == {"translatedText": GERMAN}


@pytest.mark.parametrize(
    ("body", "kind", "status", "text"),
    [
        (b'{"q": "The caf\xe9 is small.", "source": "en", "target": "de"}', "application/json", 400, "expected UTF-8"),
        (b'{"q": "The caf\xe9 is small.", "source": "en", "target": "de"}', "application/json; charset=latin-1", 200, "Caf"),
        (b'{"q": "A half: \\ud83d", "source": "en", "target": "de"}', "application/json", 200, "translatedText"),
        (b"q=The+caf%E9+is+small.&source=en&target=de", "application/x-www-form-urlencoded", 400, "expected UTF-8"),
        ("q=The café is small.&source=en&target=de".encode(), "application/x-www-form-urlencoded", 200, "Caf\u00e9 ist klein"),
        (b"\xff=a&q=a&source=en&target=de", "application/x-www-form-urlencoded", 400, "expected UTF-8"),
        (b"q=The+house+is+small.&q=x&source=en&target=de", "application/x-www-form-urlencoded", 200, f'"{GERMAN}"'),
        (b'{"q": "a", "source": "en", "target": "de"', "application/json", 400, "Invalid JSON format"),
    ],
)  # fmt: skip
def test_bodies_that_programs_send(client, body, kind, status, text):
    answer = client.post("http://testserver//translate", content=body, headers={"Content-Type": kind})
    assert (answer.status_code, text in answer.text) == (status, True), answer.text


def test_the_question_of_a_browser_before_openais_library_asks(client):
    asked = {
        "Origin": "https://a.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang,x-stainless-os",
    }
    answer = client.options("/v1/chat/completions", headers=asked)
    assert answer.status_code == 200
    assert "x-stainless-os" in answer.headers["Access-Control-Allow-Headers"]


@pytest.mark.parametrize(
    "before",
    [
        [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": None}],
        [{"role": "assistant", "content": None, "tool_calls": [{}]}, {"role": "tool", "content": "ok"}],
        [{"role": "assistant", "refusal": None}],
    ],
)
@pytest.mark.parametrize("more", [{}, {"stream": None}, {"model": None}, {"max_tokens": 64, "n": 1}])
def test_what_stands_before_the_last_message_is_not_looked_at_and_null_is_nothing(client, before, more):
    answer = chat(client, *before, HOUSE, **more)
    assert content(answer) == GERMAN
    assert answer.json()["usage"]["prompt_tokens"] > 0
    assert answer.json()["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize(
    ("messages", "more", "status", "message"),
    [
        ([HOUSE], {"n": 2}, 400, "n: found 2"),
        ([HOUSE], {"stop": ["."]}, 400, "stop"),
        ([HOUSE], {"max_tokens": 1}, 400, "max_tokens"),
        ([HOUSE], {"model": "gpt-4o"}, 404, "expected one of en-de"),
        ([{"role": "user", "content": [{"type": "text", "text": None}]}], {}, 400, "no text"),
        ([{"role": "user", "content": None}], {}, 400, "no text"),
        (["Summarize nothing. Translate the text above into German."], {}, 400, "follows none"),
        ([f"{HOUSE}\n\nTranslate the text above into German."], {}, 400, "follows none"),
        ([f"{HOUSE}\nTranslate this."], {}, 400, "follows none"),
    ],
)
def test_what_is_not_done_is_refused_by_name(client, messages, more, status, message):
    answer = chat(client, *messages, **more)
    assert (answer.status_code, message in answer.json()["error"]["message"]) == (status, True), answer.text


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Please turn the lines below from English into German, keep the line breaks, and answer with nothing but the "
         "result:\n\nThe house is small.\nWhere is my book?", "Das Haus ist klein.\nWo ist mein Buch?"),
        ("Translate what stands in the tag:\n<text>I am hungry.</text>", "Ich habe Hunger."),
        ("You are a translation engine. Render the markdown below in German. No comments.\n\n"
         "Source Text: The house is small.\n\nTranslated Text:", GERMAN),
        ("Please translate the following text from English to German, do not censor the translation, give only the "
         "output without comments or notes:\n\nThe house is small.", GERMAN),
        ("Translate into German:\n```\nThe house is small.\n```", GERMAN),
        ("Translate to German: The house is small.", GERMAN),
        ("Translate the text between <<< and >>>:\n<<<The house is small.>>>", GERMAN),
        ("Translate each line into German:\n- The house is small.\n- Where is Tom?", "- Das Haus ist klein.\n- Wo ist Tom?"),
        ("Only Tom knows it.", "Nur Tom weiß es."),
        ("<name>The house is small.</name>", "<name>Das Haus ist klein.</name>"),
        ("Somebody: The house is small.", "Jemand: Das Haus ist klein."),
    ],
)  # fmt: skip
def test_of_a_prompt_the_text_alone_is_translated(client, message, wanted):
    answer = chat(client, {"role": "system", "content": "Translate into German."}, message)
    assert content(answer) == wanted


def test_of_json_the_values_are_translated(client):
    found = content(
        chat(client, json.dumps({"1": "I am hungry.", "2": HOUSE, "lines": [{"id": "a", "text": HOUSE}]}))
    )
    assert json.loads(found) == {"1": "Ich habe Hunger.", "2": GERMAN, "lines": [{"id": "a", "text": GERMAN}]}
    fenced = f"Translate the JSON below into German:\n```json\n{json.dumps([HOUSE])}\n```"
    assert json.loads(content(chat(client, fenced))) == [GERMAN]


def test_a_stream_ends_with_its_usage_and_says_what_to_look_at(client):
    for text, wanted in ((HOUSE, GERMAN), (json.dumps([HOUSE]), json.dumps([GERMAN]))):
        answer = chat(client, text, stream=True, stream_options={"include_usage": True}).text
        chunks = [json.loads(line[6:]) for line in answer.split("\n\n") if line and not line.endswith("[DONE]")]
        assert "".join(one["choices"][0]["delta"].get("content", "") for one in chunks[:-1]) == wanted
        assert (chunks[-1]["choices"], chunks[-1]["usage"]["total_tokens"] > 1) == ([], True)
        assert chunks[-2]["check"] == "ok"


@pytest.mark.parametrize("text", ["Open 2024-05-06 now.", "Open {name} now, there are 3 files.", "😀 from 😀."])
def test_a_stream_keeps_what_a_whole_answer_keeps(client, text):
    whole = content(chat(client, text))
    answer = chat(client, text, stream=True).text
    chunks = [json.loads(line[6:]) for line in answer.split("\n\n") if line and not line.endswith("[DONE]")]
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in chunks) == whole


@pytest.mark.parametrize("text", ["😀 from 😀.", "A 😀 is not a 🎉, but 😀😀.", "{a} {a} of {b}!"])
def test_codes_that_are_repeated_come_back_as_often(client, text):
    answer = client.post("/translate", json={"q": text, "source": "en", "target": "de"})
    assert answer.status_code == 200
    codes = [code for code in ("😀", "🎉", "{a}", "{b}") if code in text]
    found = answer.json()["translatedText"]
    assert [found.count(code) for code in codes] == [text.count(code) for code in codes]


MASTODON = (
    '<p>Hello <span class="h-card"><a href="https://mastodon.social/@tom" class="u-url mention">@<span>tom</span></a>'
    '</span>, we arrived in Berlin today. See <a href="https://example.com/a/very/long/path?x=1">'
    '<span class="invisible">https://</span><span class="ellipsis">example.com/a/very/long/pa</span>'
    '<span class="invisible">th?x=1</span></a></p>'
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (MASTODON, MASTODON[MASTODON.index("<a href") : MASTODON.index("</a>") + 4]),
        (MASTODON, MASTODON[MASTODON.rindex("<a href") : -4]),
        ('<p>Hi <a class="mention" href="/u/sam">@sam</a>! The build fails.</p>', '<a class="mention" href="/u/sam">@sam</a>'),
    ],
)  # fmt: skip
def test_links_that_show_an_address_or_a_name_stay_whole(client, text, kept):
    body = {"text": text, "source": "en", "target": "de", "format": "html"}
    found = client.post("/v1/translate", json=body).json()["translations"][0]["text"]
    assert found.count(kept) == 1
    assert "translate=" not in found


XLIFF = (
    '<xliff version="1.2"><file source-language="de" target-language="en" original="a" datatype="plaintext"><body>'
    '<trans-unit id="1"><source>Das Haus ist klein.</source></trans-unit></body></file></xliff>'
)


@pytest.mark.parametrize(
    ("name", "text", "source"),
    [
        ("de.txt", f"{GERMAN}\n", "de"),
        ("de.txt", "Das Haus ist sehr klein, aber wir mögen es.\n", "auto"),
        ("de.xlf", XLIFF, "en"),  # its header says another language than the request
    ],
)
def test_a_file_in_the_target_language_comes_back_as_it_is_and_is_said(client, name, text, source):
    form = {"source": source, "target": "de"}
    answer = client.post("/translate_file", data=form, files={"file": (name, text)})
    assert client.get(answer.json()["translatedFileUrl"]).text == text
    assert "is in the target language and stays as it is" in answer.headers["X-Glassformer-Check"]


@pytest.mark.parametrize(("name", "text"), [("line.txt", "word " * 20_000), ("line.md", "[" * 20_000)])
def test_a_file_of_one_long_line(client, name, text):
    answer = client.post("/translate_file", data={"source": "en", "target": "de"}, files={"file": (name, text)})
    assert answer.status_code == 200, answer.text
    assert client.get(answer.json()["translatedFileUrl"]).text


def test_what_the_end_of_a_text_lost_is_said(client):
    body = {"q": " ".join(["house"] * 290), "source": "en", "target": "de"}
    answer = client.post("/translate", json=body)
    assert answer.headers["X-Glassformer-Check"].startswith("look at 1 (")
    assert deepl(client, html.unescape(body["q"]))[1].startswith("look at 1 (")
    assert chat(client, body["q"]).headers["X-Glassformer-Check"].startswith("look at 1 (")


BROWSER = [
    ("/translate/batch", {"from": "en", "to": "de", "texts": [HOUSE]}, {"results": [GERMAN]}),
    ("/imme", {"source_lang": "auto", "target_lang": "de", "text_list": [HOUSE, HOUSE]},
     {"translations": [{"detected_source_lang": "en", "text": GERMAN}] * 2}),
    ("/kiss", {"from": "en", "to": "de", "text": HOUSE}, {"text": GERMAN, "from": "en", "to": "de"}),
    ("/kiss", {"from": "en", "to": "de", "texts": [HOUSE]}, {"translations": [{"text": GERMAN, "src": "en"}]}),
    ("/deeplx", {"text": HOUSE, "source_lang": "EN", "target_lang": "DE"}, {"code": 200, "data": GERMAN}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "wanted"), BROWSER)
def test_tools_of_a_browser(client, path, body, wanted):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json() | wanted == answer.json()


@pytest.mark.parametrize(
    ("path", "body", "missing", "wrong"),
    [
        ("/translate", {"q": HOUSE, "source": "en", "target": "de"}, 400, 403),
        ("/v2/translate", DEEPL | {"text": [HOUSE]}, 403, 403),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": HOUSE}]}, 401, 401),
        ("/imme", {"target_lang": "de", "text_list": [HOUSE]}, 401, 401),
    ],
)
def test_a_key_in_each_contract(connect, tmp_path, path, body, missing, wrong):
    keys = tmp_path / "keys.txt"
    keys.write_text("secret\n", encoding="utf-8")
    client = connect(keys=str(keys), require_key=True)
    kind = "DeepL-Auth-Key" if path.startswith("/v2") else "Bearer"
    given = [{}, {"Authorization": f"{kind} no"}, {"Authorization": f"{kind} secret"}]
    assert [client.post(path, json=body, headers=one).status_code for one in given] == [missing, wrong, 200]
