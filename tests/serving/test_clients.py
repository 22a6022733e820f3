"""Programs of others, unmodified, against a live port: what they read is what they expect.

Which routes each of them used, as the server counts them, is the table of docs/serving.md.
"""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from live_server import GERMAN, live_server

pytestmark = pytest.mark.serving
HOUSE = "The house is small."
PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("### What was tried")[2].partition("###")[0]


@pytest.fixture(scope="module")
def url():
    with live_server() as live:
        yield live.url


def routes(url: str) -> dict[str, float]:
    """How many requests each route has answered without an error."""
    text = httpx.get(f"{url}/metrics").text
    rows = re.findall(r'^glassformer_requests_total{route="([^"]+)",status="2.."} (\S+)$', text, re.M)
    return {route: sum(float(count) for each, count in rows if each == route) for route, _ in rows}


@contextmanager
def table_says(url: str, client: str) -> Iterator[None]:
    """Hold the column of a client in the page's table to the routes that it uses in this block."""
    before = routes(url)
    yield
    used = {route for route, count in routes(url).items() if count > before.get(route, 0)} - {"/metrics"}
    head, *rows = [row.split("|") for row in re.findall(r"^\|.*\|$", TABLE, re.M)]
    column = [cell.strip() for cell in head].index(client)
    assert {row[1].strip().strip("`") for row in rows if row[column].strip() == "✓"} == used


def test_libretranslatepy(url):
    api = pytest.importorskip("libretranslatepy").LibreTranslateAPI(f"{url}/")
    with table_says(url, "libretranslatepy"):
        assert api.translate(HOUSE, "en", "de") == GERMAN
        assert api.detect("Das Haus ist sehr klein, aber wir mögen es.")[0]["language"] == "de"
        assert [one["code"] for one in api.languages()] == ["en", "de"]


def test_deep_translator(url):
    translator = pytest.importorskip("deep_translator")
    with table_says(url, "deep-translator"):
        own = translator.LibreTranslator(source="en", target="de", custom_url=f"{url}/", api_key="any")
        assert own.translate(HOUSE) == GERMAN
        assert own.translate_batch([HOUSE, "I love you, too."])[0] == GERMAN


def test_deepl(url):
    deepl = pytest.importorskip("deepl")
    client = deepl.DeepLClient("any:fx", server_url=url)
    with table_says(url, "deepl"):
        assert client.translate_text(HOUSE, target_lang="DE").text == GERMAN
        found = client.translate_text([HOUSE, "I love you, too."], source_lang="EN", target_lang="DE")
        assert [one.detected_source_lang for one in found] == ["EN", "EN"]
        assert [one.code for one in client.get_source_languages()] == ["EN"]
        assert [one.code for one in client.get_target_languages()] == ["DE"]
        assert client.get_usage().character.count > 0
        assert client.list_multilingual_glossaries() == []
        lines = client.translate_text("<p>A & B</p>".replace("&", "&amp;"), target_lang="DE", tag_handling="xml")
        assert lines.text.startswith("<p>")
    with closing(client), pytest.raises(deepl.DeepLException, match="target_lang"):
        client.translate_text(HOUSE, target_lang="XX")


def test_openai(url):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any") as client:
        with table_says(url, "openai"):
            assert client.models.retrieve("en-de").id == "en-de"
            assert [model.id for model in client.models.list()] == ["en-de"]
            messages = [{"role": "user", "content": HOUSE}]
            assert (
                client.chat.completions.create(model="en-de", messages=messages).choices[0].message.content == GERMAN
            )
            chunks = client.chat.completions.create(model="en-de", messages=messages, stream=True)
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == GERMAN
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            client.chat.completions.create(model="gpt", messages=messages)
