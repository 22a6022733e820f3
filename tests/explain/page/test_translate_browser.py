"""The Translate view in a headless Chromium on both of its engines: a server, and the model in the file, offline."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("playwright.sync_api", reason="the browser tests need Playwright's Python client")

from axe_playwright_python.sync_playwright import Axe
from browsing import longest_task_ms, until
from live_server import live_server

from glassformer.decoding import Translator
from glassformer.documents import FileTranslator
from glassformer.explain.page.writer import page_html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

TEXT = "I love you, too. The water was too cold."
DOUBTFUL = "Xqzv wkjhp bnmtr qwzx."
HOSTILE = "<img src=x onerror='window.hurt=1'> \u202eevil\u202c {{7*7}} </textarea><script>window.hurt=1</script>"
ENGINES = ["server", "offline"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load()


@pytest.fixture(scope="module")
def addresses(bundled, tmp_path_factory) -> Iterator[dict[str, str]]:
    """Of the view on each engine."""
    path = tmp_path_factory.mktemp("translate") / "translator.html"
    path.write_text(page_html(bundled, bundled.translator, run=HOSTILE, run_option="", first="translate"), "utf-8")
    with live_server("--threads", "1") as server:
        yield {"server": f"{server.url}/", "offline": path.as_uri()}


@dataclass
class View:
    """The open view."""

    page: "Page"
    engine: str

    def type(self, text: str) -> None:
        self.page.fill("#source", text)

    @property
    def output(self) -> str:
        """What is read as the translation."""
        lines = self.page.eval_on_selector_all(".t-line", "all => all.map(one => one.textContent)")
        return "\n".join(lines)

    def until(self, expression: str, timeout_s: float = 60.0) -> None:
        until(self.page, expression, timeout_s)

    def await_words(self) -> None:
        """Until all is translated and words can be pointed at."""
        self.until("document.querySelector('.t-word') && !document.querySelector('.stale, .partial')")

    def await_output(self, text: str, timeout_s: float = 60.0) -> None:
        shown = "[...document.querySelectorAll('.t-line')].map(one => one.textContent).join('\\n')"
        self.until(f"{shown} === {json.dumps(text)} && !document.querySelector('.stale, .partial')", timeout_s)


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    return request.param


@pytest.fixture
def open_view(browser: "Browser", addresses) -> Callable[..., Any]:
    """``open_view(engine)``: the view, which fails when anything is logged, thrown or fetched from elsewhere."""

    @contextmanager
    def open_it(
        engine: str, *, before: Callable[["Page"], None] = lambda _: None, expected: str = "", **options: Any
    ):
        viewport = {"width": 1280, "height": 800}
        context = browser.new_context(offline=engine == "offline", **{"viewport": viewport, **options})
        page, troubles, own = context.new_page(), [], addresses[engine]
        page.set_default_timeout(60_000)
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request", lambda one: None if one.url.startswith((own, "data:", "blob:")) else troubles.append(one.url)
        )
        before(page)
        page.goto(own)
        page.wait_for_selector("#source")
        yield View(page, engine)
        cookies = context.cookies()
        context.close()
        assert not cookies
        assert not [one for one in troubles if not expected or expected not in one], troubles

    return open_it


def test_what_is_typed_is_translated_as_from_the_shell(open_view, engine, translator):
    with open_view(engine) as view:
        lines = [TEXT, "", "She reads a book.", "12:30"]
        view.type("\n".join(lines))
        view.await_output("\n".join(one.text for one in translator.translate(lines)))
        view.type("She reads a book.")
        view.await_output(translator.translate(["She reads a book."])[0].text)
        view.page.click("[aria-label='Clear the text']")
        view.until("!document.querySelector('.t-line')?.textContent")
        assert view.page.input_value("#source") == ""


def test_typing_never_waits_and_never_shows_what_is_outdated(browser, open_view, engine):
    with open_view(engine) as view:
        view.type(f"{TEXT} " * 8)
        view.await_words()
        view.page.focus("#source")
        longest = longest_task_ms(
            browser, view.page, lambda: view.page.keyboard.type("She reads a book about ships.", delay=30)
        )
        assert longest < 50
        view.type("Good night.")
        view.await_output("Gute Nacht.")


def test_words_light_up_with_what_they_were_written_from(open_view, engine):
    with open_view(engine) as view:
        view.type(TEXT)
        view.await_words()
        view.page.locator(".t-word", has_text="Wasser").hover()
        view.until("document.querySelector('.mirror mark.t-lit')?.textContent === 'water'")
        assert view.page.inner_text(".mirror mark.near") == "The water was too cold."
        assert view.page.inner_text(".t-sentence.near") == "Das Wasser war zu kalt."
        view.page.evaluate("document.querySelector('#source').setSelectionRange(4, 4)")
        view.page.press("#source", "Shift")
        view.until("document.querySelector('.t-word.t-lit')?.textContent === 'liebe'")


def test_the_keyboard_alone_finds_and_takes_another_word(open_view, engine):
    with open_view(engine) as view:
        view.type(TEXT)
        view.await_words()
        view.page.focus("#output")
        for _ in range(5):
            view.page.keyboard.press("ArrowRight")
        assert view.page.evaluate("document.activeElement.textContent") == "Das"
        view.page.keyboard.press("ArrowRight")
        view.page.keyboard.press("Enter")
        view.page.wait_for_selector("#alternatives .choices .choice")
        view.page.keyboard.press("Escape")
        assert view.page.evaluate("document.activeElement.textContent") == "Wasser"
        assert not view.page.is_visible("#alternatives")


def test_a_word_is_changed_and_the_rest_follows(open_view, engine):
    with open_view(engine) as view:
        view.type(TEXT)
        view.await_words()
        view.page.locator(".t-word", has_text="Das").click()
        first = view.page.locator(".choices").first.locator(".choice").first
        first.wait_for()
        chosen = first.inner_text()
        first.click()
        view.until(f"document.querySelectorAll('.t-sentence')[1]?.textContent === {json.dumps(chosen)}")
        assert chosen != "Das Wasser war zu kalt."
        view.until("document.querySelectorAll('.t-sentence')[0]?.textContent === 'Ich liebe dich auch.'")
        view.page.locator(".t-word", has_text="liebe").click()
        view.page.fill("#alternatives input", "mag")
        view.page.press("#alternatives input", "Enter")
        view.until("document.querySelectorAll('.t-sentence')[0]?.textContent.startsWith('Ich mag ')")
        assert view.output.endswith(chosen)


def test_a_whole_sentence_has_alternatives(open_view, engine):
    with open_view(engine) as view:
        view.type("The water was too cold.")
        view.await_words()
        view.page.click("text=Alternatives")
        view.page.wait_for_selector("#alternatives .choice")
        chosen = view.page.locator("#alternatives .choice").first.inner_text()
        view.page.locator("#alternatives .choice").first.click()
        view.await_output(chosen)


def test_why_leads_to_the_word_inside(open_view, engine):
    with open_view(engine) as view:
        view.type(TEXT)
        view.await_words()
        view.page.locator(".t-word", has_text="kalt").click()
        if engine == "server":
            with view.page.context.expect_page() as opened:
                view.page.click("#alternatives .why")
            page = opened.value
            page.wait_for_url(lambda url: "/v1/explain?" in url)
            page.wait_for_selector("#view .view")
        else:
            page = view.page
            page.click("#alternatives .why")
            until(page, "location.hash.startsWith('#why&step=4')")
        until(page, "document.querySelector('.headline .translation')?.textContent === 'Das Wasser war zu kalt.'")
        assert "kalt" in page.inner_text(".chip.tgt[aria-pressed=true]")
        if engine == "offline":
            page.click("button.front")
            assert page.input_value("#source") == TEXT
            page.go_back()
            page.wait_for_selector("#view .view", state="visible")


def test_doubt_is_said_in_words(open_view, engine):
    with open_view(engine) as view:
        view.type(f"I love you, too. {DOUBTFUL}")
        view.await_words()
        view.page.wait_for_selector(".remarks li")
        assert "probably wrong" in view.page.inner_text(".remarks")
        view.page.wait_for_selector(".doubted, .unsure-0, .unsure-1")
        assert view.page.is_visible(".pane .note")
        view.page.click(".remarks a")
        assert view.page.locator(".t-sentence.near").count() == 1


def test_a_glossary_is_kept_used_saved_and_read(open_view, engine, tmp_path):
    with open_view(engine) as view:
        page = view.page
        page.click("summary:text('Glossary')")
        page.click("text=Add a term")
        page.fill("[aria-label=Term]", "water")
        page.fill("[aria-label=Translation]", "Gewässer | Nass")
        view.type("The water was too cold.")
        view.until("/Gewässer|Nass/.test(document.querySelector('#output').textContent)")
        with page.expect_download() as started:
            page.click("text=Save TSV")
        assert Path(started.value.path()).read_text("utf-8") == "water\tGewässer\tNass\n"
        page.reload()
        page.wait_for_selector("summary:text('Glossary · 1')", state="attached")
        page.click("summary:text('Glossary')")
        (tmp_path / "more.tsv").write_text("# ours\ncold\tkühl\n", "utf-8")
        page.set_input_files(".drawer input[type=file]", tmp_path / "more.tsv")
        page.wait_for_selector("summary:text('Glossary · 2')")
        page.click("[aria-label='Delete water']")
        page.wait_for_selector("summary:text('Glossary · 1')")
        page.locator(".drawer button", has_text="Clear").first.click()
        page.wait_for_selector("summary:text-is('Glossary')")


def test_history_stays_in_the_browser_and_is_cleared(open_view, engine):
    with open_view(engine) as view:
        view.type("She reads a book.")
        view.await_words()
        view.until("document.querySelector('.history button')", 10)
        view.page.reload()
        view.page.wait_for_selector("#source")
        view.page.click("summary:text('History')")
        view.page.click(".history button")
        assert view.page.input_value("#source") == "She reads a book."
        view.page.click("text=Clear all")
        assert view.page.locator(".history button").count() == 0
        assert view.page.evaluate("localStorage.getItem('glassformer.history')") is None


def test_the_translation_is_copied(open_view, engine):
    options = {"permissions": ["clipboard-read", "clipboard-write"]}
    with open_view(engine, **options) as view:
        view.type("She reads a book.")
        view.await_words()
        view.page.click("text=Copy")
        view.until("document.querySelector('.status').textContent === 'Copied'")
        assert view.page.evaluate("navigator.clipboard.readText()") == view.output


SUBTITLES = """1
00:00:01,000 --> 00:00:02,500
<i>The house is small.</i>

