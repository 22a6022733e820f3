"""Parallel text: pairs of a source and its target, streamed from two text files or from one file of pairs.

Also which pairs are for validation, and a fingerprint of the files. Knows nothing of tokens.

Texts and pairs as files, which are there when they are whole.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.errors import StorageError, TextError
from glassformer.text.formats.localisation import read_mo, read_po, read_tmx
from glassformer.text.lines import is_blank, read_lines, without_surrogates

# The finest share that every float in [0, 1) tells apart.
_HASH_BITS = 53


class Pair(NamedTuple):
    """A source text and the target text it is to become."""

    src: str
    tgt: str

    @property
    def blank(self) -> bool:
        """Whether a side holds nothing that can be seen, so that there is nothing to learn from the pair."""
        return is_blank(self.src) or is_blank(self.tgt)


def read_pairs(path: Path, tgt_path: Path | None = None) -> Iterator[Pair]:
    """The pairs of two aligned text files, or of one file by its extension: tsv, jsonl, po, mo or tmx.

    Any of them may be gzip. Raises ``TextError`` at once for an unknown extension, and while reading for a
    file that cannot be read, naming file and line.
    """
    if tgt_path is not None:
        return _aligned(path, tgt_path)
    known = _READERS.get(_ending(path))
    if known is None:
        raise TextError(
            f"{path}: expected a file of pairs ending in {', '.join(_READERS)} (or that and .gz). "
            "Two text files with a sentence on each line are given as two paths."
        )
    return (Pair(*sides) for sides in known(path))


def _ending(path: Path) -> str:
    """The extension that says what a file holds: .jsonl of x.JSONL.gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return suffixes[-1] if suffixes else ""


