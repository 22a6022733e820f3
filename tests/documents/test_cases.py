"""Inputs that users reported, with the right values, by the model that comes with the package."""

from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.decoding import Translator
from glassformer.decoding.restore.drafts import Attempt, doubt_numbers
from glassformer.documents.translate_file import FileTranslator
from glassformer.text.codes.draft import Draft

XLIFF = '<xliff version="1.2"><file source-language="en" target-language="de" original="a" datatype="x"><body><trans-unit id="1">{}</trans-unit></body></file></xliff>'
REVIEW = '<target state="needs-review-translation">{}</target>'


def unit(source: str, target: str) -> tuple[str, str, str]:
    """A unit of XLIFF, and the same with its translation."""
    return ".xlf", XLIFF.format(source), XLIFF.format(source + REVIEW.format(target))


MESSAGE = "{{VAR, plural, =1 {{{}}} other {{<x id='N'/> {}}}}}"
PARTS = '<mrk mtype="seg" mid="1">{}</mrk> <mrk mtype="seg" mid="2">{}</mrk>'
FILES = [
    # What is read, and what is left as it is.
    (".txt", "Open My_file now.", "Mach My_file jetzt auf."),
    (".txt", "Is the key Ctrl_a free?", "Ist der Schlüssel Ctrl_a kostenlos?"),
    (".po", '#, c-format\nmsgid "The file took %.3fs."\nmsgstr ""\n', "%.3fs"),
    (".po", "msgid \"cannot open file '%s': %s\"\nmsgstr \"\"\n", "kann nicht die Datei öffnen '%s': %s"),
    (".txt", "Open [%s]: {name}!", "Mach auf [%s]: {name}!"),
    (".md", "## The house is big {#house}\n", "## Das Haus ist groß {#house}\n"),
    unit("<source><?pi x?>I am hungry.</source>", "<?pi x?>Ich habe Hunger."),
    # Sentences that touch at a tag.
    (
        ".html", "<p>I am hungry.<b>I am tired.</b>We go home.</p>",
        "<p>Ich habe Hunger.<b>Ich bin müde.</b>Wir gehen nach Hause.</p>",
    ),
    # Elements inside a sentence.
    (
        ".html", "<p>The house is <ruby>big<rp>(</rp><rt>large</rt><rp>)</rp></ruby>.</p>",
        "<p>Das Haus ist <ruby>groß<rp>(</rp><rt>large</rt><rp>)</rp></ruby>.</p>",
    ),
    (".html", "<p>I <nobr>am very</nobr> hungry.</p>", "<p>Ich <nobr>bin sehr</nobr> hungrig.</p>"),
    (".html", "<p>This is <x-term>my house</x-term>.</p>", "<p>Das ist <x-term>mein Haus</x-term>.</p>"),
    (".html", "<div><button>Good morning.</button> <button>I am tired.</button></div>",
     "<div><button>Guten Morgen.</button> <button>Ich bin müde.</button></div>"),
    # Messages of ICU, and units that a program has divided.
    unit(
        f"<source>You have {MESSAGE.format('one book', 'books')} now.</source>",
        f"Du hast jetzt {MESSAGE.format('ein Buch', 'Bücher')}.",
    ),
    unit(
        f"<source>I am hungry. I am tired.</source><seg-source>{PARTS.format('I am hungry.', 'I am tired.')}</seg-source>",
        PARTS.format("Ich habe Hunger.", "Ich bin müde."),
    ),
    # Cues.
    (".vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nWe have to <c.red>go</c> now.\n", "Wir müssen jetzt <c.red>gehen</c>.\n"),
    (".vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n \nI am hungry.\n", " \nIch habe Hunger.\n"),
    (".srt", "1\n00:00:01,000 --> 00:00:02,000\nMAN:\nThe bird sings.\n", "MAN:\nDer Vogel singt.\n"),
    # Marks of direction.
    (".po", 'msgid "\u2068%s\u2069 is here."\nmsgstr ""\n', "\u2068%s\u2069 ist hier."),
    (".txt", "\u200eThe house is small.\u200e", "Das Haus ist klein."),
    (".txt", "Where is my book?\u200f I am hungry.\u200f", "Wo ist mein Buch? Ich habe Hunger."),
]  # fmt: skip


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load()


@pytest.mark.parametrize(("ending", "text", "expected"), FILES)
def test_a_file_of_a_kind_that_went_wrong(
    ending: str, text: str, expected: str, translator: Translator, tmp_path: Path
) -> None:
    source, target = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
    source.write_text(text, encoding="utf-8")
    FileTranslator(translator).translate(source, target)
    assert expected in target.read_text(encoding="utf-8")


def test_cues_of_one_sentence_are_named(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "in.srt", tmp_path / "out.srt"
    times = "00:00:0{}.000 --> 00:00:0{}.000"
    cues = [(0, 3, "I do not know why my brother"), (3, 5, "wants to buy such a car."), (8, 9, "good morning")]
    source.write_text("".join(f"{times.format(*cue[:2])}\n{cue[2]}\n\n" for cue in cues), encoding="utf-8")
    report = FileTranslator(translator).translate(source, target)
    assert [one.line for one in report.flagged if "goes on in the next cue" in one.remark] == [2]


TYPED = [
    ("It costs $24.99.", "Es kostet $24,99."),
    ("It costs $2,500.", "Es kostet $2.500."),
    ("There are 1,000,000 people.", "Es sind 1.000.000 Leute."),
    ("There are 898,435 people here.", "Es gibt hier 898.435 Menschen."),
    ("We meet at 8 pm.", "Wir treffen uns um 8 pm."),
    ("It costs £3.50.", "Es kostet £3,50."),
    ("We have dogs…", "Wir haben Hunde…"),
    ("“I am tired,” she said.", '„Ich bin müde", sagte sie.'),
]


@pytest.mark.parametrize(("text", "expected"), TYPED)
def test_a_typed_text_of_a_kind_that_went_wrong(text: str, expected: str, translator: Translator) -> None:
    assert translator.translate([text])[0].text == expected


def test_a_required_phrase_begins_the_output(translator: Translator) -> None:
    (found,) = translator.translate(["The house is big."], constraints=[["Das Haus ist groß."]])
    assert (found.text, found.doubt) == ("Das Haus ist groß.", None)


@pytest.mark.parametrize(
    ("text", "names"),
    [("Hello Tom.", ["Tom"]), ("Hi Ed, how are you?", ["Ed"]), ("Where is Tom?", []), ("Hello, Mary.", [])],
)
def test_a_name_that_vanishes_is_said(text: str, names: list[str], translator: Translator, tmp_path: Path) -> None:
    doubt = translator.translate([text])[0].doubt
    assert ([] if doubt is None else list(doubt.named)) == names
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(text)
    flagged = FileTranslator(translator).translate(source, target).flagged
    assert [one.remark for one in flagged] == [f"nothing seems to stand for {name!r}" for name in names]


def test_a_number_that_is_another_one_is_a_doubt(translator: Translator) -> None:
    attempt = Attempt((), Draft(()), translator.translate(["I have 5 dogs."])[0], [], ["the number 5 is missing"])
    assert doubt_numbers(replace(attempt, lost=[])).translation.doubt is None
    doubt = doubt_numbers(attempt).translation.doubt
    assert doubt is not None
    assert doubt.text == 'its numbers are not those of the text: "the number 5 is missing"'
