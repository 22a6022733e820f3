"""Subtitles: what several say stays apart, and what is no text stays out of it."""

from pathlib import Path

import pytest

from glassformer.errors import TextError
from glassformer.text.codes.code import Code
from glassformer.text.formats.segment import apply_edits
from glassformer.text.formats.subtitles import subtitle_segments

TIMES = "1\n00:00:01,000 --> 00:00:02,000\n"


def texts_of(text: str, *, is_subrip: bool = True) -> list[str]:
    return [one.text for one in subtitle_segments(text, Path("a.srt"), is_subrip=is_subrip)]


def shout(text: str, *, is_subrip: bool = True) -> str:
    segments = subtitle_segments(text, Path("a.srt"), is_subrip=is_subrip)
    parts = [[part if isinstance(part, Code) else part.upper() for part in one.parts] for one in segments]
    return apply_edits(text, [edit for one, said in zip(segments, parts, strict=True) for edit in one.edits(said)])


CUES = [
    ("- Hungry and\ntired.\n- So am I.", ["Hungry and tired.", "So am I."]),
    ("<b>- Where is Tom?\n- He is here.</b>", ["Where is Tom?", "He is here."]),
    ("<i>- Are you?</i>\n<i>- No.</i>", ["Are you?", "No."]),
    ("{\\an8}- Are you?\n- No.", ["Are you?", "No."]),
    ("Where is Tom?\n- He is here.", ["Where is Tom?", "He is here."]),
    ("TOM: Are you hungry?\nMARY: No, thank you.", ["Are you hungry?", "No, thank you."]),
    ("MRS. O'NEIL: Yes, I am\nvery hungry.", ["Yes, I am very hungry."]),
    ("(door opens)\nI am hungry.", ["(door opens)", "I am hungry."]),
    ("<i>[sighs]</i>\nI am hungry\nand tired.", ["<i>[sighs]</i>", "I am hungry and tired."]),
    ("♪ I love you ♪\n♪ I do ♪", ["♪ I love you ♪", "♪ I do ♪"]),
    ("♪ I love you\nand I do ♪", ["♪ I love you and I do ♪"]),
    ("- <i>Yes</i>, sir.\n- <i>No</i>", ["<i>Yes</i>, sir.", "<i>No</i>"]),
    ("<i>I am hungry\nand tired.</i>", ["<i>I am hungry and tired.</i>"]),
    ("-5 degrees\n-10 degrees", ["5 degrees", "10 degrees"]),
    ("-- I am\n-- hungry", ["-- I am -- hungry"]),
    ("It was 10:30\nat night.", ["It was 10:30 at night."]),
]


@pytest.mark.parametrize(("cue", "expected"), CUES)
def test_speakers_and_stacked_lines_stay_apart(cue: str, expected: list[str]) -> None:
    assert texts_of(f"{TIMES}{cue}\n") == expected
    assert texts_of(shout(f"{TIMES}{cue}\n")) != []
    assert shout(f"{TIMES}{cue}\n").lower().split() == f"{TIMES}{cue}\n".lower().split()
    assert len(texts_of(shout(f"{TIMES}{cue}\n"))) == len(expected)


def test_voices_of_webvtt_stay_apart() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>Where is he?\n<v Tom Smith>Here.\n"
    assert texts_of(text, is_subrip=False) == ["<v Ann>Where is he?", "<v Tom Smith>Here."]


@pytest.mark.parametrize("words", ["a NOTE: " * 12, "go (now) " * 12, "so - " * 20, "[a] " * 20])
def test_a_broken_line_does_not_look_like_another_speaker(words: str) -> None:
    (segment,) = subtitle_segments(f"{TIMES}a\n", Path("a.srt"), is_subrip=True)
    assert len(texts_of(apply_edits(f"{TIMES}a\n", segment.edits([words.strip()])))) == 1


def test_a_cue_without_its_times_is_not_glued_to_its_number() -> None:
    text = f"{TIMES}One.\n\n2\nTwo\nlines.\n\n3\n00:00:05,000 --> 00:00:06,000\n1984\nwas a year.\n"
    assert texts_of(text) == ["One.", "Two lines.", "1984 was a year."]
    assert shout(text) == text.replace("One", "ONE").replace("Two\nlines", "TWO LINES").replace(
        "1984\nwas a year", "1984 WAS A YEAR"
    )


@pytest.mark.parametrize("text", ["WEBVTT", "WEBVTT - A title\n\nNOTE\nnothing\n", "WEBVTT\n\nSTYLE\n::cue {}\n", ""])
def test_webvtt_without_a_cue_has_nothing_to_translate(text: str) -> None:
    assert texts_of(text, is_subrip=False) == []
    if text:
        with pytest.raises(TextError, match="expected subtitles"):
            texts_of(text)


def test_references_of_webvtt_are_characters_and_come_back():
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\nTom &amp; Mary are&nbsp;here &lt;today&gt; at AT&T.&lrm;\n"
    assert texts_of(text, is_subrip=False) == ["Tom & Mary are\u00a0here <today> at AT&T.\u200e"]
    assert shout(text, is_subrip=False).endswith("\nTOM &amp; MARY ARE\u00a0HERE\n&lt;TODAY&gt; AT AT&amp;T.\u200e\n")
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\nTom &amp; Mary &lt;3 <b>a</b> & b&nbsp;c\n"
    assert texts_of(text, is_subrip=False) == ["Tom & Mary <3 <b>a</b> & b\u00a0c"]
    shown = "TOM &amp; MARY &lt;3 <b>A</b> &amp; B\u00a0C"
    assert shout(text, is_subrip=False) == text.replace(text.splitlines()[-1], shown)
