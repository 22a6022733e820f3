"""Texts with codes of every kind, anywhere and in one another, as files of several formats; and what is wrong of one.

A text is made as a list of words, codes and pairs, and each format writes it in its own way.
"""

import random
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.documents import FileTranslator, Memory
from glassformer.text.corpus.corpus import Pair

PROGRAM_CODES = (
    "%s", "%d", "%1$s", "%(name)s", "%@", "{name}", "{0}", "{}", "%{x}", "#{x}", "${x}", "$t(x.y)", "__x__", "[[x]]",
    "{{x}}", "{{{x}}}", "%1!s!", "--help", "-v", "foo()", "/etc/hosts", "a@b.org", "https://a.b/c", "@:msg.home",
    "<%= x %>", "{% if a %}", "$HOME", "%PATH%", "C:\\a\\b.txt", "1.0.x", "[name]", "42", "3.14", "50%",
)  # fmt: skip
APART = re.compile(r"[\w-].*|/.*|https?:.*|[@:_].*|%[ds@]|%.s|.*\w|-.*")  # what is a code only between spaces
LINKS = ("a", "link", "code")
SEPARATORS = ("", " ", " ", " ", " ", " ", ", ", ". ")


@dataclass(frozen=True)
class Format:
    """How a format writes the codes of a file, and the file; ``pairs`` by a kind of markup."""

    ending: str
    alone: tuple[str, ...]
    pairs: dict[str, tuple[str, str]]
    breaks: tuple[str, ...]
    file: Callable[[Sequence[str]], str]
    texts: Callable[[str], list[str]]
    """The texts of a filled file."""
    head: int = 0
    height: int = 1
    """Lines before the first text, and of each text."""

    def number(self, line: int) -> int:
        """Which text a line is of, from 0."""
        return (line - 1 - self.head) // self.height


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _tags(*names: str) -> dict[str, tuple[str, str]]:
    return {name: (f"<{name}>", f"</{name}>") for name in names}


def _xliff(texts: Sequence[str]) -> str:
    units = "\n".join(f'<trans-unit id="{n}"><source>{text}</source></trans-unit>' for n, text in enumerate(texts))
    head = '<xliff version="1.2"><file source-language="en" target-language="de" datatype="plaintext" original="x">'
    return f"{head}<body>\n{units}\n</body></file></xliff>"


