"""Text between the shell and the library: arguments, standard input, lines of output, files.

A line in gives a line out, whatever it holds. Knows nothing of commands.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.errors import StorageError, TextError

if TYPE_CHECKING:
    from glassformer.decoding import Request


def from_shell(argument: str) -> str:
    """Bytes of an argument that are not UTF-8 arrive as surrogates; they become U+FFFD."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def stdin_lines() -> Iterator[str]:
    """Standard input split at line feeds alone; what is not UTF-8 is replaced, with a warning: no line is lost."""
    return _lines(sys.stdin.buffer, "standard input")


def file_lines(path: Path) -> Iterator[str]:
    """The same of a file, plain or gzip."""
    from glassformer.text.lines import open_text

    with open_text(path) as stream:
        yield from _lines(stream, str(path))


def count_lines(path: Path) -> int:
    """How many lines ``file_lines`` gives."""
    from glassformer.text.lines import open_text

    with open_text(path) as stream:
        return sum(1 for _ in stream)


def _lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        text, codec = line.rstrip(b"\n").removesuffix(b"\r"), "utf-8-sig" if number == 1 else "utf-8"
        try:
            yield text.decode(codec)
        except UnicodeDecodeError as error:
            sys.stderr.write(f"warning: {name}:{number}:{error.start + 1}: is not UTF-8; replaced by U+FFFD.\n")
            yield text.decode(codec, "replace")


def one_line(text: str) -> str:
    """Line ends and tabs inside a translation would break the promise of one line for each line."""
    return " ".join(text.replace("\t", " ").splitlines())


def in_one_line(piece: str) -> str:
    """A piece of a growing translation, in which each line end and each tab becomes a space."""
    return "".join(" " if character == "\t" or character.splitlines() == [""] else character for character in piece)


def read_requests(given: Iterable[str] | Path, demanded: "Request") -> Iterator["Request"]:
    """Texts, or a file of them, with what is ``demanded`` of each; a .jsonl file may demand more, line by line.

    Raises ``TextError`` for a line of .jsonl that is no request.
    """
    if not isinstance(given, Path):
        yield from (replace(demanded, text=text) for text in given)
    elif ".jsonl" not in given.suffixes:
        yield from (replace(demanded, text=text) for text in file_lines(given))
    else:
        for number, line in enumerate(file_lines(given), start=1):
            yield _request(line, f"{given}:{number}", demanded)


_REQUEST_SHAPE = 'Expected {"text": "...", "prefix": "...", "must": ["..."], "ban": ["..."]}; only text is needed.'


def _request(line: str, where: str, demanded: "Request") -> "Request":
    from glassformer.text.lines import without_surrogates

    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TextError(f"{where}: is not JSON: {error}. {_REQUEST_SHAPE}") from error
    if not isinstance(values, dict) or not {"text"} <= set(values) <= {"text", "prefix", "must", "ban"}:
        raise TextError(f"{where}: is JSON of another shape. {_REQUEST_SHAPE}")
    must, ban = values.get("must", []), values.get("ban", [])
    if not all(_is_text(values.get(key, "")) for key in ("text", "prefix")) or not all(map(_are_texts, (must, ban))):
        raise TextError(f"{where}: holds what is neither text nor a list of texts. {_REQUEST_SHAPE}")
    return replace(
        demanded,
        text=without_surrogates(values["text"]),
        prefix=without_surrogates(values.get("prefix", demanded.prefix)),
        must=(*demanded.must, *map(without_surrogates, must)),
        ban=(*demanded.ban, *map(without_surrogates, ban)),
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def write_lines(path: Path, texts: list[str]) -> None:
    """A file of one line for each text."""
    try:
        path.write_text("".join(one_line(text) + "\n" for text in texts), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}. Name another file.") from error
