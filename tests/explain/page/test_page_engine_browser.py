"""The engine of the page in a headless Chromium: it answers as Python does, stops at once, and has the usual shape."""

from dataclasses import replace

import pytest
from browsing import living, open_page
from covering import FULL

from glassformer import Translator

pytestmark = pytest.mark.browser

SUBJECTS = ["I", "The old man", "My friend Tom", "She", "We all", "HE", "{name}", "The %s", "they", "Dr. Smith"]
VERBS = ["can see the house", "bought 3 books", "was at home yesterday", "paid $2,500.50 for it", "will <b>never</b> come back",
         "likes it 🙂 very much", "reads https://example.org/a every day", "waited 25 minutes", "left at 5 p.m", "is tired"]  # fmt: skip
ENDS = [".", "!!!", "? I don't know.", "…", " (really).", ".\nIt rains.", " 🎉", "", ". “Why?” he said.", ", too."]
TEXTS = [f"{subject} {verb}{end}" for end in ENDS for verb in VERBS for subject in SUBJECTS]
TRANSLATE = "async ([texts, options]) => (await window.glassformer.translate(texts, options)).map((one) => one.text)"
API = """async () => {
  const pair = { sourceLanguage: "en-US", targetLanguage: "de" }, { Translator } = window.glassformer;
  const translator = await Translator.create(pair), pieces = [];
  for await (const piece of translator.translateStreaming("It is late. We go home.")) pieces.push(piece);
  const whole = await translator.translate("It is late. We go home.");
  const missing = await Translator.create({ ...pair, targetLanguage: "fr" }).catch((error) => error.name);
  translator.destroy();
  const ended = await translator.translate("I am here.").catch((error) => error.name);
  return [await Translator.availability(pair), pieces.join(""), whole, missing, ended];
}"""
CANCEL = """async () => {
  const stop = new AbortController(), text = "The house is green and the garden is old. ".repeat(4000) + "\\ud800";
  const job = window.glassformer.translate([text], { signal: stop.signal }).catch((error) => error.name);
  setTimeout(() => stop.abort(), 200);
  const name = await job;
  return [name, (await window.glassformer.translate(["I am here."]))[0].text];
}"""


@pytest.mark.parametrize("beam", [1, 4])
def test_texts_are_those_of_python(browser, bundled_file, beam: int) -> None:
    texts = TEXTS if FULL else TEXTS[:: len(TEXTS) // 100]
    translator = Translator.load(engine="torch")
    expected = translator.translate(texts, replace(translator.config, beam=beam))
    with open_page(browser, bundled_file) as page:
        living(page)
        found = page.evaluate(TRANSLATE, [texts, {"greedy": beam == 1}])
    both = [(one.source, one.text, other) for one, other in zip(expected, found, strict=True)]
    differ = [each for each in both if each[1] != each[2]]
    assert not differ


def test_it_stops_at_once_and_has_the_shape_of_the_proposed_api(browser, bundled_file) -> None:
    with open_page(browser, bundled_file) as page:
        living(page)
        assert page.evaluate(CANCEL) == ["AbortError", "Ich bin hier."]
        text = "Es ist spät. Wir gehen nach Hause."
        assert page.evaluate(API) == ["available", text, text, "NotSupportedError", "AbortError"]
