"""Any text and any bytes: hypothesis looks for what a reader or a translation does not survive.

Documents, glossaries, memories and tokenizers that somebody crafted: documents.py, hostile_runs.py and the fast tests.
"""

import gzip
import io
import json
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from laboratory import Clock, Ended, Laboratory, Tally

from glassformer import Translator
from glassformer.cli.streams import read_file, read_requests
from glassformer.decoding import Request
from glassformer.errors import GlassformerError
from glassformer.settings.section import read_toml
from glassformer.text import read_lines
from glassformer.text.corpus.corpus import fingerprint, read_pairs
from glassformer.text.formats import endings

PO = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "One"\nmsgstr ""\n\nmsgid "Two"\nmsgstr "Zwei"\n'
TMX = (b'<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>a <hi>b</hi></seg>'
       b'</tuv><tuv xml:lang="de"><seg>c</seg></tuv></tu><tu><tuv xml:lang="en"><seg>d</seg></tuv></tu></body></tmx>')  # fmt: skip
XLIFF = (b'<xliff version="1.2"><file><body><trans-unit id="1"><source>One <g id="1">two</g></source></trans-unit>'
         b'<trans-unit id="2"><source>A</source><target>B</target></trans-unit></body></file></xliff>')  # fmt: skip
SAMPLES: dict[str, bytes] = {
    ".txt": b"One\n two \r\n\n", ".tsv": b"One\tEins\nTwo\t\n", ".csv": b'source,target\n"a, ""b""",\nTwo,Zwei\n',
    ".jsonl": b'{"src": "One", "tgt": "Eins"}\n{"text": "Two"}\n', ".po": PO, ".tmx": TMX, ".xliff": XLIFF,
    ".mo": bytes.fromhex("de120495000000000100000001c0000000240000000000000000000000610062") + b"\0" * 24,
    ".srt": b"1\n00:00:01,000 --> 00:00:02,000\n<i>One</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nTwo\n",
    ".vtt": b"WEBVTT\n\nNOTE x\n\n00:01.000 --> 00:02.000\nOne <b>two</b>\n", ".xlsx": b"PK\x03\x04" + b"\0" * 40,
    ".html": b"<html><title>T</title><p>One <b>two</b>.<br>x &amp; y<script>a<b</script><pre>c</pre></html>",
    ".md": b"---\nt: x\n---\n# Title\n\n- a *b* `c`\n\n| a | b |\n| - | - |\n| c | [d](e) |\n\n```\ncode\n```\n",
}  # fmt: skip
PAIRS = endings(lambda each: each.pairs, first=True)
DOCUMENTS = endings(lambda each: each.segments, first=True)
ROUND = 50  # examples
LIMIT = {"max_length_a": 0.0, "max_length_b": 4, "beam": 1}

pieces = st.one_of(st.binary(max_size=12), st.text(max_size=6).map(lambda text: text.encode("utf-8", "replace")), st.sampled_from(
    [b"\n", b"\r", b"\0", b"\t", b'"', b"<", b">", b"</", b"{", b"}", b"\\", b"&", b"\xef\xbb\xbf", b"\xff\xfe", b"'", b"msgid "]))  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, sample: bytes) -> bytes:
    """A sample with pieces put in, repeated, exchanged or cut out; now and then packed by gzip."""
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(sample)))
        end = min(len(sample), start + draw(st.integers(0, 30)))
        put = draw(st.one_of(pieces, st.just(sample[start:end] * 2)))
        sample = sample[:start] + put + sample[end:]
    packed = gzip.compress(sample, mtime=0)
    kind = draw(st.integers(0, 20))
    return packed if kind == 0 else packed[: draw(st.integers(0, len(packed)))] if kind == 1 else sample


def contents(ending: str) -> st.SearchStrategy[bytes]:
    return st.one_of(mutated(SAMPLES[ending]), st.binary(max_size=60))


