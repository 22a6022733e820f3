"""Codes: what a translation keeps as it is, found in a text and taken out of it.

This door is cheap: most texts have none, and then nothing else is loaded.
"""

import re

# One of these is in every placeholder; most texts have none.
HINT = re.compile(r"[@%{$:\[/\\_&<`\-(²³¹⁰⁴-⁹]|www\.|\.[A-Za-z*]")


def may_have_codes(text: str) -> bool:
    """Whether a text has a sign that each code has."""
    return HINT.search(text) is not None
