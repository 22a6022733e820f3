"""Twice the text takes about twice the processor time, whatever the text is: each format, and what attackers write."""

import gc
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from covering import sample

from benchmarks.large_files import LARGE_FILES
from glassformer.decoding.restore.places import restore
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.documents.glossary import Glossary, Term
from glassformer.documents.memory import Memory
from glassformer.documents.translate_file import find_segments
from glassformer.errors import TextError
from glassformer.text.codes.code import Code, Part
from glassformer.text.codes.draft import make_draft
from glassformer.text.codes.find import find_codes
from glassformer.text.corpus.corpus import Pair, describe_pairs, read_pairs
from glassformer.text.formats import FORMATS, FormatOptions
from glassformer.text.formats.segment import apply_edits

MOST = 2.6  # times the processor time of a text half as long
FILLED = [entry for entry in FORMATS if entry.segments is not None]


def some_of(cases: dict[str, Any], count: int) -> pytest.MarkDecorator:
    """The mark that gives a test a sample of named cases, one by one."""
    names = sample(cases, count)
    return pytest.mark.parametrize("case", [cases[name] for name in names], ids=names)


def fill(ending: str, text: str) -> str:
    """The file with each text as its own translation; as it was, if it is refused."""
    try:
        segments = find_segments(Path(f"a{ending}"), FormatOptions(language="de"))(text)
    except TextError:
        return text
    return apply_edits(text, [edit for segment in segments for edit in segment.edits(segment.parts)])


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, without collections of garbage, which come in leaps."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    work()
    gc.enable()
    return time.process_time() - start


def check_growth(work: Callable[[int], object], size: int) -> None:
    """Of three tries the best counts: other processes disturb the caches."""
    ratios = []
    for _ in range(3):
        once, twice = (seconds(lambda each=each: work(each)) for each in (size, 2 * size))
        ratios.append(twice / max(once, 0.02))
        if ratios[-1] <= MOST:
            return
    raise AssertionError(f"twice the size takes {min(ratios):.1f} times the time: {once:.2f} s, then {twice:.2f} s")


@pytest.mark.slow
def test_growth_is_noticed() -> None:
    with pytest.raises(AssertionError, match="times the time"):
        check_growth(lambda size: sum(range(size**3)), 110)  # far from any noise


@pytest.mark.slow
@pytest.mark.parametrize("entry", sample(FILLED, 5), ids=lambda entry: entry.name)
def test_many_segments_take_proportional_time(entry) -> None:
    write = LARGE_FILES[entry.name]
    filled = fill(entry.endings[0], write(200))
    assert len(filled) >= len(write(200))
    assert "man 199" in filled
    size = 3000
    texts = {each: write(each) for each in (size, 2 * size)}
    check_growth(lambda each: fill(entry.endings[0], texts[each]), size)


HOSTILE_HTML = {
    "declarations": "<!", "end tags": "</", "tags": "<a ", "comments": "<!--", "nested pictures": "<svg>",
    "crossed pictures": "<svg></b>", "bold": "<b>", "references": "&amp;", "damaged references": "&#;",
    "open quotes": '<a x="', "tags that end in vain": "<a b='>' c=\"", "conditions": "<![if ", "programs": "<?",
    "scripts": "<script>", "closed conditions": "<![if ]", "closed comments": "<!--->x", "paragraphs": "<p>a",
    "untranslated": "<p translate=no>", "spaces": "<p>     ", "statements": "{% ", "statements in tags": "<a {% ",
    "templates": "{{a}} ", "lines of statements": "{% a %}\n",
}  # fmt: skip


