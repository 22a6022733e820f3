"""TMX and XLIFF: which languages and which units are taken, where a translation goes, and what says that it is one."""

from pathlib import Path

import pytest

from glassformer.errors import TextError
from glassformer.text.codes.code import Code
from glassformer.text.corpus.corpus import describe_pairs, read_pairs
from glassformer.text.formats.segment import FileSegment, apply_edits
from glassformer.text.formats.tmx import describe_tmx, find_variant, tmx_segments
from glassformer.text.formats.xliff import describe_xliff, xliff_languages, xliff_segments
from glassformer.text.languages import same_language

TMX = '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="{}"/><body>{}</body></tmx>'
XLIFF = '<xliff version="1.2"><file source-language="en-US" target-language="de"><body>{}</body></file></xliff>'


def unit(**texts: str) -> str:
    variants = (f'<tuv xml:lang="{tag.replace("_", "-")}"><seg>{text}</seg></tuv>' for tag, text in texts.items())
    return f"<tu>{''.join(variants)}</tu>"


def pairs_of(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text, encoding="utf-8")
    return [tuple(pair) for pair in read_pairs(path)]


def fill(text: str, segments: list[FileSegment]) -> str:
    return apply_edits(text, [edit for number, one in enumerate(segments) for edit in one.edits([f"X{number}"])])


@pytest.mark.parametrize(
    ("tag", "other", "same"),
    [
        ("en", "en-us", True), ("en_gb", "en-us", True), ("zh-cn", "zh-tw", False), ("zh", "zh-tw", True),
        ("zh-hans", "zh-cn", True), ("zh-hant-hk", "zh-sg", False), ("sr-latn", "sr-cyrl-rs", False),
        ("sr-latn-rs", "sr", True), ("de", "da", False), ("de-DE", "de-ch", True),
    ],
)  # fmt: skip
def test_variants_are_of_one_language_but_scripts_are_not(tag: str, other: str, same: bool) -> None:
    assert same_language(tag, other) == same_language(other, tag) == same


def test_a_variant_is_taken_only_where_it_is_the_only_one() -> None:
    assert find_variant(["en", "de-at"], "de") == "de-at"
    assert find_variant(["de-at", "de_de", "de-ch"], "de-de") == "de_de"
    assert find_variant(["de-at", "de-ch"], "de") is None
    assert find_variant(["zh-tw"], "zh-cn") is None


def test_scripts_and_variants_of_a_memory_are_told_apart_counted_and_filled(tmp_path):
    chinese = unit(en="1", zh_CN="s") + unit(en="2", zh_TW="t") + unit(en="3", zh_TW="t", zh_CN="s")
    assert pairs_of(tmp_path / "a.tmx", TMX.format("en", chinese)) == [("1", "s"), ("3", "s")]
    assert str(describe_pairs(tmp_path / "a.tmx")).endswith("a.tmx: translations from en to zh-cn.")
    german = unit(en="1", de_DE="a") + unit(en_GB="2", de_CH="b") + unit(en="3", de_CH="c", de_AT="d")
    assert pairs_of(tmp_path / "a.tmx", TMX.format("en-US", german)) == [("1", "a"), ("2", "b")]
    said = "translations from en to de-de; de-ch where it is alone, in 1 units; en-gb where it is alone, in 1 units."
    assert str(describe_pairs(tmp_path / "a.tmx")).endswith(said)
    assert pairs_of(tmp_path / "a.tmx", TMX.format("de-DE", unit(en="1", de="a"))) == [("a", "1")]
    assert "translations from de to en." in str(describe_pairs(tmp_path / "a.tmx"))
    path = tmp_path / "a.tmx"
    path.write_text(TMX.format("en", unit(en="1", zh_CN="s") + unit(en="2", zh_TW="t") + unit(en="3", zh_HK="h")))
    found = tmx_segments(path.read_text(), path, "zh-TW")
    assert [one.text for one in found] == ["1"]
    assert '<tuv xml:lang="zh-TW"><seg>X0</seg></tuv></tu>' in fill(path.read_text(), found)
    assert str(describe_tmx(path, "zh-TW")).endswith("from en to zh-tw; zh-hk where it is alone, in 1 units.")
    assert str(describe_tmx(path)).endswith("from en to zh-cn.")


