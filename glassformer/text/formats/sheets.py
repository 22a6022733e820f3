"""Tables (tab-separated values, CSV, Excel): pairs and open rows."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, dropwhile, islice
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from glassformer.errors import TextError
from glassformer.files import open_to_read
from glassformer.text.codes.code import Part, join_parts
from glassformer.text.columns import MAX_COLUMNS, Columns, FoundColumns, find_columns, header_languages, named_columns
from glassformer.text.formats.encodings import START, read_text
from glassformer.text.formats.segment import Edit, FileSegment, line_finder, line_number
from glassformer.text.formats.xml import DeclarationGuard
from glassformer.text.languages import Languages
from glassformer.text.lines import LARGEST_WHOLE, read_lines

_DELIMITERS = "\t;|,"  # of two that fit a comma is the likelier one to be text
_SAMPLE = 50  # rows by which delimiters and columns are judged
_MAX_CELLS = 10_000_000  # of an Excel file, empty ones too
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # Excel's, above the table
_FORMULA_SIGNS = ("=", "+", "-", "@")  # with which spreadsheets begin what they compute
# Numbers, and names of messages: menu.file, btn_ok.
_ID = re.compile(r"(?=\S*+\Z)\S*?(?:\d|\w[_.:/#]\w)\S*")
# A quoted cell of tab-separated values.
_QUOTED_CELL = re.compile(r'(?:\A|\t)"([^"]*+(?:""[^"]*+)*+)"(?=\t|\r?\n|\Z)')


def read_tsv(
    path: Path, languages: Languages | None = None, columns: Columns | None = None
) -> Iterator[tuple[str, str]]:
    """Source, tab, target, or the ``columns``, or those of a header; ``TextError`` for a line with other columns."""
    return _pairs(_tsv_rows(path), path, languages, columns)


def _pairs(
    rows: Iterator[tuple[int, list[str]]], path: Path, languages: Languages | None, columns: Columns | None
) -> Iterator[tuple[str, str]]:
    """The pairs of numbered rows, without a header and its repeats."""
    _, first = next(rows, (0, None))
    if first is None:
        return
    found = find_columns(first, columns, languages=languages, path=path)
    for number, row in rows if found.header else chain([(1, first)], rows):
        if found.header and row == first:
            continue
        if len(row) <= found.last:
            has = "no tab" if len(row) < 2 and _is_tsv(path) else f"{len(row)} columns"
            sources, target = _numbers(found)
            raise TextError(
                f"{path}:{number}: found {has}, expected source and target in columns {sources} and {target}, as in "
                "the first row. Correct the line."
            )
        yield _source(row, found, columns), row[found.target]


def _source(row: Sequence[str], found: FoundColumns, columns: Columns | None) -> str:
    """The text of a row, with its features."""
    return (columns or Columns()).join([row[place] for place in found.sources])


def _numbers(found: FoundColumns) -> tuple[str, str]:
    """The columns of sources and target, from 1."""
    return "+".join(str(place + 1) for place in found.sources), str(found.target + 1)


def read_sources(path: Path, columns: Columns) -> Iterator[str]:
    """The source of each row; ``TextError`` for a row without it."""
    numbered = _csv_rows(path)[1] if path.name.lower().removesuffix(".gz").endswith(".csv") else _tsv_rows(path)
    rows = ((number, [*row, ""]) for number, row in numbered)
    first = next(rows, None)
    if first is not None:
        found = find_columns(first[1][:-1], replace(columns, target=columns.target or str(MAX_COLUMNS)), path=path)
        for number, row in rows if found.header else chain([first], rows):
            if len(row) - 1 <= max(found.sources):
                raise TextError(f"{path}:{number}: found {len(row) - 1} columns, expected columns {columns}.")
            yield _source(row, found, columns)


def _is_tsv(path: Path) -> bool:
    return not path.name.lower().removesuffix(".gz").endswith((".csv", ".xlsx"))


def table_languages(path: Path, languages: Languages | None = None) -> list[str]:
    """Source and target language by the header; none if it names none. Raises what ``find_columns`` raises."""
    rows: Iterable[Sequence[str]]
    if _is_tsv(path):
        rows = (row for _, row in _tsv_rows(path))
    elif path.name.lower().endswith(".xlsx"):
        rows = _xlsx_sheet(path)[1]
    else:
        rows = (row for _, row in _csv_rows(path)[1])
    first = next(iter(rows), [])
    (source, *_), target, header = find_columns(first, languages=languages, path=path)
    return header_languages(first, (source, target)) if header else []


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with line numbers."""
    lines = read_lines(path)
    if _has_quoted_cells(read_lines(path)):
        reader = csv.reader((f"{line}\n" for line in lines), delimiter="\t")
        rows = ((reader.line_num, row) for row in reader)
    else:
        rows = ((number, line.split("\t", MAX_COLUMNS)) for number, line in enumerate(lines, 1))
    for number, row in dropwhile(lambda each: not any(map(str.strip, each[1])), rows):
        _check_columns(len(row), path, number)
        if len(row) > 1 or any(map(str.strip, row)):
            yield number, row


