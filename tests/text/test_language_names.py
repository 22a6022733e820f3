"""Languages by their tags and names, columns by their names, and the languages that are taken of a file of pairs."""

from pathlib import Path

import pytest

from glassformer.errors import TextError
from glassformer.text.columns import find_columns
from glassformer.text.corpus.corpus import describe_pairs, find_languages, read_pairs
from glassformer.text.languages import find_language
from glassformer.training.request.data import FileSource


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("Vietnamese", "vi"), ("hindi", "hi"), ("Hebrew", "he"), ("Tiếng Việt", "vi"), ("Deutsch", "de"),
        ("hi", "hi"), ("eng", "en"), ("en-US", "en-us"), ("zh_Hant", "zh-hant"), ("iw", "he"), ("עברית", "he"),
        ("", ""), ("Good morning.", ""), ("source", ""), ("x" * 99, ""), ("qqq", ""),
    ],
)  # fmt: skip
def test_languages_have_codes_and_names(name, tag):
    assert find_language(name) == tag


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("id en vi", (1, 2, True)), ("en id", (0, 1, True)), ("no en de", (1, 2, True)), ("id en", (0, 1, True)),
        ("Vietnamese English", (0, 1, True)), ("French German", (0, 1, True)), ("en hi", (0, 1, True)),
        ("is es", (0, 1, False)), ("Hello Welt", (0, 1, False)), ("id text German", (1, 2, True)),
    ],
)  # fmt: skip
def test_a_header_names_languages_and_no_number(first, found):
    (source,), target, header = find_columns(first.split())
    assert (source, target, header) == found


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(("ending", "sign"), [("csv", ","), ("tsv", "\t"), ("csv", ";")])
def test_repeats_of_the_header_are_left_out_and_counted(tmp_path, ending, sign):
    rows = ["English,German", "Yes.,Ja.", "English,German", "No.,Nein.", "English,German", ",", "Well.,Gut."]
    path = write(tmp_path / f"a.{ending}", "\n".join(rows).replace(",", sign))
    pairs = [pair for pair in read_pairs(path) if not pair.blank]
    assert pairs == [("Yes.", "Ja."), ("No.", "Nein."), ("Well.", "Gut.")]
    assert str(describe_pairs(path)).endswith("by the header; 2 rows repeat the header: left out.")


def test_a_row_with_more_columns_is_named(tmp_path):
    path = write(tmp_path / "a.tsv", "Yes.\tJa.\nI am\thungry.\tIch habe Hunger.\nNo.\tNein.\t\n")
    assert "columns 1 to 2; line 2 has more columns than the first" in str(describe_pairs(path))


TMX = '<tmx version="1.4"><header srclang="*all*"/><body>{}</body></tmx>'
UNIT = "".join(
    f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in (("ar", "A"), ("de", "D"), ("en", "E"))
)
XLIFF = (
    '<xliff version="1.2"><file source-language="{}" target-language="{}"><body><trans-unit id="1"><source>S</source>'
    "<target>T</target></trans-unit></body></file></xliff>"
)
FILES = {
    "three.tmx": (TMX.format(f"<tu>{UNIT}</tu>"), ("E", "D")),
    "first.jsonl": ('{"translation": {"de": "D", "en": "E"}}\n', ("E", "D")),
    "more.jsonl": ('{"translation": {"ar": "A", "de": "D", "en": "E"}}\n', ("E", "D")),
    "same.xlf": (XLIFF.format("en-US", "de-DE"), ("S", "T")),
    "turned.xlf": (XLIFF.format("de", "en"), ("T", "S")),
    "turned.csv": ("German,English\nD,E\n", ("E", "D")),
    "codes.tsv": ("de\tar\ten\nD\tA\tE\n", ("E", "D")),
    "unnamed.tsv": ("S\tT\n", ("S", "T")),
}


@pytest.mark.parametrize("name", FILES)
def test_the_languages_that_are_wanted_are_taken(tmp_path, name):
    text, pair = FILES[name]
    path = write(tmp_path / name, text)
    source = FileSource(path).take_languages(("en", "de"))
    assert list(source.pairs()) == [pair]
    found = find_languages(path, ("en", "de"))
    assert [tag[:2] for tag in found] == ([] if name == "unnamed.tsv" else ["en", "de"])
    assert (source.languages is None) == (name in ("same.xlf", "unnamed.tsv"))
    assert (source.fingerprint() == FileSource(path).fingerprint()) == (source.languages is None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.xlf", XLIFF.format("fr", "de")), ("a.jsonl", '{"translation": {"fr": "F", "de": "D"}}\n'),
        ("a.csv", "French,German\nF,D\n"),
        ("a.tmx", TMX.format('<tu><tuv xml:lang="fr"><seg>F</seg></tuv><tuv xml:lang="de"><seg>D</seg></tuv></tu>')),
    ],
)  # fmt: skip
def test_other_languages_are_refused_with_both_pairs(tmp_path, name, text):
    path = write(tmp_path / name, text)
    with pytest.raises(TextError, match=r"found fr-de, expected en-de, as text.languages"):
        FileSource(path).take_languages(("en", "de"))


def test_texts_outside_seg_are_said(tmp_path):
    path = write(tmp_path / "a.tmx", TMX.format('<tu><tuv xml:lang="en">E</tuv><tuv xml:lang="de">D</tuv></tu>' * 3))
    with pytest.raises(TextError, match="found 3 units with text outside <seg>"):
        list(read_pairs(path))