def test_an_empty_memory_has_nothing_to_fill(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text(TMX.format("en", ""))
    for language in (None, "de"):
        assert tmx_segments(TMX.format("en", ""), tmp_path / "a.tmx", language) == []
        assert describe_tmx(tmp_path / "a.tmx", language) is None
    with pytest.raises(TextError, match="no unit has two languages"):
        tmx_segments(TMX.format("en", unit(en="a")), tmp_path / "a.tmx")


@pytest.mark.parametrize(
    ("inner", "plain"),
    [
        ('Click<ph x="1">&lt;br/&gt;</ph>here', "Click here"), ('<ph x="1"/>Go.', "Go."), ('5<ph x="1"/>%', "5%"),
        ('a<hi type="b">b</hi>c <hi>d<ph x="1"/>e</hi>', "abc d e"), ('請<ph x="1"/>看', "請看"), ("a\n   b", "a b"),
        ('to <ph x="1"/>you', "to you"), ('a<ph x="1"/><ph x="2"/>b', "a b"),
    ],
)  # fmt: skip
def test_words_are_not_glued_where_a_code_stood(tmp_path: Path, inner: str, plain: str) -> None:
    assert pairs_of(tmp_path / "a.tmx", TMX.format("en", unit(en=inner, de=inner))) == [(plain, plain)]
    inner = inner.replace("<hi", "<g id='1'").replace("</hi>", "</g>").replace('<ph x="1"/>', '<x id="1"/>')
    units = XLIFF.format(f"<trans-unit id='1'><source>{inner}</source><target>{inner}</target></trans-unit>")
    assert pairs_of(tmp_path / "a.xliff", units) == [(plain, plain)]


PROTECTED = (
    '<trans-unit id="1"><source>Open <mrk mtype="protected">Blue House</mrk>.</source><target>x</target></trans-unit>'
)


def test_what_is_protected_is_part_of_what_is_learned(tmp_path: Path) -> None:
    assert pairs_of(tmp_path / "a.xliff", XLIFF.format(PROTECTED)) == [("Open Blue House.", "x")]


def divided(target: str) -> str:
    source = '<source>A. B.</source><seg-source><g id="9"><mrk mtype="seg" mid="1">A.</mrk></g> <mrk mtype="seg" mid="2">B.</mrk></seg-source>'
    return XLIFF.format(f'<trans-unit id="1">{source}{target}</trans-unit>')


@pytest.mark.parametrize(
    ("target", "filled"),
    [
        ('<mrk mtype="seg" mid="1"/> <mrk mtype="seg" mid="2"/>', '<mrk mtype="seg" mid="1">X0</mrk> <mrk mtype="seg" mid="2">X1</mrk>'),
        ('<mrk mtype="seg" mid="1">Ä.</mrk> <mrk mtype="seg" mid="2"></mrk>', '<mrk mtype="seg" mid="1">Ä.</mrk> <mrk mtype="seg" mid="2">X0</mrk>'),
        ('<g id="9"><mrk mid="1" mtype="seg">Ä.</mrk></g>', '<g id="9"><mrk mid="1" mtype="seg">Ä.</mrk></g><mrk mtype="seg" mid="2">X0</mrk>'),
        ('<mrk mtype="seg" mid="2"><x id="1"/></mrk><mrk mtype="seg" mid="1">Ä.</mrk>', '<mrk mtype="seg" mid="2">X0</mrk><mrk mtype="seg" mid="1">Ä.</mrk>'),
        ('<g id="9"></g>', "X0"),
    ],
)  # fmt: skip
def test_a_divided_unit_is_filled_part_by_part(target: str, filled: str) -> None:
    text = divided(f"<target>{target}</target>")
    done = fill(text, xliff_segments(text, Path("a.xlf")))
    assert done == divided(f'<target state="needs-review-translation">{filled}</target>')
    assert xliff_segments(done, Path("a.xlf")) == []


def test_pairs_of_a_divided_unit_are_its_parts(tmp_path: Path) -> None:
    text = divided('<target><mrk mtype="seg" mid="1">Ä.</mrk> <mrk mtype="seg" mid="2"/></target>')
    assert pairs_of(tmp_path / "a.sdlxliff", text) == [("A.", "Ä."), ("B.", "")]


@pytest.mark.parametrize("version", ["1.2", "2.1"])
def test_what_this_program_filled_is_not_learned_until_somebody_has_looked(tmp_path: Path, version: str) -> None:
    text = XLIFF.format('<trans-unit id="1"><source>A</source></trans-unit>')
    if version != "1.2":
        text = '<xliff version="2.1" srcLang="en" trgLang="de"><file id="1"><unit id="1"><segment><source>A</source></segment></unit></file></xliff>'
    filled = fill(text, xliff_segments(text, Path("a.xlf")))
    assert pairs_of(tmp_path / "a.xlf", filled) == []
    seen = filled.replace(' state="needs-review-translation"', "").replace(' subState="glassformer:needs-review"', "")
    assert pairs_of(tmp_path / "a.xlf", seen) == [("A", "X0")]
    assert seen != filled


def test_entities_of_a_dtd_that_is_not_read_are_characters() -> None:
    text = '<!DOCTYPE xliff PUBLIC "-//XLIFF//DTD XLIFF//EN" "x.dtd">' + XLIFF.format(
        '<trans-unit id="1"><source>a&nbsp;b &unknown;</source></trans-unit>'
    )
    (segment,) = xliff_segments(text, Path("a.xlf"))
    assert segment.text == "a\u00a0b &unknown;"


@pytest.mark.parametrize(
    ("head", "found", "said"),
    [
        ('<xliff version="1.2"><file source-language="en-US" target-language="de">', ["en-US", "de"], "from en-US to de."),
        ('<xliff version="1.2"><file source-language="en">', ["en"], "from en to fr."),
        ('<xliff version="2.0" srcLang="en" trgLang="de"><file id="f">', ["en", "de"], "from en to de, not fr: the file says so."),
        ('<xliff version="1.2"><file>', [], None),
        ("<xliff", [], None),
    ],
)  # fmt: skip
def test_xliff_says_its_languages(tmp_path: Path, head: str, found: list[str], said: str | None) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(f"{head}<body/></file></xliff>")
    assert xliff_languages(path) == found
    assert (describe_xliff(path, "fr") or "").endswith((said or "").replace("de.", "de, not fr: the file says so."))
    assert (describe_xliff(path) is None) == (len(found) < 2)
    assert describe_pairs(path) == (f"{path}: translations from {' to '.join(found)}." if found else None)


SENTENCE = "I know\n   why my brother\n\twants it.\nThank  you."


@pytest.mark.parametrize(
    ("at", "kept"), [("", False), ('xml:space="default"', False), ('xml:space="preserve"', True)]
)
@pytest.mark.parametrize("place", ["file", "trans-unit", "source"])
def test_white_space_is_kept_where_the_file_says_so(at, kept, place):
    body = f'<trans-unit id="1"><source>\n {SENTENCE} </source></trans-unit>'
    text = XLIFF.format(body).replace(f"<{place}", f"<{place} {at}", 1)
    (segment,) = xliff_segments(text, Path("a.xlf"))
    if not kept:
        assert segment.parts == ("\n I know why my brother wants it. Thank you. ",)
        return
    codes = [part.raw for part in segment.parts if isinstance(part, Code)]
    assert (segment.text, codes) == (f"\n {SENTENCE} ", ["\n   ", "\n\t"])  # each line break inside a sentence
    written = apply_edits(text, segment.edits(("Ich weiß \n es.",)))
    assert "Ich weiß\n es.</target>" in written


def test_lines_of_a_list_stay_apart():
    text = XLIFF.format('<trans-unit id="1" xml:space="preserve"><source>read\nwrite</source></trans-unit>')
    assert xliff_segments(text, Path("a.xlf"))[0].parts == ("read\nwrite",)
