"""Terms of a glossary: which occur, which forms they may have, and what a search for them does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer import Translator
from glassformer.documents import FileTranslator, Glossary
from glassformer.documents.glossary import Term, writable_terms
from glassformer.errors import InputError
from glassformer.settings import DecodeConfig
from glassformer.text.tokenizer.tokenizer import UNK_ID


@pytest.fixture(scope="module")
def translator() -> Iterator[Translator]:
    with Translator.load() as loaded:
        yield loaded


def read(folder: Path, text: str) -> Glossary:
    (folder / "terms.tsv").write_text(text, encoding="utf-8")
    return Glossary.read(folder / "terms.tsv")


def translate(translator: Translator, folder: Path, terms: str, text: str, beam: int = 4) -> tuple[str, list[str]]:
    """The translation of a text, and all that is said of it."""
    (folder / "in.txt").write_text(text, encoding="utf-8")
    files = FileTranslator(translator, DecodeConfig(beam=beam), glossary=read(folder, terms))
    report = files.translate(folder / "in.txt", folder / "out.txt")
    return (folder / "out.txt").read_text("utf-8"), [one.remark for one in (*report.flagged, *report.notes)]


def test_lines_of_one_term_are_alternatives(translator: Translator, tmp_path: Path) -> None:
    assert read(tmp_path, "house\tHaus\nhouse\tGebäude\tHaus\n").terms == (
        Term("house", ("Haus", "Gebäude"), f"{tmp_path}/terms.tsv:1"),
    )
    terms = "house\tHaus\nhouse\tGebäude\n"
    assert translate(translator, tmp_path, terms, "The house is big.") == ("Das Haus ist groß.", [])


def test_the_longest_term_wins_where_it_stands(tmp_path: Path) -> None:
    glossary = read(tmp_path, "hard disk\tFestplatte\ndisk\tScheibe\n")
    assert [term.src for term in glossary.terms_in("The hard disk is full.")] == ["hard disk"]
    assert [term.src for term in glossary.terms_in("A disk in a hard disk.")] == ["hard disk", "disk"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a " * 101 + "\tb\n", r"terms\.tsv:1: found a term of 101 words and signs with 1 forms, expected 1 to 100"),
     ("a\tb\n" + "".join(f"a\t{n}\n" for n in range(20_000)), r"terms\.tsv:1: found a term of 1 words .* 20,001 forms")],
)  # fmt: skip
def test_what_no_term_is_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_accents_and_scripts_without_spaces_do_not_hide_a_term() -> None:
    glossary = Glossary([Term("café", ("Kaffeehaus",)), Term("房子", ("house",)), Term("dog", ("狗",))])
    assert [term.src for term in glossary.terms_in("the cafe\u0301 or 大房子。")] == ["café", "房子"]
    assert Term("a", ("café",)).is_met_by("un cafe\u0301")
    assert Term("dog", ("狗",)).is_met_by("我的狗在家")


def test_with_beam_1_a_term_comes_where_it_belongs(translator: Translator, tmp_path: Path) -> None:
    output, said = translate(translator, tmp_path, "hospital\tSpital\n", "I go to the hospital.", beam=1)
    assert "Spital" in output
    assert not output.startswith(("Spital", " "))
    assert any("with beam 4 in place of 1" in each for each in said)


class Ascii:
    """A tokenizer that knows the letters of ASCII."""

    def to_ids(self, text: str) -> list[int]:
        return [ord(letter) if letter.isascii() else UNK_ID for letter in text]


def test_a_term_that_the_tokenizer_cannot_write_is_named_with_its_line() -> None:
    terms = [Term("tea", ("Tée",), "terms.tsv:2"), Term("house", ("Gebäude", "Haus"))]
    found, flags = writable_terms(terms, Ascii())  # type: ignore[arg-type]
    assert found == [Term("house", ("Haus",))]
    assert flags == ["the model cannot write 'Tée' for 'tea' (terms.tsv:2): it lacks a letter of it"]
