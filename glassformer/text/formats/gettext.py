"""Pairs from gettext catalogs: .po files, and .mo files compiled from them."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from babel.messages import mofile, pofile
from babel.messages.catalog import Catalog

from glassformer.errors import TextError
from glassformer.text.lines import open_text


def read_po(path: Path) -> Iterator[tuple[str, str]]:
    """The translated messages of a catalog, without fuzzy and obsolete ones; ``TextError`` if it is damaged."""
    with open_text(path) as stream:
        try:
            catalog = pofile.read_po(stream, abort_invalid=True)
        except pofile.PoFileError as error:
            raise TextError(f"{path}:{error.lineno + 1}: is not a gettext catalog: {error}.") from error
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise TextError(f"{path}: is not a gettext catalog: {error}. Check it with msgfmt -c.") from error
    yield from _messages(catalog)


def read_mo(path: Path) -> Iterator[tuple[str, str]]:
    """The messages of a compiled catalog; ``TextError`` if it is damaged."""
    with open_text(path) as stream:
        try:
            catalog = mofile.read_mo(stream)
        except (ValueError, LookupError, AttributeError, TypeError, struct.error, OSError) as error:
            raise TextError(f"{path}: is not a compiled gettext catalog: {error}. Run msgfmt again.") from error
    yield from _messages(catalog)


def _messages(catalog: Catalog) -> Iterator[tuple[str, str]]:
    for message in catalog:
        if not message.id or message.fuzzy:
            continue
        # Further plural forms of a language, beyond two, have no source: English has two.
        for src, tgt in zip(_forms(message.id), _forms(message.string or ""), strict=False):
            if src and tgt:
                yield src, tgt


def _forms(texts: str | Sequence[str]) -> Sequence[str]:
    """The singular and the plurals of a message, or its only form."""
    return [texts] if isinstance(texts, str) else texts
