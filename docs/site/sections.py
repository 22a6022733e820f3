"""What the search of the site looks through: each section of each page, with its address, its headings and its text.

It is read from the Markdown of the pages, so that the search can be tried without building the site.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name

WEIGHTS = {
    "CHANGELOG": 0.2, "api": 0.7, "CONTRIBUTING": 0.4, "docs/design": 0.4, "docs/learn": 0.5, "docs/index": 0.5,
    "docs/reliability": 0.5, "docs/differences": 0.5, "docs/faults": 0.5, "docs/figures": 0.5, "docs/results": 0.6,
    "docs/speed": 0.6, "docs/steps": 0.6, "docs/settings": 0.7, "docs/commands": 0.7, "docs/exchange": 0.8,
    "docs/howto": 1.6,
}  # fmt: skip
"""How much a section counts: those of pages that few look for less, answers to questions more."""

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL)
_FENCE_LINE = re.compile(r"^(?:`{3,}|~{3,}).*$", re.MULTILINE)
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *#* *$", re.MULTILINE)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)(?:\{[^}]*\})?")
_TAG = re.compile(r"</?[a-z][^<>]*>")
_DOCUMENTED = re.compile(r"^\.\. auto\w+:: (\S+)$", re.MULTILINE)

Section = tuple[str, str, str, str, float]
"""The address, such as ``docs/howto#out-of-memory``, title, page title, text, and how much it counts."""


def read_sections(pages: Mapping[str, Path]) -> list[Section]:
    """The sections of pages, which are named as in the site: ``docs/howto``."""
    return [section for name, path in pages.items() for section in _sections(name, path.read_text(encoding="utf-8"))]


def _sections(name: str, text: str) -> Iterator[Section]:
    text = _COMMENT.sub("", text)
    hidden = [fence.span() for fence in _FENCE.finditer(text)]
    headings = [found for found in _HEADING.finditer(text) if not _is_inside(found.start(), hidden)]
    if not headings:
        return
    page_title, weight = plain_text(headings[0][2]), _weight(name)
    seen: set[str] = set()
    for number, heading in enumerate(headings):
        end = headings[number + 1].start() if number + 1 < len(headings) else len(text)
        anchor = make_anchor(plain_text(heading[2]))
        # Of several sections with one title only the first has an address of its own.
        address = name if number == 0 or not anchor or anchor in seen else f"{name}#{anchor}"
        seen.add(anchor)
        yield address, plain_text(heading[2]), page_title, plain_text(text[heading.end() : end]), weight


def _is_inside(place: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in spans)


def _weight(name: str) -> float:
    return next((weight for start, weight in WEIGHTS.items() if name.startswith(start)), 1.0)


def make_anchor(title: str) -> str:
    """The address of a section in its page, as docutils makes it: lower case, hyphens, and a letter first."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-").lstrip("0123456789-")


def plain_text(markdown: str) -> str:
    """Text without the signs of Markdown; the docstring in place of a directive that shows it."""
    text = _DOCUMENTED.sub(lambda found: _docstring(found[1]), markdown)
    text = _TAG.sub(" ", _LINK.sub(r"\1", _FENCE_LINE.sub(" ", text)))
    return " ".join(re.sub(r"[`*|#>]|^-+$", " ", text, flags=re.MULTILINE).split())


def _docstring(name: str) -> str:
    """Of a public name, such as ``glassformer.Translator``, with those of its methods."""
    found = resolve_name(name)
    members = [each for key, each in vars(found).items() if not key.startswith("_")] if inspect.isclass(found) else []
    return " ".join(filter(None, map(inspect.getdoc, [found, *(each for each in members if callable(each))])))