@pytest.mark.slow
@some_of(HOSTILE_HTML, 8)
def test_hostile_pages_take_proportional_time(case: str) -> None:
    check_growth(lambda size: fill(".html", "<p>a " + case * (size // len(case))), 100_000)


LONG = {
    ".po": lambda size: 'msgid ""\n' + '"man \\n"\n' * (size // 9) + 'msgstr ""\n',
    ".vtt": lambda size: "WEBVTT\n\n00:01.000 --> 00:02.000\n" + "A: (b)\n- ♪ c</i>\n" * (size // 18),
    ".srt": lambda size: "00:00:01,000 --> 00:00:02,000\n" + "the <b>man</b> " * (size // 15) + "\n",
    ".csv": lambda size: 'source,target\n"' + 'the ""man""\n' * (size // 12) + '",\n',
    ".jsonl": lambda size: '{"text": "a", ' + '"b": [], ' * (size // 9) + '"c": 0}\n',
    ".xlf": lambda size: LARGE_FILES["XLIFF"](size // 70).replace("\n", ""),
    ".tmx": lambda size: LARGE_FILES["TMX"](size // 70).replace("\n", ""),
    ".txt": lambda size: "the man " * (size // 8),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ending", sample(LONG, 4))
def test_a_long_text_and_a_long_line_take_proportional_time(ending: str) -> None:
    check_growth(lambda size: fill(ending, LONG[ending](size)), 200_000)


HOSTILE_MARKDOWN: dict[str, Callable[[int], str]] = {
    "cells of a row": lambda size: "|a" * (size // 4) + "|\n" + "|-" * (size // 4) + "|\n",
    "rows": lambda size: "|a|b|\n|-|-|\n" + "|[x](y)|`c`|\n" * (size // 12),
    "columns without cells": lambda size: "|a" * 200 + "|\n" + "|-" * 200 + "|\n" + "|b|\n" * (size // 4),
    "links": lambda size: "[a](b) " * (size // 7),
    "open links": lambda size: "[a](" * (size // 4),
    "open addresses": lambda size: "[a](<b" * (size // 6),
    "brackets": lambda size: "[" * (size // 4),
    "pictures": lambda size: "![" * (size // 6),
    "references": lambda size: "[a]: b\n\n" + "[a] " * (size // 4),
    "footnotes": lambda size: "[^a" * (size // 3),
    "comments": lambda size: "a <!-- b " * (size // 9),
    "comments in paragraphs": lambda size: "a <!-- b\n\n" * (size // 10),
    "blocks of comments": lambda size: "<!-- b\n\n" * (size // 8),
    "marks of code": lambda size: "`a ``b " * (size // 7),
    "longer and longer marks": lambda size: " ".join("`" * each + "a" for each in range(int((2 * size) ** 0.5))),
    "emphasis": lambda size: "**a *b " * (size // 7),
    "backslashes": lambda size: "\\" * size,
    "tags": lambda size: '<b x="' * (size // 6),
    "bold": lambda size: "<b>a</b> " * (size // 9),
    "breaks": lambda size: "a<br>\n" * (size // 6),
    "items in items": lambda size: "".join("  " * (each % 60) + "- a\n" for each in range(size // 64)),
    "keys": lambda size: "<kbd>a " * (size // 7),
    "terms": lambda size: "a\n: b\n" * (size // 6),
    "imports": lambda size: "import a\n" * (size // 9),
    "notes": lambda size: "!!! a\n    b\n" * (size // 12),
    "quotations": lambda size: "> a\nb\n" * (size // 6),
}


@pytest.mark.slow
@some_of(HOSTILE_MARKDOWN, 8)
def test_hostile_markdown_takes_proportional_time(case: Callable[[int], str]) -> None:
    check_growth(lambda size: fill(".md", case(size)), 30_000)


TMX = (
    '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>{}</seg></tuv>'
    '<tuv xml:lang="de"><seg>b</seg></tuv></tu></body></tmx>'
)
FILE_OF_XLIFF = '<file source-language="en"><body><trans-unit id="1"><source>a</source><target>{}</target></trans-unit></body></file>'
XLIFF = f'<xliff version="1.2">{FILE_OF_XLIFF}</xliff>'
HOSTILE_TABLES: dict[str, tuple[str, Callable[[int], str]]] = {
    "digits and a space": (".tsv", lambda size: "1" * size + " x\tb\n"),
    "marks inside cells": (".tsv", lambda size: ('a"b\t' * 10_000 + "\n") * (size // 40_000)),
    "marks that open": (".tsv", lambda size: '"a\t' * (size // 3) + "\n"),
    "marks that close and go on": (".csv", lambda size: '"a""b ' * (size // 6)),
    "marks alone": (".csv", lambda size: '"' * size),
    "rows of empty cells": (".csv", lambda size: (";" * 1000 + "\n") * (size // 1000)),
    "open tags": (".tsv", lambda size: "< " * (size // 2) + "\tb\n"),
    "names of languages": (".csv", lambda size: "en (" * (size // 4) + ",de\n"),
    "spaces in a unit": (".tmx", lambda size: TMX.format(" " * size)),
    "lines in a unit": (".tmx", lambda size: TMX.format("a\n" * (size // 2))),
    "spaces in a target": (".xlf", lambda size: XLIFF.format(" " * size)),
    "files in a file": (".xlf", lambda size: f'<xliff version="1.2">{FILE_OF_XLIFF.format("") * (size // 200)}</xliff>'),
}  # fmt: skip


@pytest.mark.slow
@some_of(HOSTILE_TABLES, 4)
def test_hostile_tables_take_proportional_time(case: tuple[str, Callable[[int], str]], tmp_path: Path) -> None:
    ending, write = case

    def read(size: int) -> None:
        fill(ending, write(size))
        with suppress(TextError):
            (tmp_path / f"a{ending}").write_text(write(size))
            describe_pairs(tmp_path / f"a{ending}")
            list(read_pairs(tmp_path / f"a{ending}"))

    check_growth(read, 200_000)


@pytest.mark.slow
def test_messages_in_a_message_take_proportional_time() -> None:
    check_growth(
        lambda size: find_codes(["{n, plural, one {" + "{a, select, b {c}} " * (size // 19) + "}}"]), 500_000
    )


HOSTILE_TEXTS: dict[str, Callable[[int], list[Part]]] = {
    "signs that divide": lambda size: ["a " + "," * size + ".", Code("<x/>")],
    "signs and spaces": lambda size: [Code("<x/>"), ", " * (size // 2), Code("<x/>"), " a"],
    "a format of percents": lambda size: ["a ", Code("`" + "%2 " * (size // 3) + "`"), " b"],
    **{
        f"a code of {sign}": lambda size, sign=sign: ["a ", Code("`" + sign * (size // len(sign)) + "`"), " b"]
        for sign in ("<", "<!--", "{%", "{\\", "[^", "<a ", "{%else ", "![")
    },
}


@pytest.mark.slow
@some_of(HOSTILE_TEXTS, 4)
def test_many_signs_before_a_code_and_in_it_take_proportional_time(case: Callable[[int], list[Part]]) -> None:
    def draft(size: int) -> None:
        assert make_draft(case(size)) is not None
        make_draft(case(size), 0)

    check_growth(draft, 30_000)


@pytest.mark.slow
@pytest.mark.parametrize("code", [[Code("<x/>")], [Code("<b>", "opens"), "old", Code("</b>", "closes")]], ids=str)
def test_a_code_among_many_words_is_placed_in_proportional_time(code: list[Part]) -> None:
    def place(words: int) -> None:
        draft = make_draft(["man " * words, *code, " man" * words])
        assert draft is not None
        output = Hypothesis("Mann " * 2 * words, [], [], -1.0, -1.0, False)
        assert restore(draft, Translation(draft.text, [], False, [output]), lambda _: ([], []))

    check_growth(place, 10_000)


def spans_of(term: str, text: str) -> list[tuple[int, int]]:
    """Where a text has a term as words; its case counts only where the term itself has capitals."""
    flags = re.IGNORECASE if term == term.lower() else re.NOFLAG
    return [found.span() for found in re.finditer(rf"(?<!\w){re.escape(term)}(?!\w)", text, flags)]


def occurring(glossary: Glossary, text: str) -> list[Term]:
    """Each term looked for on its own, as the glossary says it, with a place of its own beside longer terms."""
    spans = {term.src: spans_of(term.src, text) for term in glossary.terms}
    letters = {src: {frozenset(range(*span)) for span in each} for src, each in spans.items()}
    every = set().union(*letters.values())
    return [
        term for term in glossary.terms if any(not any(one < other for other in every) for one in letters[term.src])
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "The old MAN in the ice cream shop",
        "C++ and .NET, not NET or ASP.NET or C++11",
        "Ice-cream: İce, ICE Straße STRASSE",
        "ice",
        "",
        "%",
        "5 % of i%, ice ice-cream\u00a0ice cream",
    ],
)
def test_the_glossary_finds_what_each_term_alone_finds(text: str) -> None:
    sources = ["ice", "ice cream", "Man", "man", "C++", ".NET", "straße", "ice-cream", "%", "the old man", "i"]
    glossary = Glossary([Term(source, ("x",)) for source in sources])
    assert glossary.terms_in(text) == occurring(glossary, text)


@pytest.mark.slow
def test_the_terms_of_a_large_glossary_hardly_cost_time() -> None:
    text = "The man number 77 is old. " * 20
    glossaries = {size: Glossary([Term(f"number {each}", ("x",)) for each in range(size)]) for size in (500, 20_000)}
    small, large = (
        seconds(lambda each=each: [each.terms_in(text) for _ in range(100)]) for each in glossaries.values()
    )
    assert large < 3 * small + 0.05
    assert [term.src for term in glossaries[20_000].terms_in(text)] == ["number 77"]


@pytest.mark.slow
def test_long_texts_are_compared_by_words_and_hopeless_ones_not_at_all() -> None:
    long = " ".join(f"The man {number} is old and the woman {number} sleeps." for number in range(70))
    others = [re.sub(str(number), f"x{number}", long) for number in range(10, 30)]
    memory = Memory([Pair(each, "x") for each in others])
    near = memory.near(long)
    assert near is not None
    assert near.similarity > 0.9
    assert Memory([Pair("The house is big. " * 160, "x")]).near(long) is None
    assert seconds(lambda: memory.near(long)) < 1
    assert seconds(lambda: Memory([Pair("a " * 40_000, "x")]).near("a " * 39_000)) < 1


@pytest.mark.slow
def test_nonsense_of_a_memory_is_compared_within_bounds() -> None:
    random = Random(1)
    nonsense = [" ".join("".join(random.choices("ab", k=19)) for _ in range(19)) for _ in range(40)]
    same = ["a " * 190 + str(number) for number in range(40)]
    huge = "the man is old " * 100_000
    memory = Memory([Pair(each, "x") for each in (*nonsense, *same, huge)])
    texts = [f"{each[:-1]}b" for each in (*nonsense, *same)]
    assert seconds(lambda: [memory.near(each) for each in texts]) < 5
    assert seconds(lambda: [memory.near("the man is old") for _ in range(100)]) < 1


@pytest.mark.slow
def test_a_large_glossary_and_one_long_text_take_proportional_time() -> None:
    glossary = Glossary([Term("a " * length + "b", ("x",)) for length in range(99)] + [Term("a", ("x",))])
    check_growth(lambda size: glossary.terms_in("a " * size + "b"), 10_000)
    many = [Term(f"a{number}", ("x",)) for number in range(100_000)]
    check_growth(lambda size: Glossary(many[:size]).terms_in(" ".join(term.src for term in many[:size])), 20_000)
