"""Tables (tab-separated values, CSV, Excel, JSON lines): their pairs, and their rows without a translation."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, dropwhile, islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from glassformer.errors import TextError
from glassformer.files import open_to_read
from glassformer.text.formats.encodings import marked_lines, read_text
from glassformer.text.formats.segment import Edit, FileSegment, Part, join_parts, line_finder, line_number
from glassformer.text.lines import LARGEST_WHOLE, read_lines, without_surrogates

_DELIMITERS = "\t;|,"  # of two that fit a comma is the likelier one to be text
_SAMPLE = 50  # rows by which delimiters and columns are judged
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # Excel's, above the table
# Names of columns, by which a first row is known to be a header.
_SOURCE_NAMES = {"source", "src", "original", "text", "source text", "source segment", "source language", "msgid"}
_TARGET_NAMES = {"target", "tgt", "translation", "target text", "target segment", "target language", "msgstr"}
_ENGLISH = {"en", "english"}
_LANGUAGES = _ENGLISH | {
    "ar", "cs", "da", "de", "el", "es", "fi", "fr", "hu", "it", "ja", "ko", "nl", "no", "pl", "pt", "ro", "ru", "sv",
    "tr", "uk", "zh", "arabic", "chinese", "czech", "danish", "dutch", "finnish", "french", "german", "greek",
    "hungarian", "italian", "japanese", "korean", "norwegian", "polish", "portuguese", "romanian", "russian",
    "spanish", "swedish", "turkish", "ukrainian", "deutsch", "español", "français", "italiano", "nederlands",
    "polski", "português",
}  # fmt: skip
_FORMULA_SIGNS = ("=", "+", "-", "@")  # with which spreadsheets begin what they compute
# What follows the name of a column: (en-US), of a language: -US, -Hans-CN.
_ADDITION = re.compile(r"(?<=[^\s(\[])\s*[(\[][^()\[\]]*[)\]]$|(?<=^[a-z]{2})(?:[-_][a-z]{2,4}){1,2}$")
# Numbers, and names of messages: menu.file, btn_ok.
_ID = re.compile(r"\S*(?:\d|\w[_.:/#]\w)\S*")

_JSONL_SHAPE = 'Expected {"src": "...", "tgt": "..."} or {"translation": {"en": "...", "de": "..."}} on each line.'


def read_tsv(path: Path) -> Iterator[tuple[str, str]]:
    """Source, tab, target, or the columns that a header names so; other columns, such as an attribution, are ignored.

    Raises ``TextError`` for a line with fewer columns.
    """
    rows = _tsv_rows(path)
    if (first := next(rows, None)) is None:
        return
    source, target, header = find_columns(first[1])
    for number, row in rows if header else chain([first], rows):
        if len(row) < 2:
            raise TextError(
                f"{path}:{number}: found no tab, expected source, tab, target on each line. Put one between them."
            )
        if len(row) <= max(source, target):
            raise TextError(
                f"{path}:{number}: found {len(row)} columns, expected source and target in columns {source + 1} "
                f"and {target + 1}, where the header has them. Correct the line."
            )
        yield row[source], row[target]


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows, from the first one with text, with their line numbers; blank lines are left out."""
    lines = marked_lines(path)
    if _has_quoted_cells(marked_lines(path)):
        reader = csv.reader((f"{line}\n" for line in lines), delimiter="\t")
        rows = ((reader.line_num, row) for row in reader)
    else:
        rows = ((number, line.split("\t")) for number, line in enumerate(lines, 1))
    table = dropwhile(lambda each: not any(map(str.strip, each[1])), rows)
    return ((number, row) for number, row in table if len(row) > 1 or any(map(str.strip, row)))


def describe_tsv(path: Path, column: str | None = None, into: str | None = None) -> str:
    """Which columns ``read_tsv`` takes, or ``csv_segments`` with these, in a line."""
    rows = [row for _, row in islice(_tsv_rows(path), _SAMPLE)]
    return f"{path}: {_describe_columns(rows, column, into)}."


