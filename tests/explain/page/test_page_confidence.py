"""The page estimates the chance that a translation is good as Python does, on ordinary and on strange texts."""

import pytest

from glassformer.decoding import Translator
from glassformer.decoding.translation import REASONS
from glassformer.explain.page.weights import pack_model

IMPORT = 'import { createConfidence } from "./worker/confidence.js";'
TEXTS = [
    "I love you, too.", "Wo ist der Bahnhof?", "东京 ist schön", "She reads a book, and then another one, and so on.",
    "xqzv wkjh", "a", "👩‍👩‍👧 ok", "ΣΟΦΟΣ ΟΔΟΣ ﬁne", "I", "İstanbul",
    "She sauteed the shallots.", "The sign says 出口 ﷺ.", "I don't know o’Zorp's wife.", "the dog and " * 20 + "the cat",
    "Prices for electricity have doubled since last year.", "Let’s call it ½ a day.",
]  # fmt: skip


def test_chances_and_reasons_are_those_of_python(run_js) -> None:
    translator = Translator.load()
    translations = translator.translate(
        TEXTS, translator.config.with_changes({"split_sentences": False, "match_style": False, "keep_codes": False})
    )
    judged = [
        {
            "source": one.read, "target": one.text, "ids": one.hypotheses[0].ids, "logProb": one.hypotheses[0].log_prob,
        }
        for one in translations
    ]  # fmt: skip
    packed = pack_model(translator)["confidence"]
    assert packed["reasons"] == REASONS
    found = run_js(
        IMPORT, "return data.judged.map(createConfidence(data.packed));", {"packed": packed, "judged": judged}
    )
    for translation, (chance, reason) in zip(translations, found, strict=True):
        assert chance == pytest.approx(translation.hypotheses[0].confidence, abs=1e-9), translation
        assert reason == (None if translation.doubt is None else translation.doubt.text)
    assert {None, *REASONS} - {"number", "missing", "symbols"} == {
        one.doubt and one.doubt.reason for one in translations
    }


def test_a_number_that_the_page_does_not_know_leaves_no_estimate(run_js) -> None:
    packed = pack_model(Translator.load())["confidence"]
    packed["weights"] = {**packed["weights"], "mood": {"mean": 0, "scale": 1, "weight": 1}}
    assert run_js(IMPORT, "return createConfidence(data) === null;", packed)
