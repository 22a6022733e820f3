"""Characters that need care wherever text comes in: those that cannot be seen, and lone surrogates.

Knows nothing of files or tokens.
"""

_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))


def is_blank(text: str) -> bool:
    """Whether ``text`` holds only spaces and characters without width, so that there is nothing to translate."""
    return not text.translate(_INVISIBLE).strip()


def without_surrogates(text: str) -> str:
    """``text`` with each lone surrogate, which no encoding can carry, replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
