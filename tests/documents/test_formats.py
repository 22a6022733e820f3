"""What is found in each kind of file, and that filling it changes nothing else."""

import csv
import io
import json
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from babel.messages import pofile
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from glassformer.documents.translate_file import find_segments
from glassformer.errors import TextError
from glassformer.text.codes.code import Code, Part, join_parts
from glassformer.text.codes.find import find_codes
from glassformer.text.columns import Columns
from glassformer.text.corpus.corpus import read_pairs
from glassformer.text.formats import FormatOptions, endings
from glassformer.text.formats.segment import FileSegment, apply_edits

PO_HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
XLIFF = '<?xml version="1.0"?>\n<xliff version="1.2"><file><body>\n{}\n</body></file></xliff>\n'
XLIFF2 = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" trgLang="de"><file id="f">{}</file></xliff>'
)
TMX = '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="en"/><body>{}</body></tmx>'
FULL = '<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'

BILINGUAL = [ending[1:] for ending in endings(lambda each: each.is_bilingual)]

# Kind of file, its text, and the texts that are found in it, codes included.
FILES: list[tuple[str, str, list[str]]] = [
    ("po", PO_HEADER, []),
    ("po", PO_HEADER + 'msgid "One"\nmsgstr ""\n', ["One"]),
    ("po", PO_HEADER + 'msgid "One"\nmsgstr "Eins"\n', []),
    ("po", PO_HEADER + '#: a.c:1\n#, c-format\nmsgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n', ["%d file", "%d files"]),
    ("po", PO_HEADER + 'msgctxt "menu"\nmsgid "Open"\nmsgstr ""\n\nmsgctxt "door"\nmsgid "Open"\nmsgstr ""\n', ["Open", "Open"]),
    ("po", PO_HEADER + 'msgid ""\n"two \\"lines\\"\\n"\n"here\\n"\nmsgstr ""\n', ['two "lines"\nhere']),
    ("po", PO_HEADER + '#~ msgid "old"\n#~ msgstr ""\n', []),
    ("po", PO_HEADER + '#, fuzzy\nmsgid "One"\nmsgstr ""\n#. a comment\nmsgid "Two"\nmsgstr ""', ["One", "Two"]),
    ("po", (PO_HEADER + 'msgid "One\\ttab"\nmsgstr ""\n').replace("\n", "\r\n"), ["One\ttab"]),
    ("po", PO_HEADER + '#~| msgid "older"\n#~ msgid "old"\n#~ msgstr ""\n\n#| msgid "n"\nmsgid "new"\nmsgstr ""\n', ["new"]),
    ("po", PO_HEADER.replace("2; plural=(n != 1)", "INTEGER; plural=EXPRESSION").replace("UTF-8", "CHARSET") + 'msgid "One"\nmsgstr ""\n', ["One"]),
    ("po", PO_HEADER.replace("=2", "=3") + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\nmsgstr[2] ""\n', ["a", "b", "b"]),
    ("po", PO_HEADER + 'msgid "msgstr \\\\ back"\nmsgstr ""\n', ["msgstr \\ back"]),
    ("tmx", TMX.format(FULL), []),
    ("tmx", TMX.format(FULL + '\n  <tu>\n    <tuv xml:lang="en"><seg>c</seg></tuv>\n  </tu>\n'), ["c"]),
    ("tmx", TMX.format(FULL + '<tu><tuv xml:lang="en"><seg>c</seg></tuv><tuv xml:lang="de"><seg/></tuv></tu>'), ["c"]),
    ("tmx", TMX.format(FULL + '<tu><tuv xml:lang="en-US"><seg>c</seg></tuv><tuv xml:lang="de-AT"><seg></seg></tuv></tu>'), ["c"]),
    ("tmx", TMX.format(FULL + '<tu><tuv lang="en"><seg>a &lt; b &amp; c</seg></tuv></tu>'), ["a < b & c"]),
    ("tmx", TMX.format(FULL + '<tu><tuv xml:lang="en"><seg>x<bpt i="1">&lt;b&gt;</bpt>y<ept i="1"/></seg></tuv></tu>'), ['x<bpt i="1">&lt;b&gt;</bpt>y<ept i="1"/>']),
    ("tmx", TMX.format(FULL + '<tu><tuv xml:lang="en"><seg>é <hi>ü</hi></seg></tuv></tu>'), ["é <hi>ü</hi>"]),
    ("tmx", TMX.format(FULL + '<tu><note>no</note><tuv xml:lang="fr"><seg>seul</seg></tuv></tu>'), []),
    ("tmx", TMX.format(FULL + '<tu><!-- c --><tuv xml:lang="en"><seg><![CDATA[a < b]]></seg></tuv></tu>'), ["a < b"]),
    ("tmx", TMX.format(FULL + '<tu a="1 > 0"><tuv xml:lang="en" b=\'">\'><seg>q</seg></tuv></tu>'), ["q"]),
    ("xliff", XLIFF.format('<trans-unit id="1"><source>One</source></trans-unit>'), ["One"]),
    ("xliff", XLIFF.format('  <trans-unit id="1">\n    <source>One</source>\n  </trans-unit>'), ["One"]),
    ("xliff", XLIFF.format('<trans-unit id="1"><source>One</source><target/></trans-unit>'), ["One"]),
    ("xliff", XLIFF.format('<trans-unit id="1"><source>One</source><target state="new"></target></trans-unit>'), ["One"]),
    ("xliff", XLIFF.format('<trans-unit id="1"><source>One</source><target>Eins</target></trans-unit>'), []),
    ("xliff", XLIFF.format('<trans-unit id="1" translate="no"><source>One</source></trans-unit>'), []),
    ("xliff", XLIFF.format('<trans-unit id="1"><source>One</source><target state="needs-translation">One</target></trans-unit>'), ["One"]),
    ("xlf", XLIFF2.format('<unit id="1"><segment state="initial"><source>A</source><target>A</target></segment><segment state="final"><source>B</source><target>B</target></segment></unit>'), ["A"]),
    ("xliff", XLIFF.format('<trans-unit id="1"><source>&lt;<![CDATA[&lt;b&gt; &#foo;]]></source></trans-unit>'), ["<&lt;b&gt; &#foo;"]),
    ("xliff", XLIFF.format('<group><trans-unit id="1"><source>a <g id="2">b</g><x id="3"/></source></trans-unit></group>'), ['a <g id="2">b</g><x id="3"/>']),
    ("xliff", XLIFF.format('<trans-unit id="1"><source>a &lt;b&gt;b&lt;/b&gt; &amp;amp; c</source></trans-unit>'), ["a <b>b</b> &amp; c"]),
    ("xliff", XLIFF.format('<!-- <source>x</source> --><trans-unit id="1"><source><![CDATA[</source> a]]> &#x41;<!-- c --></source></trans-unit>'), ["</source> a A"]),
    ("xliff", XLIFF.format('<group translate="no"><trans-unit id="1"><source>A</source></trans-unit><trans-unit id="2" translate="yes"><source>B</source></trans-unit></group>'), ["B"]),
    ("xliff", XLIFF2.format('<unit id="1" translate="no"><segment><source>A</source></segment></unit>'), []),
    ("xliff", XLIFF2.format('<unit id="1"><segment><source>One <pc id="1">two</pc></source></segment></unit>'), ['One <pc id="1">two</pc>']),
    ("xlf", XLIFF2.format('<unit id="1"><segment><source>A</source><target>B</target></segment><segment><source>C</source></segment></unit>'), ["C"]),
    ("xlf", '<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:1.2"><x:trans-unit id="1"><x:source>Ünï</x:source></x:trans-unit></x:xliff>', ["Ünï"]),
    ("csv", "en,de\nOne,\nTwo,Zwei\n", ["One"]),
    ("csv", "Key,English,Deutsch\nk,One,\n", ["One"]),
    ("csv", "One;\nTwo;Zwei\nThree\n", ["One", "Three"]),
    ("csv", 'id,source,target,note\n1,"a, ""b""",,x\n', ['a, "b"']),
    ("csv", 'source|target\n"two\nlines"|\n', ["two\nlines"]),
    ("csv", "\ufeffsource\ttarget\r\nOne\t\r\n", ["One"]),
    ("csv", "", []),
    ("csv", "sep=;\r\nen;de\r\na, b;\r\n", ["a, b"]),
    ("csv", 'One,Eins\n"",\n', []),
    ("csv", 'a"b,\n', ['a"b']),
    ("csv", '"only"', ["only"]),
    ("csv", "x,y,z\na,,c\n", ["a"]),
    ("tsv", "One\t\nTwo\tZwei\n", ["One"]),
    ("tsv", 'One "quoted\t\n', ['One "quoted']),
    ("tsv", "One\n", ["One"]),
    ("tsv", 'source\ttarget\n"One\ntwo"\t\n"A ""b"""\tC\n', ["One\ntwo"]),
    ("tsv", '"One."\t\n', ['"One."']),
    ("tsv", "source\ttarget\nOne\t\n", ["One"]),
    ("jsonl", '{"src": "One"}\n', ["One"]),
    ("jsonl", '{"src": "One", "tgt": ""}\n{"src": "Two", "tgt": "Zwei"}', ["One"]),
    ("jsonl", '{"text": "a \\"b\\" {"}\n\n{"id": {"x": 1}, "text": "c"}\n', ['a "b" {', "c"]),
    ("jsonl", '{"src": "a", "tgt": null}\n{"meta": {"tgt": ""}, "src": "b", "tgt": ""}\n', ["a", "b"]),
    ("jsonl", '{"src": "x \\"tgt\\": \\"\\"", "tgt" : ""}\n{"src":"c","tgt":" "}', ['x "tgt": ""', "c"]),
    ("md", "- [ ] a b\n- [x] c\n\n> [!NOTE]\n> d[^1] :smile: @me #1\n> e\n\n[^1]: f\n", ["[ ] a b", "[x] c", "[!NOTE]\nd[^1] :smile: @me #1 e", "[^1]: f"]),
    ("md", "> a  \n> - b\n\n1. c\\\n   d\n", ["a", "b", "c\\\nd"]),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000\n- Where?\n–At home.\n\n2\n00:00:03,000 --> 00:00:04,000\n- a\nb\n", ["Where?", "At home.", "- a b"]),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000\n- {}\n-\n- b\n".format(("long " * 20).strip()), [("long " * 20).strip(), "b"]),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000\nOne\n", ["One"]),
    ("srt", "1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>One</i>\r\ntwo\r\n\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\nThree\r\n", ["<i>One</i> two", "Three"]),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000\n\n2\n00:00:03,000 --> 00:00:04,000\n{\\an8}Up\n\n", ["{\\an8}Up"]),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000", []),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000\nOne\n2\n00:00:03 --> 00:00:04\nTwo\n", ["One", "Two"]),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000\nOne\n\nmore -->\n\n2\n00:00:03,000 --> 00:00:04,000\n42\n", ["One", "more -->", "42"]),
    ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n\nintro\n00:03.000 --> 00:04.000\nOne\n\nNOTE a\n", ["One"]),
    ("srt", "\ufeff1\n00:00:01,000 --> 00:00:02,000 X1:40\n- a\n- b", ["a", "b"]),
    ("vtt", "WEBVTT\n\nNOTE a\n00 b\n\nintro\n00:01.000 --> 00:02.000 align:start\nOne\n", ["One"]),
    ("vtt", "WEBVTT\n\nSTYLE\n::cue {}\n\n1:00:01.000 --> 1:00:02.000\n<v Ann>One <00:01.500>two</v>\n", ["<v Ann>One <00:01.500>two</v>"]),
    ("html", "<p>One</p>", ["One"]),
    ("html", "<!DOCTYPE html>\n<html><head><title>T</title><style>p {}</style><script>a<b</script></head><body>\n<p>One <b>two</b>.</p></body></html>", ["T", "One <b>two</b>."]),
    ("html", "<ul><li>One<li>Two</ul>three", ["One", "Two", "three"]),
    ("html", '<p title="a > b">x &amp; y &lt; z</p>', ["x & y < z"]),
    ("html", "<p>Run <code>x()</code> now<br>and <img src=a> go</p>", ["Run <code>x()</code> now<br>and <img src=a> go"]),
    ("html", "<pre>a\n b</pre><p translate=no>b</p><p>c</p>", ["c"]),
    ("html", "<p>a <!-- c --> b</p><?php echo 1 ?><p>d</p>", ["a <!-- c --> b", "d"]),
    ("html", "<ul><li translate=no>a<li>b</ul>\n<p>c</p><input translate=no><p>d</p>", ["b", "c", "d"]),
    ("html", "<ul><li translate=no>a</ul><table translate=no><tr><td>b</table><p>c</p>", ["c"]),
    ("html", "<p>a <![if !x]>b<![endif]> c</p>", ["a <![if !x]>b<![endif]> c"]),
    ("html", "<p>unclosed <b>bold", ["unclosed <b>bold"]),
    ("html", "<p>a &lt;b&gt;b&lt;/b&gt; &amp;copy;</p>", ["a <b>b</b> &copy;"]),
    ("html", "<p>a <code>b</p><p>c</p>", ["a"]),
    ("html", "a < b and <3", ["a < b and <3"]),
    ("html", "<table><tr><td> x </td><td></td><td>y</td></tr></table>", ["x", "y"]),
    ("md", "# Title\n\nA *b* `c`.\n", ["Title", "A *b* `c`."]),
    ("md", "---\nt: x\n---\n\nOne\n", ["One"]),
    ("md", "- a\n- b\n  1. c\n", ["a", "b", "c"]),
    ("md", "> one\n> two\n", ["one two"]),
    ("md", "| a | b |\n| - | - |\n| c | c |\n", ["a", "b", "c", "c"]),
    ("md", "| a \\| b | c |\n| - | - |\n| d | `e` |\n", ["a | b", "c", "d", "`e`"]),
    ("md", "```py\ncode\n```\n\n    indented\n\nOne\n", ["One"]),
    ("md", "[t](http://a.b 'c') and <http://d.e> ![i](j.png)\n", ["[t](http://a.b 'c') and <http://d.e> ![i](j.png)"]),
    ("md", "One \\* two &amp; three\nfour\n", ["One \\* two &amp; three four"]),
    ("md", "Title\n=====\n\nline  \nbreak\n", ["Title", "line  \nbreak"]),
    ("md", "<div>html</div>\n\nOne <b>two</b>\n", ["html", "One <b>two</b>"]),
    ("md", '<p align="center">\n  A &amp; b.</p>\n\n> <div>c</div>\n\n<!-- d -->\n', ["A & b."]),
    ("md", "---\n\nA b.\n\n---\n\nC d.\n", ["A b.", "C d."]),
    ("md", "+++\nt = 1\n+++\n\nOne\n", ["One"]),
    ("txt", "One\n\n two \r\n", ["One", " two "]),
]  # fmt: skip


