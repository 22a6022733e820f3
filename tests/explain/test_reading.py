"""What is done to a text before the model reads it is undone in its answer; both are steps of a walk."""

import random
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.decoding import Translator
from glassformer.decoding.request import Request
from glassformer.decoding.sentences import text_options
from glassformer.explain import walk
from glassformer.explain.recording.typed_text import TypedText
from glassformer.explain.verify import verify_walk
from glassformer.text.codes.draft import make_draft
from glassformer.text.steps.codes import Messages
from glassformer.text.steps.passage import Passage
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


def is_undone(translator: Translator, text: str) -> bool:
    options = text_options(translator.config, Request(text), plain_signs=translator.plain_signs)
    typed = TypedText(text, Passage((text,), options))
    drafts = [draft.text for parts in typed.passage.texts if (draft := make_draft(parts))]
    return all(typed.check_read(number, draft) == draft for number, draft in enumerate(drafts))


def test_what_is_done_to_a_typed_text_is_undone(translator: Translator) -> None:
    assert [text for text in typed_texts(2000) if not is_undone(translator, text)] == []


def test_a_walk_ends_with_what_translate_prints(translator: Translator) -> None:
    texts = typed_texts(40)
    found = walk(translator, texts, only="*")
    assert verify_walk(found, translator.model).off == ()
    addresses = [step.address for step in found.steps]
    assert (addresses[0], addresses[-1]) == ("text.typed", "answer.printed")
    printed = [lines[0] for lines in found["answer.printed"].lines or ()]
    assert list(dict.fromkeys(printed)) == list(dict.fromkeys(one.text for one in translator.translate(texts)))


@pytest.mark.parametrize("address", ["text.read", "answer.sentence", "answer.printed"])
def test_another_text_than_follows_is_found(address: str, translator: Translator) -> None:
    found = walk(translator, ["i love you {x}. go HOME", "I am hungry."])
    place = next(step for step in found.trace.steps if step.address == address)
    place.value[-1, 2] += 1
    (off,) = verify_walk(found, translator.model).off
    assert (off.address, off.cell) == (address, (len(place.value) - 1, 2))


@pytest.mark.parametrize("kind", [Messages, Signs, Sentences, Copied, Punctuation, Case])
def test_a_step_that_is_not_undone_is_found(
    kind: type[Change], translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "restore", lambda self, answers, **_: answers[-1] if answers else ())
    assert not all(is_undone(translator, text) for text in typed_texts(300))


@pytest.mark.parametrize("text", ["i love you", "I LOVE  YOU", "Hi 😀 you!"])
def test_a_text_as_typed_is_proven(text: str) -> None:
    found = CliRunner().invoke(app, ["trace", text, "--verify"])
    assert found.exit_code == 0, found.output
    assert f"typed {text!r}" in found.output
    assert "All checks passed." in found.output
