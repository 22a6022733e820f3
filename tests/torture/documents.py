"""Documents, pairs, models and runs that somebody crafted: each is used or refused in words, soon, in little memory.

The model is replaced by one that always says ``MARKUP``, so that all that stands beside it is tried: what a file makes
of a translation, too. Each attack is a command in a process of its own; its row says what that took and what it said.
"""

import gc
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from hostile_runs import mutated_run
from laboratory import Clock, Ended, Laboratory, Tally, limit_file_size

from benchmarks.large_files import LARGE_FILES
from glassformer.decoding.batching import ModelInput
from glassformer.decoding.sentence_translator import SentenceTranslator
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.text.formats import FORMATS, endings

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
MARKUP = "<img src=x onerror=alert(1)>"
LIVE = re.compile(r"(?<!\\)(?:\\\\)*<img src=x")
HAS_MARKUP = {".html", ".md", ".tmx", ".xliff"}  # players of subtitles know only tags of their own
MAX_CPU_S, MAX_MB = 20, 1500
LARGE, SMALL = 1_000_000, 50_000  # bytes of a pattern: in twenty minutes, and in fewer
SEGMENTS = 20_000
KEPT = 20  # rows of generated attacks: those that took the most time, and the most memory
PATTERNS = {
    "declarations": "<!", "end tags": "</", "open tags": "<a ", "comments": "<!--", "pictures": "<svg>", "bold": "<b>",
    "one word": "a", "percents": "%-", "fields": "%s ", "full stops": ".", "sentences": "a. ", "cells": "|",
    "links": "[a](b) ", "code marks": "`", "brackets": "[", "quotations": ">", "braces": "{", "fields in braces": "{{a}} ",
    "quotes": '"', "backslashes": "\\", "nested codes": '<g id="1">', "references": "&amp;", "numbers": "1 ",
    "addresses": "a@b.c ", "links to pages": "http://a.b/", "paths": "/", "stars": "*", "line ends": "a\n", "spaces": " ",
    "ideographs": "\u4e2d\u3002", "brackets of calls": "a() ", "dashes": "--a ", "escapes": "\\n", "messages": "{n, plural, one {a",
    "sections": "<![CDATA[a]]>", "breaks": "a<br>\n", "items": "- a\n", "cues": "00:00:01,000 --> 00:00:02,000\n",
}  # fmt: skip
# Of a model of another program, hardly anything.
FOREIGN = {
    "config.json": b'{"model_type": "marian", "vocab_size": 9, "d_model": 8, "encoder_layers": 1, "architectures": ["MarianMTModel"]}',
    "vocab.json": b'{"a": 0, "</s>": 1, "<unk>": 2, "<pad>": 3}', "source.spm": b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02",
    "decoder.yml": b"models: [a.npz]\nvocabs: [a.spm, a.spm]\n", "model.safetensors": b"\x02\0\0\0\0\0\0\0{}",
    "model.npz": b"PK\x05\x06" + b"\0" * 18, "model.bin": b"\x06\0\0\0",
}  # fmt: skip


def wrap(ending: str, text: str, target: str = "") -> str:
    """A file of the format with this text in it, and its translation if it has one."""
    lines = text.replace("\n", " ").replace("\t", " ")
    quoted = json.dumps(text, ensure_ascii=False)
    doubled = text.replace('"', '""')
    xml = '<?xml version="1.0" encoding="UTF-8"?>\n'
    tuv = f'<tuv xml:lang="de"><seg>{target}</seg></tuv>' if target else ""
    filled = f"<target>{target}</target>" if target else ""
    return {
        ".tsv": f"source\ttarget\n{lines}\t{target}\n", ".csv": f'source,target\n"{doubled}",{target}\n',
        ".jsonl": f'{{"src": {quoted}, "tgt": "{target}"}}\n',
        ".po": f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid {quoted}\nmsgstr "{target}"\n',
        ".tmx": f'{xml}<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>{text}</seg></tuv>'
                f"{tuv}</tu></body></tmx>",
        ".xliff": f'{xml}<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="1"><source>{text}'
                  f"</source>{filled}</trans-unit></body></file></xliff>",
        ".srt": f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n\n", ".vtt": f"WEBVTT\n\n00:01.000 --> 00:02.000\n{text}\n\n",
        ".html": f"<p>a {text}</p>",
    }.get(ending, text)  # fmt: skip