2
00:00:03,000 --> 00:00:05,000
- Are you tired?
- No, I am not tired, but I would like
to go home now.
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "She reads a book.\r\n\r\nGood night.\r\n"),
        ("a.srt", SUBTITLES),
        ("a.vtt", f"WEBVTT\n\n{SUBTITLES.replace(',', '.', 4).replace('tired?', 'tired &amp; sad?')}"),
        ("a.po", 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "Good night."\nmsgstr ""\n'),
        ("a.html", "<!doctype html><p>Good <b>night</b>.</p>\n"),
        ("a.md", "# Good night\n\nShe reads a book.\n"),
    ],
)
def test_a_file_is_translated_as_from_the_shell(open_view, engine, translator, tmp_path, name, content):
    source, expected = tmp_path / name, tmp_path / f"expected_{name}"
    source.write_bytes(content.encode())
    FileTranslator(translator).translate(source, expected)
    with open_view(engine) as view:
        view.page.click("text=Files")
        view.page.set_input_files(".drop input", source)
        if engine == "offline" and not name.endswith((".txt", ".srt", ".vtt")):
            view.page.wait_for_selector(".failed")
            assert "expected .txt .srt .vtt" in view.page.inner_text(".failed")
            return
        view.page.wait_for_selector(".file button:text('Save')")
        with view.page.expect_download() as started:
            view.page.click(".file button:text('Save')")
        assert started.value.suggested_filename == name.replace(".", "_de.")
        assert Path(started.value.path()).read_bytes() == expected.read_bytes()