def _describe_columns(rows: Sequence[Sequence[str]], column: str | None = None, into: str | None = None) -> str:
    """Which columns are taken, and whether one of them holds no texts."""
    first = rows[0] if rows else []
    source, target, header = find_columns(first, column, into)
    named = header and target < len(first)
    names = f"{first[source]!r} to {first[target]!r}, by the header" if named else f"{source + 1} to {target + 1}"
    said = f"columns {names}"
    for place in (source, target):
        cells = [cell.strip() for row in rows[1:] or rows for cell in row[place : place + 1] if cell.strip()]
        if cells and all(map(_ID.fullmatch, cells)):
            said += (
                f"; column {place + 1} holds numbers or names of messages, expected texts: write source and target "
                "above the columns that hold these"
            )
    return said


def read_jsonl(path: Path) -> Iterator[tuple[str, str]]:
    """Objects with ``src`` and ``tgt``, or with a ``translation`` from its first language to its second.

    All translations of a file go the way of the first one. Raises ``TextError`` for any other line.
    """
    languages: list[str] = []
    for where, record in _read_objects(path):
        if "translation" in record:
            languages = languages or _languages(record, where)
            yield _translation(record, languages, where)
        elif "src" in record and "tgt" in record:
            yield _clean(record["src"], where), _clean(record["tgt"], where)
        else:
            found = ", ".join(map(repr, list(record)[:5])) or "nothing"
            raise TextError(f"{where}: found the keys {found}. {_JSONL_SHAPE}")


def first_languages(path: Path) -> list[str]:
    """Source and target language of the first line of a JSONL file; none if it names no languages."""
    where, record = next(_read_objects(path), ("", {}))
    return _languages(record, where) if "translation" in record else []


def _read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with the place to name in an error."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            where = f"{path}:{number}"
            yield where, _object(line, where)


def _languages(record: dict[str, Any], where: str) -> list[str]:
    texts = record["translation"]
    if not isinstance(texts, dict) or len(texts) != 2:
        raise TextError(f"{where}: 'translation' is not an object with exactly two languages. {_JSONL_SHAPE}")
    return list(texts)


def _translation(record: dict[str, Any], languages: list[str], where: str) -> tuple[str, str]:
    found = _languages(record, where)
    if set(found) != set(languages):
        raise TextError(
            f"{where}: found a translation of {' and '.join(found)}, expected {' and '.join(languages)}, as in "
            "the first one. Put each pair of languages in a file of its own."
        )
    src, tgt = (_clean(record["translation"][language], where) for language in languages)
    return src, tgt