def _aligned(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    both = zip_longest(read_lines(src_path), read_lines(tgt_path))
    for number, (src, tgt) in enumerate(both, 1):
        if src is None or tgt is None:
            longest = number + sum(1 for _ in both)
            src_count, tgt_count = (number - 1 if side is None else longest for side in (src, tgt))
            raise TextError(
                f"{src_path} has {src_count:,} lines and {tgt_path} has {tgt_count:,}; expected as many in both. "
                f"Line {number:,} of {tgt_path if src is None else src_path} has no partner: align the files."
            )
        yield Pair(src, tgt)


def _read_tsv(path: Path) -> Iterator[tuple[str, str]]:
    """Source, tab, target; further columns, such as an attribution, are left aside."""
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t", 2)
        if len(columns) < 2:
            raise TextError(
                f"{path}:{number}: found no tab, expected source, tab, target on each line. Put one between them."
            )
        yield columns[0], columns[1]


def _read_jsonl(path: Path, languages: list[str] | None = None) -> Iterator[tuple[str, str]]:
    """``languages``, if given, is told the two of the first ``translation``, the source's first."""
    languages = [] if languages is None else languages
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise TextError(f"{path}:{number}:{error.colno}: is not JSON: {error.msg}. {_JSONL_SHAPE}") from error
        except (ValueError, RecursionError) as error:
            raise TextError(f"{path}:{number}: is not usable JSON: {error}. {_JSONL_SHAPE}") from error
        yield _json_sides(value, languages, f"{path}:{number}")


def check_direction(train: Path, valid: Path) -> None:
    """Raise ``TextError`` where two JSONL files of ``translation`` do not begin with the same two languages."""
    train_way, valid_way = (_first_languages(path) for path in (train, valid))
    if train_way and valid_way and train_way != valid_way:
        raise TextError(
            f"{valid}: found translations from {' to '.join(valid_way)}, expected from {' to '.join(train_way)}, "
            f"as in {train}. Exchange the languages of its first line."
        )


def _first_languages(path: Path) -> list[str]:
    languages: list[str] = []
    if _ending(path) == ".jsonl":
        next(_read_jsonl(path, languages), None)
    return languages


_JSONL_SHAPE = 'Expected {"src": "...", "tgt": "..."} or {"translation": {"en": "...", "de": "..."}} on each line.'


def _json_sides(value: Any, languages: list[str], where: str) -> tuple[str, str]:
    """Source and target; the first ``translation`` puts its two ``languages`` down, and says which is the source."""
    if not isinstance(value, dict):
        raise TextError(f"{where}: found {type(value).__name__}, not an object. {_JSONL_SHAPE}")
    if "translation" in value:
        texts = value["translation"]
        if not isinstance(texts, dict) or len(texts) != 2:
            raise TextError(f"{where}: 'translation' is not an object with exactly two languages. {_JSONL_SHAPE}")
        if not languages:
            languages += texts
        if texts.keys() != set(languages):
            raise TextError(
                f"{where}: found a translation of {' and '.join(texts)}, expected {' and '.join(languages)}, as in "
                "the first one. Put each pair of languages in a file of its own."
            )
        sides = tuple(texts[language] for language in languages)
    elif "src" in value and "tgt" in value:
        sides = (value["src"], value["tgt"])
    else:
        found = ", ".join(map(repr, list(value)[:5])) or "nothing"
        raise TextError(f"{where}: found the keys {found}. {_JSONL_SHAPE}")
    for side in sides:
        if not isinstance(side, str):
            raise TextError(f"{where}: found {type(side).__name__} for a text, expected a string. {_JSONL_SHAPE}")
    return without_surrogates(sides[0]), without_surrogates(sides[1])


_READERS: dict[str, Callable[[Path], Iterator[tuple[str, str]]]] = {
    ".tsv": _read_tsv, ".jsonl": _read_jsonl, ".po": read_po, ".mo": read_mo, ".tmx": read_tmx,
}  # fmt: skip


def source_fraction(src: str) -> float:
    """Where a source text falls in [0, 1), by its SHA-256 alone: the same on every machine and in every order."""
    digest = hashlib.sha256(src.encode("utf-8", "surrogatepass")).digest()
    return int(int.from_bytes(digest[:8], "big") >> (64 - _HASH_BITS)) / 2.0**_HASH_BITS


def is_validation(pair: Pair, share: float) -> bool:
    """Whether ``pair`` is set aside for validation when a ``share`` (0 to 1) of all sources is.

    Decided by the source alone, so that equal sources are always on the same side of the split.
    """
    return share > 0.0 and source_fraction(pair.src) < share


def fingerprint(paths: Sequence[Path]) -> str:
    """SHA-256 over the bytes of the files, in order, in hexadecimal; ``TextError`` for one that cannot be read."""
    total = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise TextError(f"{path}: cannot be read: {error.strerror or error}. Expected a file of text.") from error
    return total.hexdigest()


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """A text on each line, a line break in it as a space. Raises ``StorageError`` where it cannot be written."""
    _write({path: map(on_a_line, texts)})


def write_pairs(path: Path, tgt_path: Path | None, pairs: Sequence[Pair]) -> None:
    """Two aligned files or, without ``tgt_path``, one of JSON lines, which keeps line breaks, for ``read_pairs``.

    Raises ``StorageError`` where they cannot be written; what stood there before then stands there still.
    """
    if tgt_path is None:
        _write({path: (json.dumps(pair._asdict(), ensure_ascii=False) for pair in pairs)})
    else:
        _write({path: (on_a_line(pair.src) for pair in pairs), tgt_path: (on_a_line(pair.tgt) for pair in pairs)})


def on_a_line(text: str) -> str:
    """The text as it comes back from a line of a file."""
    return text.replace("\n", " ").removesuffix("\r")


def _write(files: Mapping[Path, Iterable[str]]) -> None:
    """All of them aside first."""
    aside = {path: path.with_name(f"{path.name}.writing") for path in files}
    try:
        for path, lines in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with aside[path].open("w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(f"{line}\n" for line in lines)
        for path in files:
            aside[path].replace(path)
    except OSError as error:
        places = " and ".join(map(str, files))
        raise StorageError(
            f"{places}: cannot be written: {error.strerror or error}. Free some space or name another --run."
        ) from error
