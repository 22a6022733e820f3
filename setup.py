"""The long description of the package: the README, with links that hold outside the repository.

Relative links lead to the tag of this version at ``project.urls.Repository`` of pyproject.toml. Without that address,
as in a fork that has not named its own, their words stay and the pictures are left out.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
_COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
_PICTURE = re.compile(r'<picture>.*?<img alt="([^"]*)" src="([^"]*)">\s*</picture>', re.S)
_LINK = re.compile(r"(?P<picture>!?)\[(?P<words>[^\[\]]*)\]\((?P<path>[^)\s#:]+)(?P<heading>#[^)\s]*)?\)")


def long_description(readme: str, repository: str | None, version: str) -> str:
    """The README for a package index."""

    def rewrite(link: re.Match[str]) -> str:
        if repository is None:
            return "" if link["picture"] else link["words"]
        view = "raw" if link["picture"] else "blob"
        address = f"{repository.rstrip('/')}/{view}/v{version}/{link['path']}{link['heading'] or ''}"
        return f"{link['picture']}[{link['words']}]({address})"

    return _LINK.sub(rewrite, _PICTURE.sub(r"![\1](\2)", _COMMENT.sub("", readme)))


if __name__ == "__main__":  # how setuptools runs this file
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (version,) = re.findall(r'__version__ = "(.+)"', (ROOT / "glassformer" / "version.py").read_text("utf-8"))
    text = (ROOT / "README.md").read_text("utf-8")
    setup(
        long_description=long_description(text, project.get("urls", {}).get("Repository"), version),
        long_description_content_type="text/markdown",
    )
