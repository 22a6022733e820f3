"""Files translated by the bundled model: from the file to the file, with memory and glossary."""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.word_translator import Permuting
from glassformer import Translator
from glassformer.cli.documents import _print_report
from glassformer.cli.main import app
from glassformer.decoding import Hypothesis, Translation
from glassformer.decoding.batching import ModelInput
from glassformer.documents import DocumentReport, FileTranslator, Glossary, Memory
from glassformer.documents.translate_file import Remark, complete_options
from glassformer.errors import StorageError, TextError
from glassformer.text.codes.checks import changes
from glassformer.text.codes.code import Parts, join_parts
from glassformer.text.corpus.corpus import Pair
from glassformer.text.formats import FormatOptions


@pytest.fixture(scope="module")
def translator() -> Iterator[Translator]:
    with Translator.load() as loaded:
        yield loaded


def test_a_catalog_is_filled_and_what_was_filled_before_stays(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "in.po", tmp_path / "out.po"
    source.write_bytes(
        b'# note\r\nmsgid ""\r\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\r\n\r\n#, python-format\r\n'
        b'msgid "I love you."\r\nmsgstr ""\r\n\r\nmsgid "Yes"\r\nmsgstr "Jawohl"\r\n'
    )
    report = FileTranslator(translator).translate(source, target)
    expected = source.read_bytes().replace(b"#, python", b"#, fuzzy, python")
    assert target.read_bytes() == expected.replace(b'you."\r\nmsgstr ""', b'you."\r\nmsgstr "Ich liebe dich."')
    assert (report.segments, report.from_memory, report.flagged) == (1, 0, [])


def test_the_memory_comes_first_and_near_matches_are_shown(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("Where is my book?\nI love you.\nWhere is  the book?\n")
    memory = Memory([Pair("Where is the book?", "Wo liegt es?"), Pair("I love you.", "Hab dich lieb")])
    report = FileTranslator(translator, memory=memory).translate(source, target)
    first, *others = target.read_text().splitlines()
    assert others == ["Hab dich lieb", "Wo liegt es?"]
    assert first not in ("", "Wo liegt es?")
    assert report.from_memory == 2
    (note,) = report.notes
    assert note.line == 1
    assert "'Where is the book?' -> 'Wo liegt es?'" in note.remark


def test_a_number_whose_no_break_space_is_put_back_is_not_flagged(tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("We have 10\u00a0000 books.\n")
    report = FileTranslator(Permuting(None, "x"), check_content=False).translate(source, target)  # type: ignore[arg-type]
    assert target.read_text() == "xWe xhave 10\u00a0000 xbooks.\n"
    assert report.flagged == []


def test_a_memory_finds_letters_however_their_accents_are_written() -> None:
    for written, wanted in (("cafe\u0301", "caf\u00e9"), ("caf\u00e9", "cafe\u0301")):
        memory = Memory([Pair(f"The {written} is old.", "Das Café ist alt.")])
        assert memory.exact(f"The {wanted} is old.") == "Das Café ist alt."
        near = memory.near(f"The {wanted} is very old.")
        assert near is not None
        assert near.similarity > 0.8


def test_a_term_is_required_and_nonsense_is_flagged_with_the_free_translation(
    translator: Translator, tmp_path: Path
) -> None:
    terms, source, target = tmp_path / "terms.tsv", tmp_path / "in.txt", tmp_path / "out.txt"
    terms.write_text("# comment\ndog\tKöter\tKötern\nwater\tWasser\nbook\tQuizduellmeisterschaftsordnung\n")
    source.write_text("The dog is old.\nThe water is cold.\nThis is my book.\n")
    report = FileTranslator(translator, glossary=Glossary.read(terms)).translate(source, target)
    dog, water, book = target.read_text().splitlines()
    assert "Köter" in dog
    assert "Wasser" in water
    assert "Quizduellmeisterschaftsordnung" in book
    (flag,) = [one.remark for one in report.flagged if one.line == 3]
    assert "the required term for 'book' costs" in flag
    assert "without it: " in flag
    assert not [one for one in report.flagged if one.line == 2]
    (note,) = [one.remark for one in (*report.flagged, *report.notes) if one.line == 1]
    assert "the required term for 'dog' costs" in note
    assert "without it: " in note


def test_no_number_is_missing_beside_a_required_term_without_a_flag(translator: Translator, tmp_path: Path) -> None:
    terms, source, target = tmp_path / "terms.tsv", tmp_path / "in.txt", tmp_path / "out.txt"
    terms.write_text("house\tGebäude\n")
    text = (
        "The house has 3 floors, 16 windows, 27 doors and 48 chairs.\nIn 1987 the house was sold for 83000 dollars."
    )
    source.write_text(f"{text}\n    A house.\n")
    report = FileTranslator(translator, glossary=Glossary.read(terms)).translate(source, target)
    *lines, last = target.read_text().splitlines()
    assert last.startswith("    ")
    assert last[4] != " "
    missing = [
        f"the number {number} is missing"
        for sentence, line in zip(text.splitlines(), lines, strict=True)
        for number in re.findall(r"\d+", sentence)
        if number not in re.findall(r"\d+", line.replace(".", ""))
    ]
    assert sorted(missing) == sorted(one.remark for one in report.flagged if one.remark.endswith(" is missing"))


def test_a_tag_and_the_same_tag_as_text_stay_apart(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "in.html", tmp_path / "out.html"
    source.write_text("<p>A <b>red</b> dog runs.</p>\n<p>A &lt;b&gt;red&lt;/b&gt; dog runs.</p>\n")
    FileTranslator(translator).translate(source, target)
    tags, texts = target.read_text().splitlines()
    assert ("<b>" in tags, "&lt;b&gt;" in tags) == (True, False)
    assert ("<b>" in texts, "&lt;b&gt;" in texts) == (False, True)


def test_signs_of_private_use_are_text(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("I love \ue000 you %d.\n")
    FileTranslator(translator).translate(source, target)
    assert "%d" in target.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["in.txt", "out.txt", "--must", "Hund"], r"--must: found with --out"),
        (["in.txt", "out.txt", "--n-best", "2"], r"--n-best: found with --out"),
        (
            ["in.txt", "out.txt", "--columns", "2"],
            r"--columns: found with a \.txt file, expected one of \.csv, \.dev, \.gold, \.test",
        ),
        (["in.txt", "out.vtt"], r"expected a \.txt file, as --input is"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("A dog runs.\n")
    places = ["--input", str(tmp_path / options[0]), "--out", str(tmp_path / options[1])]
    result = CliRunner().invoke(app, ["translate", *places, *options[2:]])
    assert re.search(message, str(result.exception))
    assert not (tmp_path / options[1]).exists()


def test_what_cannot_be_read_or_written_is_said_and_nothing_is_changed(
    translator: Translator, tmp_path: Path
) -> None:
    files = FileTranslator(translator)
    (tmp_path / "in.docx").write_bytes(b"PK\x03\x04")
    with pytest.raises(TextError, match=r"expected a file ending in"):
        files.translate(tmp_path / "in.docx", tmp_path / "out.docx")
    (tmp_path / "in.txt").write_bytes(b"a\x00b")
    with pytest.raises(TextError, match="NUL byte"):
        files.translate(tmp_path / "in.txt", tmp_path / "out.txt")
    (tmp_path / "good.txt").write_text("Yes.\n")
    with pytest.raises(StorageError, match="cannot be written"):
        files.translate(tmp_path / "good.txt", tmp_path / "no" / "out.txt")
    (tmp_path / "terms.tsv").write_text("dog\n")
    with pytest.raises(TextError, match=r"terms\.tsv:1: found 'dog', expected a term, a tab"):
        Glossary.read(tmp_path / "terms.tsv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.txt", "in.docx", "in.txt", "terms.tsv"]


def test_what_has_no_words_stays_as_it_is(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.md").write_text("# 1.5\n\n{name}: https://example.org\n\n`a | b`\n\nYes.\n")
    report = FileTranslator(translator).translate(tmp_path / "in.md", tmp_path / "out.md")
    *others, last = (tmp_path / "out.md").read_text().split("\n\n")
    assert others == ["# 1.5", "{name}: https://example.org", "`a | b`"]
    assert last != "Yes.\n"
    assert report.flagged == []


def test_a_memory_keeps_the_codes_of_the_file_or_says_which_it_lacks(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.html").write_text("<p>Open the <b>door</b>!</p><p>%s is &lt;here&gt;.</p>")
    memory = Memory([Pair("Open the <b>door</b>!", "Mach die <b>Tür</b> auf!"), Pair("%s is <here>.", "<Hier>.")])
    report = FileTranslator(translator, memory=memory).translate(tmp_path / "in.html", tmp_path / "out.html")
    assert (tmp_path / "out.html").read_text() == "<p>Mach die <b>Tür</b> auf!</p><p>&lt;Hier&gt;.</p>"
    assert report.from_memory == 2
    assert [one.remark for one in report.flagged] == [
        "the memory: %s is missing", "the memory: <here> is missing", "the memory: <Hier> was added",
    ]  # fmt: skip


def test_pairs_of_a_memory_that_contradict_one_another_are_said(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Open\nClose\n")
    memory = Memory([Pair("Open", "Offen"), Pair("Open", "Öffnen"), Pair("Close", "Zu"), Pair("Close", "Zu ")])
    report = FileTranslator(translator, memory=memory).translate(tmp_path / "in.txt", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == "Öffnen\nZu\n"
    assert [one.remark for one in report.flagged] == ["the memory has another translation, too: 'Offen'"]


def test_the_columns_of_a_table_are_said(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("key;English;German\nk;Yes.;\n")
    columns = ["--columns", "English:German"]
    place, out = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    said = CliRunner().invoke(app, ["translate", "--input", place, "--out", out, *columns])
    assert said.exit_code == 0, said.output
    assert f"{place}: cells are separated by ';'; columns 'English' to 'German', by the header." in said.output
    assert (tmp_path / "out.csv").read_text().startswith("key;English;German\nk;Yes.;Ja")
    (tmp_path / "test.csv").write_text("en,de\nYes.,Ja.\n")
    said = CliRunner().invoke(app, ["evaluate", str(tmp_path / "test.csv")])
    assert "columns 'en' to 'de', by the header." in said.output
    assert "of 1 sentences" in said.output


def test_an_empty_file_stays_empty(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.md").write_text("\n\n")
    report = FileTranslator(translator).translate(tmp_path / "in.md", tmp_path / "out.md")
    assert (report.segments, (tmp_path / "out.md").read_text()) == (0, "\n\n")


def test_sentences_are_joined_as_the_script_of_the_translation_asks(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = {"狗吃房子。": "The dog eats.", "我饿了。": "I am hungry."}
    words |= {english: chinese for chinese, english in words.items()}

    def search(inputs: list[ModelInput], *_: object) -> list[Translation]:
        read = [one.source.text for one in inputs]
        outputs = [Hypothesis(words[text], [], [], 0.0, 0.0, False) for text in read]
        return [Translation(text, [], False, [output]) for text, output in zip(read, outputs, strict=True)]

    monkeypatch.setattr(translator._sentences, "_search", search)
    source, target = tmp_path / "in.html", tmp_path / "out.html"
    source.write_text(
        "<p>狗吃房子。我饿了。<br>我饿了。</p><p>The dog eats. <b>I am hungry.</b></p>", encoding="utf-8"
    )
    FileTranslator(translator).translate(source, target)
    filled = "<p>The dog eats. I am hungry.<br>I am hungry.</p><p>狗吃房子。<b>我饿了。</b></p>"
    assert target.read_text("utf-8") == filled


def test_a_text_of_more_codes_than_any_sentence_has_is_left_as_it_was_and_said(
    translator: Translator, tmp_path: Path
) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("the <b>old</b> " * 200 + "\n" + "%s and the tree " * 2500 + "\nI love you.\n")
    report = FileTranslator(translator).translate(source, target)
    *before, after = target.read_text().splitlines()
    assert before == source.read_text().splitlines()[:2]
    assert after == "Ich liebe dich."
    assert [(one.line, "too many placeholders" in one.remark) for one in report.flagged] == [(1, True), (2, True)]


@pytest.mark.slow
def test_a_text_of_numbers_without_end_takes_proportional_time(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("The man " + "".join(f"{number} " for number in range(30_000)) + "\n")
    start = time.process_time()
    report = FileTranslator(translator).translate(tmp_path / "in.txt", tmp_path / "out.txt")
    assert time.process_time() - start < 20
    assert any(one.remark.endswith("is missing") for one in report.flagged)


def test_a_crowded_text_is_not_looked_up_in_a_memory(translator: Translator, tmp_path: Path) -> None:
    crowded = "".join(f'<b id="{number}">man</b> ' for number in range(200)).strip()
    (tmp_path / "in.html").write_text(crowded)
    memory = Memory([Pair(crowded, "x")])
    FileTranslator(translator, memory=memory).translate(tmp_path / "in.html", tmp_path / "out.html")
    assert (tmp_path / "out.html").read_text() == crowded


def test_of_a_text_with_very_many_remarks_the_first_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    remarks = [Remark(1, "a", "b" * 10**6, f"the number {number} is missing" * 10**4) for number in range(100)]
    _print_report(DocumentReport(segments=1, flagged=remarks), Path("in"), Path("out"), "")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 12
    assert all(len(line) < 1100 for line in lines)
    assert lines[10] == "in:1: check: 90 more of this text"


def test_what_is_said_of_a_text_that_a_file_has_again_is_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("I have 3 dogs.\nYes.\n" * 500)
    looked_up = Counter[str]()

    class Silent(FileTranslator):
        def translate_texts(self, texts: Sequence[Parts]) -> list[Translation]:
            best = Hypothesis("No.", [], [], 0.0, 0.0, False, parts=("No.",))
            return [
                Translation(join_parts(parts), [], False, [best], flags=tuple(changes(parts, best.parts)))
                for parts in texts
            ]

    class Nothing(Memory):
        def near(self, source: str) -> None:
            looked_up[source] += 1

    files = Silent(None, memory=Nothing([]))  # type: ignore[arg-type]
    report = files.translate(tmp_path / "in.txt", tmp_path / "out.txt")
    _print_report(report, Path("in"), Path("out"), "")
    said = capsys.readouterr().err.splitlines()
    assert said[:-1] == ["in:1: check: the number 3 is missing: 'No.' (500 times)"]
    assert "check the 500 that are named above" in said[-1]
    assert looked_up == {"I have 3 dogs.": 1, "Yes.": 1}


def test_a_code_of_the_file_that_a_memory_has_once_too_often_is_named(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.md").write_text("# A **red** dog\n")
    memory = Memory([Pair("A **red** dog", "Ein ** **roter** Hund")])
    report = FileTranslator(translator, memory=memory).translate(tmp_path / "in.md", tmp_path / "out.md")
    assert [one.remark for one in report.flagged] == ["the memory: ** was added"]


def test_a_file_that_names_no_target_language_gets_that_of_the_run(tmp_path: Path) -> None:
    source, target = tmp_path / "in.xliff", tmp_path / "out.xliff"
    unit = '<file id="f"><unit id="1"><segment><source>I love you.</source></segment></unit></file>'
    source.write_text(
        f'<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">{unit}</xliff>'
    )
    command = ["translate", "--input", str(source), "--out", str(target)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert f"{source}: translations from en to de." in done.stderr
    assert 'srcLang="en" trgLang="de">' in target.read_text()
    asked = CliRunner().invoke(app, [*command, "--language", "fr"])
    assert f"warning: {source}: is to be in fr, and the model translates to de." in asked.stderr
    assert 'trgLang="fr"' in target.read_text()
    catalog = tmp_path / "in.po"
    catalog.write_text('msgid ""\nmsgstr "Language: \\n"\n"Content-Type: text/plain\\n"\n\nmsgid "Yes"\nmsgstr ""\n')
    assert complete_options(None, catalog, ("en", "de")) == FormatOptions(language="de")
    assert complete_options(None, catalog, None) == FormatOptions()
    assert complete_options(FormatOptions(language="fr"), catalog, ("en", "de")) == FormatOptions(language="fr")


def test_a_translated_file_leaves_nothing_in_circles_so_that_memory_does_not_grow_while_nobody_looks_for_them(
    tmp_path: Path,
) -> None:
    program = """
import gc
from pathlib import Path
from glassformer import Translator
from glassformer.documents import FileTranslator, FormatOptions
for engine in ("torch", "ctranslate2"):
    with Translator.load(engine=engine, device="cpu") as translator:
        for kind, text in (("txt", "The man {} is %s and old.\\n"), ("md", "The man {} is **old** and `x`.\\n\\n")):
            for count in (20, 40):
                Path(f"in.{kind}").write_text("".join(text.format(number) for number in range(count)))
                gc.collect()
                gc.disable()
                FileTranslator(translator, key="key").translate(f"in.{kind}", f"out.{kind}")
                before = len(gc.get_objects())  # collect() does not count all that it frees
                gc.collect()
                found = before - len(gc.get_objects())
                gc.enable()
            print(found)
"""
    # In a process of its own: the checks of shapes that tests add leave some.
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=_environment()
    )
    assert max(map(int, done.stdout.split())) < 100  # of a parser, once


def _environment() -> dict[str, str]:
    """That of a process which has this package, wherever it starts."""
    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
