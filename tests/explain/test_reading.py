"""What is done to a text before the model reads it is undone in its answer; the proof of a walk says so."""

import random
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.decoding import Translator
from glassformer.explain.recording.sentence_batch import check_reading
from glassformer.text.steps.codes import Messages
from glassformer.text.steps.sentences import Copied, Sentences
from glassformer.text.steps.signs import Signs
from glassformer.text.steps.step import Change
from glassformer.text.steps.style import Case, Punctuation

TEXTS = [
    "I am hungry.", "i love you", "Where is my book?", "house", "It costs $24.99.", "The “old” man—he sleeps…",
    "Dr. Smith came at 8 p.m. He left.", "I am tired. I go home. Good night!",
]  # fmt: skip
CODES = [
    "%s", "{name}", "<b>x</b>", "😀", "{n, plural, one {# dog} other {# dogs}}", "https://a.org/x", "`code`", "\u200e",
]  # fmt: skip
STYLES: list[Callable[[str], str]] = [
    str, str.upper, str.lower, str.title, "- {}".format, "{}!!!".format, "({})".format, "  {} \t".format,
    "🎉 {} 🎉".format, "3) {}".format, lambda text: f"{text}\n{text}", lambda text: text.replace(" ", "  ", 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load()


def typed_texts(count: int) -> list[str]:
    rng, found = random.Random(1), []
    for _ in range(count):
        words = rng.choice(TEXTS).split(" ")
        for _ in range(rng.randint(0, 2)):
            words.insert(rng.randint(0, len(words)), rng.choice(CODES))
        found.append(rng.choice(STYLES)(rng.choice(STYLES)(" ".join(words))))
    return found


def test_what_is_done_to_a_typed_text_is_undone(translator: Translator) -> None:
    assert {text: wrong for text in typed_texts(2000) if (wrong := check_reading(translator, text))} == {}


@pytest.mark.parametrize("kind", [Messages, Signs, Sentences, Copied, Punctuation, Case])
def test_a_step_that_is_not_undone_is_found(
    kind: type[Change], translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "restore", lambda self, answers, **_: answers[-1] if answers else ())
    assert any(check_reading(translator, text) for text in typed_texts(300))


@pytest.mark.parametrize("text", ["i love you", "I LOVE  YOU", "Hi 😀 you!"])
def test_a_text_as_typed_is_proven(text: str) -> None:
    found = CliRunner().invoke(app, ["trace", text, "--verify"])
    assert found.exit_code == 0, found.output
    assert f"typed {text!r}" in found.output
    assert "All checks passed." in found.output
