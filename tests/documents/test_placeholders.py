"""What a translation must keep is kept, or the translation is flagged."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.documents.placeholders import (
    ATTEMPTS,
    Alignment,
    find_codes,
    lost_numbers,
    lost_signs,
    make_draft,
    restore,
    split_parts,
)
from glassformer.text.formats.segment import Code, join_parts


def codes_of(text: str) -> list[str]:
    return [part.raw for part in find_codes((text,)) if isinstance(part, Code)]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("%d of %(total)s and %1$s, %.2f, %5d%%", ["%d", "%(total)s", "%1$s", "%.2f", "%5d", "%%"]),
        ("{} {0} {name} {name:.2f} ${user} {{x}}", ["{}", "{0}", "{name}", "{name:.2f}", "${user}", "{{x}}"]),
        ("%1 of %L2, %n files, %name% and :count", ["%1", "%L2", "%n", "%name%", ":count"]),
        ("at 12:30, note:this, :smile:, 5%, 20%1, https:", []),
        ("in $HOME and %PATH%", ["$HOME", "%PATH%"]),
        ("see https://a.b/c?d=e#f, or www.x.org.", ["https://a.b/c?d=e#f", "www.x.org"]),
        ("to a.b+c@example.co.uk!", ["a.b+c@example.co.uk"]),
        ("<b>x</b><br/> <a href='y'>", ["<b>", "</b>", "<br/>", "<a href='y'>"]),
        ("a &amp; b &#8217; &nbsp;", ["&amp;", "&#8217;", "&nbsp;"]),
        ("100 % sure, 50% off, 3 < 4 > 2, a $ b, & so", []),
    ],
)
def test_placeholders_of_all_forms_are_found(text: str, codes: list[str]) -> None:
    assert codes_of(text) == codes
    assert join_parts(find_codes((text,))) == text


def output(source: str, text: str) -> Translation:
    """A translation without attention."""
    return Translation(source, [], False, [Hypothesis(text, [], [], 0.0, 0.0, False)])


def no_ends(_: Translation) -> tuple[list[int], list[int]]:
    raise AssertionError("no attention is needed")


def test_words_stand_for_placeholders_and_are_replaced_by_them() -> None:
    draft = make_draft(find_codes(("{name} has %d files",)), 0)
    assert draft.text == "Tom has 7 files"
    result = restore(draft, output(draft.text, "7 Dateien hat Tom"), no_ends)
    assert result is not None
    assert (result.text, result.flags) == ("%d Dateien hat {name}", ())


@pytest.mark.parametrize(
    "text", ["Tom hat Dateien", "Tom und Tom haben 7", "Tom hat 7 und 77 Dateien", "Tom hat 7en"]
)
def test_an_output_without_each_word_exactly_once_is_refused(text: str) -> None:
    draft = make_draft(find_codes(("{name} has %d files",)), 0)
    assert restore(draft, output(draft.text, text), no_ends) is None


def test_words_of_the_text_itself_never_stand_for_a_placeholder() -> None:
    for attempt in range(ATTEMPTS - 1):
        draft = make_draft(find_codes(("Tom gave {name} 7 and %d",)), attempt)
        words = [word for word, _ in draft.words]
        assert len(set(words)) == 2
        assert not {"Tom", "7"} & set(words)


def test_without_words_a_placeholder_goes_to_an_end_or_is_flagged() -> None:
    draft = make_draft(find_codes(("Hello %s",)), ATTEMPTS - 1)
    result = restore(draft, output(draft.text, "Hallo"), no_ends)
    assert result is not None
    assert (result.text, result.flags) == ("Hallo %s", ())
    draft = make_draft(find_codes(("Hello %s there",)), ATTEMPTS - 1)
    result = restore(draft, output(draft.text, "Hallo da"), no_ends)
    assert result is not None
    assert "%s" in result.text
    assert result.flags == ("check where %s belongs",)


def test_tags_that_cannot_be_placed_go_round_the_whole_text_flagged() -> None:
    draft = make_draft(find_codes(("I <b>love</b> you",)), 0)
    assert draft.text == "I love you"
    result = restore(draft, output(draft.text, "Ich liebe dich"), no_ends)
    assert result is not None
    assert (result.text, result.flags) == ("<b>Ich liebe dich</b>", ("check where <b>…</b> belongs",))
    result = restore(make_draft(find_codes(("<b>All</b>",)), 0), output("All", "Alles"), no_ends)
    assert result is not None
    assert (result.text, result.flags) == ("<b>Alles</b>", ())


def test_tags_follow_links_that_stand_side_by_side() -> None:
    # I love you -> Ich liebe dich, tokens are words
    links, src, tgt = [(0, 0), (1, 1), (2, 2)], [1, 6, 10], [3, 9, 14]
    assert Alignment(links, src, tgt, "Ich liebe dich").target_span(2, 6) == (4, 9)
    assert Alignment([(0, 0), (1, 0), (1, 2)], src, tgt, "Ich liebe dich").target_span(2, 6) is None
    assert Alignment(links, src, tgt, "Ich liebe dich").after(6) == 9


def test_sentences_are_translated_one_by_one_unless_tags_hold_them_together() -> None:
    parts = find_codes(("One %d. Two.\nThree <b>four. Five</b> six. Seven.",))
    assert [(join_parts(one), gap) for one, gap in split_parts(parts)] == [
        ("One %d.", " "),
        ("Two.", "\n"),
        ("Three <b>four. Five</b> six.", " "),
        ("Seven.", ""),
    ]


PIECES = st.sampled_from(["a b", " c. D", "\n", " ", "<b>", "</b>", "<br>", "%d", "{x}", "e!", "http://x.y/z"])


@given(st.lists(PIECES, max_size=12))
def test_nothing_is_lost_by_splitting_and_by_translating_to_the_same_text(pieces: Sequence[str]) -> None:
    text = " ".join(pieces)
    parts = find_codes((text,))
    assert "".join(join_parts(one) + gap for one, gap in split_parts(parts)) == text
    for attempt in range(ATTEMPTS):
        draft = make_draft(parts, attempt)
        result = restore(draft, output(draft.text, draft.text), lambda _: ([], []))
        assert result is None or sorted(codes_of(result.text)) == sorted(codes_of(text))


def test_numbers_are_compared_by_their_digits() -> None:
    assert lost_numbers("1,000.5 and 7", "7 und 1.000,5") == []
    assert lost_numbers("212 rooms", "2:12") == ["212"]
    assert lost_numbers("3 and 3", "3") == ["3"]


def test_signs_that_the_model_lost_are_put_back() -> None:
    assert lost_signs("© Tom → 5 € 👍", "Tom 5 €") == ["©", "→", "👍"]
    source = find_codes(("© 2024 Tom, 5 € → 20% a<b 👍🏽",))
    draft = make_draft(source, 0, numbers=True)
    assert [code.raw for _, code in draft.words] == ["© 2024", "5 €", "20%"]
    assert [mark.code.raw for mark in draft.marks] == ["→", "<", "👍🏽"]
    result = restore(draft, output(draft.text, draft.text), lambda _: ([], []))
    assert result is not None
    assert not lost_signs(join_parts(source), result.text)
    assert result.text.endswith(" 👍🏽")
    assert "check where 👍🏽 belongs" not in result.flags


def test_boxes_and_footnotes_stand_for_no_word() -> None:
    draft = make_draft((Code("[ ]"), " Buy this now", Code("[^1]")), 0)
    assert draft.text == "Buy this now"
    assert not draft.words
    result = restore(draft, output(draft.text, "Kauf das nun"), no_ends)
    assert result is not None
    assert (result.text, result.flags) == ("[ ] Kauf das nun[^1]", ())


def test_a_code_that_breaks_a_line_ends_a_sentence() -> None:
    parts = ("a", Code("\\\n"), "b")
    assert split_parts(parts) == [(("a",), ""), ((Code("\\\n"),), ""), (("b",), "")]
