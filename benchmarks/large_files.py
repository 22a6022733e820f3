"""Files of each format that is translated, with as many segments as wanted, each with a code in it."""

from collections.abc import Callable


def _rows(head: str, row: str, tail: str = "") -> Callable[[int], str]:
    """A file of rows, in which ``%`` is the number of the row."""
    return lambda count: head + "".join(row.replace("%", str(number)) for number in range(count)) + tail


def _subtitles(head: str, comma: str) -> Callable[[int], str]:
    def write(count: int) -> str:
        cues = []
        for number in range(count):
            time = f"{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}{comma}"
            cues.append(f"{number + 1}\n{time}000 --> {time}900\nThe man {number} is <i>old</i>\nand he sleeps.\n\n")
        return head + "".join(cues)

    return write


LARGE_FILES: dict[str, Callable[[int], str]] = {
    "text": _rows("", "The man % is {name} and old.\n"),
    "TSV": _rows("source\ttarget\n", "The man % is {name} and old.\t\n"),
    "CSV": _rows("source,target\n", '"The man % is {name}, not young.",\n'),
    "JSONL": _rows("", '{"text": "The man % is {name} and old."}\n'),
    "gettext": _rows(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n',
        '#: a.c:%\nmsgid "The man % is {name} and old."\nmsgstr ""\n\n',
    ),
    "TMX": _rows(
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="en"/><body>\n',
        '<tu><tuv xml:lang="en"><seg>The man % is <ph>x</ph> old.</seg></tuv></tu>\n',
        "</body></tmx>\n",
    ),
    "XLIFF": _rows(
        '<?xml version="1.0" encoding="UTF-8"?>\n<xliff version="1.2"><file original="a" source-language="en" '
        'target-language="de" datatype="plaintext"><body>\n',
        '<trans-unit id="%"><source>The man % is <g id="1">old</g>.</source></trans-unit>\n',
        "</body></file></xliff>\n",
    ),
    "SubRip": _subtitles("", ","),
    "WebVTT": _subtitles("WEBVTT\n\n", "."),
    "HTML": _rows(
        "<!DOCTYPE html>\n<html><body>\n", "<p>The man % is <b>old</b> &amp; tired.</p>\n", "</body></html>\n"
    ),
    "Markdown": _rows("# Title\n\n", "The man % is **old** and `tired`.\n\n"),
}
"""By the name of the format in the register."""
