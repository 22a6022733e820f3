"""Pictures in the theme that is shown, and those of a phone where it is narrow, each in a class of its own."""

import re
from pathlib import Path

_PICTURE = re.compile(r'<picture>.*?<img alt="([^"]*)" src="([^"]*)"[^>]*>\s*</picture>', re.DOTALL)


def plain_pictures(markdown: str) -> str:
    """Pictures in HTML, which name their variants, as Markdown, which does not."""
    return _PICTURE.sub(r"![\1](\2)", markdown)


def with_variants(alt: str, path: str, file: Path) -> str:
    """A picture in Markdown with its variants, which lie in the same folder: ``-dark``, ``-phone``, ``-phone-dark``.

    A style sheet shows one of them. ``path`` is how the page names the ``file``.
    """
    kinds = {"": "", "-dark": "", "-phone": "", "-phone-dark": ""}
    found = {ending: file.with_name(f"{file.stem}{ending}{file.suffix}") for ending in kinds}
    found = {ending: variant for ending, variant in found.items() if variant.is_file()}
    if len(found) == 1:
        return f"![{alt}]({path})"
    folder = path.rpartition("/")[0]
    shown = [(ending, f"{folder}/{variant.name}".lstrip("/")) for ending, variant in found.items()]
    return "".join(f"![{alt}]({name}){{{_classes(ending, found)}}}" for ending, name in shown)


def _classes(ending: str, found: dict[str, Path]) -> str:
    """Where a variant is shown: with a theme if there is one for both, in a width if there is one for both."""
    phone, dark = "-phone" in ending, ending.endswith("dark")
    has_other_theme = f"{'-phone' if phone else ''}{'' if dark else '-dark'}" in found
    has_other_width = f"{'' if phone else '-phone'}{'-dark' if dark else ''}" in found
    theme = [".only-dark" if dark else ".only-light"] if has_other_theme else []
    width = [".narrow-only" if phone else ".wide-only"] if has_other_width else []
    return " ".join([".themed", *theme, *width])
