"""Plain text and subtitles in the page: the same segments, lines and bytes as Python's, whatever a file holds."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.decoding.translation import EMPTY, Translation
from glassformer.documents.filling import Filling
from glassformer.documents.translate_file import count_segments, find_segments
from glassformer.text.codes.code import join_parts
from glassformer.text.formats import FormatOptions

IMPORTS = """import { fill, findSegments } from "./translate/text_files.js";
const SIGNS = { "&amp;": "&", "&lt;": "<", "&gt;": ">" };
globalThis.DOMParser = class {
  parseFromString(sign) {
    return { body: { textContent: SIGNS[sign] ?? sign } }; // as a browser's, which Node.js lacks
  }
};
"""
BODY = """
return data.map(({ text, ending }) => {
  try {
    const segments = findSegments(text, ending);
    const { filled, unfit } = fill(text, ending, segments, (one) => one.text + data[0].more);
    return [segments.map((one) => [one.text, one.line]), filled, unfit.size];
  } catch (error) {
    return error.message;
  }
});
"""
SRT = """1
00:00:01,000 --> 00:00:02,500
<i>The house is small, and the garden behind it is larger than the street.</i>

2
00:00:03,000 --> 00:00:05,000 X1:40
- Are you tired?
- No, I am not.

3
00:00:06,000 --> 00:00:07,000
MAN: Who is <b>there</b>?
(door opens)
♪ a song ♪

a second block

4
00:00:08,000 --> 00:00:09,000
WOMAN:
{\\an8}Nobody at all.
<v Fred>hello 👩‍👩‍👧 who was there before all of the others came home
"""
CASES = {
    "text": (".txt", "She reads.\r\n\r\n  Good night.  \nשלום\n"),
    "empty": (".txt", ""),
    "subrip": (".srt", SRT),
    "windows": (".srt", SRT.replace("\n", "\r\n")),
    "webvtt": (".vtt", f"WEBVTT\n\nNOTE no text\n\n{SRT.replace(',', '.', 2)}"),
    "no times": (".srt", "no subtitles"),
    "damaged": (".srt", "1\n00:00:01,000 - 00:00:02,000\nA\n\n00:00:03,000 --> 00:00:04,000\nB\n"),
    "lost times": (".srt", "1\n00:00:01,000 --> 00:00:02,000\nA\n\n2\n\nB\n\n3\n00:00:05,000 --> 00:00:06,000\nC\n"),
    "arrow": (".srt", "1\n00:00:01,000 --> 00:00:02,000\nA -> B => C --- D\n"),
    "spaces": (
        ".vtt",
        "WEBVTT\n\n00:01.000 --> 00:02.000\nA \n \nB\u00a0c\n\n00:03.000 --> 00:04.000\n- x\n-- y\n– z\n",
    ),
}
MORE = ["", " und so weiter", "\n\nzwei", " --> 1:00"]


def by_python(ending: str, text: str, more: str) -> list[object] | str:
    path = Path(f"a{ending}")
    try:
        segments = [one for one in find_segments(path, FormatOptions())(text) if not one.is_blank]
    except Exception as error:
        return str(error)
    parts = [(*one.parts, *([more] if more else [])) for one in segments]
    hypotheses = [replace(EMPTY, text=join_parts(each), parts=each) for each in parts]
    results = [Translation(one.text, [], False, [each]) for one, each in zip(segments, hypotheses, strict=True)]
    count = count_segments(path, FormatOptions())
    filled, unfit = Filling(text, count, segments, results, is_bilingual=False).fill()
    return [[[one.text, one.line] for one in segments], filled, len(unfit)]


@pytest.mark.parametrize("more", MORE)
def test_a_file_is_read_and_written_as_python_does(run_js, more):
    cases = [{"text": text, "ending": ending, "more": more} for ending, text in CASES.values()]
    for name, (ending, text), found in zip(CASES, CASES.values(), run_js(IMPORTS, BODY, cases), strict=True):
        expected = by_python(ending, text, more)
        if isinstance(expected, str):
            assert isinstance(found, str), name
        else:
            assert found == expected, name


FILES = Path(__file__).parents[4] / "shared" / "data" / "files"
REAL = sorted(path for path in FILES.glob("**/*") if path.suffix in (".txt", ".srt", ".vtt"))


@pytest.mark.skipif(not REAL, reason="the real files are not here")
def test_real_files_are_read_and_written_as_python_does(run_js):
    texts = [(path, path.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff")) for path in REAL]
    texts = [(path, text) for path, text in texts if path.suffix != ".vtt" or not re.search(r"&[#\w]", text)]
    cases = [{"text": text, "ending": path.suffix, "more": " und so weiter"} for path, text in texts]
    for (path, text), found in zip(texts, run_js(IMPORTS, BODY, cases), strict=True):
        expected = by_python(path.suffix, text, " und so weiter")
        if isinstance(expected, str):
            assert isinstance(found, str), path.name
        else:
            assert found == expected, path.name
