"""Text between the shell and the library: arguments, standard input, lines of output, files.

A line in gives a line out, whatever it holds. Knows nothing of commands.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import StorageError


def from_shell(argument: str) -> str:
    """Bytes of an argument that are not UTF-8 arrive as surrogates; they become U+FFFD."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def stdin_lines() -> Iterator[str]:
    """Standard input split at line feeds alone; what is not UTF-8 is replaced, with a warning: no line is lost."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        text = line.rstrip(b"\n").removesuffix(b"\r")
        try:
            yield text.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            sys.stderr.write(
                f"warning: standard input:{number}:{error.start + 1}: is not UTF-8; replaced by U+FFFD.\n"
            )
            yield text.decode("utf-8", "replace")


def one_line(text: str) -> str:
    """Line ends and tabs inside a translation would break the promise of one line for each line."""
    return " ".join(text.replace("\t", " ").splitlines())


def write_lines(path: Path, texts: list[str]) -> None:
    """A file of one line for each text."""
    try:
        path.write_text("".join(one_line(text) + "\n" for text in texts), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}. Name another file.") from error
