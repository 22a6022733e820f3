"""Writes paragraphs into Markdown, with accidental markup escaped."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from glassformer.text.codes.code import Code, Part, join_parts, join_texts

_LINE_END = re.compile(r"(?<!  )(?<![\\\]*])\n")  # not at hard breaks or after a note's kind
# What makes another block of a paragraph that begins with it.
_BLOCK_START = re.compile(
    r"^(\s*(?:\d+(?=[.)](?:\s|$)))?)([#>=~]|:(?=::|\s)|[!?](?=[!?]{2})|\$(?=\$)|[-+*](?=[-+*\s]|$)|[.)](?=\s|$))"
)
_DELIMITERS = ("*", "_", "~")
_INLINE_SIGNS = re.compile(r"[*_`\[\]<~]")
# Signs; those without effect here, or in words of the source; escapes.
_MARKUP = re.compile(
    rf"""(?P<harmless> (?<=[^\W_])_+(?=[^\W_]) | (?<!\S)\*(?!\S) | (?<!~)~(?!~) | <(?![A-Za-z/!?]) )
    | (?P<kept> \[[^\[\]\s*_`<~\\]+\](?=[^(\[:]) | (?<=[^\W_])\*(?=[^\W_]) )
    | {_INLINE_SIGNS.pattern} | \\(?=[!-/:-@\[-`{{-~]|\Z)""",
    re.VERBOSE,
)
_MARKUP_SIGN = re.compile(r"[*_`\[\]<~\\]")
_WORD = re.compile(r"\S+\s*|\s+")


@lru_cache(100)  # files repeat texts
def write_markdown(translated: tuple[Part, ...], parts: tuple[Part, ...], line_break: str, in_paragraph: bool) -> str:
    """A block's text; escapes paragraphs' line starts."""
    written, begins_line, escape = list[str](), in_paragraph, _escaping(translated, parts)
    end = ""  # of the output
    for is_markup, text, *edges in _runs(translated):
        if is_markup:
            piece = _LINE_END.sub(" ", text).replace("\n", line_break)
        else:
            piece = escape(text.replace("\n", " "), edges)
            piece = _BLOCK_START.sub(r"\1\\\2", piece) if begins_line else piece
        written.append(piece)
        end = (end + piece)[-len(line_break) :]
        begins_line = in_paragraph and end == line_break
    return "".join(written)


def _escaping(translated: Sequence[Part], parts: Sequence[Part]) -> Callable[[str, Sequence[str]], str]:
    """Escapes texts in order, given the signs at their ends."""
    texts = [join_parts([part]) for part in translated if not _is_markup(part)]
    if not any(map(_MARKUP_SIGN.search, texts)) or _without_marks(translated) == _without_marks(parts):
        return lambda text, _: text  # fast path
    source = " ".join(part for part in parts if isinstance(part, str))
    unused, own_edges = Counter(map(_bare, source.split())), {edge for _, _, *edges in _runs(parts) for edge in edges}

    def escape(text: str, edges: Sequence[str]) -> str:
        first, last = (len(edge) if edge in own_edges else 0 for edge in edges)
        last = min(last, len(text) - first)  # a text of one sign is at both
        inner = _escape_markdown(text[first : len(text) - last], source, unused)
        return text[:first] + inner + text[len(text) - last :]

    return escape


def _is_markup(part: Part) -> bool:
    return isinstance(part, Code) and not part.is_text


def _runs(parts: Sequence[Part]) -> Iterator[tuple[bool, str, str, str]]:
    """Whether each run is markup, its text, and adjacent delimiters."""
    runs = [(join_parts(group), is_markup) for is_markup, group in groupby(parts, _is_markup)]
    for number, (text, is_markup) in enumerate(runs):
        if is_markup:
            yield True, text, "", ""
            continue
        before, after = (runs[each][0] if 0 <= each < len(runs) else "" for each in (number - 1, number + 1))
        first, last = before[-1:], after[:1]
        start = text[: len(text) - len(text.lstrip(first))] if first in _DELIMITERS else ""
        yield False, text, start, text[len(text.rstrip(last)) :] if last in _DELIMITERS else ""


def _without_marks(parts: Iterable[Part]) -> list[Part]:
    return join_texts(part.raw if isinstance(part, Code) and part.is_text else part for part in parts)


def _escape_markdown(text: str, source: str, known: Counter[str]) -> str:
    """``text`` with markup escaped unless ``source`` has it."""

    def escape(piece: str) -> str:
        word = _bare(piece)
        known[word] -= 1

        def write(found: re.Match[str]) -> str:
            is_plain = found[0][0] in source if found["harmless"] else found["kept"] and known[word] >= 0
            return found[0] if is_plain else _MARKUP_SIGN.sub(r"\\\g<0>", found[0])

        return _MARKUP.sub(write, piece)

    return "".join(escape(piece) for piece in _WORD.findall(text))


def _bare(word: str) -> str:
    """A word without punctuation round it; square brackets stay."""
    return word.strip().strip(".,;:!?…\"'()«»„“”‚‘’")