texts = st.text(st.characters(codec=None), max_size=60) | st.text("abcdef </s><pad>\n\t\u2028\u200b", max_size=60)


class Checks:
    """What must hold for every example; each method is one property."""

    def __init__(self, laboratory: Laboratory, home: Path) -> None:
        self.home, self.run = home, laboratory.run
        self.translator = Translator.load(self.run, device="cpu")
        self.options = self.translator.config.with_changes(LIMIT)

    def _file(self, ending: str, content: bytes) -> Path:
        path = self.home / f"file{ending}"
        path.write_bytes(content)
        return path

    def lines(self, content: bytes) -> None:
        path = self._file(".txt", content)
        fingerprint([path])
        for line in read_lines(path):
            assert "\n" not in line

    def pairs(self, ending: str, content: bytes) -> None:
        for pair in read_pairs(self._file(ending, content)):
            assert isinstance(pair.src, str)
            assert isinstance(pair.tgt, str)
            (pair.src + pair.tgt).encode()  # what is trained on can be written to disk

    def input_file(self, content: bytes) -> None:
        """As many lines come out as go in."""
        expected = len(content.split(b"\n")) - (content.endswith(b"\n") or not content)
        found = list(read_file(self._file(".txt", content)))
        assert content.startswith(b"\x1f\x8b") or len(found) == expected

    def requests(self, content: bytes) -> None:
        list(read_requests(self._file(".jsonl", content), Request("")))

    def toml(self, content: bytes) -> None:
        read_toml(self._file(".toml", content))

    def translation(self, text: str) -> None:
        (found,) = self.translator.translate([text], self.options)
        found.text.encode()
        json.dumps(found.to_mapping())
        self.translator.translate([text, "abc"], self.options.with_changes({"split_sentences": True}))


def try_any_text(laboratory: Laboratory, clock: Clock, examples: int) -> list[Tally]:
    """Each property with so many examples, fewer if time runs out, round by round; seeds follow from the torture's."""
    with tempfile.TemporaryDirectory(dir=laboratory.place) as home:
        checks = Checks(laboratory, Path(home))
        cases: dict[str, tuple[Callable[[Any], None], st.SearchStrategy]] = {
            "lines": (checks.lines, contents(".txt")), "input files": (checks.input_file, contents(".txt")),
            "requests": (checks.requests, contents(".jsonl")), "settings": (checks.toml, contents(".csv")),
            "translations": (checks.translation, texts),
            **{f"pairs {ending}": (lambda content, ending=ending: checks.pairs(ending, content), contents(ending)) for ending in PAIRS},
        }  # fmt: skip
        tally = Tally(f"hypothesis: {len(cases)} readers and translations")
        done = 0
        for round_ in clock.while_time(iter(range(examples // ROUND))):
            with redirect_stderr(io.StringIO()):  # one warning for each byte that is no text
                for name, (check, strategy) in cases.items():
                    _search(name, check, strategy, tally, 1000 * laboratory.seed + round_, ROUND)
            done += ROUND
        tally.fault += f", {done:,} examples each"
    return [tally]


def _search(name: str, check, strategy, tally: Tally, number: int, examples: int) -> None:
    @seed(number)
    @settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck),
              phases=(Phase.generate, Phase.shrink))  # fmt: skip
    @given(strategy)
    def try_one(value: Any) -> None:
        nonlocal tried
        tried += 1
        try:
            check(value)
        except GlassformerError as refusal:
            said.add(str(refusal) != "")

    tried, said = 0, {True}
    try:
        try_one()
    except Exception as error:  # whatever a person could meet
        shown = f"{error!r} {getattr(error, '__notes__', '')}"[:900]
        if isinstance(error, AssertionError):
            tally.count(name, Ended(0, "", "", hung=False), silent=shown)
        else:
            tally.count(name, Ended(70, "", shown, hung=False), silent=None)
    if said != {True}:
        tally.count(name, Ended(0, "", "", hung=False), silent="an error without a word")
    tally.injections += tried
