import gzip
import io
import tracemalloc
from pathlib import Path

import pytest
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po as babel_read_po
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import TextError
from glassformer.text import Pair, fingerprint, is_validation, read_pairs
from glassformer.text.corpus.corpus import check_direction, describe_pairs

CATALOG = """
msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

msgid "Open"
msgstr "Öffnen"

#, fuzzy
msgid "Close"
msgstr "Zu"

msgid "Untranslated"
msgstr ""

msgctxt "menu"
msgid "File"
msgstr "Datei"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#~ msgid "Old"
#~ msgstr "Alt"
"""
TRANSLATED = {("Open", "Öffnen"), ("File", "Datei"), ("%d file", "%d Datei"), ("%d files", "%d Dateien")}

MEMORY = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="{srclang}"/><body>
<tu><tuv xml:lang="de"><seg>Nur eine</seg></tuv></tu>
<tu><tuv xml:lang="de-DE"><seg>Guten <hi>Tag</hi>!</seg></tuv>
    <tuv xml:lang="en-US"><seg>Good <bpt i="1">&lt;b&gt;</bpt>day<ept i="1">&lt;/b&gt;</ept>!</seg></tuv>
    <tuv xml:lang="fr"><seg>Bonjour</seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>Oui</seg></tuv><tuv xml:lang="en"><seg>Yes,
      indeed</seg></tuv><tuv xml:lang="de"><seg>Ja</seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>Non</seg></tuv><tuv xml:lang="en"><seg>No</seg></tuv></tu>