def test_a_file_says_what_wants_a_look_and_can_be_removed(open_view, engine, tmp_path):
    (tmp_path / "a.txt").write_text(f"Good night.\n{DOUBTFUL}\n")
    with open_view(engine) as view:
        view.page.click("text=Files")
        view.page.set_input_files(".drop input", tmp_path / "a.txt")
        view.page.wait_for_selector("text=1 place wants a look")
        view.page.click("text=What to look at")
        assert view.page.inner_text(".checks li").startswith("Line 2: the translation is probably wrong")
        view.page.click("[aria-label='Remove a.txt']")
        assert view.page.locator(".file").count() == 0


PASTE = """text => {
    const source = document.querySelector("#source");
    source.value = text; // typing it takes the browser seconds
    source.dispatchEvent(new Event("input"));
}"""


def test_a_paste_of_20_000_words_does_not_hold_the_page(browser, open_view, engine):
    text = "\n".join(f"The water was too cold for {number} small ships of our friends." for number in range(1, 1700))
    assert len(text.split()) > 20_000

    def paste(view: View) -> None:
        view.page.evaluate(PASTE, text)
        view.until("document.querySelector('.t-sentence')")

    with open_view(engine) as view:
        assert longest_task_ms(browser, view.page, lambda: paste(view)) < 400  # most of it lays the text out
        view.until("/Translating: \\d+ of 1699 parts/.test(document.querySelector('.status').textContent)")
        view.type("Good night.")
        view.await_output("Gute Nacht.")