def bombs() -> Iterator[tuple[str, str, str]]:
    """What each one is, its ending and its content."""
    entities = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 12))
    attributes = f'<!DOCTYPE tmx [<!ATTLIST ph a CDATA "{"x" * 100_000}">]>'
    for ending in (".tmx", ".xliff"):
        head, body = wrap(ending, "&e11;" if ending == ".tmx" else "<ph/>" * 40_000).split("\n", 1)
        yield "entities in entities", ending, f'{head}\n<!DOCTYPE tmx [<!ENTITY e0 "ha">{entities}]>\n{body}'
        yield "defaults of attributes", ending, f"{head}\n{attributes}\n{body}"
    yield "10^6 columns", ".csv", ",".join(["a"] * 10**6) + "\n"
    yield "10^6 columns", ".tsv", "\t".join(["a"] * 10**6) + "\n"
    yield "10^5 lists in lists", ".jsonl", '{"text": ' + "[" * 10**5 + "]" * 10**5 + "}\n"
    yield (
        "plural forms",
        ".po",
        'msgid ""\nmsgstr "Plural-Forms: nplurals=999999999; plural=n;\\n"\n\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n',
    )
    yield "10^5 elements in elements", ".xliff", wrap(".xliff", '<g id="1">' * 10**5 + "a" + "</g>" * 10**5)
    yield "10^5 quotations in quotations", ".md", "> " * 10**5 + "a\n"


def answer_with_markup() -> None:
    """Every translation of this process is the same, and none takes time."""

    def search(self: SentenceTranslator, inputs: Sequence[ModelInput], *_: Any) -> list[Translation]:
        self.confidence = None
        hypothesis = Hypothesis(MARKUP, [], [], -1.0, -1.0, False)
        return [Translation(one.source.text, [], False, [hypothesis]) for one in inputs]

    SentenceTranslator._search = search  # type: ignore[method-assign, assignment]


