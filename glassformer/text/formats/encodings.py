"""A file's encoding, by its mark or a declaration."""

import codecs
import re
from contextlib import suppress
from pathlib import Path

from glassformer.errors import TextError
from glassformer.text.lines import decode_utf8, find_utf16, read_bytes

START = 4096  # bytes with a declaration
# Where a format declares its encoding.
XML_CHARSET = r"""\A(?:\ufeff)?<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)"""
HTML_CHARSET = rf"""{XML_CHARSET}|(?i:<meta\s[^>]*?\bcharset\s*=\s*["']?\s*([\w.:-]+))"""
GETTEXT_CHARSET = r"""(?i:Content-Type:[^"\n]*charset=([\w.:-]+))"""


def read_text(path: Path, charset: str | None = None) -> tuple[str, str]:
    """A file's text, with mark and line ends, and its encoding; ``TextError``.

    UTF-16 by its mark, UTF-8, or what the pattern ``charset`` finds.
    """
    raw = read_bytes(path)
    encoding = find_utf16(raw) or _find_declaration(raw, charset)
    if encoding is None:
        return decode_utf8(raw, path), "utf-8"
    try:
        text = raw.decode(encoding)
        if text.encode(encoding) != raw:
            raise ValueError("it could not be written back as it is")
    except ValueError as error:
        raise TextError(f"{path}: is not text in {encoding}, as it says: {error}. Save it as UTF-8.") from error
    return text, encoding


def _find_declaration(raw: bytes, charset: str | None) -> str | None:
    """A declared encoding that is not UTF-8 but has ASCII as it is."""
    found = None if charset is None else re.search(charset, raw[:START].decode("latin-1"))
    name = next(filter(None, found.groups()), "") if found else ""
    try:
        is_another = codecs.lookup(name).name != "utf-8" and "<".encode(name) == b"<"
    except LookupError:
        return None
    if not raw.isascii():
        with suppress(UnicodeDecodeError):
            raw.decode("utf-8")
            return None
    return name if is_another else None
