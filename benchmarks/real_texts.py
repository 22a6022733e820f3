"""What people type and send, by the bundled model: numbers, HTML as browsers read it, and real files.

    python benchmarks/real_texts.py [--only numbers html files] [--texts 500] [--seed 1] [--show] [--json FILE]

``numbers``: typed texts with amounts, thousands, decimals, percents, times, dates, years and units. Each number must
come back with its value, its sign or currency, and a space where the source has one, or the text be doubted.
``html``: twice as many generated pages; html5lib reads the page before and after as a browser does. Blocks must be
the same, and in each block the elements and what encloses each; where there was text there must be some; else the
text must be named. ``files``: how many texts of the real English files of ``shared/data/files`` are named, and how
many the command prints; seconds are those of the whole.
"""

import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from machine import machine
from smoke import PLACES, new_parser, parse_options, write_json

from glassformer import Translator
from glassformer.documents import FileTranslator
from glassformer.documents.checklist import DOUBTFUL
from glassformer.errors import GlassformerError
from glassformer.text.formats import endings

Numbers = random.Random
WORDS = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf")
CURRENCIES = {"$": "$|dollar", "€": "€|euro", "£": "£|pfund"}


def _amount(numbers: Numbers) -> tuple[str, list[str]]:
    sign, pounds, cents = numbers.choice("$€£"), numbers.randint(1, 99), numbers.randint(1, 99)
    return f"{sign}{pounds}.{cents:02}", [f"{pounds}.{cents:02}", sign]


def _thousands(numbers: Numbers) -> tuple[str, list[str]]:
    value = numbers.choice((1000, 2500, 10_000, 250_000, 1_000_000, numbers.randint(1001, 999_999)))
    return f"{value:,}", [str(value)]


def _sum(numbers: Numbers) -> tuple[str, list[str]]:
    text, (value,) = _thousands(numbers)
    sign = numbers.choice("$€£")
    return sign + text, [value, sign]


def _time(numbers: Numbers) -> tuple[str, list[str]]:
    hour, half = numbers.randint(1, 12), numbers.choice(("am", "pm", "a.m.", "p.m."))
    minutes = numbers.choice(("", ":15", ":30", ":05"))
    hours = {hour, hour % 12 + 12 * (half[0] == "p")}
    return f"{hour}{minutes} {half}", ["|".join(f"{each}{minutes}" for each in sorted(hours))]


def _clock(numbers: Numbers) -> tuple[str, list[str]]:
    text = f"{numbers.randint(0, 23)}:{numbers.choice(('00', '10', '45'))}"
    return text, [text]


def _date(numbers: Numbers) -> tuple[str, list[str]]:
    day, month, year = numbers.randint(13, 28), numbers.randint(1, 12), numbers.randint(1950, 2030)
    written = numbers.choice((f"{month}/{day}/{year}", f"{year}-{month:02}-{day}", f"{day}.{month}.{year}"))
    return written, re.findall(r"\d+", written)


def _share(numbers: Numbers) -> tuple[str, list[str]]:
    value = numbers.choice((f"{numbers.randint(1, 99)}", f"{numbers.randint(1, 99)}.{numbers.randint(1, 9)}"))
    return f"{value}%", [value]


def _decimal(numbers: Numbers) -> tuple[str, list[str]]:
    value = f"{numbers.randint(2, 99)}.{numbers.randint(1, 9)}"
    return value, [value]


def _whole(numbers: Numbers) -> tuple[str, list[str]]:
    value = str(numbers.randint(2, 999))
    return value, [value]


Kind = Callable[[Numbers], tuple[str, list[str]]]
TEMPLATES: list[tuple[str, Kind]] = [
    ("It costs {}.", _amount), ("I paid {} for the book.", _amount), ("She has only {} left.", _amount),
    ("There are {} people here.", _thousands), ("He lost {} books.", _thousands),
    ("{} people live in this city.", _thousands),
    ("The house costs {}.", _sum), ("He owes me {}.", _sum), ("My car cost {} last year.", _sum),
    ("We meet at {}.", _time), ("The train leaves at {} today.", _time), ("Come home before {}!", _time),
    ("It is {}.", _clock), ("The film begins at {}.", _clock),
    ("He was born on {}.", _date), ("The letter is from {}.", _date),
    ("I am {} sure.", _share), ("Only {} of the people came.", _share),
    ("The table is {} meters long.", _decimal), ("I walked {} kilometers.", _decimal),
    ("I have {} dogs.", _whole), ("Open page {}.", _whole), ("He is in room {} now.", _whole),
]  # fmt: skip


def generate_number_texts(count: int, seed: int) -> Iterator[tuple[str, list[str]]]:
    """Typed texts, and what their numbers are: values, with a full stop before decimals, and currencies."""
    numbers = Numbers(seed)
    for _ in range(count):
        template, kind = numbers.choice(TEMPLATES)
        written, values = kind(numbers)
        yield template.format(written), values