def test_hostile_text_does_no_harm(open_view, engine):
    with open_view(engine) as view:
        view.type(HOSTILE)
        view.until("document.querySelector('.t-line')?.textContent && !document.querySelector('.stale')")
        view.page.wait_for_timeout(500)
        if view.page.locator(".t-sentence").count():
            view.page.click("text=Alternatives")
            view.page.wait_for_timeout(500)
        assert view.page.evaluate("window.hurt") is None
        assert view.page.locator("img, #translate script").count() == 0


AXE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(open_view, engine, scheme, width, tmp_path):
    def check(view: View, place: str) -> None:
        found = Axe().run(view.page, options=AXE).response["violations"]
        assert not found, (place, [(one["id"], one["nodes"][0]["html"][:200]) for one in found])

    (tmp_path / "a.txt").write_text(f"{DOUBTFUL}\n")
    with open_view(engine, color_scheme=scheme, viewport={"width": width, "height": 800}) as view:
        check(view, "empty")
        view.type(f"{TEXT} {DOUBTFUL}")
        view.await_words()
        view.until("document.querySelector('.history button')", 20)
        for summary in ("Glossary", "History"):
            view.page.click(f"summary:text('{summary}')")
        view.page.click("text=Add a term")
        check(view, "text")
        view.page.locator(".t-word").first.click()
        view.page.wait_for_selector("#alternatives .choice")
        check(view, "alternatives")
        view.page.keyboard.press("Escape")
        view.page.click("text=Files")
        view.page.set_input_files(".drop input", tmp_path / "a.txt")
        view.page.wait_for_selector("text=1 place wants a look")
        check(view, "files")


def test_writing_directions_and_languages_are_marked(open_view, engine):
    with open_view(engine) as view:
        view.type("שלום עולם\nGood night.")
        view.until("document.querySelectorAll('.t-line').length === 2 && !document.querySelector('.stale')")
        assert view.page.get_attribute("#source", "lang") == "en"
        assert view.page.get_attribute("#output", "lang") == "de"
        assert view.page.get_attribute(".t-line", "dir") == "auto"
        unicode_bidi = view.page.evaluate("getComputedStyle(document.querySelector('#source')).unicodeBidi")
        assert unicode_bidi == "plaintext"


