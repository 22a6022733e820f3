"""One palette and one sign: page, notebook, terminal and plot have the same colours."""

import re
from pathlib import Path

import glassformer
from glassformer.trace.palette import ABOVE, BELOW, SHARE, SIGNED, share_colours, signed_colours

PACKAGE = Path(glassformer.__file__).parent
DOCS = PACKAGE.parent / "docs"
SIGNS_IN_WORDS = re.compile(r"(\w+)(?: is| where \w+ \w+ are| where it is)? (above|below) (?:zero|0)\b")
COLOUR_WORDS = {"orange": "above", "blue": "below", "violet": "", "purple": "", "red": "", "green": ""}
OTHER_COLOURS = re.compile(r"cmap=[\"'](?!gray|Greys)|\b(?:PuOr|RdBu|coolwarm|bwr|seismic|viridis|Blues|Purples)\b")


def test_the_page_has_the_same_colours_and_numbers_no_others():
    text = (PACKAGE / "explain" / "page" / "assets" / "drawing" / "scale.js").read_text(encoding="utf-8")
    light = text[text.index("light: {") : text.index("dark: {")]
    found = ["#" + bytes(map(int, rgb)).hex() for rgb in re.findall(r"\[(\d+), (\d+), (\d+)\]", light)]
    nothing = found.pop()
    assert found == [*SHARE, *SIGNED], nothing
    # A mask of two values may be grey.
    for path in PACKAGE.rglob("*.py"):
        found = OTHER_COLOURS.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found and found[0]}"


def test_orange_is_above_zero_and_blue_below():
    for colours, at in ((signed_colours(), 0.9), (signed_colours(), 0.1)):
        red, _, blue, _ = colours(at)
        assert (red > blue) == (at > 0.5)
    for hex_colour, above in ((ABOVE, True), (BELOW, False)):
        red, _, blue = bytes.fromhex(hex_colour[1:])
        assert (red > blue) == above
    assert sum(share_colours()(0.0)[:3]) > sum(share_colours()(1.0)[:3])


def test_texts_name_the_colours_of_the_pictures():
    texts = [*DOCS.glob("*.md"), *(DOCS / "learn").glob("*.py")]
    said = [
        (path.name, colour.lower(), side)
        for path in texts
        for colour, side in SIGNS_IN_WORDS.findall(
            " ".join(path.read_text(encoding="utf-8").replace("\n# ", " ").split())
        )
        if colour.lower() in COLOUR_WORDS
    ]
    assert {path for path, _, _ in said} >= {"page.md", "one_sentence.py"}
    assert [one for one in said if COLOUR_WORDS[one[1]] != one[2]] == []
