"""Lines of a text file, plain or gzip, and the characters that need care wherever text comes in.

Only a line feed ends a line: ``str.splitlines`` would also split at U+2028, U+0085, vertical tab and form feed,
which shifts all later lines of a parallel text. No more of a file than a line is held in memory, and it has a limit.
"""

import codecs
import gzip
import os
import re
import shlex
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import IO

from glassformer.errors import TextError, check_path
from glassformer.files import open_to_read

LONGEST_LINE = 10_000_000  # bytes
LARGEST_WHOLE = 500_000_000  # bytes of a file that is held in memory
_ALWAYS_INFLATED, _MAX_GROWTH = 64 * 2**20, 50  # bytes that a small file may become; times the size of a larger one
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
# Joiners are letters of the scripts from Hebrew to Mongolian and of others of India, and join pictures.
_JOINING = "\u0590-\u1cff\u2190-\u2bff\ufe0f\ua800-\uabff\U00010a00-\U00011fff\U0001f000-\U0001faff"
_UNREAD = re.compile(f"[\u00ad\u200b\u2060\ufeff]|[\u200c\u200d](?<![{_JOINING}][\u200c\u200d])")
LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""The characters that break a line inside a text, as ``str.splitlines`` takes them."""


@contextmanager
def open_text(path: Path, *, once: bool = False) -> Iterator[IO[bytes]]:
    """The bytes of a regular file (a pipe if read ``once``), decompressed if gzip; ``TextError`` if unreadable."""
    path = check_path("path", path)
    try:
        with path.open("rb") if once else open_to_read(path) as packed:
            if packed.peek(2)[:2] == _GZIP_MAGIC:
                with BufferedReader(_Gzip(packed, path)) as unpacked:
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


class _Gzip(gzip.GzipFile):
    """A gzip file, up to so many bytes as no text becomes."""

    def __init__(self, packed: BufferedReader, path: Path) -> None:
        super().__init__(fileobj=packed)
        status = os.fstat(packed.fileno())
        self._path, self._limit = path, max_inflated(status.st_size)
        self._left = self._limit if stat.S_ISREG(status.st_mode) else sys.maxsize  # of a pipe nobody knows the size

    def read(self, size: int | None = -1) -> bytes:
        """As many bytes; ``TextError`` beyond the limit."""
        most = self._left + 1
        data = super().read(most if size is None or size < 0 else min(size, most))
        self._left -= len(data)
        if self._left < 0:
            raise TextError(
                f"{self._path}: would inflate to more than {self._limit:,} bytes, expected text. If you trust it, "
                f"unpack it: gzip -d {shlex.quote(str(self._path))}"
            )
        return data


def max_inflated(size: int) -> int:
    """The most bytes that a compressed file of so many is read to: more is made to fill a memory or a disk."""
    return max(_ALWAYS_INFLATED, _MAX_GROWTH * size)


def limited_lines(stream: IO[bytes], name: str) -> Iterator[bytes]:
    r"""Each line with its ``\n``, of UTF-16 in UTF-8; ``TextError`` for one longer than ``LONGEST_LINE`` at once."""
    lines = iter(partial(stream.readline, LONGEST_LINE + 1), b"")
    first = next(lines, b"")
    encoding, lines = find_utf16(first), chain([first] if first else [], lines)
    for number, line in enumerate(lines if encoding is None else _lines_in_utf8(lines, encoding, name), 1):
        if len(line) > LONGEST_LINE:
            raise TextError(
                f"{name}:{number}: the line is longer than {LONGEST_LINE:,} bytes, expected a sentence or a "
                "paragraph on each line. Break it up."
            )
        yield line


def find_utf16(start: bytes) -> str | None:
    """UTF-16, little or big endian, if a file starts with its mark; that of UTF-32 begins in the same way."""
    marks = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
    return None if start[2:4] == b"\0\0" else marks.get(start[:2])


def _lines_in_utf8(pieces: Iterator[bytes], encoding: str, name: str) -> Iterator[bytes]:
    """The lines of pieces that end with the byte of a line feed, which other characters have, too."""
    decoder, line, size, number = codecs.getincrementaldecoder(encoding)(), list[str](), 0, 1
    try:
        for piece in chain(pieces, [b""]):
            *ends, rest = decoder.decode(piece, final=not piece).split("\n")
            for end in ends:
                yield "".join([*line, end, "\n"]).encode()
                line, size, number = [], 0, number + 1
            line.append(rest)
            size += len(rest)
            if size > LONGEST_LINE:  # the caller refuses it
                break
    except UnicodeDecodeError as error:
        raise TextError(f"{name}:{number}: is not {encoding}, as its mark says: {error.reason}.") from error
    if any(line):
        yield "".join(line).encode()


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

    UTF-16 with its mark is read, too. Raises ``TextError`` naming ``path:line:byte``, both from 1, for any other
    encoding, binary data, and lines that end in only ``\r``.
    """
    with open_text(path) as stream:
        for number, raw in enumerate(limited_lines(stream, str(path)), 1):
            if number == 1:
                _check_start(path, raw)
                raw = raw.removeprefix(_BYTE_ORDER_MARK)
            yield _decode(path, number, raw.removesuffix(b"\n").removesuffix(b"\r"))