</body></tmx>
"""


def pairs_of(tmp_path, name: str, content: str | bytes) -> list[Pair]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_pairs(path))


def two_files(tmp_path, src: str, tgt: str) -> list[Pair]:
    paths = [tmp_path / "a.en", tmp_path / "a.de"]
    for path, text in zip(paths, (src, tgt), strict=True):
        path.write_text(text, encoding="utf-8", newline="")
    return list(read_pairs(*paths))


def test_two_files_side_by_side(tmp_path):
    assert two_files(tmp_path, "a\nb\u2028c\n", "x\ny") == [Pair("a", "x"), Pair("b\u2028c", "y")]


@pytest.mark.parametrize(("src", "tgt"), [("a\nb\n", "x\n"), ("a\nb", "x"), ("a\n\n", "x\n"), ("a\n", "")])
def test_misaligned_by_one_names_both_files_and_counts(tmp_path, src, tgt):
    longer, shorter = len(src.removesuffix("\n").split("\n")), tgt.count("\n") or len(tgt)
    with pytest.raises(
        TextError, match=rf"a\.en has {longer} lines and .*a\.de has {shorter}; .*Line {longer} of .*a\.en has"
    ):
        two_files(tmp_path, src, tgt)
    with pytest.raises(
        TextError, match=rf"a\.en has {shorter} lines and .*a\.de has {longer}; .*Line {longer} of .*a\.de has"
    ):
        two_files(tmp_path, tgt, src)


def test_tsv_reads_two_columns_and_names_a_line_without_a_tab(tmp_path):
    content = "Go.\tGeh.\nHi.\tHallo!\tCC-BY 2.0\tby x\n\t\r\n"
    assert pairs_of(tmp_path, "a.tsv", content) == [("Go.", "Geh."), ("Hi.", "Hallo!"), ("", "")]
    assert pairs_of(tmp_path, "b.TSV.gz", gzip.compress(content.encode()))[0] == ("Go.", "Geh.")
    with pytest.raises(TextError, match=r"a\.tsv:2: found no tab"):
        pairs_of(tmp_path, "a.tsv", "a\tb\nlonely\n")


def test_jsonl_of_both_shapes_and_with_a_lone_surrogate(tmp_path):
    content = '{"src": "a", "tgt": "b", "id": 1}\n\n{"translation": {"en": "c\\n", "de": "ü"}}\n'
    assert pairs_of(tmp_path, "a.jsonl", content) == [("a", "b"), ("c\n", "ü")]
    assert pairs_of(tmp_path, "a.jsonl", '{"src": "\\ud800", "tgt": "\\ud83d\\ude00"}') == [("\ufffd", "😀")]


def test_all_translations_of_a_jsonl_file_have_one_direction(tmp_path):
    content = (
        '{"translation": {"en": "one", "de": "eins"}}\n{"translation": {"de": "zwei", "en": "two"}}\n'
        '{"translation": {"en": "three", "fr": "trois"}}\n'
    )
    assert pairs_of(tmp_path, "a.jsonl", content.rsplit("\n", 2)[0]) == [("one", "eins"), ("two", "zwei")]
    with pytest.raises(TextError, match=r"a\.jsonl:3: found a translation of en and fr, expected en and de"):
        pairs_of(tmp_path, "a.jsonl", content)


def test_validation_translations_have_the_direction_of_the_training_data(tmp_path):
    train, valid = tmp_path / "train.jsonl", tmp_path / "valid.JSONL"
    train.write_text('{"translation": {"en": "one", "de": "eins"}}\n')
    valid.write_text('\n{"translation": {"de": "zwei", "en": "two"}}\n')
    check_direction(train, train)
    with pytest.raises(TextError, match=r"valid.JSONL: found translations from de to en, expected from en to de"):
        check_direction(train, valid)
    valid.write_text('{"src": "two", "tgt": "zwei"}\n')
    check_direction(train, valid)


@pytest.mark.parametrize(
    "line",
    [
        "not json", '{"src": "a"', "[1, 2]", "null", "3", '"text"', "{}", '{"src": "a"}', '{"src": "a", "tgt": null}',
        '{"src": 1, "tgt": "b"}', '{"src": ["a"], "tgt": "b"}', '{"translation": {"en": "a"}}', '{"translation": "a"}',
        '{"translation": {"a": "1", "b": "2", "c": "3"}}', '{"translation": {"a": "1", "b": {}}}',
        "[" * 100_000, '{"src": ' + "9" * 5000 + "}", '{"src": "a\tb", "tgt": "c"}',
    ],
)  # fmt: skip
def test_hostile_jsonl_names_the_line(tmp_path, line):
    with pytest.raises(TextError, match=r"a\.jsonl:2:"):
        pairs_of(tmp_path, "a.jsonl", '{"src": "a", "tgt": "b"}\n' + line)


def test_po_and_mo_read_the_translated_messages(tmp_path):
    found = pairs_of(tmp_path, "a.po", CATALOG)
    assert set(found) == TRANSLATED
    assert len(found) == 4
    compiled = io.BytesIO()
    write_mo(compiled, babel_read_po(io.BytesIO(CATALOG.encode())))
    assert set(pairs_of(tmp_path, "a.mo", compiled.getvalue())) == TRANSLATED
    assert set(pairs_of(tmp_path, "a.mo.gz", gzip.compress(compiled.getvalue()))) == TRANSLATED


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("hello\n", ":1: .*gettext"),
        ('msgid "a"\nmsgstr "b"\n\nwhat?\n', ":4: .*gettext"),
        (b"\xff\xff", ":1:1: found byte 0xFF, expected UTF-8"),
    ],
)
def test_damaged_po(tmp_path, content, where):
    with pytest.raises(TextError, match=rf"a\.po{where}"):
        pairs_of(tmp_path, "a.po", content)


@pytest.mark.parametrize("damage", [b"", b"\xde\x12\x04\x95", b"nonsense" * 9, None])
def test_damaged_mo(tmp_path, damage):
    compiled = io.BytesIO()
    write_mo(compiled, babel_read_po(io.BytesIO(CATALOG.encode())))
    with pytest.raises(TextError, match=r"a\.mo: .*compiled gettext"):
        pairs_of(tmp_path, "a.mo", compiled.getvalue()[:60] if damage is None else damage)


@pytest.mark.parametrize("srclang", ["en", "EN-gb", "en_US"])
def test_tmx_reads_the_languages_of_the_first_complete_unit(tmp_path, srclang):
    found = pairs_of(tmp_path, "a.tmx", MEMORY.format(srclang=srclang))
    assert found == [("Good day!", "Guten Tag!"), ("Yes, indeed", "Ja")]


@pytest.mark.parametrize("srclang", ["*all*", "sv"])
def test_tmx_without_a_source_language_uses_the_first(tmp_path, srclang):
    found = pairs_of(tmp_path, "a.tmx", MEMORY.format(srclang=srclang))
    assert found == [("Guten Tag!", "Good day!"), ("Ja", "Yes, indeed")]


def test_tmx_may_be_utf_16_and_names_the_line_that_is_malformed(tmp_path):
    content = MEMORY.replace("UTF-8", "UTF-16").format(srclang="de").encode("utf-16")
    assert pairs_of(tmp_path, "a.tmx", content)[1] == ("Ja", "Yes, indeed")
    with pytest.raises(TextError, match=r"a\.tmx:6:\d+: .*well-formed"):
        pairs_of(tmp_path, "a.tmx", MEMORY.format(srclang="en").replace("Bonjour</seg>", "Bonjour</sog>"))


def test_an_entity_bomb_is_refused(tmp_path):
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE tmx [<!ENTITY e0 "ha">{entities}]><tmx><body><tu><tuv lang="a"><seg>&e11;</seg></tuv></tu></body></tmx>'
    with pytest.raises(TextError, match=r"a\.tmx:1: declares entities"):
        pairs_of(tmp_path, "a.tmx", bomb)


def test_a_bomb_of_attributes_is_refused_before_its_elements_are_made(tmp_path):
    default, text = "x" * 100_000, "<ph/>" * 40_000  # with its attributes 4 GB
    bomb = f'<!DOCTYPE tmx [\n<!ATTLIST ph a CDATA "{default}">]><tmx><body><tu><tuv><seg>{text}</seg></tuv></tu></body></tmx>'
    tracemalloc.start()
    with pytest.raises(TextError, match=r"a\.tmx:2: declares attributes"):
        pairs_of(tmp_path, "a.tmx", bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize("doctype", ['<!DOCTYPE tmx SYSTEM "tmx14.dtd">', "<!DOCTYPE tmx [<!ELEMENT tmx ANY>]>"])
def test_a_doctype_without_entities_and_attributes_is_read(tmp_path, doctype):
    assert pairs_of(tmp_path, "a.tmx", MEMORY.format(srclang="en").replace("<tmx", f"{doctype}<tmx", 1))


@pytest.mark.slow
def test_a_large_tmx_is_streamed(tmp_path):
    unit = "<tu><tuv lang='en'><seg>{0} yes</seg></tuv><tuv lang='de'><seg>{0} ja</seg></tuv></tu>\n"
    path = tmp_path / "a.tmx"
    path.write_text("<tmx><body>" + "".join(map(unit.format, range(10_000))) + "</body></tmx>")
    tracemalloc.start()
    assert sum(1 for _ in read_pairs(path)) == 10_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("name", ["a.txt", "a", "a.doc", "a.gz", "a.tsv.bak"])
def test_an_unknown_ending_lists_the_known_ones_at_once(name):
    with pytest.raises(
        TextError, match=r"\.tsv, \.train, \.dev, \.test, \.gold, \.csv, \.jsonl, \.po, \.pot, \.mo, \.tmx"
    ):
        read_pairs(Path(name))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.po", "a.mo", "a.tmx", "a.xliff", "a.xlsx"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(TextError, match=rf"{name}: cannot be read"):
        list(read_pairs(tmp_path / name))


def test_pairs_without_a_visible_character_on_a_side_are_blank():
    assert all(
        Pair("a", nothing).blank and Pair(nothing, "a").blank
        for nothing in ("", " ", "\t", "\xa0", "\u200b", "\ufeff ")
    )
    assert not Pair("a", ".").blank


@given(st.text(), st.text(), st.text())
def test_equal_sources_are_on_one_side_of_the_split(src, one, other):
    assert is_validation(Pair(src, one), 0.3) == is_validation(Pair(src, other), 0.3)
    assert is_validation(Pair(src, one), 1.0)
    assert not is_validation(Pair(src, one), 0.0)


def test_the_share_is_kept_and_never_changes():
    chosen = [n for n in range(10_000) if is_validation(Pair(f"sentence {n}", ""), 0.05)]
    assert 400 < len(chosen) < 600
    assert chosen[:3] == [n for n in range(300) if is_validation(Pair(f"sentence {n}", "x"), 0.05)][:3]
    assert is_validation(Pair("\ud800", ""), 1.0)


def test_fingerprint_depends_on_bytes_and_order(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for path, text in zip(paths, ("ab", "c"), strict=True):
        path.write_text(text)
    first = fingerprint(paths)
    assert first == fingerprint(paths)
    assert first != fingerprint(paths[::-1])
    for path, text in zip(paths, ("a", "bc"), strict=True):
        path.write_text(text)
    assert first != fingerprint(paths)
    with pytest.raises(TextError, match="missing"):
        fingerprint([tmp_path / "missing"])


@pytest.mark.parametrize("ending", ["tsv", "csv", "TSV"])
@pytest.mark.parametrize(
    ("header", "row", "found"),
    [
        ("id source target", "7 Yes Ja", ("Yes", "Ja")),
        ("target source", "Ja Yes", ("Yes", "Ja")),
        ("de en", "Ja Yes", ("Ja", "Yes")),  # languages go in their order
        ("en-US de_DE note", "Yes Ja -", ("Yes", "Ja")),
        ("German source", "Ja Yes", ("Yes", "Ja")),
    ],
)
def test_a_header_says_which_columns_are_taken(tmp_path, ending, header, row, found):
    delimiter = "\t" if ending.lower() == "tsv" else ","
    lines = [line.replace(" ", delimiter) for line in (header, row)]
    assert pairs_of(tmp_path, f"a.{ending}", "\n".join(lines)) == [Pair(*found)]
    assert "by the header" in describe_pairs(tmp_path / f"a.{ending}")


def test_columns_are_not_guessed_from_words_nor_filled_where_they_lack(tmp_path):
    assert pairs_of(tmp_path, "a.tsv", "it\tes\nno\tnein") == [Pair("it", "es"), Pair("no", "nein")]
    assert describe_pairs(tmp_path / "a.tsv") == f"{tmp_path / 'a.tsv'}: columns 1 to 2."
    with pytest.raises(TextError, match=r"a\.tsv:3: found 2 columns, expected source and target in columns 2 and 3"):
        pairs_of(tmp_path, "a.tsv", "id\ten\tde\n1\tYes\tJa\n2\tNo\n")


UNIT = '<tu><tuv xml:lang="{}"><seg>a</seg></tuv><tuv xml:lang="{}"><seg>b</seg></tuv></tu>'


def test_variants_of_one_language_are_no_pair_nor_is_another_direction_validation(tmp_path):
    body = UNIT.format("en-US", "en-GB") + UNIT.format("en-US", "de-DE")
    assert pairs_of(tmp_path, "a.tmx", f"<tmx><body>{body}</body></tmx>") == [Pair("a", "b")]
    assert describe_pairs(tmp_path / "a.tmx") == f"{tmp_path}/a.tmx: translations from en-us to de-de."
    with pytest.raises(TextError, match=r"a\.tmx: found texts in en-us and en-gb, which are one language"):
        pairs_of(tmp_path, "a.tmx", f"<tmx><body>{UNIT.format('en-US', 'en-GB')}</body></tmx>")
    for name, languages in {"a": ("en-US", "de"), "b": ("en", "de-AT"), "c": ("de", "en")}.items():
        (tmp_path / f"{name}.tmx").write_text(f"<tmx><body>{UNIT.format(*languages)}</body></tmx>")
    check_direction(tmp_path / "a.tmx", tmp_path / "b.tmx")
    with pytest.raises(TextError, match=r"c\.tmx: found translations from de to en, expected from en-us to de"):
        check_direction(tmp_path / "a.tmx", tmp_path / "c.tmx")
