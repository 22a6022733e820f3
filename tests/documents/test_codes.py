"""Codes of every kind, anywhere in a text, come back from any translation, or the text is flagged."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.word_translator import Permuting
from glassformer import Translator
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.documents import FileTranslator
from glassformer.text.codes.code import Code
from glassformer.text.codes.find import find_codes


def translate(translator: Any, text: str, folder: Path, ending: str = ".txt") -> tuple[str, list[str]]:
    source, target = folder / f"in{ending}", folder / f"out{ending}"
    source.write_bytes(text.encode())
    report = FileTranslator(translator).translate(source, target)
    return target.read_bytes().decode(), [one.remark for one in report.flagged]


def test_everyday_codes_stand_where_they_belong(tmp_path: Path) -> None:
    cases = {
        "{\\an8}My brother lives.": "{\\an8}xMy xbrother xlives.",
        "%s: The house.": "%s: xThe xhouse.",
        "[%s] The house.": "[%s] xThe xhouse.",
        "The house is big (%s).": "xThe xhouse xis xbig (%s).",
        "<p><b><i>I love you.</i></b></p>": "<p><b><i>xI xlove xyou.</i></b></p>",
        "Hello.<br>Good bye.": "xHello.<br>xGood xbye.",
        "One line.\\nTwo lines.": "xOne xline.\\nxTwo xlines.",
        "a <b>red <i>dog</i></b>!": "xa <b>xred <i>xdog</i></b>!",
        '<a href="#"><img src="i.png">Open the door</a> now.':
            '<a href="#"><img src="i.png">xOpen xthe xdoor</a> xnow.',
        "See [[x]] and --help or /etc/hosts now": "xSee [[x]] xand --help xor /etc/hosts xnow",
        "The<wbr>house is bi\u00adg.": "xThehouse xis xbig.",
        "{n, plural, one {One dog} other {# dogs}}": "{n, plural, one {xOne xdog} other {# xdogs}}",
        "Two {% if a %}dogs{% elif b %}cats{% else %}mice{% endif %} run.":
            "xTwo {% if a %}xdogs{% elif b %}xcats{% else %}xmice{% endif %} xrun.",
        "{{#if a}}Dogs{{else}}Cats{{/if}} run": "{{#if a}}xDogs{{else}}xCats{{/if}} xrun",
        "<ul><li>One dog.</li><li>A cat.</li></ul>": "<ul><li>xOne xdog.</li><li>xA xcat.</li></ul>",
        "<b>One dog.<br>A cat.</b>": "<b>xOne xdog.<br>xA xcat.</b>",
        "It took %ds again": "xIt xtook %ds xagain",
        "<q>Sing.</q> He said": "<q>xSing.</q> xHe xsaid",
        "a <b>red</b>-<i>blue</i> dog": "xa <b>xred</b>-<i>xblue</i> xdog",
        "Take `%s`, `%d` / [%s] or (%s, %d), it is": "xTake `%s`, `%d` / [%s] xor (%s, %d), xit xis",
        "<b>Big </b><i> dogs</i> run": "<b>xBig </b><i> xdogs</i> xrun",
    }  # fmt: skip
    for text, expected in cases.items():
        assert translate(Permuting(None, "x"), text, tmp_path) == (expected, []), text


def test_codes_of_documents_stand_where_they_belong(tmp_path: Path) -> None:
    cases = {
        ".md": [
            ("请看[书](book.md)或[图](map.md)吧。", "x请看[书](book.md)或[图](map.md)吧。"),
            ("Two `bird`s here.", "xTwo `bird`s xhere."),
            ("\\****bold.**.", "\\****xbold.**."),
            ("\\~~~~red~~ dog", "\\~~~~xred~~ xdog"),
            ("It is (10<sup>24</sup> kg) here.", "xIt xis (10<sup>24</sup> xkg) xhere."),
            ("We drink H<sub>2</sub>O now.", "xWe xdrink xH<sub>2</sub>O xnow."),
            ("See [1.4 `red`](r.md)<br />[Bird #15](c.md)", "xSee [1.4 `red`](r.md)<br />[xBird #15](c.md)"),
            ("{% if birds > 3 %}Birds{% endif %} A -> B.", "{% if birds > 3 %}xBirds{% endif %} xA -> xB."),
        ],
        ".html": [
            ("<p><!--[if mso]><b>x</b><![endif]-->Open the door.</p>", "<p><!--[if mso]><b>x</b><![endif]-->xOpen xthe xdoor.</p>"),
            ('<p>Look <i class="icon"></i> here.</p>', '<p>xLook <i class="icon"></i> xhere.</p>'),
            ('<p><i class="icon"></i>Look here</p>', '<p><i class="icon"></i>xLook xhere</p>'),
            ("<p>{% if a > 3 && b %}A -> B &amp; <%= n %> {{ a && b }} <?php echo 1 > 2 ?>.</p>",
             "<p>{% if a > 3 && b %}xA -> xB &amp; <%= n %> {{ a && b }} <?php echo 1 > 2 ?>.</p>"),
        ],
        ".vtt": [
            ("WEBVTT\n\n00:01.000 --> 00:02.000\nThe <00:01.200>red bird", "WEBVTT\n\n00:01.000 --> 00:02.000\nxThe <00:01.200>xred xbird"),
        ],
    }  # fmt: skip
    for ending, pairs in cases.items():
        for text, expected in pairs:
            assert translate(Permuting(None, "x"), text, tmp_path, ending) == (expected, []), text


def test_what_a_program_fills_one_after_another_keeps_its_order(tmp_path: Path) -> None:
    for seed in range(9):
        output, flags = translate(Permuting(seed, "x"), "wa %s wb %d wc", tmp_path)
        assert output.index("%s") < output.index("%d"), flags


@pytest.mark.parametrize(
    "code",
    ["%{x}", "<%= x %>", "#{x}", "$t(x)", "__x__", "[name]", "[[x]]", "/etc/hosts", "--help", "-v", "foo()", "{{x}}",
     "{{{x}}}", "{0!r:>{w}}", "file_name", "`npm run x`", "%1!s!", "${x}", "{% if a %}", "@:message.home", "1.0.x", "10²", "C:\\a\\b.txt", "%1$s", "\\t"],
)  # fmt: skip
def test_syntaxes_of_many_programs_are_codes(code: str) -> None:
    assert [part.raw for part in find_codes((f"Take {code} now",)) if isinstance(part, Code)] == [code]


def test_what_a_translation_leaves_as_it_is_stays_to_the_byte(tmp_path: Path) -> None:
    pages = {
        ".html": "<p>I&nbsp;love  you.<br />\nI <b> love</b> a&shy;&lt;dog&gt;<wbr>, too. <i class='x'></i> AT&amp;T</p>\r\n",
        ".md": "See [the house][1]\nand [the\nbridge](b.md) or `x`s.  \nIt is 10<sup>24</sup> kg.\n\n[1]: a.md\n",
        ".srt": "1\n00:00:01,000 --> 00:00:02,000\n{\\an8}- Are you\n- <i>No</i>, thank you.\n",
        ".txt": "\ufeff%s:  a\u00a0b {x}c.  \n{n, plural, one {# dog} other {a {m, select, a {b} other {c}}}}\n",
    }
    for ending, text in pages.items():
        assert translate(Permuting(None), text, tmp_path, ending) == (text, []), ending


class Listening(Permuting):
    """Keeps the texts that it is asked for."""

    def __init__(self) -> None:
        super().__init__(None)
        self.texts: list[str] = []

    def _translate(self, text: str) -> Translation:
        self.texts.append(text)
        return super()._translate(text)


def test_a_text_is_cut_into_sentences_or_only_into_lines(tmp_path: Path) -> None:
    (tmp_path / "in.html").write_text("<p>One dog. <b>Two dogs.</b> A cat and a {n, plural, other {mouse}}.</p>")
    for split, expected in (
        (True, {"One dog.", "Two dogs.", "A cat and a."}),
        (False, {"One dog. Two dogs. A cat and a."}),
    ):
        translator = Listening()
        FileTranslator(translator, split=split).translate(tmp_path / "in.html", tmp_path / "out.html")
        assert expected <= set(translator.texts)


def test_each_branch_of_a_template_is_a_text(tmp_path: Path) -> None:
    translator = Listening()
    translate(translator, "Two {% if a %}dogs{% else %}mice{% endif %} run.", tmp_path)
    assert set(translator.texts) == {"Two dogs", "mice run."}


class Damaging(Permuting):
    """Writes for a text that begins with Two what XML cannot hold."""

    def _translate(self, text: str) -> Translation:
        translation = super()._translate(text)
        if text.startswith("Two"):
            return Translation(text, [], False, [Hypothesis("Zwei \x01", [], [], 0.0, 0.0, False)])
        return translation


XLIFF = """<xliff version="1.2"><file source-language="en" target-language="de" datatype="plaintext" original="x"><body>
{}</body></file></xliff>"""


def fill_xliff(translator: Any, units: Sequence[str], folder: Path) -> tuple[list[str], list[str]]:
    written = "".join(f'<trans-unit id="{n}"><source>{unit}</source></trans-unit>\n' for n, unit in enumerate(units))
    text, flags = translate(translator, XLIFF.format(written), folder, ".xlf")
    return re.findall(r'<target state="needs-review-translation">(.*?)</target>', text), flags


def test_inner_elements_keep_their_nesting_and_what_is_protected_stays(tmp_path: Path) -> None:
    units = [
        '<g id="1"><g id="2">Tom</g> is hungry.</g>',
        'Please open <mrk mtype="protected">Blue House</mrk> now.',
        'I <g id="1">like</g> to <mrk mtype="seg">drive</mrk>',
    ]
    expected = [re.sub(r"(?<![\w<\"=/])(?!g |mrk|Blue|House)([A-Za-z]+)(?![^<>]*>)", r"x\1", unit) for unit in units]
    assert fill_xliff(Permuting(None, "x"), units, tmp_path) == (expected, [])


def test_a_unit_that_does_not_fit_is_named_and_the_others_are_written(tmp_path: Path) -> None:
    targets, flags = fill_xliff(Damaging(None, "x"), ["One dog.", "Two dogs.", "A cat."], tmp_path)
    assert targets == ["xOne xdog.", "xA xcat."]
    assert flags == ["left as it was: with its translation the file would have another form"]


@pytest.mark.parametrize(
    "piece",
    ["a", "a.", "a-", "a@", "1", "1.", "{", "`", "`a", "{a{b}", "a_", "%", "<", "<%", "[", "/a", "_", "\\a", "http://", "--a", "{a,plural,other{",
     "%s ", "<b>", "<b>x", "x</b>", "1 ", "a<br>"],
)  # fmt: skip
def test_the_time_is_linear(piece: str) -> None:
    text = piece * (80_000 // len(piece))
    started = time.process_time()
    find_codes((text,))
    assert time.process_time() - started < 1


SENTENCES = (Path(__file__).parents[1] / "data" / "everyday-sentences.txt").read_text(encoding="utf-8").splitlines()
TEN_CODES = [
    "{\\an8}",
    '<img src="i.png">',
    '<x id="1"/>',
    "%s",
    "{name}",
    "<b></b>",
    "[[x]]",
    "&#9733;",
    "$t(a.b)",
    "<%= x %>",
]


def place(number: int, sentence: str, code: str) -> str:
    """The sentence with a code in one of ten places."""
    words, end = sentence.split(" "), sentence[-1]
    before, after = " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])
    return [
        code + sentence, f"{code} {sentence}", f"{code}: {sentence}", f"[{code}] {sentence}", sentence + code,
        f"{sentence} {code}", f"{sentence[:-1]} {code}{end}", f"{before} {code} {after}", f"{before}{code}{after}",
        f"{words[0]} {code} {' '.join(words[1:])}",
    ][number]  # fmt: skip


def compare_with_the_text_alone(translator: Any, folder: Path, codes: Sequence[str]) -> tuple[int, float]:
    """How many codes were lost without a word, and how many outputs are the text alone with the code in it."""
    rows = [(sentence, code, place((row + column) % 10, sentence, code))
            for row, sentence in enumerate(SENTENCES) for column, code in enumerate(codes)]  # fmt: skip
    (folder / "in.txt").write_text("\n".join([*SENTENCES, *(text for _, _, text in rows)]), encoding="utf-8")
    report = FileTranslator(translator).translate(folder / "in.txt", folder / "out.txt")
    outputs = (folder / "out.txt").read_text("utf-8").split("\n")
    alone, outputs = dict(zip(SENTENCES, outputs, strict=False)), outputs[len(SENTENCES) :]
    flagged = {one.line - len(SENTENCES) for one in report.flagged}

    def bare(text: str) -> str:
        return re.sub(r"[\s\[\]:]", "", text)

    lost, equal = 0, 0
    for line, ((sentence, code, _), output) in enumerate(zip(rows, outputs, strict=True), 1):
        lost += output.count(code) != 1 and line not in flagged
        equal += bare(output.replace(code, "")) == bare(alone[sentence])
    return lost, equal / len(rows)


def test_a_code_does_not_change_what_is_said(tmp_path: Path) -> None:
    assert compare_with_the_text_alone(Permuting(None, "x"), tmp_path, TEN_CODES) == (0, 1.0)


@pytest.mark.slow
def test_a_code_does_not_change_what_the_bundled_model_says(tmp_path: Path) -> None:
    with Translator.load() as translator:
        lost, equal = compare_with_the_text_alone(translator, tmp_path, TEN_CODES)
    assert lost == 0
    assert equal >= 0.95
