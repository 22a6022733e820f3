"""Documents by the bundled model itself: stand-ins for the model let through what real texts break at once."""

import random
from pathlib import Path

import pytest

from glassformer import Translator
from glassformer.documents import FileTranslator
from glassformer.errors import GlassformerError
from glassformer.text.formats import endings

FILES = Path(__file__).parents[3] / "shared" / "data" / "files"
# Names of files in another language than English begin with its code: fa-Intro.strings.
OTHERS = ("ar", "cs", "da", "de", "es", "fa", "fi", "fr", "he", "hi", "it", "ja", "kab", "ko", "ml", "nl", "pl", "pt", "ru", "sk", "sv", "th", "tr", "uk", "zh")  # fmt: skip

WORDS = [
    "about",
    "the",
    "house",
    "is",
    "very",
    "big",
    "i",
    "am",
    "hungry",
    "license",
    "we",
    "have",
    "no",
    "bread",
    "where",
    "does",
    "tom",
    "live",
    "today",
    "straße",
]
CODES = (
    "{name}",
    "%s",
    "%1$d",
    "<b>house</b>",
    "https://example.org/a?b=c",
    "&amp;",
    "AT&T",
    "`ls -l`",
    "$24.99",
    "{0}",
)
SIGNS = (
    "😀",
    "☺️",
    "👩‍💻",
    "→",
    "©",
    "…",
    "!!!",
    "?!",
    "“",
    "„",
    "-",
    "•",
    "\u00a0",
    "\u200b",
    "\u00ad",
    "ﬁ",
    "İ",
    "ß",
    "ŉ",
)
STYLES = (str, str.upper, str.title, str.capitalize, str.swapcase)


def generate_text(numbers: random.Random) -> str:
    """Words of a sentence in one style, with codes and signs anywhere, some of them without a space."""
    pieces = [numbers.choice(STYLES)(" ".join(numbers.choices(WORDS, k=numbers.randint(1, 8))))]
    for _ in range(numbers.randint(0, 3)):
        pieces.insert(numbers.randint(0, len(pieces)), numbers.choice(CODES + SIGNS))
    return numbers.choice(("", " ", "  ")).join(pieces) + numbers.choice(("", ".", "!", "?", "..."))


@pytest.mark.parametrize("ending", [".txt", ".html", ".md"])
def test_no_generated_text_ends_in_a_fault(tmp_path: Path, seed: int, ending: str) -> None:
    numbers = random.Random(seed)
    texts = [generate_text(numbers) for _ in range(170)]
    source, out = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
    source.write_text("\n\n".join(texts), encoding="utf-8")
    FileTranslator(Translator.load()).translate(source, out)
    if ending == ".txt":
        assert len(out.read_text(encoding="utf-8").split("\n\n")) == len(texts)


def test_headings_in_capitals_and_signs_inside_sentences_are_translated(tmp_path: Path) -> None:
    texts = ["ABOUT", "LICENSE", "DOWNLOADS", "It 😀 is raining.", "The house ☺️ is big."]
    (tmp_path / "in.txt").write_text("\n".join(texts), encoding="utf-8")
    FileTranslator(Translator.load()).translate(tmp_path / "in.txt", tmp_path / "out.txt")
    translated = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert [one.isupper() for one in translated] == [True] * 3 + [False] * 2
    assert "😀" in translated[3]
    assert "☺️" in translated[4]


@pytest.mark.slow
@pytest.mark.skipif(not FILES.is_dir(), reason="needs the files of other programs in shared/data/files")
def test_every_english_file_is_translated_or_refused_in_words(tmp_path: Path) -> None:
    known = tuple(endings(lambda each: each.segments))
    files = [path for path in sorted(FILES.rglob("*")) if path.suffix in known and not path.name.startswith(OTHERS)]
    assert len(files) > 40
    translator, written = FileTranslator(Translator.load()), 0
    for path in files:
        out = tmp_path / path.name
        try:
            translator.translate(path, out)
        except GlassformerError:  # one that is damaged
            continue
        written += 1
    assert written > 0.8 * len(files)