def test_each_format_has_examples() -> None:
    assert {f".{kind}" for kind, _, _ in FILES} >= set(endings(lambda each: each.segments, first=True))


def found_in(kind: str, text: str) -> list[Sequence[Part]]:
    segments = find_segments(Path(f"file.{kind}"), FormatOptions())(text.removeprefix("\ufeff"))
    return [segment.parts for segment in segments]


def fill(kind: str, text: str) -> tuple[str, list[tuple[int, int]]]:
    """The file with each text in capitals, and what was replaced."""
    body = text.removeprefix("\ufeff")
    segments = find_segments(Path(f"file.{kind}"), FormatOptions())(body)
    shout = [[part if isinstance(part, Code) else part.upper() for part in find_codes(one.parts)] for one in segments]
    edits = [edit for one, parts in zip(segments, shout, strict=True) for edit in one.edits(parts)]
    return apply_edits(body, edits), [(edit.start, edit.end) for edit in edits]


# What a model might write that means something else in one of the formats.
NASTY = [
    "- a", "# x", "1. y", "a | z", "<b x", "a &amp; b", 'say "q"', "back\\", "]]> x", "--> y", "a\n\nb", "  lead", "*s*",
    "_u_ [x](y)", "`c", "> q", "=====", "---", "~~~", "a\tb", ";,|", "<!-- c", "{\\an8}", "NOTE x",
    "00:00:01,000 --> 00:00:02,000",
]  # fmt: skip