def has_value(value: str, text: str) -> bool:
    """Whether a German text has a number, or one of several, as digits or as a word, or a currency."""
    if value in CURRENCIES:
        return re.search(CURRENCIES[value], text.lower()) is not None
    return any(_has_number(each, text) for each in value.split("|"))


def _has_number(value: str, text: str) -> bool:
    whole, mark, decimals = value.partition(".")
    if not whole.isdecimal():  # a time
        return re.search(rf"(?<!\d){value}(?!\d)", text) is not None
    thousands = f"{int(whole):,}".replace(",", r"\.")
    written = f"(?:{whole}|{thousands})" + (f"[.,]{decimals}" if mark else "")
    if re.search(rf"(?<![\d.,]){written}(?!\d|[.,:]\d)", text):
        return True
    is_short = not mark and len(whole) <= 4  # it may be a part of a date
    if is_short and re.search(rf"(?<!\d){whole}(?!\d)", text):
        return True
    return value.isdecimal() and int(value) < len(WORDS) and WORDS[int(value)] in text.lower()


def measure_numbers(translator: Translator, count: int, seed: int, *, show: bool) -> dict[str, int]:
    texts = list(generate_number_texts(count, seed))
    found = Counter({"texts": count, "as they were": 0, "flagged": 0, "silent": 0})
    for (text, values), one in zip(texts, translator.translate([text for text, _ in texts]), strict=True):
        glued = set(re.findall(r"[^\W\d_]\d|\d[^\W\d_]", one.text)) - set(re.findall(r"[^\W\d_]\d|\d[^\W\d_]", text))
        is_right = all(has_value(value, one.text) for value in values) and not glued
        kind = "as they were" if is_right else "silent" if one.doubt is None else "flagged"
        found[kind] += 1
        if show and not is_right:
            print(f"  {kind}: {text} -> {one.text}")
    return dict(found)


SENTENCES = (
    "I am hungry.", "The house is very big.", "My brother lives in Berlin.", "Where is my book?",
    "We have to go now.", "She reads a book every day.",
    "Please open the door!", "I do not know why he is here.", "It is raining today.",
    "The children play in the garden.", "He bought a new car yesterday.", "Can you help me?",
)  # fmt: skip
INLINE = (
    "<b>{}</b>", "<i>{}</i>", "<em>{}</em>", "<strong>{}</strong>", '<a href="/x?a=1&b=2">{}</a>', "<u>{}</u>",
    '<span class="a">{}</span>', "<nobr>{}</nobr>", "<button>{}</button>", "<x-term>{}</x-term>", "<mark>{}</mark>",
    "<font color=red>{}</font>", "<output>{}</output>", '<abbr title="x">{}</abbr>', "<ruby>{}<rt>a</rt></ruby>",
    "<small>{}</small>", "<del>{}</del>", "<label>{}</label>", "<B>{}</B>", "<b><i>{}</i></b>", "<b>{}",
)  # fmt: skip
ALONE = (
    "<br>", "<img src=i.png>", "<wbr>", "<my-icon></my-icon>", "<code>ls -l</code>", "<!-- x -->", "&amp;", "&nbsp;",
    "<kbd>Ctrl</kbd>", "&copy;", "AT&T", "<input value=a>", "<svg><path d='M0'/></svg>",
)  # fmt: skip
BLOCKS = (
    "<p>{}</p>", "<p>{}", "<div>{}</div>", "<h2>{}</h2>", "<ul><li>{}</ul>", "<ul><li>{}</li></ul>",
    "<dl><dt>{}</dl>", "<table><tr><td>{}</table>", "<blockquote>{}</blockquote>",
    "<section><p>{}</p></section>", "{}<hr>",
    "<details><summary>{}</summary></details>", "<fieldset><legend>{}</legend></fieldset>", "<center>{}</center>",
)  # fmt: skip
_INLINE_NAMES = frozenset(
    ("b", "i", "em", "strong", "a", "u", "span", "nobr", "button", "x-term", "mark", "font", "output", "abbr", "ruby",
     "rt", "small", "del", "label", "img", "wbr", "my-icon", "code", "kbd", "input", "svg", "path")
)  # fmt: skip


def generate_block(numbers: Numbers) -> str:
    """A block of one or two sentences with elements round some of their words and between them."""
    words = " ".join(numbers.sample(SENTENCES, numbers.randint(1, 2))).split(" ")
    for _ in range(numbers.randint(0, 2)):
        start = numbers.randrange(len(words))
        end = numbers.randint(start + 1, min(len(words), start + 4))
        words[start:end] = [numbers.choice(INLINE).format(" ".join(words[start:end]))]
    if numbers.random() < 0.4:
        words.insert(numbers.randint(0, len(words)), numbers.choice(ALONE))
    return numbers.choice(BLOCKS).format(" ".join(words))


