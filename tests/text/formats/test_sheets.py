"""Tables: how cells are separated, which columns are taken, and that it is said."""

from pathlib import Path

import pytest

from glassformer.errors import TextError
from glassformer.text.columns import Columns
from glassformer.text.corpus.corpus import describe_pairs, read_pairs
from glassformer.text.formats import find_format
from glassformer.text.formats.segment import apply_edits
from glassformer.text.formats.sheets import csv_delimiter, csv_segments


def pairs_of(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text, encoding="utf-8", newline="")
    return [tuple(pair) for pair in read_pairs(path)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, number 0;Hallo, Nummer 0\nHello, number 1;Hallo, Nummer 1\n", ";"),
        ("source;target\nHello, Tom, how are you;Hallo, Tom, wie geht es dir\n", ";"),
        ('source;target\n"Hello,\nmy, friend,";"Hallo,\nmein, Freund,"\n"Yes, please,\nnow";"Ja, bitte,\njetzt"\n', ";"),
        ('a,b\n"x;y;\nz;w",c\n"q;\nr;s",t\n', ","),
        ("a, b|c\nd, e|f\n", "|"),
        ("a, b; c\td\n", "\t"),
        ("One\nTwo; and, three\n", ";"),
        ("One\nTwo\n", ","),
        ("", ","),
        ("\n\na;b\n", ";"),
        ('x,\n"a" b,\n', ","),
        ("sep=|\na,b|c\n", "|"),
        ("en,de\n" + "a; b,c; d\n" * 99, ","),
        ('"a","b;c"\n"d","e;f"\n', ","),
    ],
)  # fmt: skip
def test_the_delimiter_gives_all_rows_the_same_columns(text: str, expected: str) -> None:
    assert csv_delimiter(text) == expected


HEADERS = [
    ("Source (en-US)", "Target (de-DE)"), ("English (United States)", "German (Germany)"), ("en-US", "zh-Hans-CN"),
    ("en_GB", "de_AT"), ("Source segment", "Target segment"), ("SOURCE [en]", "TARGET [de]"), ("English", "Deutsch"),
    ("text", "German"),
]  # fmt: skip


@pytest.mark.parametrize("names", HEADERS)
@pytest.mark.parametrize("before", [[], ["", ""], ["", "", ""]])
def test_columns_of_a_known_header_are_taken_in_every_kind_of_table(tmp_path, names, before):
    rows = [before, ["ID", *names, "", ""], ["1", "Yes.", "Ja.", "", "x"]][0 if before else 1 :]
    for ending, sign in ((".csv", ";"), (".tsv", "\t")):
        path = tmp_path / f"a{ending}"
        assert pairs_of(path, "\n".join(map(sign.join, rows))) == [("Yes.", "Ja.")]
        assert f"columns {names[0]!r} to {names[1]!r}, by the header." in str(describe_pairs(path))
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(["A cover"])
    sheet = book.create_sheet("Texts")
    for row in rows:
        sheet.append(row)
    book.save(tmp_path / "a.xlsx")
    assert list(read_pairs(tmp_path / "a.xlsx")) == [("Yes.", "Ja.")]
    assert "sheet 'Texts'; columns " in str(describe_pairs(tmp_path / "a.xlsx"))


@pytest.mark.parametrize(
    ("rows", "warned"),
    [
        (["1001\tThey buy an apple.", "1002\tMary wants a car."], [1]), (["menu.file\tFile", "btn_ok\tOK"], [1]),
        (["ID\tEnglish text", "7\tYes."], [1]), (["Yes.\t1", "No.\t2"], [2]), (["well-known\tbekannt"], []),
        (["It costs 5.\tEs kostet 5.", "7\t7", "Yes.\tJa."], []), (["", "Yes.\tJa."], []),
    ],
)  # fmt: skip
def test_the_columns_are_said_and_one_of_numbers_or_names_is_warned_of(tmp_path, rows, warned):
    for ending, sign in ((".tsv", "\t"), (".csv", ",")):
        path = tmp_path / f"a{ending}"
        path.write_text("\n".join(rows).replace("\t", sign))
        said = str(describe_pairs(path))
        assert "columns 1 to 2" in said
        assert [number for number in (1, 2) if f"column {number} holds numbers or names" in said] == warned
        describe = find_format(path).describe_segments
        assert describe is not None
        assert describe(path, columns=None) == said


def test_tables_are_read_as_excel_means_them_and_blank_lines_are_no_rows(tmp_path):
    text = 'English\tGerman\r\n"He said ""yes""."\t"Er sagte ""ja""."\r\n"Hi,\nTom"\tHallo\r\n\r\n'
    expected = [('He said "yes".', 'Er sagte "ja".'), ("Hi,\nTom", "Hallo")]
    assert pairs_of(tmp_path / "a.tsv", text) == expected
    (tmp_path / "a.tsv").write_bytes(text.encode("utf-16"))
    assert list(read_pairs(tmp_path / "a.tsv")) == expected
    for sign, ending in (("\t", ".tsv"), (",", ".csv")):
        assert pairs_of(tmp_path / f"a{ending}", f"\na{sign}b\n\nc{sign}d\n\n\n") == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    "line",
    ['"Yes," he said.\tJa', '"Yes."\t"Ja."', 'He said ""yes"".\t"Ja."', '"So\tDas"', '"Open\tOffen', 'a ""\t"b" "c"'],
)
def test_quotation_marks_of_people_stay(tmp_path: Path, line: str) -> None:
    text = f'{line}\n"{line}\n'
    assert pairs_of(tmp_path / "a.tsv", text) == [tuple(each.split("\t")) for each in text.splitlines()]


def test_a_column_of_another_name_is_not_filled() -> None:
    def fill(text: str, column: str, into: str | None = None) -> str:
        (segment,) = csv_segments(text, Path("a.csv"), Columns((column,), into))
        return apply_edits(text, segment.edits(["X"]))

    with pytest.raises(TextError, match=r"column 'message': found 'note' after it, expected to know .* 4 for a new"):
        fill("id,message,note\n1,a,\n", "message")
    assert fill("id,message,\n1,a,\n", "message") == "id,message,\n1,a,X\n"
    assert fill("id,message\n1,a\n", "message") == "id,message\n1,a,X\n"
    assert fill("id,message,note,target\n1,a,,\n", "message", "target") == "id,message,note,target\n1,a,,X\n"
    assert fill("message,note,target,German\na,,,\n", "message", "4") == "message,note,target,German\na,,,X\n"
    assert fill("en,note,de\na,,\n", "en") == "en,note,de\na,,X\n"
