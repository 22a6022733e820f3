"""Finds broken relative links between pages: to files or headings that do not exist."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#* *$", re.MULTILINE)


def dead_links(root: Path, pages: Iterable[Path]) -> list[str]:
    """A message for each relative link of the pages whose file or heading does not exist."""
    return [complaint for page in pages for complaint in _dead_in(root, page)]


def _dead_in(root: Path, page: Path) -> Iterator[str]:
    name = page.relative_to(root)
    if not page.is_file():
        yield f"{name}: is missing."
        return
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = unquote(link).partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{name}: the link {link} leads to no file."
        elif anchor and anchor not in anchors(target):
            yield f"{name}: the link {link} leads to no heading of {target.relative_to(root)}."


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings as GitHub makes them: lower case, hyphens for spaces, no punctuation."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