class Attacks:
    """The commands that meet a crafted file, and what became of them."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory, self.home = laboratory, laboratory.place
        (self.home / "some.txt").write_text("abc\n")

    def document(self, tally: Tally, attack: str, ending: str, content: bytes) -> Ended:
        """Translate it in its own form; what its markup takes from a translation must be text."""
        path, out = self.home / f"in{ending}", self.home / f"out{ending}"
        path.write_bytes(content)
        out.unlink(missing_ok=True)
        ended = self.command(*self._document(ending))
        filled = out.read_text("utf-8", "replace") if out.exists() else ""
        live = ending in HAS_MARKUP and MARKUP.encode()[:10] not in content and LIVE.search(filled)
        silent = "live markup" if live else "no output" if ended.status == 0 and not out.exists() else None
        return self._count(tally, attack, ending, len(content), ended, silent)

    def pairs(self, tally: Tally, attack: str, ending: str, content: bytes, option: str = "--memory") -> Ended:
        """Read it as a memory, or as what another option takes."""
        path = self.home / f"memory{ending}"
        path.write_bytes(content)
        ended = self.command(*self._pairs(option, path.name))
        return self._count(tally, attack, f"{ending} ({option[2:]})", len(content), ended, None)

    def page(self, tally: Tally, attack: str, content: bytes) -> Ended:
        """Look into a text: its markup must be text on the page."""
        out = self.home / "page.html"
        out.unlink(missing_ok=True)
        ended = self.command("explore", content.decode("utf-8", "surrogateescape"), "--out", out)
        page = out.read_text("utf-8") if out.exists() else ""
        silent = "live markup" if MARKUP in page else "no output" if ended.status == 0 and not page else None
        return self._count(tally, attack, "explore", len(content), ended, silent)

    def run(self, tally: Tally, attack: str, make: Callable[[Path], object]) -> Ended:
        """Use a run that is spoiled."""
        run = self.laboratory.copy()
        make(run)
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        ended = self.laboratory.command("translate", "abc", "--run", str(run))
        return self._count(tally, attack, "run", size, ended, None)

    def model(self, tally: Tally, attack: str, files: dict[str, bytes]) -> Ended:
        """Import a directory with these files."""
        for path in (self.home / "foreign").glob("*"):
            path.unlink()
        (self.home / "foreign").mkdir(exist_ok=True)
        for name, content in files.items():
            (self.home / "foreign" / name).write_bytes(content)
        ended = self.command("import", "foreign", "--run", "imported")
        silent = "imported" if ended.status == 0 else None
        return self._count(tally, attack, "import", sum(map(len, files.values())), ended, silent)

    def command(self, *words: object) -> Ended:
        return self.laboratory.command(*self._complete(words), prepare=answer_with_markup)

    def _complete(self, words: Iterable[object]) -> list[str]:
        """The words of a command with the run that it uses, if it uses one."""
        given = [str(word) for word in words]
        return [*given, *([] if given[0] == "import" else ["--run", str(self.laboratory.run)])]

    def warm_up(self) -> None:
        """Carry out each kind of command in this process, so that its forks have what it imports."""
        for ending in {*DOCUMENTS, *PAIRS}:
            (self.home / f"in{ending}").write_bytes(SAMPLES[ending])
        commands = [self._document(ending) for ending in DOCUMENTS]
        commands += [self._pairs("--memory", f"in{ending}") for ending in PAIRS]
        commands += [self._pairs("--glossary", "in.tsv"), ("explore", "abc", "--out", "page.html")]
        for words in commands:
            self.laboratory.carry_out_here(*self._complete(words))
        self.model(Tally("none"), "none", FOREIGN)
        self.laboratory.carry_out_here("import", "foreign", "--run", "imported")
        gc.collect()
        gc.freeze()  # a fork copies no page of what it only counts

    @staticmethod
    def _document(ending: str) -> tuple[str, ...]:
        """The command that translates a file in its own form."""
        takes_language = "language" in next(each for each in FORMATS if ending in each.endings).options
        language = ("--language", "de") if takes_language else ()
        return ("translate", "--input", f"in{ending}", "--out", f"out{ending}", *language)

    @staticmethod
    def _pairs(option: str, path: str) -> tuple[str, ...]:
        """The command that reads pairs, as a memory or as what another option takes."""
        return ("translate", "--input", "some.txt", "--out", "some.out.txt", option, path)

    @staticmethod
    def _count(tally: Tally, attack: str, ending: str, size: int, ended: Ended, silent: str | None) -> Ended:
        ended = ended._replace(hung=ended.hung or ended.seconds > MAX_CPU_S or ended.megabytes > MAX_MB)
        survived = tally.survived
        tally.count(f"{attack}: {ending}", ended, silent=silent)
        said = ended.err.strip().split("\n")[-1].split(": ", 2)[-1] if ended.err.strip() else "nothing"
        row: dict[str, Any] = {"attack": attack, "format": ending, "bytes": size, "seconds": round(ended.seconds, 1)}
        row |= {"mb": round(ended.megabytes), "status": ended.status, "said": said[:100]}
        tally.rows.append(row if tally.survived > survived else {**row, "failed": True})
        return ended


def mutate(random: Random, sample: bytes, size: int) -> bytes:
    """A sample with pieces put in, repeated up to so many bytes, exchanged or cut out."""
    for _ in range(random.randint(1, 4)):
        start = random.randint(0, len(sample))
        end = min(len(sample), start + random.choice([0, 1, 8, 40]))
        piece = random.choice(
            [sample[start:end], random.choice([*PATTERNS.values()]).encode(), random.randbytes(random.randint(1, 9))]
        )
        times = random.choice([0, 1, 2, random.randint(3, 2 + size // max(1, 8 * len(piece)))])
        sample = sample[:start] + piece * times + sample[random.choice([start, end]) :]
    return sample[: random.randint(0, len(sample))] if random.random() < 0.05 else sample


def generated(attacks: Attacks, tally: Tally, number: int, size: int) -> Ended:
    """The attack of this number; with the same seed it is the same."""
    random = Random(f"{attacks.laboratory.seed}-{number}")
    kind = random.choice([*DOCUMENTS * 2, *PAIRS, "glossary", "import", "import", "run", "explore"])
    if kind == "run":
        return attacks.run(tally, "generated", mutated_run(attacks.laboratory, random)[1])
    if kind == "explore":
        text = b"a <b>c</b> </script>" + MARKUP.encode()
        return attacks.page(tally, "generated", mutate(random, text, size // 10).replace(b"\0", b""))
    if kind == "glossary":
        return attacks.pairs(tally, "generated", ".tsv", mutate(random, SAMPLES[".tsv"], size), "--glossary")
    if kind == "import":
        chosen = random.sample([*FOREIGN], random.randint(1, len(FOREIGN)))
        return attacks.model(tally, "generated", {name: mutate(random, FOREIGN[name], size) for name in chosen})
    is_document = kind in DOCUMENTS and (kind not in PAIRS or random.random() < 0.6)
    content = mutate(random, SAMPLES[kind], size)
    return (attacks.document if is_document else attacks.pairs)(tally, "generated", kind, content)


def attack_documents(laboratory: Laboratory, clock: Clock, *, whole: bool = True) -> list[Tally]:
    """Full disks; then bombs, patterns, growth and generated files."""
    attacks, size = Attacks(laboratory), LARGE if whole else SMALL
    attacks.warm_up()
    tallies = growth, patterns, disks, random = [
        Tally("documents that grow"), Tally("documents and pairs of one pattern, and bombs"),
        Tally("documents on full disks"), Tally("generated documents, pairs, texts, models and runs"),
    ]  # fmt: skip
    share = Clock(clock.left() * 0.6)
    fill_disk(attacks, disks)
    for attack, ending, is_pairs, content in share.while_time(iter([*crafted(), *shuffled(laboratory.seed, size)])):
        (attacks.pairs if is_pairs else attacks.document)(patterns, attack, ending, content().encode())
    for each in share.while_time(each for each in FORMATS if each.name in LARGE_FILES):
        content = LARGE_FILES[each.name](SEGMENTS if whole else SEGMENTS // 2)
        attacks.document(growth, f"{SEGMENTS:,} texts", each.endings[0], content.encode())
    for number in clock.while_time(itertools.count()):
        generated(attacks, random, number, size // 10)
        if random.injections % KEPT == 0:
            random.rows = extremes(random.rows)
    random.rows = extremes(random.rows)
    return tallies


def extremes(rows: list[dict]) -> list[dict]:
    """Those that took the most time, and the most memory."""
    slowest, largest = (sorted(rows, key=lambda row: -row[key])[:KEPT] for key in ("seconds", "mb"))
    return slowest + [row for row in largest if row not in slowest]


def crafted() -> Iterator[tuple[str, str, bool, Callable[[], str]]]:
    """Each bomb: what it is, its ending, whether it is of pairs, and its content."""
    for attack, ending, content in bombs():
        yield attack, ending, False, lambda content=content: content  # type: ignore[misc]
        if ending in PAIRS:
            yield attack, ending, True, lambda content=content: content  # type: ignore[misc]


def shuffled(seed: int, size: int) -> list[tuple[str, str, bool, Callable[[], str]]]:
    """The same of each pattern, repeated to so many bytes, in each format and reader."""
    cases = []
    for name, unit in PATTERNS.items():
        for ending in DOCUMENTS:
            for is_pairs in (False, True) if ending in PAIRS else (False,):
                text, target = (unit, size // len(unit.encode())), "b" if is_pairs else ""
                content = lambda ending=ending, text=text, target=target: wrap(ending, text[0] * text[1], target)  # noqa: E731
                cases.append((name, ending, is_pairs, content))
    Random(seed).shuffle(cases)
    return cases


def fill_disk(attacks: Attacks, tally: Tally) -> None:
    """Starve a translation of disk: the output is as before."""
    path, out = attacks.home / "in.txt", attacks.home / "out.txt"
    path.write_text("".join(f"abc {number}\n" for number in range(1000)))
    words = ("translate", "--input", path, "--out", out)
    for limit in (0, 100, 5000):
        out.write_text("before")
        prepare = lambda limit=limit: (answer_with_markup(), limit_file_size(limit)())  # noqa: E731
        ended = attacks.laboratory.command(*map(str, words), "--run", str(attacks.laboratory.run), prepare=prepare)
        silent = None if out.read_text() == "before" and ended.status else "something was lost"
        attacks._count(tally, "a full disk", ".txt", path.stat().st_size, ended, silent)
    attacks.command(*words)
