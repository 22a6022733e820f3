"""Lines of a text file, plain or gzip, unchanged, and the characters that need care wherever text comes in.

Only a line feed ends a line: ``str.splitlines`` would also split at U+2028, U+0085, vertical tab and form feed,
which shifts all later lines of a parallel text. Whatever a file holds, also a small one that is compressed, no more
of it than a line is held in memory, and a line has a limit.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO

from glassformer.errors import TextError, check_path
from glassformer.files import open_to_read

LONGEST_LINE = 10_000_000  # bytes
LARGEST_WHOLE = 500_000_000  # bytes of a file that is held in memory
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))


@contextmanager
def open_text(path: Path, *, once: bool = False) -> Iterator[IO[bytes]]:
    """The bytes of a regular file, decompressed if they are gzip, whatever its name; ``TextError`` if unreadable.

    What is read only ``once`` may be a pipe.
    """
    path = check_path("path", path)
    try:
        with path.open("rb") if once else open_to_read(path) as packed:
            if packed.peek(2)[:2] == _GZIP_MAGIC:
                with BufferedReader(gzip.GzipFile(fileobj=packed)) as unpacked:
                    yield unpacked
            else:
                yield packed
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TextError(f"{path}: the gzip file is damaged or incomplete ({error}). Download it again.") from error
    except OSError as error:
        raise TextError(
            f"{path}: cannot be read: {error.strerror or error}. Expected a file of text, which can be read twice; "
            "it may be gzip. Name the file itself."
        ) from error


def limited_lines(stream: IO[bytes], name: str) -> Iterator[bytes]:
    r"""Each line with its ``\n``; ``TextError`` for one longer than ``LONGEST_LINE``, before the rest is read."""
    lines = iter(partial(stream.readline, LONGEST_LINE + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            raise TextError(
                f"{name}:{number}: the line is longer than {LONGEST_LINE:,} bytes, expected a sentence or a "
                "paragraph on each line. Break it up."
            )
        yield line


def read_bytes(path: Path) -> bytes:
    """All bytes of a file, decompressed; ``TextError`` if there are more than ``LARGEST_WHOLE``."""
    with open_text(path) as stream:
        raw = stream.read(LARGEST_WHOLE + 1)
    if len(raw) > LARGEST_WHOLE:
        raise TextError(
            f"{path}: is larger than {LARGEST_WHOLE:,} bytes, expected less of a format that is read as a whole. "
            "Cut it into several files or, if it holds pairs, convert it to .tsv or .jsonl, which are read by line."
        )
    return raw


def read_lines(path: Path) -> Iterator[str]:
    r"""Each line of a UTF-8 file, with or without a byte order mark, without its ``\n`` or ``\r\n``.

    Raises ``TextError`` naming ``path:line:byte``, both from 1, for UTF-16, any other encoding, binary data, and
    lines that end in only ``\r``.
    """
    with open_text(path) as stream:
        for number, raw in enumerate(limited_lines(stream, str(path)), 1):
            if number == 1:
                _check_start(path, raw)
                raw = raw.removeprefix(_BYTE_ORDER_MARK)
            yield _decode(path, number, raw.removesuffix(b"\n").removesuffix(b"\r"))


def read_whole(path: Path) -> str:
    """The text of a UTF-8 file, byte order mark and line ends included; raises what ``read_lines`` raises."""
    raw = read_bytes(path)
    _check_start(path, raw[:4] + b"\n")
    for number, line in enumerate(raw.split(b"\n"), 1):
        _decode(path, number, line)
    return raw.decode("utf-8")


def _check_start(path: Path, first: bytes) -> None:
    wide = first.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff"))  # the one begins as UTF-16 does
    if wide or first.startswith((b"\xff\xfe", b"\xfe\xff")):
        name = "UTF-32" if wide else "UTF-16"
        raise TextError(
            f"{path}:1:1: the file is {name}, expected UTF-8. Convert it: iconv -f {name} -t UTF-8 {path.name}"
        )
    if not first.endswith(b"\n") and b"\r" in first.rstrip(b"\r"):
        place = first.index(b"\r") + 1
        raise TextError(
            f"{path}:1:{place}: lines end in a carriage return alone, expected line feeds. "
            f"Convert it: tr '\\r' '\\n' < {path.name}"
        )


def _decode(path: Path, number: int, raw: bytes) -> str:
    zero = raw.find(b"\0")
    if zero >= 0:
        raise TextError(
            f"{path}:{number}:{zero + 1}: found a NUL byte, expected UTF-8 text. The file looks binary or is UTF-16 "
            "or UTF-32."
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        shown = bytes([byte]).decode("cp1252", "replace")
        raise TextError(
            f"{path}:{number}:{error.start + 1}: found byte 0x{byte:02X}, expected UTF-8. If that is {shown!r}, the "
            f"file is Latin-1 or Windows-1252; convert it: iconv -f WINDOWS-1252 -t UTF-8 {path.name}"
        ) from error


def is_blank(text: str) -> bool:
    """Whether ``text`` holds only white space and zero-width characters, so that there is nothing to translate."""
    return not text.translate(_INVISIBLE).strip()


def without_surrogates(text: str) -> str:
    """``text`` with each lone surrogate, which UTF-8 cannot encode, replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