class _ColumnsError(TextError):
    """A row with too many columns."""


def _check_columns(count: int, path: Path, line: int) -> None:
    if count > MAX_COLUMNS:
        raise _ColumnsError(
            f"{path}:{line}: found more than {MAX_COLUMNS:,} columns, expected source and target, and at most as "
            "many as spreadsheets have. Break the row up, or remove columns."
        )


def describe_tsv(path: Path, columns: Columns | None = None, languages: Languages | None = None) -> str:
    """Which columns ``read_tsv`` takes, or ``csv_segments`` with these, in a line."""
    return f"{path}: {_describe_columns(_tsv_rows(path), path, columns, languages)}."


def _describe_columns(
    numbered: Iterable[tuple[int, Sequence[str]]],
    path: Path,
    columns: Columns | None = None,
    languages: Languages | None = None,
) -> str:
    """Which columns are taken, whether one of them holds no texts, and which rows are not like the first."""
    waiting = iter(numbered)
    sample = list(islice(waiting, _SAMPLE))
    rows = [row for _, row in sample]
    first = rows[0] if rows else []
    found = find_columns(first, columns, languages=languages, path=path)
    sources, target, header = found
    if header and target < len(first):
        names = f"{' + '.join(repr(first[place]) for place in sources)} to {first[target]!r}, by the header"
    else:
        names = " to ".join(_numbers(found))
    said = f"columns {names}"
    advice = "holds numbers or names of messages, expected texts: name other columns, or write a header"
    for place in (sources[0], target) if columns is None else ():
        cells = [cell.strip() for row in rows[1:] or rows for cell in row[place : place + 1] if cell.strip()]
        if cells and all(map(_ID.fullmatch, cells)):
            said += f"; column {place + 1} {advice}"
    repeats, longer = 0, list[int]()
    for number, row in chain(sample[1:], waiting):
        repeats += header and row == first
        if any(map(str.strip, row[max(len(first), found.last + 1) :])):
            longer.append(number)
    if repeats:
        said += f"; {repeats:,} {'row repeats' if repeats == 1 else 'rows repeat'} the header: left out"
    if longer:
        more = f", and {len(longer) - 1:,} later," if len(longer) > 1 else ""
        said += f"; line {longer[0]}{more} has more columns than the first: a text may be cut at a delimiter"
    return said


def csv_delimiter(text: str) -> str:
    """Excel's ``sep=``, or what gives most rows the same columns."""
    named = _SEPARATOR_LINE.match(text)
    if named is not None:
        return named[1]
    best = max(_DELIMITERS, key=partial(_evenness, text))
    return best if _evenness(text, best) else ","