def test_nothing_moves_where_that_is_asked_for(open_view, engine):
    with open_view(engine, reduced_motion="reduce") as view:
        view.type(TEXT)
        view.await_words()
        moving = view.page.evaluate("document.getAnimations().length")
        durations = view.page.evaluate("getComputedStyle(document.querySelector('.t-line')).transitionDuration")
        assert (moving, durations) == (0, "0s")


def test_the_theme_is_switched_and_remembered(open_view, engine):
    with open_view(engine, color_scheme="light") as view:
        view.page.click("[aria-label='Light or dark']")
        view.page.reload()
        view.page.wait_for_selector("#source")
        assert view.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"


def test_a_slow_server_is_said_and_its_late_answers_are_dropped(open_view):
    def slow(page: "Page") -> None:
        def later(route: Any) -> None:
            page.wait_for_timeout(2500) if "slow" in (route.request.post_data or "") else None
            route.continue_()

        page.route("**/v1/translate", later)

    with open_view("server", before=slow) as view:
        view.type("A slow train.")
        view.page.wait_for_selector("text=Still waiting")
        assert view.page.input_value("#source") == "A slow train."
        view.type("Good night.")
        view.await_output("Gute Nacht.")
        view.page.wait_for_timeout(3000)
        assert view.output == "Gute Nacht."


def test_a_server_that_is_gone_is_said_and_the_text_stays(open_view):
    with open_view("server", expected="net::ERR") as view:
        view.type("Good night.")
        view.await_words()
        view.page.route("**/v1/translate", lambda route: route.abort("connectionrefused"))
        view.type("She reads a book.")
        view.page.wait_for_selector(".trouble:has-text('does not answer')")
        assert view.page.input_value("#source") == "She reads a book."
        view.page.unroute("**/v1/translate")
        view.page.click("text=Try again")
        view.await_output("Sie liest ein Buch.")
        assert not view.page.is_visible(".trouble")


LANGUAGES = [
    {"code": "en", "name": HOSTILE, "targets": ["en", "<b>"]},
    {"code": "<b>", "name": "<i>b</i>", "targets": ["<b>", "en"]},
]


def test_both_directions_are_swapped_and_hostile_names_do_no_harm(open_view):
    def answer(page: "Page") -> None:
        def translate(route: Any) -> None:
            asked = json.loads(route.request.post_data)
            texts = asked["text"] if isinstance(asked["text"], list) else [asked["text"]]
            found = [{"text": f"{one}{asked['target']}", "check": [HOSTILE], "flags": []} for one in texts]
            event = f"event: translation\ndata: {json.dumps(found[0])}\n\n"
            body = event if asked.get("stream") else json.dumps({"translations": found})
            kind = "text/event-stream" if asked.get("stream") else "application/json"
            route.fulfill(status=200, content_type=kind, body=body)

        page.route("**/languages", lambda route: route.fulfill(json=LANGUAGES))
        page.route("**/v1/translate", translate)

    with open_view("server", before=answer) as view:
        view.type("a")
        view.await_output("a<b>")
        view.page.click("[aria-label='Swap the languages']")
        assert view.page.input_value("#source") == "a<b>"
        view.await_output("a<b>en")
        assert view.page.locator("#translate b, #translate i, img").count() == 0
        assert HOSTILE.partition(" ")[0] in view.page.inner_text("[aria-label=To]")
        assert view.page.evaluate("window.hurt") is None


def test_a_server_with_keys_asks_for_one(open_view):
    def guard(page: "Page") -> None:
        def check(route: Any) -> None:
            if route.request.headers.get("authorization") == "Bearer open":
                return route.continue_()
            return route.fulfill(status=403, json={"error": "Invalid API key"})

        page.route("**/v1/translate", check)

    with open_view("server", before=guard, expected="403") as view:
        view.type("Good night.")
        view.page.fill("[aria-label='Key of this server']", "open")
        view.page.press("[aria-label='Key of this server']", "Enter")
        view.await_output("Gute Nacht.")
