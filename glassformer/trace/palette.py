"""The colours of numbers: shares from none to all, and signed numbers about 0, orange above and blue below.

The living page has the same (``assets/drawing/scale.js``), so that a picture means one thing wherever it stands. Both
scales are safe for colour-blind eyes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

SHARE = ("#fcfcfd", "#dde2f0", "#a8b4db", "#6b7abc", "#3d4692", "#1e1f5c")
SIGNED = ("#084582", "#4385be", "#9ec6e2", "#f9f9f9", "#fac48c", "#df7f2e", "#964404")

SHADE = SHARE[3]
"""One colour of shares that can be read on light and on dark ground."""
INK = SHARE[4]
BELOW, ABOVE = SIGNED[1], SIGNED[5]


def share_colours() -> "Colormap":
    """matplotlib's colour map of shares: 0 is light, 1 dark."""
    return _colour_map("share", SHARE)


def signed_colours() -> "Colormap":
    """matplotlib's colour map of signed numbers, for limits symmetric about 0."""
    return _colour_map("signed", SIGNED)


def _colour_map(name: str, colours: tuple[str, ...]) -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(name, colours)
