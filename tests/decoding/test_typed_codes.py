"""Typed texts with placeholders, tags, addresses: the translation has each of them as often as the text."""

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.generated_strings import is_whole, make_string
from glassformer import Translator
from glassformer.decoding import Request
from glassformer.decoding.request import keeps_capital
from glassformer.documents import FileTranslator
from glassformer.settings import DecodeConfig


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(device="cpu", engine="torch")


def strings(seed: int, count: int) -> list[tuple[str, Counter[str]]]:
    draw = random.Random(seed)
    return [make_string(draw) for _ in range(count)]


def test_a_few_generated_strings_keep_their_codes(translator: Translator) -> None:
    made = strings(1, 5)
    found = translator.translate([text for text, _ in made])
    assert all(is_whole(text, codes, one.text) for (text, codes), one in zip(made, found, strict=True))
    assert [one.source for one in found] == [text for text, _ in made]


@pytest.mark.slow
def test_generated_strings_keep_their_codes(translator: Translator) -> None:
    made = strings(2, 1000)
    found = translator.translate([text for text, _ in made])
    lost = [text for (text, codes), one in zip(made, found, strict=True) if not is_whole(text, codes, one.text)]
    assert not lost


@pytest.mark.parametrize(
    ("text", "read", "pattern"),
    [
        ("I have <b>no time</b> today.", "I have no time today.", r"[A-Z].*<b>.+</b>.*\."),
        ("where is {name}", "Where is Tom", r"[a-z].*\{name\}.*"),
        ("- <b>where</b> is %s 🎉", "Where is Tom", r"- <b>[a-z]+</b>.*%s.* 🎉"),
        ("WHO IS {Name}?", "Who is Tom?", r"[A-Z ]*\{Name\}[A-Z ]*\?"),
        (" I am hungry. Open report_1.pdf!", "I am hungry. Open Tom!", r" .+\. .*report_1\.pdf.*!"),
        ("{{ user  name }}", "{{ user  name }}", r"\{\{ user  name \}\}"),
    ],
)
def test_codes_are_not_read_and_come_back_in_the_style_of_the_text(translator, text, read, pattern):
    [found] = translator.translate([text])
    assert found.read in (read, read.replace("Tom", "Peter"))
    assert found.hypotheses[0].attention is None
    assert re.fullmatch(pattern, found.text)
    assert "".join(translator.stream(text)) == found.text


def test_all_hypotheses_have_the_codes_and_the_prefix(translator: Translator) -> None:
    options = replace(translator.config, n_best=3)
    [found] = translator.translate(["My name is {name}."], options, attention=True)
    assert len(found.hypotheses) == 3
    assert all(one.text.count("{name}") == 1 for one in found.hypotheses)
    assert found.hypotheses[0].attention is not None
    [begun] = translator.translate(["My name is {name}."], prefixes=["Mein"])
    assert begun.text.startswith("Mein ")
    assert "{name}" in begun.text


def test_codes_are_left_to_a_client_a_setting_and_a_score(translator):
    [found] = translator.translate_stream([Request("I see {name}.", prefix="{name}")])
    assert found.read == "I see {name}."
    texts = ["I am tired. I go home.", "it's 5% off (today)", "- one: two", "HELLO & GOOD-BYE", "a / b", "5 < 7"]
    without = replace(translator.config, keep_codes=False)
    assert translator.translate(texts) == translator.translate(texts, without)
    [found] = translator.translate(["I see {name}."], replace(translator.config, keep_codes=False))
    assert found.read == "I see {name}."
    assert DecodeConfig().keep_codes
    without = replace(translator.config, keep_codes=False)
    pair = ["I see {name}."], ["Ich sehe {name}."]
    assert translator.score_tokens(*pair) == translator.score_tokens(*pair, without)


@pytest.mark.parametrize(
    ("text", "prefix", "begin", "end"),
    [
        ("where is my dog 🎉", "wo", "wo ", " 🎉"),
        ("WHERE IS MY DOG?!!", "WO IST", "WO IST ", "?!!"),
        ("🎉 my dog sleeps", "Mein", "🎉 Mein ", ""),
        ("🎉 my dog sleeps", "🎉 Mein", "🎉 Mein ", ""),
    ],
)
def test_a_prefix_and_the_style_of_a_text_go_together(translator, text, prefix, begin, end):
    request = Request(text, prefix=prefix, ban=("foo",))
    [found] = translator.translate_stream([request])
    assert found.text.startswith(begin)
    assert found.text.endswith(end)
    assert found.text.isupper() == text.isupper()
    assert "".join(translator.stream(request)) == found.text


def test_a_single_word_is_read_with_a_capital_and_answered_without_one_unless_it_is_a_noun(translator):
    found = translator.translate(["yes", "hello!", "iPhone"])
    assert [one.read for one in found] == ["Yes", "Hello!", "iPhone"]
    assert all(one.text[:1].islower() for one in found[:2])
    assert "".join(translator.stream("yes")) == found[0].text
    kept = {word: keeps_capital(word, translator.tgt_tokenizer) for word in ("Ja", "Danke", "Wasser", "Haus")}
    assert kept == {"Ja": False, "Danke": False, "Wasser": True, "Haus": True}


def test_a_file_is_translated_as_the_same_lines_typed(translator: Translator, tmp_path: Path) -> None:
    lines = [
        "PLEASE OPEN THE <b>DOOR</b> NOW!!!",
        "where is {name}",
        "My cat 🐱 sees %s and <i>me</i>.",
        "(I am {0})",
    ]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    FileTranslator(translator).translate(tmp_path / "a.txt", tmp_path / "b.txt")
    written = (tmp_path / "b.txt").read_text(encoding="utf-8").splitlines()
    assert written == [one.text for one in translator.translate(lines)]
