"""Pairs from files with one record on each line: tab-separated values and JSON lines."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.errors import TextError
from glassformer.text.lines import read_lines, without_surrogates

_JSONL_SHAPE = 'Expected {"src": "...", "tgt": "..."} or {"translation": {"en": "...", "de": "..."}} on each line.'


def read_tsv(path: Path) -> Iterator[tuple[str, str]]:
    """Source, tab, target; further columns, such as an attribution, are ignored. ``TextError`` without a tab."""
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t", 2)
        if len(columns) < 2:
            raise TextError(
                f"{path}:{number}: found no tab, expected source, tab, target on each line. Put one between them."
            )
        yield columns[0], columns[1]


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
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise TextError(f"{path}:{number}:{error.colno}: is not JSON: {error.msg}. {_JSONL_SHAPE}") from error
        except (ValueError, RecursionError) as error:
            raise TextError(f"{path}:{number}: is not usable JSON: {error}. {_JSONL_SHAPE}") from error
        if not isinstance(value, dict):
            raise TextError(f"{path}:{number}: found {type(value).__name__}, not an object. {_JSONL_SHAPE}")
        yield f"{path}:{number}", value


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
