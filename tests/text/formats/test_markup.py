"""HTML and Markdown: what programs put into pages, and forms beyond the standard, stay as they are."""

import re
from functools import partial
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.codes.code import Code, Part
from glassformer.text.formats import markdown_reader
from glassformer.text.formats.html import html_segments
from glassformer.text.formats.markdown_reader import markdown_segments
from glassformer.text.formats.segment import FileSegment, apply_edits
from glassformer.text.formats.subtitles import subtitle_segments
from glassformer.text.formats.xliff import xliff_segments


def shout(text: str, segments: list[FileSegment]) -> str:
    """The text with all that is translated in capitals."""
    parts = [[part if isinstance(part, Code) else part.upper() for part in one.parts] for one in segments]
    return apply_edits(text, [edit for one, said in zip(segments, parts, strict=True) for edit in one.edits(said)])


PAGES = [
    ("<p>{% if birds > 3 && a < b %}many{% endif %}</p>", "<p>{% if birds > 3 && a < b %}MANY{% endif %}</p>"),
    ("<p>Hello <%= name & title -> 1 %>!</p>", "<p>HELLO <%= name & title -> 1 %>!</p>"),
    ("<p>Hello <?php echo $a > 1 ? 'x' : 'y' ?> you</p>", "<p>HELLO <?php echo $a > 1 ? 'x' : 'y' ?> YOU</p>"),
    ("<p>{{ user.name | default('<b>') }} is here</p>", "<p>{{ user.name | default('<b>') }} IS HERE</p>"),
    ("<p>a {# no > note #} b</p>", "<p>A {# no > note #} B</p>"),
    ("<p>A -> b, c >= d</p>", "<p>A -> B, C >= D</p>"),
    ("<p>a -&gt; b > c</p>", "<p>A -&gt; B &gt; C</p>"),
    ("<p>a ]]> b</p>", "<p>A ]]&gt; B</p>"),
    ("<a {% if x > 1 %}class='{{ c > 1 }}'{% endif %} href='<?= $u ?>'>go</a>", "<a {% if x > 1 %}class='{{ c > 1 }}'{% endif %} href='<?= $u ?>'>GO</a>"),
    ("<?xml version='1.0'?>\n<p>a</p>", "<?xml version='1.0'?>\n<p>A</p>"),
    ("<p>100 % {sure} {, <? and <% here", "<p>100 % {SURE} {, &lt;? AND &lt;% HERE"),
    ("<p>one\n{% else %}\ntwo {{ n }}\nthree</p>", "<p>ONE\n{% else %}\nTWO {{ n }} THREE</p>"),
    ("{% block a %}\n<p>one</p>\n{% endblock %}\ntwo", "{% block a %}\n<p>ONE</p>\n{% endblock %}\nTWO"),
    ("{% trans %}one{% endtrans %}", "{% trans %}ONE{% endtrans %}"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PAGES)
def test_templates_stay_in_their_own_spelling(text: str, expected: str) -> None:
    assert shout(text, html_segments(text, Path("a.html"))) == expected


def test_a_statement_on_a_line_of_its_own_parts_the_text_as_a_block_does() -> None:
    text = "<p>one\n  {% else %}\ntwo {{ n }}\n{{ m }}\nthree</p>"
    assert [one.text for one in html_segments(text, Path("a.html"))] == ["one", "two {{ n }} {{ m }} three"]


REFERENCES = [
    "AT&T is big.", "AT&T", "I work for R&D in Berlin.", "&copy 2020", "&copy", "&copy; 2020", "&notit;", "&notin;",
    "a &amp, b", "a &amp", "a &ampx", "a && b", "&", "&;", "&T;", "&#x41 b", "&#x41", "&#65 b", "&#65x", "&#x41;&#66;",
    "&#;", "&#x;", "&# a", "&#x110000;", "&#128;", "&a.b;", "&a-b;", "a &lt b", "&amp;copy;", "&amp;amp;",
    f"&#{'0' * 5000}65;", f"&#{'1' * 5000};", f"&#x{'1' * 5000};", "&#\u0663;",
]  # fmt: skip


@pytest.mark.parametrize("text", REFERENCES)
def test_references_are_read_and_kept_as_browsers_read_them(text: str) -> None:
    long_numbers = {f"&#{'0' * 5000}65;": "A", f"&#{'1' * 5000};": "\ufffd"}
    read = long_numbers.get(text) or unescape(text)
    cue = partial(subtitle_segments, is_subrip=False)
    ways = [
        (html_segments, f"<p>{text}</p>"), (html_segments, text), (html_segments, f"<p title='{text}'>{text} <b>b</b></p>"),
        (markdown_segments, f"<p>\n{text}</p>\n"), (cue, f"WEBVTT\n\n00:01.000 --> 00:02.000\n{text}\n"),
    ]  # fmt: skip
    for find, page in ways:
        (segment,) = find(page, Path("a"))
        assert segment.text.removesuffix(" <b>b</b>") == read
        filled = apply_edits(page, segment.edits(segment.parts))
        assert [one.parts for one in find(filled, Path("a"))] == [segment.parts]


def test_a_reference_of_xml_may_have_many_zeros() -> None:
    text = f"<xliff><file><body><trans-unit><source>&#{'0' * 5000}65;</source></trans-unit></body></file></xliff>"
    assert [one.text for one in xliff_segments(text, Path("a.xlf"))] == ["A"]


# A text, and what is translated of it.
FORMS = [
    (":::tip My house\nThe man.\n:::\n", ["The man."]),
    ("::::note\n\n:::warning[x]\nA b.\n:::\n\n::::\n", ["A b."]),
    ("> :::note\n> A b\n> c.\n> :::\n", ["A b c."]),
    ("!!! note\n    The man\n    is old.\n\n    ```\n    x\n    ```\n\nAfter.\n", ["The man is old.", "After."]),
    ('??? warning "Look out"\n    The man.\n', ["The man."]),
    ('=== "Tab"\n\n    code\n', []),
    ("> **Note**\n> The man.\n", ["**Note**\nThe man."]),
    ("> **Warning**\n> *The* man.\n", ["**Warning**\n*The* man."]),
    ("Term\n: The man\n  is old.\n: Second.\n", ["Term", "The man is old.", "Second."]),
    ("[TOC]\n\n[[_TOC_]]\n\nA\n", ["A"]),
    ("import X from '@site/x';\nimport {\n  A,\n  B,\n} from \"y\"\nimport 'z.css'\n\nA\n", ["A"]),
    ("export const a = {\n  b: 'c d',\n};\n\nA\n", ["A"]),
    ("*[HTML]: Hyper Text\n\nHTML is.\n", ["HTML is."]),
    ("$$\na + b\n$$\n\nA $E = mc^2$ b $$x$$, $5 and $6.\n", ["A $E = mc^2$ b $$x$$, $5 and $6."]),
    ("{% include a.html b='The man' %}\nA\n", ["A"]),
    ("{{< figure a=\"b\" >}}\n\n{/* a b */}\n\nA {% b %} c.\n", ["A {% b %} c."]),
    ("Press <kbd>Ctrl</kbd>+<KBD>C *d*</KBD> or <code>a b</code>, <var>n</var>.\n", ["Press <kbd>Ctrl</kbd>+<KBD>C *d*</KBD> or <code>a b</code>, <var>n</var>."]),
    ("Open <kbd>here\n", ["Open <kbd>here"]),
    ("See [[a page|b]] and ![[c d]].\n", ["See [[a page|b]] and ![[c d]]."]),
    ("```\n:::\n$$\nimport 'a'\n```\n\nA\n", ["A"]),
    ("import things that you need\nfrom here.\n", ["import things that you need from here."]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_forms_beyond_the_standard_are_kept(text: str, expected: list[str]) -> None:
    segments = markdown_segments(text, Path("a.md"))
    assert [one.text for one in segments] == expected
    shouted = shout(text, segments)
    assert shouted.lower().replace("> ", "").split() == text.lower().replace("> ", "").split()
    assert len(markdown_segments(shouted, Path("a.md"))) == len(expected)
    codes = (part.raw for one in segments for part in one.parts if isinstance(part, Code))
    assert [line for code in codes for line in code.split("\n") if line not in shouted] == []


def test_lines_of_a_form_stay_lines() -> None:
    for text in ("> **Note**\n> The man.\n", "!!! note\n    The man.\n"):
        assert shout(text, markdown_segments(text, Path("a.md"))).count("\n") == text.count("\n")


@pytest.mark.parametrize("word", ["::: x", "!!! note", "??? x", "$$ a", ": x", '=== "a"'])
def test_a_translation_does_not_begin_such_a_form(word: str) -> None:
    (segment,) = markdown_segments("Words.\n", Path("a.md"))
    filled = apply_edits("Words.\n", segment.edits([f"{word}"]))
    assert len(markdown_segments(f"Term\n{filled}", Path("a.md"))) == 1


@given(st.text("ab \t\n.:!]1-#>@", max_size=40))
def test_a_text_without_signs_of_markup_is_read_as_the_parser_reads_it(text: str) -> None:
    def read() -> list[tuple[Part, ...]]:
        return [one.parts for one in markdown_segments(text, Path("a.md"))]

    quickly = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown_reader, "_INLINE_SIGN", re.compile(""))
        assert read() == quickly
