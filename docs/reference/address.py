"""The address of the repository, and what follows from it, in the pages that name it.

There is one place to fill: ``[project.urls]`` of pyproject.toml. Until it names ``Repository``, pages say what they
can without.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMING = ("README.md", "CITATION.cff", "docs/howto.md")
_LINE = re.compile(r"^(?P<mark>(?:<!-- address: (?P<name>\w+) -->|# address: (?P<key>\w+))\n).*\n", re.MULTILINE)
_YEAR = re.compile(r"^(  year   = .*\n)(?:  url    = .*\n)?", re.MULTILINE)
_GITHUB = re.compile(r"https://github\.com/([^/]+)/([^/]+)")


def project_urls() -> dict[str, str]:
    """The addresses that pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return dict(project.get("urls", {}))


def fill_addresses(text: str, urls: Mapping[str, str] | None = None, *, try_page: str = "") -> str:
    """A page with each line below a mark as the addresses make it; ``try_page`` is where the living page lies."""
    urls = project_urls() if urls is None else urls
    repository = urls.get("Repository", "").rstrip("/")
    lines = {
        "try": _try_line(try_page or _read_published(repository, urls)),
        "clone": f"In a clone (`git clone {repository}`)," if repository else "In a clone of this repository,",
        "cite": f'repository-code: "{repository}"'
        if repository
        else "# repository-code stands here once it is known",
    }
    text = _LINE.sub(lambda found: f"{found['mark']}{lines[found['name'] or found['key']]}\n", text)
    return _YEAR.sub(
        lambda found: found[1] + (f"  url    = {{{repository}}},\n" if repository else ""), text, count=1
    )


def _read_published(repository: str, urls: Mapping[str, str]) -> str:
    """Where GitHub Pages has the living page, or the site that ``Documentation`` names; empty if neither is known."""
    github = _GITHUB.fullmatch(repository)
    site = urls.get("Documentation") or (f"https://{github[1].lower()}.github.io/{github[2]}" if github else "")
    return f"{site.rstrip('/')}/try.html" if site else ""


def _try_line(address: str) -> str:
    words = "type a text and read its translation, then look inside: switch off a head and watch it change."
    if address and "://" not in address:  # next to the page: Markdown would look for a page of that name
        return f'<strong><a href="{address}">Try it without installing</a></strong>: {words}'
    return f"**[Try it without installing]({address or 'docs/translator.html'})**: {words}"