def _evenness(text: str, delimiter: str) -> float:
    """The share of rows with the same columns; below 0: wrong quotes."""
    counts, wrong = Counter[int](), 0
    try:
        counts.update(len(row) for row in islice(_read_rows(text, Path(), delimiter), _SAMPLE))
    except _ColumnsError:
        counts[MAX_COLUMNS] += 1
    except TextError:
        wrong = 1
    return max((rows for columns, rows in counts.items() if columns > 1), default=0) / (counts.total() or 1) - wrong


class Cell(NamedTuple):
    """A cell: what it says, and where it is, with quotes."""

    text: str
    start: int
    end: int


def table_rows(text: str, path: Path, delimiter: str, *, quotes: bool = True) -> Iterator[list[Cell]]:
    """The cells of each row that is not blank; with ``quotes``, cells may be quoted.

    ``TextError`` for an unclosed quote, or too many columns.
    """
    rows = _read_rows(text, path, delimiter, quotes=quotes)
    return (row for row in rows if any(cell.text.strip() for cell in row))


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
        if len(row) > MAX_COLUMNS:
            _check_columns(len(row), path, line_number(text, row[0].start))
        position = found.end()
        if found[2] == delimiter and position == len(text):
            row.append(Cell("", position, position))
        if found[2] != delimiter or position == len(text):
            yield row
            row = []


def read_csv(
    path: Path, languages: Languages | None = None, columns: Columns | None = None
) -> Iterator[tuple[str, str]]:
    """The pairs of a CSV file, whose delimiter and header are detected; ``TextError`` for a row without a target."""
    return _pairs(_csv_rows(path)[1], path, languages, columns)


def _csv_rows(path: Path) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """The delimiter, and the rows with their line numbers."""
    text = read_text(path)[0].removeprefix("\ufeff")
    delimiter, line_of = csv_delimiter(text), line_finder(text)
    rows = table_rows(text, path, delimiter)
    return delimiter, ((line_of(row[0].start), [cell.text for cell in row]) for row in rows)


def describe_csv(path: Path, columns: Columns | None = None, languages: Languages | None = None) -> str:
    """Which delimiter and which columns ``read_csv`` takes, or ``csv_segments`` with these, in a line."""
    delimiter, rows = _csv_rows(path)
    said = _describe_columns(rows, path, columns, languages)
    return f"{path}: cells are separated by {delimiter!r}; {said}."


def csv_segments(text: str, path: Path, columns: Columns | None = None, *, tsv: bool = False) -> list[FileSegment]:
    """Rows whose target cell is empty or missing."""
    delimiter = "\t" if tsv else csv_delimiter(text)
    quotes = not tsv or _has_quoted_cells(text.split("\n"))
    rows, line_of = table_rows(text, path, delimiter, quotes=quotes), line_finder(text)
    first = next(rows, None)
    if first is None:
        return []
    found = find_columns([cell.text for cell in first], columns)
    segments = []
    for row in rows if found.header else chain([first], rows):
        if max(found.sources) >= len(row) or not row[found.sources[0]].text.strip():
            continue
        if found.target < len(row) and row[found.target].text.strip():
            continue
        source = _source([cell.text for cell in row], found, columns)
        segments.append(_row_segment(line_of(row[0].start), row, source, found.target, delimiter, quotes=quotes))
    return segments


def _has_quoted_cells(lines: Iterable[str]) -> bool:
    """Whether quoted cells hold quotes or line breaks, as in CSV."""
    read, is_quoted = list[str](), False

    def record() -> Iterator[str]:
        for line in lines:
            read.append(f"{line}\n")
            yield read[-1]

    try:
        for row in csv.reader(record(), delimiter="\t", strict=True):
            raw = "".join(read)
            read.clear()
            if '"' not in raw:
                continue
            if any("\t" in cell for cell in row):
                return False
            is_quoted = is_quoted or any("\n" in cell or '""' in cell for cell in _QUOTED_CELL.findall(raw))
    except csv.Error:
        return False
    return is_quoted