@pytest.mark.parametrize("nasty", NASTY)
def test_a_translation_cannot_change_the_form_of_the_file(nasty: str) -> None:
    for kind, text, expected in FILES:
        body = text.removeprefix("\ufeff")
        segments = find_segments(Path(f"file.{kind}"), FormatOptions())(body)
        edits = []
        for segment in segments:
            texts = [index for index, part in enumerate(segment.parts) if isinstance(part, str)]
            parts = [nasty if index in texts[:1] else part for index, part in enumerate(segment.parts)]
            edits += segment.edits(parts)
        filled = apply_edits(body, edits)
        left = find_segments(Path(f"file.{kind}"), FormatOptions())(filled)
        assert len([one for one in left if one.text.strip()]) == (0 if kind in BILINGUAL else len(expected)), filled
        CHECKS.get(kind, lambda _: None)(filled)


@pytest.mark.parametrize(("kind", "text", "expected"), FILES, ids=lambda value: str(value)[:20])
def test_the_texts_of_a_file_are_found(kind: str, text: str, expected: list[str]) -> None:
    assert [join_parts(parts) for parts in found_in(kind, text)] == expected


@pytest.mark.parametrize(("kind", "text", "expected"), FILES, ids=lambda value: str(value)[:20])
def test_a_filled_file_is_of_its_kind_and_all_else_is_unchanged(kind: str, text: str, expected: list[str]) -> None:
    filled, replaced = fill(kind, text)
    body, places = text.removeprefix("\ufeff"), sorted(replaced)
    starts, ends = [start for start, _ in places], [end for _, end in places]
    pieces = [body[start:end] for start, end in zip([0, *ends], [*starts, len(body)], strict=True)]
    assert re.fullmatch(".*".join(map(re.escape, pieces)), filled, re.DOTALL)
    if kind in BILINGUAL:
        assert [one for one in found_in(kind, filled) if join_parts(one).strip()] == []
    else:
        assert len(found_in(kind, filled)) == len(expected)
    CHECKS.get(kind, lambda _: None)(filled)
    texts = (part for parts in found_in(kind, text) for part in find_codes(parts) if isinstance(part, str))
    for part in texts:
        for word in re.findall(r"[a-z]{2,}", part):
            assert word.upper() in filled