Block = tuple[str, Counter[str], bool, int]


def read_blocks(page: str) -> list[Block]:
    """The blocks of a page as a browser reads it: their path, the elements in each with what encloses them, whether
    there is text, and how many sentences end in it.
    """
    import html5lib

    page = page.replace("<wbr>", "")  # where a line may be broken is not translated
    found: list[tuple[str, Counter[str], list[str]]] = []

    def visit(node: Any, path: tuple[str, ...], inner: tuple[str, ...]) -> None:
        name = node.tag if isinstance(node.tag, str) else "!--"
        attributes = {key: value for key, value in node.attrib.items() if key not in ("title", "alt")}
        label = f"{name}{sorted(attributes.items())}" if name != "!--" else f"!--{node.text}"
        if name in _INLINE_NAMES or name == "!--":
            inner = (*inner, label)
            found[-1][1][">".join(inner)] += 1
        else:
            path, inner = (*path, label), ()
            found.append((">".join(path), Counter(), []))
        found[-1][2].append(node.text or "" if name != "!--" else "")
        for child in node:
            visit(child, path, inner)
            if child.tag not in _INLINE_NAMES and isinstance(child.tag, str):
                found.append((">".join(path) + " goes on", Counter(), []))
            found[-1][2].append(child.tail or "")

    visit(html5lib.parse(page, namespaceHTMLElements=False), (), ())
    joined = [(path, inner, " ".join(texts).strip()) for path, inner, texts in found]
    read = [(path, inner, text != "", len(re.findall(r"[.!?](?!\w)", text))) for path, inner, text in joined]
    return [one for one in read if one[1] or one[2] or not one[0].endswith("goes on")]


def measure_html(translator: Translator, count: int, seed: int, *, show: bool) -> dict[str, int]:
    numbers, found = Numbers(seed), Counter({"texts": count, "equal": 0, "flagged": 0, "silent": 0})
    files = FileTranslator(translator)
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "in.html"), Path(scratch, "out.html")
        for _ in range(count):
            page = f"<!DOCTYPE html><body>\n{generate_block(numbers)}\n"
            source.write_text(page, encoding="utf-8")
            report = files.translate(source, target)
            output = target.read_text("utf-8")
            is_equal = read_blocks(page) == read_blocks(output)
            kind = "equal" if is_equal else "flagged" if report.flagged else "silent"
            found[kind] += 1
            if show and kind == "silent":
                print(f"  {page.splitlines()[1]}\n    -> {output.splitlines()[1]}")
    return dict(found)


# Names of files in another language than English begin with its code: fa-Intro.strings.
OTHERS = frozenset(
    ("ar", "cs", "da", "de", "es", "fa", "fi", "fr", "he", "hi", "it", "ja", "kab", "ko", "ml", "nl", "pl", "pt",
     "ru", "sk", "sv", "th", "tr", "uk", "zh")
)  # fmt: skip


def measure_files(translator: Translator, root: Path, most: int) -> dict[str, Any]:
    """Every English file of a known format, each text counted once."""
    known = set(endings(lambda each: each.segments))
    paths = [
        path
        for path in sorted(root.rglob("*"))
        if path.suffix in known and re.split(r"[-_.]", path.name)[0].lower() not in OTHERS
    ]
    found, files, start = Counter(), FileTranslator(translator), time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        for path in paths[:most]:
            try:
                report = files.translate(path, Path(scratch, f"out{path.suffix}"))
            except GlassformerError:
                found["refused"] += 1
                continue
            kinds = {(one.line, one.source): one.kind for one in reversed(report.checks)}
            graver = sum(kind != DOUBTFUL for kind in kinds.values())
            is_short = getattr(report, "is_mostly_doubtful", False)
            found.update(files=1, texts=report.segments, to_check=len(kinds), graver=graver)
            found["printed"] += graver if is_short else len(kinds)
    return {**found, "seconds": round(time.perf_counter() - start, 1)}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--only", nargs="+", default=["numbers", "html", "files"], help="which of the three")
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--files", type=int, default=1000, help="at most so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print what is not right")
    modules = ["html5lib"]
    options = parse_options(parser, "--texts 10 --files 3", modules, kept="real_texts.json")
    root = next((place / "files" for place in PLACES if (place / "files").is_dir()), None)
    results: dict[str, Any] = {}
    with Translator.load() as translator:
        measures: dict[str, Callable[[], dict[str, Any]]] = {
            "numbers": partial(measure_numbers, translator, options.texts, options.seed, show=options.show),
            "html": partial(measure_html, translator, 2 * options.texts, options.seed, show=options.show),
            "files": lambda: measure_files(translator, root, options.files) if root is not None else {},
        }
        for name in options.only:
            results[name] = measures[name]()
            print(f"{name:8} {results[name]}")
    write_json(options.json, {"machine": machine(), "seed": options.seed, **results})


if __name__ == "__main__":
    main()