def _row_segment(
    line: int, row: Sequence[Cell], text: str, target: int, delimiter: str, *, quotes: bool
) -> FileSegment:
    missing = target - len(row) + 1
    place = row[target][1:] if missing <= 0 else (row[-1].end, row[-1].end)

    def edits(parts: Sequence[Part]) -> list[Edit]:
        cell = join_parts(parts)
        if delimiter == "\t" or not quotes:
            cell = re.sub(r"\t+" if quotes else r"[\t\r\n]+", " ", cell)
        if quotes and any(sign in cell for sign in (delimiter, '"', "\n", "\r")):
            cell = '"' + cell.replace('"', '""') + '"'
        return [Edit(*place, delimiter * max(0, missing) + cell)]

    return FileSegment((text,), line, edits, partial(_formula_doubts, text))


def _formula_doubts(source: str, parts: Sequence[Part]) -> list[str]:
    """A spreadsheet would compute what its source had as text."""
    begin = join_parts(parts).lstrip()[:1]
    if begin not in _FORMULA_SIGNS or source.lstrip()[:1] in _FORMULA_SIGNS:
        return []
    return [f"begins with {begin}, so that a spreadsheet may compute it"]


def read_xlsx(
    path: Path, languages: Languages | None = None, columns: Columns | None = None
) -> Iterator[tuple[str, str]]:
    """The pairs of the sheet of an Excel file that ``describe_xlsx`` says."""
    _, rows = _xlsx_sheet(path)
    found = find_columns(rows[0] if rows else [], columns, languages=languages, path=path)
    for row in rows[found.header :]:
        if max(found.sources) < len(row) and not (found.header and row == rows[0]):
            yield _source(row, found, columns), "".join(row[found.target : found.target + 1])


def describe_xlsx(path: Path, columns: Columns | None = None, languages: Languages | None = None) -> str:
    """Which sheet and which columns ``read_xlsx`` takes, in a line."""
    name, rows = _xlsx_sheet(path)
    return f"{path}: sheet {name!r}; {_describe_columns(enumerate(rows, 1), path, columns, languages)}."


def _xlsx_sheet(path: Path) -> tuple[str, list[list[str]]]:
    """The first sheet with a header, else with two columns, and its rows."""
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
            _refuse_declarations(ZipFile(file), path)
            with closing(load_workbook(file, read_only=True, data_only=True)) as book:
                sheets = _rows_of_sheets(book.worksheets)
    except TextError:
        raise
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror or error}. Expected an Excel file.") from error
    except Exception as error:  # its parsers' exceptions come through
        raise TextError(f"{path}: is not a readable Excel file: {error}. Save it as CSV.") from error
    with_header = [name for name, rows in sheets.items() if rows and named_columns(rows[0]) is not None]
    with_columns = [name for name, rows in sheets.items() if any(sum(map(bool, row)) > 1 for row in rows)]
    name = next(iter([*with_header, *with_columns, *sheets]), "")
    return name, sheets.get(name, [])


def _refuse_declarations(archive: ZipFile, path: Path) -> None:
    """Raise ``TextError`` for declarations, which the library follows."""
    for name in archive.namelist():
        guard = DeclarationGuard(path)
        with archive.open(name) as part:
            while not guard.ended and (data := part.read(START)):
                guard.feed(data)


def _rows_of_sheets(worksheets: Iterable[Any]) -> dict[str, list[list[str]]]:
    """Each sheet's rows with text; ``ValueError`` for too many cells."""
    sheets, cells = dict[str, list[list[str]]](), 0
    for sheet in worksheets:
        sheet.reset_dimensions()  # the file's own size may be wrong
        rows = sheets.setdefault(sheet.title, [])
        for values in sheet.iter_rows(values_only=True):
            cells += max(1, len(values))
            if cells > _MAX_CELLS:
                raise ValueError(f"it has more than {_MAX_CELLS:,} cells, empty ones counted")
            row = ["" if value is None else str(value) for value in values]
            if any(map(str.strip, row)):
                rows.append(row)
    return sheets
