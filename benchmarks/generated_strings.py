"""Strings with one to six codes of mixed syntaxes: nested tags, codes side by side, the same one twice."""

import random
import re
from collections import Counter

WORDS = [
    "the",
    "a",
    "my",
    "our",
    "your",
    "house",
    "garden",
    "train",
    "friend",
    "letter",
    "water",
    "question",
    "window",
    "small",
    "new",
    "old",
    "green",
    "is",
    "was",
    "sees",
    "opens",
    "reads",
    "sends",
    "needs",
    "has",
    "please",
    "now",
    "today",
    "never",
    "always",
    "with",
    "for",
    "from",
    "near",
    "and",
    "but",
    "click",
    "open",
    "save",
    "delete",
    "file",
    "user",
]
CODES = [
    "%s", "%d", "%1$s", "%(count)d", "{name}", "{0}", "{{ user.name }}", "${HOME}", "$name", "@@PH1@@", "@@PH27@@",
    '<x id="7"/>', '<x id="7"></x>', "<br/>",
    "https://example.org/a?b=1", "info@example.org", "&nbsp;", "[X7X]", "%%",
    "{n}", "__NAME__", "--force", "/usr/bin/env", "`code`", ":user_id",
]  # fmt: skip
EMOJIS = ["😀", "🎉", "👍🏽", "❤️", "🇩🇪", "👨‍👩‍👧", "🚀", "✅", "⚠️", "😂"]
PAIRS = [
    ("<b>", "</b>"),
    ("<i>", "</i>"),
    ('<a href="/x">', "</a>"),
    ('<g id="1">', "</g>"),
    ("[b]", "[/b]"),
    ("<1>", "</1>"),
]


def make_string(draw: random.Random) -> tuple[str, Counter[str]]:
    """A string, and its codes."""
    words = [draw.choice(WORDS) for _ in range(draw.randint(2, 12))]
    codes = Counter[str]()
    for _ in range(draw.randint(1, 4)):
        if draw.random() < 0.35:
            opening, closing = draw.choice(PAIRS)
            start = draw.randint(0, len(words) - 1)
            end = draw.randint(start, len(words) - 1)
            words[start], words[end] = opening + words[start], words[end] + closing
            codes.update((opening, closing))
        else:
            code = draw.choice(CODES)
            place = draw.randint(0, len(words))
            times = draw.choice((1, 1, 1, 2))
            beside = code.startswith(("<", "{", "@@")) and draw.random() < 0.5
            words[place:place] = [code * times] if beside else [code] * times
            codes[code] += times
    text = " ".join(words)
    return text[:1].upper() + text[1:] + draw.choice([".", "!", "?", ""]), codes


def make_emojis(draw: random.Random) -> tuple[str, Counter[str]]:
    """A string with several emoji and codes, at its ends, side by side and repeated, and these."""
    few = [draw.choice(EMOJIS) for _ in range(draw.randint(1, 2))] + [draw.choice(CODES[:8])]
    words = [draw.choice(WORDS) for _ in range(draw.randint(1, 6))]
    codes = Counter[str]()
    for _ in range(draw.randint(2, 6)):
        code, place = draw.choice(few), draw.choice((0, len(words), draw.randint(0, len(words))))
        glued = code in EMOJIS and place < len(words) and draw.random() < 0.3
        words[place : place + glued] = [code + words[place]] if glued else [code]
        codes[code] += 1
    return " ".join(words) + draw.choice([".", "!", "?", ""]), codes


def count(text: str, code: str) -> int:
    """How often a code stands in a text, not inside a longer one."""
    return len(re.findall(re.escape(code) + (r"(?!\w)" if code[-1].isalnum() else ""), text))


def is_whole(source: str, codes: Counter[str], text: str) -> bool:
    """Whether each code is there as often as in the source."""
    return all(count(text, code) == count(source, code) for code in codes)