def check_json(text: str) -> None:
    for line in text.split("\n"):
        if line.strip():
            record = json.loads(line)
            assert record.get("tgt") or record.get("translation")


CHECKS = {
    # Babel does not know #~|, which msgmerge --previous writes.
    "po": lambda text: pofile.read_po(io.BytesIO(text.replace("#~|", "#").encode()), abort_invalid=True),
    "tmx": ElementTree.fromstring,
    "xliff": ElementTree.fromstring,
    "xlf": ElementTree.fromstring,
    "csv": lambda text: list(csv.reader(io.StringIO(text), strict=False)),
    "jsonl": check_json,
}


def test_filled_messages_are_fuzzy_and_keep_their_line_breaks() -> None:
    text = (
        PO_HEADER
        + 'msgid "One"\nmsgstr ""\n\n#, c-format\nmsgid ""\n"%d\\n"\n"two\\n"\nmsgstr ""\n\nmsgid "x"\nmsgstr "y"\n'
    )
    catalog = pofile.read_po(io.BytesIO(fill("po", text)[0].encode()), abort_invalid=True)
    found = {message.id: (message.string, message.fuzzy) for message in catalog if message.id}
    assert found == {"One": ("ONE", True), "%d\ntwo\n": ("%d\nTWO\n", True), "x": ("y", False)}


