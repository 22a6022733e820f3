"""Text between the shell and the library."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rich import console

from glassformer.errors import ConfigError, TextError
from glassformer.files import check_output, real_path, storage_errors, write_output
from glassformer.text.formats import endings
from glassformer.text.lines import limited_lines, open_text, without_surrogates

if TYPE_CHECKING:
    from glassformer.decoding import Request


def from_shell(argument: str) -> str:
    """An argument as text; bytes that are not UTF-8 become U+FFFD."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_stdin() -> Iterator[str]:
    """The lines of standard input; bytes that are not UTF-8 are replaced."""
    if sys.stdin.isatty():
        sys.stderr.write("Type a sentence, then Enter; Ctrl+D on an empty line ends.\n")
    yield from _lines(sys.stdin.buffer, "standard input")


def read_file(path: Path) -> Iterator[str]:
    """The same for a file, plain or gzip."""
    with open_text(path, once=True) as stream:
        yield from _lines(stream, str(path))


def count_lines(path: Path) -> int:
    """The number of lines that ``read_file`` yields."""
    with open_text(path) as stream:
        return sum(1 for _ in limited_lines(stream, str(path)))


def _lines(stream: IO[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(limited_lines(stream, name), start=1):
        text, codec = line.rstrip(b"\n").removesuffix(b"\r"), "utf-8-sig" if number == 1 else "utf-8"
        try:
            yield text.decode(codec)
        except UnicodeDecodeError as error:
            sys.stderr.write(f"warning: {name}:{number}:{error.start + 1}: is not UTF-8; replaced by U+FFFD.\n")
            yield text.decode(codec, "replace")


def one_line(text: str) -> str:
    """The text with spaces for line ends and tabs."""
    return " ".join(text.replace("\t", " ").splitlines())


def piece_in_one_line(piece: str) -> str:
    """The same for a piece of a streamed translation."""
    return "".join(" " if character == "\t" or character.splitlines() == [""] else character for character in piece)


def read_requests(given: Iterable[str] | Path, constraints: "Request") -> Iterator["Request"]:
    """A request for each text or line, with ``constraints``; ``TextError`` for a wrong .jsonl line."""
    if not isinstance(given, Path):
        yield from (replace(constraints, text=text) for text in given)
    elif set(given.suffixes).isdisjoint(endings(lambda each: each.lines == "requests")):
        yield from (replace(constraints, text=text) for text in read_file(given))
    else:
        for number, line in enumerate(read_file(given), start=1):
            yield _request(line, f"{given}:{number}", constraints)


_REQUEST_SHAPE = 'Expected {"text": "...", "prefix": "...", "must": ["..."], "ban": ["..."]}; only text is required.'


def _request(line: str, where: str, constraints: "Request") -> "Request":
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TextError(f"{where}: is not JSON: {error}. {_REQUEST_SHAPE}") from error
    if not isinstance(values, dict) or not {"text"} <= set(values) <= {"text", "prefix", "must", "ban"}:
        raise TextError(f"{where}: is JSON of another shape. {_REQUEST_SHAPE}")
    must, ban = values.get("must", []), values.get("ban", [])
    are_lists = isinstance(must, list) and isinstance(ban, list)
    texts = [values["text"], values.get("prefix", ""), *must, *ban] if are_lists else [None]
    if not all(isinstance(text, str) for text in texts):
        raise TextError(f"{where}: contains a value that is neither text nor a list of texts. {_REQUEST_SHAPE}")
    return replace(
        constraints,
        text=without_surrogates(values["text"]),
        prefix=without_surrogates(values.get("prefix", constraints.prefix)),
        must=(*constraints.must, *map(without_surrogates, must)),
        ban=(*constraints.ban, *map(without_surrogates, ban)),
    )


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None] | None = None) -> None:
    """Raise ``ConfigError`` for an output that is read, ``StorageError`` if it cannot be written."""
    taken = {name: path for name, path in (inputs or {}).items() if path is not None}
    for name, path in outputs.items():
        if path is None:
            continue
        with storage_errors(path, f"Name another {name}."):
            check_output(path)
            other = next((other for other, place in taken.items() if _is_same_file(path, place)), None)
        if other is not None:
            raise ConfigError(f"{name}: found {path}, which is {other}, expected another file. Name another {name}.")
        taken[name] = path


def _is_same_file(path: Path, other: Path) -> bool:
    if os.path.exists(path) and os.path.exists(other):  # of a name that is too long no error
        return path.is_file() and path.samefile(other)  # a device may be both
    return real_path(path) == real_path(other)


def write_lines(path: Path, texts: list[str]) -> None:
    """Write a file with one line for each text."""
    with storage_errors(path, "Name another file."), write_output(path) as stream:
        stream.writelines(one_line(text) + "\n" for text in texts)


class Console(console.Console):
    """rich's console, but ``main`` handles the broken pipe of ``head``."""

    def on_broken_pipe(self) -> None:
        """Raise ``BrokenPipeError`` again; rich would exit with 1."""
        raise BrokenPipeError
