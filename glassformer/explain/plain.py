"""Single values as short plain text: names, shapes, numbers and tokens."""

import math
from collections.abc import Sequence
from unicodedata import category

from rich.cells import cell_len, set_cell_size

_JOINERS = "\u200c\u200d"  # between letters of Persian, between the parts of an emoji


def printable(text: str) -> str:
    """The text with � for each control character; spaces and joiners stay."""
    return "".join(one if one.isprintable() or one in _JOINERS or category(one) == "Zs" else "�" for one in text)


def clip_text(text: str, width: int) -> str:
    """The text in at most ``width`` terminal columns; … marks a cut."""
    shown = printable(text)
    return shown if cell_len(shown) <= width else set_cell_size(shown, width - 1) + "…"


def symbols_text(symbols: Sequence[str]) -> str:
    """``(nbatches, n_seq_src)``."""
    return f"({', '.join(symbols)})"


def shape_text(shape: Sequence[int]) -> str:
    """``(3, 7)``."""
    return f"({', '.join(map(str, shape))})"


def number_text(number: float | bool) -> str:
    """A number in at most eight columns."""
    if isinstance(number, bool):
        return "yes" if number else "no"
    if isinstance(number, int):
        return str(number)
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    small_or_large = number != 0 and not 0.0005 <= abs(number) < 1000
    return f"{number:.1e}" if small_or_large else f"{number:.3f}"