def test_flags_stand_before_the_previous_message_as_msgfmt_wants_it() -> None:
    assert '\n#, fuzzy\n#| msgid "b"\nmsgid "a"' in fill("po", PO_HEADER + '#| msgid "b"\nmsgid "a"\nmsgstr ""\n')[0]


def test_the_header_of_a_filled_template_is_right() -> None:
    header = PO_HEADER.replace("2; plural=(n != 1)", "INTEGER; plural=EXPRESSION").replace("UTF-8", "CHARSET")
    assert fill("po", header + 'msgid "a"\nmsgstr ""\n')[0].startswith(PO_HEADER)


def test_markdown_keeps_white_space_that_the_parser_keeps() -> None:
    text = "- a *b* `c`\n\x0b\n  d\n"
    (segment,) = find_segments(Path("a.md"), FormatOptions())(text)
    assert segment.parts[-1] == " \x0b d"


@pytest.mark.parametrize(
    "page", sorted((Path(__file__).parents[2] / "docs").glob("*.md")), ids=lambda path: path.name
)
def test_a_page_that_is_translated_into_itself_says_the_same(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    segments = find_segments(page, FormatOptions())(text)
    again = apply_edits(text, [edit for one in segments for edit in one.edits(find_codes(one.parts))])
    assert again.split() == text.split()
    assert len(segments) >= min(10, text.count("\n\n"))


def other_words(parts: Sequence[Part]) -> list[Part]:
    """The parts in a language of which every letter is another one."""
    return [part if isinstance(part, Code) else re.sub(r"[^\W\d_]", "w", part) for part in parts]


def markup_of(text: str) -> list[tuple[str, str, str]]:
    """What a reader of the page does not read as words: the kind of each token, where links lead, code."""
    found = []
    for block in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        for token in [block, *(block.children or ())]:
            if token.type not in ("text", "inline", "softbreak"):
                content = "" if token.type == "image" else token.content
                found.append((token.type, content, str(token.attrs.get("href") or token.attrs.get("src"))))
    return found


def check_markup(text: str) -> None:
    segments = find_segments(Path("a.md"), FormatOptions())(text)
    filled = apply_edits(text, [edit for one in segments for edit in one.edits(other_words(find_codes(one.parts)))])
    assert markup_of(filled) == markup_of(text)


@pytest.mark.parametrize(
    "page", sorted((Path(__file__).parents[2] / "docs").glob("*.md")), ids=lambda path: path.name
)
def test_links_and_code_of_a_translated_page_stay(page: Path) -> None:
    check_markup(page.read_text(encoding="utf-8"))


INLINE = [
    "word", "a.", ".", ". ", " ", ",", "(see)", "`c`", "`a.b`", "``a`.b``", "*it*", "**bold.**", "~~s~~", "[x](a.b)",
    "[x.](<a b.c> 'a.b')", "[a (b)](c(d.e)f).", "[y][ref]", "[ref]", "[ref][]", "[none]", "![i.m](p.q)", "![ref]",
    "[![i](a.b)](c.d)", "<http://a.b/c>", "<i x='a.b'>", "</i>", "&amp;", "\\*", "*", "_", "`", "[", "]", "\n", "  \n",
    "\\\n", "1", "http://a.b.", "[^1]", ":s:", "@m", "#1",
]  # fmt: skip


@given(st.lists(st.sampled_from(INLINE), max_size=9).map("".join))
@example("See [the house](http://a.b/c).")
@example("Call `a.b()`.")
@example("[the house].\n\n[the house]: http://a.b/c")
@example("***it*word*z")
@example("_**bold.**_ **")
def test_links_and_code_of_a_paragraph_stay(paragraph: str) -> None:
    check_markup(f"a{paragraph}z\n\n[ref]: r.s/t 'u.v'\n")


def test_a_language_that_the_file_does_not_name_is_put_in() -> None:
    unnamed = XLIFF2.replace(' trgLang="de"', "").format('<unit id="1"><segment><source>a</source></segment></unit>')
    with pytest.raises(TextError, match=r"names no target language, expected trgLang"):
        find_segments(Path("f.xliff"), FormatOptions())(unnamed)
    (one,) = find_segments(Path("f.xliff"), FormatOptions(language="de"))(unnamed)
    assert '2.0" trgLang="de"><file' in apply_edits(unnamed, one.edits(["A"]))
    catalog = PO_HEADER.replace('"Content', '"Language: \\n"\n"Content') + 'msgid "a"\nmsgstr ""\n'
    (one,) = find_segments(Path("f.po"), FormatOptions(language="de"))(catalog)
    assert '"Language: de\\n"\n"Content' in apply_edits(catalog, one.edits(["A"]))
    assert "Language: \\n" in fill("po", catalog)[0]


def test_what_is_escaped_in_the_file_stays_escaped() -> None:
    text = XLIFF.format('<trans-unit id="1"><source>a &lt;b&gt;b&lt;/b&gt; &amp;amp;</source></trans-unit>')
    assert ">A &lt;b&gt;B&lt;/b&gt; &amp;amp;</target>" in fill("xliff", text)[0]
    assert fill("html", "<p>a &lt;b&gt; &amp;copy; <b>c</b></p>")[0] == "<p>A &lt;b&gt; &amp;copy; <b>C</b></p>"
    seg_source = '<trans-unit id="1"><source>a</source><seg-source>a</seg-source></trans-unit>'
    assert (
        '</seg-source><target state="needs-review-translation">A</target>'
        in fill("xliff", XLIFF.format(seg_source))[0]
    )


def test_a_line_of_subtitles_is_not_broken_in_a_tag() -> None:
    cue = "1\n00:00:01,000 --> 00:00:02,000\n"
    text = f'{cue}A man in a <font color="red">red</font> shirt is running in the snow.'
    expected = f'{cue}A MAN IN A <font color="red">RED</font> SHIRT IS\nRUNNING IN THE SNOW.'
    assert fill("srt", text)[0] == expected
    short = f'{cue}<font color="#ff0000">A man is running.</font>'
    assert fill("srt", short)[0] == f'{cue}<font color="#ff0000">A MAN IS RUNNING.</font>'


def test_states_of_xliff_say_that_somebody_has_to_look() -> None:
    unit = '<trans-unit id="1"><source>OK</source><target state="new"{}</trans-unit>'
    filled = '<trans-unit id="1"><source>OK</source><target state="needs-review-translation">OK</target></trans-unit>'
    for target in ("/>", " />", "></target>", ">OK</target>"):
        assert fill("xliff", XLIFF.format(unit.format(target)))[0] == XLIFF.format(filled)
    for none in (unit.replace('<target state="new"{}', ""), unit.replace(' state="new"{}', "/>")):
        assert fill("xliff", XLIFF.format(none))[0] == XLIFF.format(filled)
    segment = '<unit id="1"><segment{}><source>OK</source>{}</segment></unit>'
    after = segment.format(' state="translated" subState="glassformer:needs-review"', "<target>OK</target>")
    for state in ("", ' state="initial"', ' state="initial" subState="x:y"'):
        assert fill("xlf", XLIFF2.format(segment.format(state, "")))[0] == XLIFF2.format(after)


def test_a_language_without_a_plural_gets_it_from_the_plural(tmp_path: Path) -> None:
    text = 'msgid ""\nmsgstr "Plural-Forms: nplurals=1; plural=0;\\n"\n\nmsgid "One"\nmsgid_plural "%d days"\nmsgstr[0] "{}"\n'
    assert found_in("po", text.format("")) == [("%d days",)]
    (tmp_path / "a.po").write_text(text.format("%d Tage"))
    assert list(read_pairs(tmp_path / "a.po")) == [("%d days", "%d Tage")]


def test_pairs_of_xliff_are_without_copies_of_the_source(tmp_path: Path) -> None:
    unit = '<trans-unit id="1"><source>A</source><target state="{}">A</target></trans-unit>'
    (tmp_path / "a.xliff").write_text(XLIFF.format(unit.format("needs-translation") + unit.format("final")))
    assert list(read_pairs(tmp_path / "a.xliff")) == [("A", "A")]


def test_columns_are_taken_by_name_or_number() -> None:
    text = "key,English text,German text\nk,One,\n"

    def find(columns: str) -> list[FileSegment]:
        return find_segments(Path("f.csv"), FormatOptions(Columns.parse(columns)))(text)

    assert find("English text:German text")[0].text == "One"
    assert [one.text for one in find("2:4")] == ["English text", "One"]
    assert [one.text for one in find("2+1:4")] == ["English text (key)", "One (k)"]
    with pytest.raises(TextError, match=r"column 9: found 3 columns"):
        find("9")
    with pytest.raises(TextError, match=r"column 'Deutsch': found key, English text, German text"):
        find("Deutsch")


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("po", 'msgid "a "b" c"\nmsgstr ""\n', 'file.po:1: found msgid "a "b" c", expected a string'),
        ("po", 'msgid "a"\nmsgstr ""\n\nmsgid "b\nmsgstr ""\n', "is not a gettext catalog|expected a string"),
        (
            "po",
            'msgid "a"\nmsgstr[0] ""\n',
            r"file\.po:1: is not a gettext catalog: found msgid, msgstr\[0\], expected msgid and",
        ),
        ("jsonl", '{"text": "a", "must": ["b"]}', r"file\.jsonl:1: found 'must'"),
        ("po", 'msgid "a"\n\nmsgid "b"\nmsgstr ""\n', "is not a gettext catalog"),
        ("tmx", "<tmx><body>", "is not well-formed XML"),
        ("tmx", TMX.format('<tu><tuv xml:lang="en"><seg>a</seg></tuv></tu>'), "no unit has two languages"),
        ("xliff", '<!DOCTYPE x [<!ENTITY a "b">]><xliff/>', "xliff:1: declares entities"),
        ("xliff", '<!DOCTYPE x [<!ENTITY % a "b">]><xliff/>', "xliff:1: declares entities"),
        ("xliff", '<!DOCTYPE x [\n<!ATTLIST ph a CDATA "b">]><xliff/>', "xliff:2: declares attributes"),
        ("tmx", '<!DOCTYPE x [<!ATTLIST ph a CDATA "b">]><tmx/>', "tmx:1: declares attributes"),
        ("xliff", "<a>" * 300 + "</a>" * 300, "nests more than 200 elements"),
        ("csv", '"abc,\nx,\n', r"file\.csv:1: a quotation mark is not closed"),
        ("csv", 'x,\n"a" b,\n', r"file\.csv:2: a quotation mark is not closed, or text follows"),
        ("md", "a\rb\n", r"file\.md:1: found a carriage return"),
        ("jsonl", '{"id": 1}', "found no text to translate"),
        ("jsonl", "{", "is not JSON"),
        ("jsonl", "[1]", "found list, not an object"),
        ("srt", "no subtitles\n", "expected subtitles"),
        (
            "srt",
            "1\n00:00:01,000 --> 00:00:02,000\na\n\n2\n00:00:03,000 -> 0\nb\n\n3\n00:05 --> x\nc\n",
            r"srt:6: found '00:00:03,000 -> 0', expected",
        ),
        (
            "srt",
            "1\n00:00:01,000 --> 00:00:02,000\na\n\n2\n00:05 --> x\nb\n",
            r"srt:6: found '00:05 --> x', expected",
        ),
    ],
)
def test_a_damaged_file_is_refused_in_words(kind: str, text: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        find_segments(Path(f"file.{kind}"), FormatOptions())(text)


def test_an_unknown_kind_of_file_is_refused() -> None:
    with pytest.raises(
        TextError,
        match=r"expected a file ending in \.txt, \.tsv, \.train, \.dev, \.test, \.gold, \.csv, \.jsonl, \.po, \.pot, \.tmx",
    ):
        find_segments(Path("letter.docx"), FormatOptions())


def test_training_reads_pairs_of_csv_xliff_and_excel(tmp_path: Path) -> None:
    from openpyxl import Workbook

    (tmp_path / "a.csv").write_text('Source;Target\n"One; two";Eins\nThree;Drei\n')
    (tmp_path / "b.xliff").write_text(
        XLIFF.format(
            '<trans-unit id="1"><source>One <g id="1">x</g></source><target>Eins <g id="1">x</g></target></trans-unit>'
        )
    )
    book = Workbook()
    for row in (["id", "en", "de"], [1, "One", "Eins"], [2, "Two", None]):
        book.active.append(row)
    book.save(tmp_path / "c.xlsx")
    assert list(read_pairs(tmp_path / "a.csv")) == [("One; two", "Eins"), ("Three", "Drei")]
    assert list(read_pairs(tmp_path / "b.xliff")) == [("One x", "Eins x")]
    assert list(read_pairs(tmp_path / "c.xlsx")) == [("One", "Eins"), ("Two", "")]
    (tmp_path / "d.xlsx").write_text("no")
    with pytest.raises(TextError, match="is not a readable Excel file"):
        list(read_pairs(tmp_path / "d.xlsx"))
    (tmp_path / "e.csv").write_text("One,Eins\nTwo\n")
    with pytest.raises(TextError, match=r"e\.csv:2: found 1 columns, expected source and target in columns 1 and 2"):
        list(read_pairs(tmp_path / "e.csv"))


LIVE = re.compile(r"<(?:img|a|em|strong|code|script)\b")


@pytest.mark.parametrize("source", ["The man is old.", "a < b, [x] and c_d", "[WIP] 2 * 3 \\d", "`x and <y", "a\\"])
@pytest.mark.parametrize(
    "attack",
    ["<img src=x onerror=alert(1)>", "\\<img src=x>", "\\\\<img src=x>", "[x](javascript:alert)", "\\[x\\](y)", "<http://a.b>",
     "[x]: http://a.b", "*x* _y_ __z__", "`x` ``y``", "[WIP](x)", "<y x>", "![x](y)", "2\\*3\\*", "[x][x] [WIP]"],
)  # fmt: skip
@pytest.mark.parametrize("form", ["{}", "# {}", "- {}", "| a |\n|---|\n| {} |"])
def test_no_markup_comes_in_with_a_translation(source: str, attack: str, form: str) -> None:
    text = form.format(source) + "\n"
    segments = find_segments(Path("a.md"), FormatOptions())(text)
    edits = [edit for one in segments for edit in one.edits([attack])]
    shown = MarkdownIt("commonmark").enable("table").render(apply_edits(text, edits))
    assert LIVE.search(shown) is None
    assert attack in unescape(re.sub(r"</?(?:p|h1|ul|li|table|thead|tbody|tr|t[hd])>", "", shown))


def test_signs_that_are_no_markup_where_they_stand_stay_as_they_are() -> None:
    text = "See a_b and [WIP] if 2 * 3 < 7 in ~/x and `code`.\n"
    (segment,) = find_segments(Path("a.md"), FormatOptions())(text)
    code = next(part for part in segment.parts if isinstance(part, Code))
    for words, expected in (
        ("Wenn 2 * 3 < 7 ist, siehe [WIP] und b_a in ~/x: ", "Wenn 2 * 3 < 7 ist, siehe [WIP] und b_a in ~/x: "),
        ("[WIP] [WIP] [ABC] <b> *a* ", "[WIP] \\[WIP\\] \\[ABC\\] \\<b> \\*a\\* "),
    ):
        assert apply_edits(text, segment.edits([words, code, "."])) == f"{expected}`code`.\n"


def test_a_cell_that_a_spreadsheet_would_compute_is_doubtful() -> None:
    for ending, sign in ((".csv", ","), (".tsv", "\t")):
        text = f"source{sign}target\nSum{sign}\n-5 degrees{sign}\n"
        plain, computed = find_segments(Path(f"a{ending}"), FormatOptions())(text)
        assert plain.doubts(["Summe"]) == []
        assert computed.doubts(["-5 Grad"]) == []
        for begin in "=+-@":
            assert plain.doubts([f" {begin}HYPERLINK(1)"]) == [
                f"begins with {begin}, so that a spreadsheet may compute it"
            ]


HEADERS = [
    ("a.po", 'msgid ""\nmsgstr "Language: \\n"\n\nmsgid "One"\nmsgstr ""\n\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n', "Language: de"),
    ("a.xlf", XLIFF.format('<trans-unit id="1"><source>One</source></trans-unit><trans-unit id="2"><source>a</source></trans-unit>'),
     'target-language="de"'),
    ("a.xlf", '<xliff version="2.0"><file id="f"><unit id="1"><segment><source>One</source></segment></unit><unit id="2"><segment>'
     "<source>a</source></segment></unit></file></xliff>", 'trgLang="de"'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), HEADERS)
def test_the_header_is_written_whichever_texts_are(name: str, text: str, expected: str) -> None:
    segments = find_segments(Path(name), FormatOptions(language="de"))(text)
    for some in (segments, *([one] for one in segments)):
        filled = apply_edits(text, [edit for one in some for edit in one.edits(["X"])])
        assert filled.count(expected) == 1
    assert len(segments) > 1


@pytest.mark.parametrize("number", [0, 1])
def test_a_message_of_which_one_form_is_written_is_fuzzy(number: int) -> None:
    text = 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    one = find_segments(Path("a.po"), FormatOptions())(text)[number]
    assert apply_edits(text, one.edits(["X"])).startswith("#, fuzzy\n")