def _clean(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise TextError(f"{where}: found {type(text).__name__} for a text, expected a string. {_JSONL_SHAPE}")
    return without_surrogates(text)


def csv_delimiter(text: str) -> str:
    """The character between cells: the one that Excel's ``sep=`` names, or that gives most rows the same columns."""
    if named := _SEPARATOR_LINE.match(text):
        return named[1]
    best = max(_DELIMITERS, key=partial(_evenness, text))
    return best if _evenness(text, best) else ","


def _evenness(text: str, delimiter: str) -> float:
    """The share of the first rows that have the same columns, more than one; below 0 if quotation marks are wrong."""
    counts, wrong = Counter[int](), 0
    try:
        counts.update(len(row) for row in islice(_read_rows(text, Path(), delimiter), _SAMPLE))
    except TextError:
        wrong = 1
    return max((rows for columns, rows in counts.items() if columns > 1), default=0) / (counts.total() or 1) - wrong


class Cell:
    """A cell of a table: what it says, and where the file has it, quotes included."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.start, self.end = text, start, end


def table_rows(text: str, path: Path, delimiter: str, *, quotes: bool = True) -> list[list[Cell]]:
    """The cells of each row that is not blank. With ``quotes``, a cell in quotation marks may hold delimiters and
    line breaks; ``TextError`` if one is not closed.
    """
    rows = _read_rows(text, path, delimiter, quotes=quotes)
    return [row for row in rows if any(cell.text.strip() for cell in row)]


def _read_rows(text: str, path: Path, delimiter: str, *, quotes: bool = True) -> Iterator[list[Cell]]:
    quoted = r'"[^"]*(?:""[^"]*)*"|(?!")' if quotes else ""
    pattern = re.compile(rf"({quoted}[^{re.escape(delimiter)}\r\n]*)({re.escape(delimiter)}|\r?\n|\Z)")
    row: list[Cell] = []
    named = _SEPARATOR_LINE.match(text)
    position = named.end() if named and quotes else 0
    while position < len(text):
        found = pattern.match(text, position)
        if found is None or (quotes and found[1].startswith('"') and not found[1].endswith('"')):
            raise TextError(
                f"{path}:{line_number(text, position)}: a quotation mark is not closed, or text follows one that "
                "closes. Double each mark inside a cell in marks, or save the table as .tsv."
            )
        raw = found[1]
        value = raw[1:-1].replace('""', '"') if quotes and raw[:1] == '"' else raw
        row.append(Cell(value, *found.span(1)))
        position = found.end()
        if found[2] == delimiter and position == len(text):
            row.append(Cell("", position, position))
        if found[2] != delimiter or position == len(text):
            yield row
            row = []


def _named_columns(first: Sequence[str]) -> tuple[int, int] | None:
    """Where a header has source and target, by what they are called or, of languages, by their order.

    Two names of languages alone make no header without English: a dictionary may begin with it and es.
    """
    written = [cell.strip().lower() for cell in first]
    if len(set(filter(None, written))) < len(list(filter(None, written))):
        return None
    names = [_ADDITION.sub("", cell) for cell in written]
    source = next((index for index, name in enumerate(names) if name in _SOURCE_NAMES), None)
    target = next((index for index, name in enumerate(names) if name in _TARGET_NAMES), None)
    languages = [names.index(name) for name in dict.fromkeys(names) if name in _LANGUAGES]
    if source is None and target is None and not _ENGLISH.intersection(names):
        return None
    missing = (source is None) + (target is None)
    if len(languages) < missing:
        return None
    source = languages.pop(0) if source is None else source
    return source, languages.pop(0) if target is None else target


def find_columns(first: Sequence[str], src: str | None = None, tgt: str | None = None) -> tuple[int, int, bool]:
    """Where source and target stand, from 0, and whether the first row is a header.

    A column is named by its header or its number, from 1. Without a name it is the one that the header calls
    source or target, or the first and the second language there; without a header the first, and the one after it.
    A column after a named one that has another name is not taken: ``TextError``.
    """
    lower, named = [cell.strip().lower() for cell in first], _named_columns(first)
    header = named is not None

    def place(name: str) -> int:
        nonlocal header
        if name.isdecimal() and int(name) > 0:
            return int(name) - 1
        if name.strip().lower() not in lower:
            raise TextError(
                f"column {name!r}: found {', '.join(first[:10])}, expected it in the first row. Name one of "
                "these, or give its number, from 1."
            )
        header = True
        return lower.index(name.strip().lower())

    source = place(src) if src is not None else named[0] if named else 0
    if src is not None and source >= len(first):
        raise TextError(f"column {src}: found {len(first)} columns in the first row. Name one of these.")
    if tgt is not None:
        return source, place(tgt), header
    if named is not None and named[1] != source:
        return source, named[1], True
    if header and any(lower[source + 1 : source + 2]):
        raise TextError(
            f"column {src!r}: found {first[source + 1]!r} after it, expected to know which column takes the "
            f"translation. Give --into, a name or a number, {len(first) + 1} for a new one."
        )
    return source, source + 1, header


def read_csv(path: Path) -> Iterator[tuple[str, str]]:
    """The pairs of a CSV file, whose delimiter and header are detected; ``TextError`` for a row without a target."""
    text = read_text(path)[0].removeprefix("\ufeff")
    rows = table_rows(text, path, csv_delimiter(text))
    if not rows:
        return
    source, target, header = find_columns([cell.text for cell in rows[0]])
    for row in rows[1:] if header else rows:
        if max(source, target) >= len(row):
            raise TextError(
                f"{path}:{line_number(text, row[0].start)}: found {len(row)} columns, expected at least "
                f"{max(source, target) + 1}. Correct the row, or save the file as .tsv."
            )
        yield row[source].text, row[target].text


def describe_csv(path: Path, column: str | None = None, into: str | None = None) -> str:
    """Which delimiter and which columns ``read_csv`` takes, or ``csv_segments`` with these, in a line."""
    text = read_text(path)[0].removeprefix("\ufeff")
    delimiter = csv_delimiter(text)
    rows = [[cell.text for cell in row] for row in table_rows(text, path, delimiter)[:_SAMPLE]]
    return f"{path}: cells are separated by {delimiter!r}; {_describe_columns(rows, column, into)}."


def csv_segments(
    text: str, path: Path, column: str | None = None, into: str | None = None, *, tsv: bool = False
) -> list[FileSegment]:
    """The rows whose target cell is empty or missing; a missing one is added at the end of its row."""
    delimiter = "\t" if tsv else csv_delimiter(text)
    quotes = not tsv or _has_quoted_cells(text.split("\n"))
    rows = table_rows(text, path, delimiter, quotes=quotes)
    if not rows:
        return []
    source, target, header = find_columns([cell.text for cell in rows[0]], column, into)
    line_of = line_finder(text)
    found = []
    for row in rows[1:] if header else rows:
        if source >= len(row) or not row[source].text.strip():
            continue
        if target < len(row) and row[target].text.strip():
            continue
        found.append(_row_segment(line_of(row[0].start), row, source, target, delimiter, quotes=quotes))
    return found


def _has_quoted_cells(lines: Iterable[str]) -> bool:
    """Whether tab-separated values are quoted as in CSV, as spreadsheets save cells with marks or line breaks.

    A cell in quotation marks alone does not say so: it may be what somebody says. Nor does one that holds a tab.
    """
    read, is_quoted = list[str](), False

    def record() -> Iterator[str]:
        for line in lines:
            read.append(f"{line}\n")
            yield read[-1]

    try:
        for row in csv.reader(record(), delimiter="\t", strict=True):
            raw = "".join(read)
            read.clear()
            for cell in row if '"' in raw else ():
                if "\t" in cell:
                    return False
                doubled = cell.replace('"', '""')
                is_quoted = is_quoted or (("\n" in cell or doubled != cell) and f'"{doubled}"' in raw)
    except csv.Error:
        return False
    return is_quoted


def _row_segment(
    line: int, row: Sequence[Cell], source: int, target: int, delimiter: str, *, quotes: bool
) -> FileSegment:
    missing = target - len(row) + 1
    place = (row[target].start, row[target].end) if missing <= 0 else (row[-1].end, row[-1].end)

    def edits(parts: Sequence[Part]) -> list[Edit]:
        cell = join_parts(parts)
        if delimiter == "\t" or not quotes:
            cell = re.sub(r"\t+" if quotes else r"[\t\r\n]+", " ", cell)
        if quotes and any(sign in cell for sign in (delimiter, '"', "\n", "\r")):
            cell = '"' + cell.replace('"', '""') + '"'
        return [Edit(*place, delimiter * max(0, missing) + cell)]

    return FileSegment((row[source].text,), line, edits, partial(_formula_doubts, row[source].text))


def _formula_doubts(source: str, parts: Sequence[Part]) -> list[str]:
    """A spreadsheet would compute a cell that its source had as text."""
    begin = join_parts(parts).lstrip()[:1]
    if begin not in _FORMULA_SIGNS or source.lstrip()[:1] in _FORMULA_SIGNS:
        return []
    return [f"begins with {begin}, so that a spreadsheet may compute it"]


def jsonl_segments(text: str, path: Path) -> list[FileSegment]:
    """Objects with ``src`` and no ``tgt``, or with ``text`` and no ``translation``, which are added."""
    found, position = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{path}:{number}"
            record = _object(line, where)
            key, added = ("src", "tgt") if "src" in record else ("text", "translation")
            if key not in record:
                raise TextError(
                    f"{where}: found no text to translate, "
                    'expected {"src": "..."} or {"text": "..."} on each line.'
                )
            if ignored := {"must", "ban", "prefix"} & set(record):
                raise TextError(
                    f"{where}: found {sorted(ignored)[0]!r}, expected a text alone, since --out "
                    "translates in parts. Without --out each line is translated with what it requires."
                )
            source, target = _clean(record[key], where), record.get(added)
            if source.strip() and (target is None or (isinstance(target, str) and not target.strip())):
                found.append(_object_segment(line, position, number, source, added))
        position += len(line) + 1
    return found


def _object_segment(line: str, position: int, number: int, source: str, added: str) -> FileSegment:
    place = _value_places(line).get(added)

    def edits(parts: Sequence[Part]) -> list[Edit]:
        value = json.dumps(join_parts(parts), ensure_ascii=False)
        if place is not None:
            return [Edit(position + place[0], position + place[1], value)]
        end = position + line.rindex("}")
        return [Edit(end, end, f', "{added}": {value}')]

    return FileSegment((source,), number, edits)


def _value_places(line: str) -> dict[str, tuple[int, int]]:
    """Where the value of each key of an object begins and ends; of a key that occurs twice, the last."""
    decoder, places = json.JSONDecoder(), dict[str, tuple[int, int]]()
    position = line.index("{") + 1
    while key := _KEY.match(line, position):
        start = key.end()
        _, position = decoder.raw_decode(line, start)
        places[json.loads(key[1])] = start, position
    return places


_KEY = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*')


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise TextError(f"{where}:{error.colno}: is not JSON: {error.msg}. {_JSONL_SHAPE}") from error
    except (ValueError, RecursionError) as error:
        raise TextError(f"{where}: is not usable JSON: {error}. {_JSONL_SHAPE}") from error
    if not isinstance(value, dict):
        raise TextError(f"{where}: found {type(value).__name__}, not an object. {_JSONL_SHAPE}")
    return value


def read_xlsx(path: Path) -> Iterator[tuple[str, str]]:
    """The pairs of the sheet of an Excel file that ``describe_xlsx`` says."""
    _, rows = _xlsx_sheet(path)
    source, target, header = find_columns(rows[0] if rows else [])
    for row in rows[header:]:
        if max(source, target) < len(row):
            yield row[source], row[target]


def describe_xlsx(path: Path) -> str:
    """Which sheet and which columns ``read_xlsx`` takes, in a line."""
    name, rows = _xlsx_sheet(path)
    return f"{path}: sheet {name!r}; {_describe_columns(rows[:_SAMPLE])}."


def _xlsx_sheet(path: Path) -> tuple[str, list[list[str]]]:
    """The first sheet with a header, else the first one with two columns: its name, and its rows that are not blank.

    Needs openpyxl: ``pip install '.[xlsx]'``.
    """
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]
    except ImportError as error:
        raise TextError(
            f"{path}: is an Excel file, for which openpyxl is needed: pip install '.[xlsx]' in the clone. Or "
            "save it as CSV."
        ) from error
    try:
        with open_to_read(path) as file:
            size = sum(part.file_size for part in ZipFile(file).infolist())
            if size > LARGEST_WHOLE:
                raise ValueError(f"it holds {size:,} bytes, expected at most {LARGEST_WHOLE:,}")
            with closing(load_workbook(file, read_only=True, data_only=True)) as book:
                tables = {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets}
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror or error}. Expected an Excel file.") from error
    except Exception as error:  # openpyxl lets through whatever its parsers raise
        raise TextError(f"{path}: is not a readable Excel file: {error}. Save it as CSV.") from error
    texts = {
        name: [["" if cell is None else str(cell) for cell in row] for row in rows] for name, rows in tables.items()
    }
    sheets = {name: [row for row in rows if any(map(str.strip, row))] for name, rows in texts.items()}
    with_header = [name for name, rows in sheets.items() if rows and _named_columns(rows[0]) is not None]
    with_columns = [name for name, rows in sheets.items() if any(sum(map(bool, row)) > 1 for row in rows)]
    name = next(iter([*with_header, *with_columns, *sheets]), "")
    return name, sheets.get(name, [])