def decode_utf8(raw: bytes, path: Path) -> str:
    """The text of the bytes of a file, byte order mark and line ends included; raises what ``read_lines`` raises."""
    _check_start(path, raw[:4] + b"\n")
    for number, line in enumerate(raw.split(b"\n"), 1):
        _decode(path, number, line)
    return raw.decode("utf-8")


def _check_start(path: Path, first: bytes) -> None:
    if first.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        command = _command(path, "iconv -f UTF-32 -t UTF-8")
        raise TextError(f"{path}:1:1: the file is UTF-32, expected UTF-8. Convert it: {command}")
    if not first.endswith(b"\n") and b"\r" in first.rstrip(b"\r"):
        place, command = first.index(b"\r") + 1, _command(path, "tr '\\r' '\\n'")
        raise TextError(
            f"{path}:1:{place}: lines end in a carriage return alone, expected line feeds. Convert it: {command}"
        )


def _decode(path: Path, number: int, raw: bytes) -> str:
    zero = raw.find(b"\0")
    if zero >= 0:
        wide = " or is UTF-16 or UTF-32" if 4 * raw.count(b"\0") >= len(raw) else ""
        raise TextError(
            f"{path}:{number}:{zero + 1}: found a NUL byte, expected UTF-8 text. The file looks binary{wide}."
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"{path}:{number}:{error.start + 1}: found byte 0x{raw[error.start]:02X}, expected UTF-8."
        raise TextError(f"{found} {_encoding_hint(path, raw, error.start)}") from error


def _encoding_hint(path: Path, raw: bytes, place: int) -> str:
    """What to do about a byte; which encoding it has is guessed only where letters beyond ASCII stand alone."""
    shown = raw[place : place + 1].decode("cp1252", "replace")
    if shown == "\ufffd" or re.search(rb"[\x80-\xff]{3}", raw):
        return "Save the file as UTF-8, or convert it with iconv from the encoding that it has."
    command = _command(path, "iconv -f WINDOWS-1252 -t UTF-8")
    return f"If that is {shown!r}, the file is Latin-1 or Windows-1252; convert it: {command}"


def _command(path: Path, program: str) -> str:
    """A command line that passes the file through a program into a second one next to it; gzip stays gzip."""
    with path.open("rb") as stream:
        is_packed = stream.read(2) == _GZIP_MAGIC
    old, new = (shlex.quote(str(place)) for place in (path, path.with_name(f"utf8-{path.name}")))
    return f"gzip -dc < {old} | {program} | gzip > {new}" if is_packed else f"{program} < {old} > {new}"


def is_blank(text: str) -> bool:
    """Whether ``text`` holds only white space and zero-width characters, so that there is nothing to translate."""
    return not (text if text.isascii() else text.translate(_INVISIBLE)).strip()


def has_letter(text: str) -> bool:
    """Whether there is a letter, and so something to translate."""
    return any(map(str.isalpha, text))


def normalize_source(text: str) -> str:
    """A text as a model reads it: trimmed, white space as single spaces, without characters of no width.

    Joiners stay in scripts that need them and in emoji of several parts.
    """
    return " ".join((text if text.isascii() else _UNREAD.sub("", text)).split())


def read_returns(text: str) -> str:
    r"""A text with ``\r\n`` as a line feed, and other carriage returns as spaces, none at an end."""
    if "\r" not in text:  # fast path
        return text
    text = text.replace("\r\n", "\n")
    return re.sub(r" *\r[ \r]*", " ", text).strip(" ") if "\r" in text else text


def normalize_spaces(text: str) -> str:
    """The same of a part of a text, which may have a space at its ends."""
    inner = normalize_source(text)
    return " " * text[:1].isspace() + inner + " " * (bool(inner) and text[-1:].isspace())


def without_surrogates(text: str) -> str:
    """``text`` with each lone surrogate, which UTF-8 cannot encode, replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
