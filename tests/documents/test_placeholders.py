"""What a translation must keep is kept, or the translation is flagged."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding.restore.drafts import ATTEMPTS, is_better
from glassformer.decoding.restore.parts_writer import keep_spaces
from glassformer.decoding.restore.places import restore
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.text.codes import find
from glassformer.text.codes.checks import changes
from glassformer.text.codes.code import Code, join_parts
from glassformer.text.codes.draft import Draft, find_word, make_draft, mark_numbers
from glassformer.text.codes.find import find_codes, may_have_codes
from glassformer.text.steps.sentences import split_parts


def codes_of(text: str) -> list[str]:
    return [part.raw for part in find_codes((text,)) if isinstance(part, Code)]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("%d of %(total)s and %1$s, %.2f, %5d%%", ["%d", "%(total)s", "%1$s", "%.2f", "%5d", "%%"]),
        ("{} {0} {name} {name:.2f} ${user} {{x}}", ["{}", "{0}", "{name}", "{name:.2f}", "${user}", "{{x}}"]),
        ("%1 of %L2, %n files, %name% and :count", ["%1", "%L2", "%n", "%name%", ":count"]),
        ("at 12:30, note:this, 5%, 20%1, https:", []),
        ("@name, :smile:, #tag and v1.2.3 in C++", ["@name", ":smile:", "#tag", "v1.2.3", "C++"]),
        ("ftp://a.org/b (https://a.org/b_(c)), 0x1F #1", ["ftp://a.org/b", "https://a.org/b_(c)", "0x1F"]),
        ("if a=b, x==-1.5 and size=10px:", ["a=b", "x==-1.5", "size=10px"]),
        ("is ~~a b~~ or **c**, 2 ** 3, ~5, a~~b", ["~~", "~~", "**", "**"]),
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


@pytest.mark.parametrize("text", ["You have:count messages.", "Hello:name, how are you?", "Total:count"])
def test_a_name_that_touches_a_word_is_missed_and_then_a_code(text: str) -> None:
    marked = mark_numbers((text,))
    (code,) = [part for part in marked if isinstance(part, Code)]
    assert changes((text,), (text.replace(code.raw, ": Anzahl"),)) == [f"{code.raw} is missing"]
    assert changes((text,), marked) == []
    assert mark_numbers(("Alle Nutzer:innen, std::max",)) == ("Alle Nutzer:innen, std::max",)


def output(source: str, text: str) -> Translation:
    """A translation without attention."""
    return Translation(source, [], False, [Hypothesis(text, [], [], 0.0, 0.0, False)])


def no_ends(_: Translation) -> tuple[list[int], list[int]]:
    raise AssertionError("no attention is needed")


def draft_of(text: str, attempt: int | None = None) -> Draft:
    draft = make_draft(find_codes((text,)), attempt)
    assert draft is not None
    return draft


def put_back(text: str, translated: str, attempt: int | None = None) -> tuple[str, tuple[str, ...]] | None:
    draft = draft_of(text, attempt)
    result = restore(draft, output(draft.text, translated), no_ends)
    return None if result is None else (join_parts(result.parts), result.flags)


def test_words_stand_for_placeholders_and_are_replaced_by_them() -> None:
    assert draft_of("{name} has %d files").text == "has files"
    assert draft_of("{name} has %d files", 0).text == "Tom has 7 files"
    assert put_back("{name} has %d files", "7 Dateien hat Tom", 0) == ("%d Dateien hat {name}", ())


@pytest.mark.parametrize("text", ["Tom hat Dateien", "Tom und Tom haben 7", "Tom hat 7 und 7 Dateien", "Tom hat 7en"])
def test_an_output_without_each_word_exactly_once_is_refused(text: str) -> None:
    assert put_back("{name} has %d files", text, 0) is None


def test_codes_without_names_keep_their_order() -> None:
    assert put_back("%s has %d files", "7 Dateien hat Tom", 0) is None
    assert put_back("%1$s has %2$d files", "7 Dateien hat Tom", 0) == ("%2$d Dateien hat %1$s", ())


def test_words_of_the_text_itself_never_stand_for_a_placeholder() -> None:
    for attempt in range(ATTEMPTS):
        words = [word for word, _ in draft_of("Tom gave {name} 7 and %d", attempt).words]
        assert len(set(words)) == 2
        assert not {"Tom", "7"} & set(words)


@pytest.mark.parametrize("text", ["{\\an8}I run.", "%s: I run.", "<img> I run.", "%s I run.", "a <wbr>b"])
def test_what_is_no_word_of_the_sentence_gets_none(text: str) -> None:
    assert make_draft(find_codes((text,)), 0) is None


def test_without_attention_a_code_is_put_between_words_and_flagged() -> None:
    assert put_back("Hello %s", "Hallo") == ("Hallo %s", ())
    assert put_back("Hello %s there", "Hallo da") == ("Hallo %s da", ("%s may stand in a wrong place",))
    assert put_back("I <b>love</b> you", "Ich liebe dich") == (
        "Ich <b>liebe</b> dich", ("<b>…</b> may stand in a wrong place",)
    )  # fmt: skip
    assert put_back("<b>All</b>", "Alles") == ("<b>Alles</b>", ())


def test_links_never_go_round_one_another_nor_round_the_text() -> None:
    parts = (
        "Take the road to ", Code("[", "opens"), "the old castle", Code("](a)", "closes"), " and ",
        Code("[", "opens"), "the bridge", Code("](b)", "closes"), ".",
    )  # fmt: skip
    draft = make_draft(parts)
    assert draft is not None
    result = restore(draft, output(draft.text, "Eins zwei drei vier."), no_ends)
    assert result is not None
    assert re.fullmatch(r"[^\[]+\[[^\[\]]+\]\(a\)[^\[]*\[[^\[\]]+\]\(b\).*", join_parts(result.parts))
    assert len(result.flags) == 2


def test_a_better_translation_has_the_words_of_the_one_without_codes() -> None:
    reference = output("He bought.", "Er kaufte.")
    assert is_better(reference, output("He bought Tom.", "Gestern kaufte er Tom."))
    assert not is_better(reference, output("He bought Tom.", "Tom schläft."))


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
    for attempt in (None, 0, 1, 2):
        draft = make_draft(parts, attempt)
        result = draft and restore(draft, output(draft.text, f"{draft.text} x"), lambda _: ([], []))
        assert not result or sorted(codes_of(join_parts(result.parts))) == sorted(codes_of(text))


def missing_numbers(source: str, output: str) -> list[str]:
    found = re.findall(r"^the number (.+) is missing$", "\n".join(changes((source,), (output,))), flags=re.MULTILINE)
    return sorted(found)


def test_numbers_are_compared_with_sign_decimals_and_order() -> None:
    assert missing_numbers("1,000.5 and 7", "7 und 1.000,5") == []
    assert missing_numbers("212 rooms", "2:12") == ["212"]
    assert missing_numbers("3 and 3", "3") == ["3"]
    for number, other in [("3.14", "314"), ("50%", "50"), ("-5", "5"), ("3/4", "4/3"), ("1.5", "15")]:
        assert missing_numbers(number, other) == [number]
        assert missing_numbers(f"It is {number}.", f"Es ist {number.replace('.', ',')}.") == []
    assert missing_numbers("1,000 and 1 000 and 50 %", "1000 und 1.000 und 50%") in ([], ["0", "1"], ["000", "1"])
    assert changes(("from 5 to 10",), ("von 10 bis 5",)) == ["the numbers 5 and 10 stand in another order"]
    assert changes(("two dogs",), ("2 Hunde",)) == ["the number 2 was added"]


def test_signs_are_compared_whatever_is_known_of_them() -> None:
    assert changes(("© Tom → 5 € 👍",), ("Tom 5 €",)) == [f"the sign {sign} is missing" for sign in "©→👍"]
    assert changes(("&File %{x}",), ("Datei {x}",)) == [
        "the sign %{ is missing", "the sign & is missing", "the sign { was added"
    ]  # fmt: skip
    assert changes(("a<wbr>b\u00ad \\n",), ("ab \\n",)) == []


def test_signs_that_the_model_lost_are_put_back() -> None:
    draft = make_draft(mark_numbers(find_codes(("© 2024 Tom, 5 € → 20% a<b 👍🏽",))))
    assert draft is not None
    result = restore(draft, output(draft.text, f"x{draft.text}"), lambda _: ([], []))
    assert result is not None
    assert not changes(draft.source, result.parts)
    assert join_parts(result.parts).endswith(" 👍🏽")


def test_boxes_and_footnotes_stand_for_no_word() -> None:
    parts = (Code("[ ]"), " Buy this now", Code("[^1]"))
    assert make_draft(parts, 0) is None
    draft = make_draft(parts)
    assert draft is not None
    assert draft.text == "Buy this now"
    result = restore(draft, output(draft.text, "Kauf das nun"), no_ends)
    assert result is not None
    assert (join_parts(result.parts), result.flags) == ("[ ] Kauf das nun[^1]", ())


def test_a_code_that_breaks_a_line_ends_a_sentence() -> None:
    parts = ("a", Code("\\\n"), "b")
    assert split_parts(parts) == [(("a",), ""), ((Code("\\\n"),), ""), (("b",), "")]


def test_numbers_that_are_codes_in_one_of_two_texts_are_the_same_numbers() -> None:
    assert changes(("It is $5 or 50% off",), (Code("$5", is_text=True), " oder ", Code("50%", is_text=True))) == []
    assert changes((Code("%1"), " of ", Code("%2")), (Code("%2"), " von ", Code("%1"))) == []


ROAD = (
    "Take the road to ", Code("[", "opens"), "the old castle", Code("](a)", "closes"), " now.",
)  # fmt: skip


def test_a_word_is_found_beside_scripts_without_spaces() -> None:
    assert [one.start() for one in find_word("fvm", "fvms またはfvmを xfvm 图fvm。")] == [8, 19]
    assert [one.start() for one in find_word("图", "地图fvm")] == [1]


@pytest.mark.parametrize(
    ("alone", "expected"),
    [
        ("Die alte Burg.", "Nimm jetzt den Weg zur [alten Burg](a)."),
        ("Das Schloss", "Nimm jetzt den Weg zur alten Burg. [Das Schloss](a)"),
        ("Die Straße", "Nimm jetzt den Weg zur alten Burg. [Die Straße](a)"),
    ],
)
def test_a_link_without_a_word_goes_where_its_own_translation_is_or_behind_the_text(
    alone: str, expected: str
) -> None:
    draft = make_draft(ROAD)
    assert draft is not None
    said = output(draft.text, "Nimm jetzt den Weg zur alten Burg.")
    first = restore(draft, said, no_ends)
    assert first is not None
    assert first.unplaced == ("the old castle",)
    second = restore(draft, said, no_ends, {"the old castle": alone})
    assert second is not None
    assert join_parts(second.parts) == expected
    assert bool(second.flags) == expected.endswith("](a)")


def test_marks_in_a_link_behind_the_text_enclose_its_translation() -> None:
    parts = (*ROAD[:2], Code("**", "opens"), "the old castle", Code("**", "closes"), *ROAD[3:])
    draft = make_draft(parts)
    assert draft is not None
    result = restore(draft, output(draft.text, "Nimm den Weg."), no_ends, {"the old castle": "Das Schloss"})
    assert result is not None
    assert join_parts(result.parts) == "Nimm den Weg. [**Das Schloss**](a)"


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("I have 5\u00a0cats.", "Ich habe 5 Katzen.", "Ich habe 5\u00a0Katzen."),
        ("It costs 10\u202f000\u00a0€ now", "Das kostet 10 000 € jetzt", "Das kostet 10\u202f000\u00a0€ jetzt"),
        ("See No.\u00a05 of 55", "Siehe Nr. 5 von 55", "Siehe Nr.\u00a05 von 55"),
        ("Take %d\u00a0apples", "Nimm %d Äpfel", "Nimm %d\u00a0Äpfel"),
        ("Take {a\u00a0b} apples", "Nimm {a\u00a0b} Äpfel", "Nimm {a\u00a0b} Äpfel"),
        ("I\u00a0am 5", "Ich bin 5", "Ich bin 5"),
        ("5\u00a0cats", "Fünf Katzen, 15 Hunde", "Fünf Katzen, 15 Hunde"),
        ("Hello<i> </i>there.", "Hallo<i></i>!", "Hallo<i></i>!"),
        ("You have %s today.", "Du hast heute %s.", "Du hast heute %s."),
        ("a <b>b </b>c.", "d <b>e</b>.", "d <b>e</b>."),
        (" 5\u00a0&shy;a ", "5 b", " 5\u00a0b "),
    ],
)
def test_a_no_break_space_stays_beside_a_number_and_in_a_code(source: str, text: str, expected: str) -> None:
    assert join_parts(keep_spaces(find_codes((source,)), find_codes((text,)))) == expected


@pytest.mark.parametrize("piece", ["1\u00a0", "12\u00a0a ", "\u00a01", "1\u202f000\u00a0€ "])
def test_each_no_break_space_of_a_long_text_is_kept(piece: str) -> None:
    text = (piece * 2000).strip()
    assert join_parts(keep_spaces([text], [text.replace("\u00a0", " ").replace("\u202f", " ")])) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Take {a} for seeing birds", "Nimm {a}, um Vögel zu sehen"),
        ("Read {a} the book", "Das Buch lesen {a}."),
        ("The bird {a} sings", "Der Vogel ({a}) singt"),
        ("Take {a} or {b} now", "Nimm jetzt {a}, {b}!"),
        ("the {a} bird", "„{a} Vogel“"),
    ],
)
def test_no_space_comes_before_a_comma_or_into_a_bracket(source: str, text: str) -> None:
    assert join_parts(keep_spaces(find_codes((source,)), find_codes((text,)))) == text


pieces = ["a", "Z", "1", "²", " ", "\n", ".", "www.", ".x", *":/@%{}$[]<>&-_()`\\#="]


@given(st.lists(st.sampled_from(pieces), max_size=20).map("".join))
def test_a_text_without_any_sign_of_a_placeholder_has_none(text: str) -> None:
    if not may_have_codes(text):
        assert find._PLACEHOLDERS.search(text) is None