FORMATS = (
    Format(
        ".txt", (*PROGRAM_CODES, "&amp;", "<img src='a.b'>", "<x id='q'/>"),
        _tags("b", "i", "u", "code") | {"a": ("<a href='u'>", "</a>"), "link": ("[u]", "[/u]")},
        ("<br>", "\\n", "<br/>"), "\n".join, _lines,
    ),
    Format(
        ".html", (*PROGRAM_CODES, '<img src="i.png">', "<!-- x -->", '<i class="icon"></i>', "<code>q</code>"),
        _tags("b", "i", "q", "span") | {"a": ('<a href="u">', "</a>")}, ("<br>", "<br />"),
        lambda texts: "\n".join(f"<p>{text}</p>" for text in texts) + "\n",
        lambda text: re.findall("<p>(.*?)</p>\n", text),
    ),
    Format(
        ".md", ("%s", "{name}", "{{x}}", "$HOME", "![p](i.png)", "`q`", "<https://a.b>", '<b class="i"></b>', "42"),
        {"strong": ("**", "**"), "a": ("[", "](u.md)"), "sub": ("<sub>", "</sub>"), "link": ("[", "](w.md)")},
        ("<br>",),
        lambda texts: "\n\n".join(f"# {text}" for text in texts) + "\n",
        lambda text: [line[2:] for line in text.rstrip("\n").split("\n\n")], height=2,
    ),
    Format(
        ".srt", ("{\\an8}", "{\\pos(1,2)}", "%s", "{name}", "42"), _tags("b", "i", "u"), ("{\\N}",),
        lambda texts: "".join(
            f"{n}\n00:00:01,000 --> 00:00:02,000\n{text}\n\n" for n, text in enumerate(texts, 1)
        ),
        lambda text: [" ".join(cue.split("\n")[2:]) for cue in text.rstrip("\n").split("\n\n")], height=4,
    ),
    Format(
        ".xlf", ("%s", "%d", "{name}", "{0}", "$t(x.y)", "42", '<x id="1"/>', '<ph id="2">&lt;br/&gt;</ph>'),
        {"b": ('<g id="3">', "</g>"), "i": ('<bpt id="4">{b}</bpt>', '<ept id="4">{/b}</ept>'),
         "a": ('<mrk mtype="x">', "</mrk>")}, (), _xliff,
        lambda text: re.findall("</source>(?:<target[^>]*>(.*?)</target>)?", text), head=1,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Text:
    """A generated text, and all codes that its format has."""

    written: str
    form: Format


def generate(source: random.Random, form: Format) -> Text:
    """A text with at least one word."""
    while True:
        written = " ".join(_generate(source, form, 0, frozenset()).split())
        if re.search(r"\bw[a-j]\b", written):
            return Text(written, form)


def _generate(source: random.Random, form: Format, depth: int, opened: frozenset[str]) -> str:
    pieces = []
    for _ in range(source.randint(1, 4)):
        kind = source.random()
        if kind < 0.55 or depth > 2:
            pieces.append(" ".join(f"w{source.choice('abcdefghij')}" for _ in range(source.randint(1, 4))))
        elif kind < 0.78:
            code = source.choice(form.alone)
            pieces.append(f" {code} " if APART.fullmatch(code) else code)
        elif kind < 0.97:
            taken = opened | (set(LINKS) if opened & set(LINKS) else set()) - {"b", "i"}
            name = source.choice([name for name in form.pairs if name not in taken])
            opening, closing = form.pairs[name]
            is_empty = source.random() < 0.05 and form.ending == ".html"
            inner = "" if is_empty else _generate(source, form, depth + 1, opened | {name})
            is_strong = opening == "**"
            pieces.append(f" **wa {inner.strip(' ,.')} wb** " if is_strong else opening + inner + closing)
        elif form.breaks:
            pieces.append(source.choice(form.breaks))
        pieces.append(source.choice(SEPARATORS))
    return "".join(pieces)


def faults(text: Text, output: str) -> list[str]:
    """What is wrong with the codes of an output: lost, doubled, crossed, glued, a link in a link, words lost."""
    form, found = text.form, list[str]()
    tokens = {token for pair in form.pairs.values() for token in pair} | {*form.alone, *form.breaks}
    for code in tokens:
        if text.written.count(code) != output.count(code):
            found.append(f"{code} is lost or doubled")
    found += _crossed(form, output)
    touches = [{code for code in form.alone if _is_glued(form, each, code)} for each in (text.written, output)]
    found += [f"{code} is glued" for code in touches[1] - touches[0]]
    words = [sorted(re.findall(r"w[a-j]", _bare(form, each))) for each in (text.written, output)]
    glued = [len(re.findall(r"(?<=w[a-j])x?w[a-j]", _bare(form, each))) for each in (text.written, output)]
    if words[0] != words[1] or glued[0] < glued[1]:
        found.append("words are lost or glued")
    return found


def _crossed(form: Format, output: str) -> list[str]:
    ends = {token: (name, token == pair[0]) for name, pair in form.pairs.items() for token in pair}
    pattern = "|".join(map(re.escape, sorted({*ends, *form.alone}, key=len, reverse=True)))
    opened, found = list[str](), list[str]()
    for token in re.findall(pattern, output):
        if token not in ends:
            continue
        name, opens = ends[token]
        if token == "[":  # of either link
            opens = True
        if opens and not (token == "**" and "strong" in opened):
            if name in LINKS and set(LINKS) & set(opened):
                found.append(f"{name} in a link")
            opened.append(name)
        elif not opened or (opened[-1] != name and not {opened[-1], name} <= {"a", "link"}):
            found.append(f"crossed at {token}")
            return found
        else:
            opened.pop()
    return found


def _is_glued(form: Format, text: str, code: str) -> bool:
    bare = text
    for token in sorted((token for pair in form.pairs.values() for token in pair), key=len, reverse=True):
        bare = bare.replace(token, "") if len(token) > 1 or form.ending == ".md" else bare
    return re.search(rf"[^\W\d_]{re.escape(code)}|{re.escape(code)}[^\W\d_]", bare) is not None


def _bare(form: Format, text: str) -> str:
    """The words: pairs leave nothing, other codes a space."""
    for code in sorted((*form.alone, *form.breaks), key=len, reverse=True):
        text = text.replace(code, " ")
    for token in sorted((token for pair in form.pairs.values() for token in pair), key=len, reverse=True):
        text = text.replace(token, "")
    return text


@dataclass
class Outcome:
    """What became of texts: how many there were, and those with faults and no flag, or with a flag and no fault."""

    texts: int = 0
    flagged: int = 0
    silent: list[str] = field(default_factory=list)
    needless: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """The same as numbers."""
        return {
            "texts": self.texts, "flagged": self.flagged, "silent": len(self.silent), "needless": len(self.needless)
        }  # fmt: skip


def translate_generated(form: Format, seed: int, count: int, folder: Path, translator: Any) -> Outcome:
    """Translate ``count`` texts in a file, and then some of them from a memory, half of whose pairs are damaged."""
    source = random.Random(seed)
    texts = [generate(source, form) for _ in range(count)]
    outcome, pairs, damaged = Outcome(), dict[str, str](), set[str]()
    outputs = _fill(form, texts, folder, FileTranslator(translator), (outcome, damaged))
    for text, output in list(zip(texts, outputs, strict=True))[: count // 4]:
        pairs[text.written] = output if source.random() < 0.5 else damage(source, text, output)
        damaged |= {text.written} if pairs[text.written] != output else set()
    memory = Memory(Pair(src, tgt) for src, tgt in pairs.items())
    _fill(form, texts[: count // 4], folder, FileTranslator(translator, memory=memory), (outcome, damaged))
    return outcome


def _fill(
    form: Format, texts: Sequence[Text], folder: Path, files: FileTranslator, kept: tuple[Outcome, Collection[str]]
) -> list[str]:
    """The texts of the translated file; ``kept`` are the outcome so far and the texts that are flagged rightly."""
    outcome, damaged = kept
    path, out = folder / f"in{form.ending}", folder / f"out{form.ending}"
    path.write_text(form.file([text.written for text in texts]), encoding="utf-8")
    report = files.translate(path, out)
    outputs, flags = form.texts(out.read_text("utf-8")), {form.number(one.line): one.remark for one in report.flagged}
    for number, (text, output) in enumerate(zip(texts, outputs, strict=True)):
        wrong = faults(text, output)
        if wrong and number not in flags:
            outcome.silent.append(f"{wrong}: {text.written} -> {output}")
        if not wrong and number in flags and text.written not in damaged:
            outcome.needless.append(f"{flags[number]}: {text.written} -> {output}")
    outcome.texts += len(texts)
    outcome.flagged += len(flags)
    return outputs


def damage(source: random.Random, text: Text, output: str) -> str:
    """An output with a code less, or twice, as those who translate leave them."""
    form = text.form
    tokens = [
        token for token in (*form.alone, *(each for pair in form.pairs.values() for each in pair)) if token in output
    ]
    if not tokens:
        return output
    token = source.choice(tokens)
    return output.replace(token, source.choice(("", f"{token} {token}")), 1)
