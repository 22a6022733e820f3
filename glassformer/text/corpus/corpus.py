"""Parallel text: pairs of source and target from and to files."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from glassformer.errors import TextError, check_path, check_type
from glassformer.files import sha256, storage_errors, write_durably
from glassformer.text.columns import Columns
from glassformer.text.formats import Format, endings, find_format
from glassformer.text.languages import Languages, same_language
from glassformer.text.lines import is_blank, read_lines

_HASH_BITS = 53  # a float's precision


class Pair(NamedTuple):
    """A source and its target."""

    src: str
    tgt: str

    @property
    def blank(self) -> bool:
        """Whether a side holds no visible character."""
        return is_blank(self.src) or is_blank(self.tgt)


def read_pairs(
    path: Path,
    tgt_path: Path | None = None,
    languages: Languages | None = None,
    columns: Columns | None = None,
) -> Iterator[Pair]:
    """The pairs of two aligned text files, or of one file by its ending; all may be gzip. Raises ``TextError``.

    ``languages`` are those to take, from the first to the second, of a file of pairs that names its languages, and
    ``columns`` those of a table.
    """
    path = check_path("path", path)
    if tgt_path is not None:
        return _read_aligned(path, check_path("tgt_path", tgt_path))
    file_format = find_format(path, packed=True, columns=columns)
    reader = file_format.pairs
    if reader is None:
        raise TextError(
            f"{path}: expected a file of pairs ending in {', '.join(endings(lambda each: each.pairs))} (or that and "
            ".gz). Two text files with a sentence on each line are given as two paths."
        )
    if columns is not None and "columns" not in file_format.options:
        takers = ", ".join(endings(lambda each: "columns" in each.options))
        raise TextError(f"columns: found with {path}, expected a table ending in {takers}. Leave it out.")
    return (Pair(*sides) for sides in reader(path, **_choice(file_format, languages, columns)))


def _choice(
    file_format: Format, languages: Languages | None, columns: Columns | None = None
) -> dict[str, Languages | Columns]:
    """``languages`` and ``columns`` as keywords, for a format that has some to choose from."""
    found: dict[str, Languages | Columns] = {} if columns is None else {"columns": columns}
    return found if languages is None or file_format.languages is None else {**found, "languages": languages}


def _read_aligned(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    both = zip_longest(read_lines(src_path), read_lines(tgt_path))
    for number, (src, tgt) in enumerate(both, 1):
        if src is None or tgt is None:
            longest = number + sum(1 for _ in both)
            src_count, tgt_count = (number - 1 if side is None else longest for side in (src, tgt))
            raise TextError(
                f"{src_path} has {src_count:,} lines and {tgt_path} has {tgt_count:,}; expected the same number in "
                f"both. Line {number:,} of {tgt_path if src is None else src_path} has no partner: align the files."
            )
        yield Pair(src, tgt)


def check_direction(train: Path, valid: Path) -> None:
    """Raise ``TextError`` if two files that name their languages go from other languages or to other languages."""
    train_way, valid_way = find_languages(train), find_languages(valid)
    if train_way and valid_way and not all(map(same_language, train_way, valid_way)):
        raise TextError(
            f"{valid}: found translations from {' to '.join(valid_way)}, expected from {' to '.join(train_way)}, "
            f"as in {train}. Exchange the languages of its first pair."
        )


def find_languages(path: Path, languages: Languages | None = None) -> list[str]:
    """Source and target language of a file of pairs, or those that are wanted; none if it names none."""
    file_format = find_format(path, packed=True)
    read = file_format.languages
    return [] if read is None else read(path, **_choice(file_format, languages))


def describe_pairs(path: Path, languages: Languages | None = None, columns: Columns | None = None) -> str | None:
    """What ``read_pairs`` takes for source and target where a file leaves a choice, in a line to show."""
    file_format = find_format(path, packed=True, columns=columns)
    if file_format.describe_pairs is not None:
        return file_format.describe_pairs(path, **_choice(file_format, languages, columns))
    found = find_languages(path, languages)
    return f"{path}: translations from {' to '.join(found)}." if found else None


def source_fraction(src: str) -> float:
    """A source's SHA-256 as a number in [0, 1)."""
    digest = hashlib.sha256(src.encode("utf-8", "surrogatepass")).digest()
    return int(int.from_bytes(digest[:8], "big") >> (64 - _HASH_BITS)) / 2.0**_HASH_BITS


def is_validation(pair: Pair, share: float) -> bool:
    """Whether the pair's source is in the ``share`` (0 to 1) held out."""
    return share > 0.0 and source_fraction(pair.src) < share


def fingerprint(paths: Sequence[Path]) -> str:
    """One SHA-256 of all files, in hexadecimal; or ``TextError``."""
    total = hashlib.sha256()
    check_type("paths", paths, Sequence, "a list of paths")
    for path in paths:
        path = check_path("a path", path)
        try:
            total.update(bytes.fromhex(sha256(path)))
        except OSError as error:
            raise TextError(
                f"{path}: cannot be read: {error.strerror or error}. Expected a file of text, which can be read "
                "twice; it may be gzip. Name the file itself."
            ) from error
    return total.hexdigest()


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """Write a text a line; ``StorageError`` if impossible."""
    _write({path: map(to_line, texts)})


def write_pairs(path: Path, tgt_path: Path | None, pairs: Sequence[Pair]) -> None:
    """Write two aligned files or a JSONL file, or ``StorageError``."""
    if tgt_path is None:
        _write({path: (json.dumps(pair._asdict(), ensure_ascii=False) for pair in pairs)})
    else:
        _write({path: (to_line(pair.src) for pair in pairs), tgt_path: (to_line(pair.tgt) for pair in pairs)})


def to_line(text: str) -> str:
    """The text without line breaks, as it is read back."""
    return text.replace("\n", " ").removesuffix("\r")


def _write(files: Mapping[Path, Iterable[str]]) -> None:
    """Write each file's lines; none is replaced before all are written."""
    places = " and ".join(map(str, files))
    with storage_errors(places, "Free some space or name another directory."), ExitStack() as replacements:
        for path, lines in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = replacements.enter_context(write_durably(path))
            stream.writelines(f"{line}\n" for line in lines)
            stream.flush()
