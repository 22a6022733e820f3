"""JSON lines: objects with pairs, or with text to translate."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import TextError
from glassformer.text.codes.code import Part, join_parts
from glassformer.text.formats.segment import Edit, FileSegment
from glassformer.text.languages import Languages, choose_languages
from glassformer.text.lines import LONGEST_LINE, read_lines, without_surrogates

_SHAPE = 'Expected {"src": "...", "tgt": "..."} or {"translation": {"en": "...", "de": "..."}} on each line.'
_KEY = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*')


def read_jsonl(path: Path, languages: Languages | None = None) -> Iterator[tuple[str, str]]:
    """Objects with ``src`` and ``tgt``, or with a ``translation``: between ``languages``, or its first and second."""
    taken: Sequence[str] = ()
    for where, record in _read_objects(path):
        if "translation" in record:
            taken = taken or _languages(record, where, languages)
            yield _translation(record, taken, where)
        elif "src" in record and "tgt" in record:
            yield _clean(record["src"], where), _clean(record["tgt"], where)
        else:
            found = ", ".join(f"{key!r:.50}" for key in list(record)[:5]) or "nothing"
            raise TextError(f"{where}: found the keys {found}. {_SHAPE}")


def first_languages(path: Path, languages: Languages | None = None) -> list[str]:
    """Source and target language that are read from a JSONL file; none if its first line names no languages."""
    where, record = next(_read_objects(path), ("", {}))
    return list(_languages(record, where, languages)) if "translation" in record else []


def _read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            where = f"{path}:{number}"
            yield where, _object(line, where)


def _languages(record: dict[str, Any], where: str, wanted: Languages | None) -> Sequence[str]:
    texts = record["translation"]
    if not isinstance(texts, dict) or len(texts) < 2 or (len(texts) > 2 and wanted is None):
        raise TextError(f"{where}: 'translation' is not an object with exactly two languages. {_SHAPE}")
    return list(texts) if wanted is None else choose_languages(texts, wanted, where)


def _translation(record: dict[str, Any], languages: Sequence[str], where: str) -> tuple[str, str]:
    texts = record["translation"]
    if not isinstance(texts, dict) or not set(languages) <= set(texts):
        found = " and ".join(texts) if isinstance(texts, dict) else "none"
        raise TextError(
            f"{where}: found a translation of {found}, expected {' and '.join(languages)}, as in "
            "the first one. Put each pair of languages in a file of its own."
        )
    src, tgt = (_clean(texts[language], where) for language in languages)
    return src, tgt


def _clean(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise TextError(f"{where}: found {type(text).__name__} for a text, expected a string. {_SHAPE}")
    return without_surrogates(text)


def jsonl_segments(text: str, path: Path) -> list[FileSegment]:
    """Objects with ``src`` but no ``tgt``, or only ``text``."""
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
            ignored = {"must", "ban", "prefix"} & set(record)
            if ignored:
                raise TextError(
                    f"{where}: found {sorted(ignored)[0]!r}, expected a text alone: a file that keeps its "
                    "form is translated in parts. Leave it out, or translate the file line by line."
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
    """Start and end of each key's value; of a repeated key, the last."""
    decoder, places = json.JSONDecoder(), dict[str, tuple[int, int]]()
    position = line.index("{") + 1
    while key := _KEY.match(line, position):
        start = key.end()
        _, position = decoder.raw_decode(line, start)
        places[json.loads(key[1])] = start, position
    return places


def _object(line: str, where: str) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise TextError(f"{where}: is longer than {LONGEST_LINE:,} characters, expected an object. Cut it up.")
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise TextError(f"{where}:{error.colno}: is not JSON: {error.msg}. {_SHAPE}") from error
    except (ValueError, RecursionError) as error:
        raise TextError(f"{where}: is not usable JSON: {error}. {_SHAPE}") from error
    if not isinstance(value, dict):
        raise TextError(f"{where}: found {type(value).__name__}, not an object. {_SHAPE}")
    return value
