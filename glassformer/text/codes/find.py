"""Placeholders: what a translation must keep as it is, such as %d, {name}, <b>…</b>, a path or an address.

They are found in a text and become codes, in addition to those that a file has; a code that breaks a line, or that
divides a message into branches, begins a new text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from glassformer.text.codes.code import Code, Part, Parts, join_parts, mark_codes, replace_codes, restore_codes

# One of these is in every placeholder; most texts have none.
HINT = re.compile(r"[@%{$:\[/\\_&<`\-(²³¹⁰⁴-⁹#=]|\+\+|~~|\*\*|www\.|\.[A-Za-z*]|[vV]\d|0[xX]")
# Each alternative reads on only over signs that its own start does not have, so that time is linear.
_PLACEHOLDERS = re.compile(
    r"""
    (?P<address>(?:(?<![a-z])[a-z]{3,8}://|www\.)(?:\([^\s<>"'()\[\]]*\)|[^\s<>"'()\[\]])*
            (?:\([^\s<>"'()\[\]]*\)|[^\s<>"'.,;:!?()\[\]])
        | (?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)* | (?<!\w)(?:mailto|tel):[^\s<>"']*[\w])
    | (?P<mention>(?<![\w@.])@(?!PH)[A-Za-z_]\w*+(?:[.-]\w++)*+(?!@) | (?<![\w&\#{])\#[A-Za-z_]\w*+(?!\})
        | (?<![\w:]):[a-z\d_+-]++:(?![\w:]))
    | (?P<script><%(?:(?!<%|%>)[^\n])*%> | <\?(?:(?!<\?|\?>)[^\n])*\?> | \{%(?:(?!\{%|%\})[^\n])*%\})
    | (?P<quoted>(?<!`)`(?!\s)[^`\n]+(?<!\s)`(?!`))
    | (?P<opening>(?<![\w~*])(?:~~(?=[^\s~](?:[^~\n]*[^\s~])?~~)|\*\*(?=[^\s*](?:[^*\n]*[^\s*])?\*\*)))
    | (?P<closing>(?<=[^\s~*])(?:~~|\*\*)(?![\w~*]))
    | (?P<percent>%%)
    | (?P<printf>%(?:\(\w+\)|\d+\$)?[-+ 0#]*(?:\d+|\*)?(?:\.\d+)?(?:hh?|ll?|[qjzt])?[diouxXeEfFgGcsSrp@](?![A-Za-z])
        | (?<![\d%])(?<!\d\s)%(?:\d+\$)?[ds](?!\w*%) | %\d+![^!\s]*!)
    | (?P<braces>[%\#$]?\{{1,3}[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)*\}{1,3})
    | (?P<qt>(?<!\d)%L?\d{1,2}(?![\w%])|%n(?!\w))
    | (?P<name>\$\w*\([^()\n]*\) | \$[A-Za-z_]\w*|(?<!\d)%[A-Za-z_]\w+%|(?<![\w:/]):[A-Za-z_]\w+(?![\w:])
        | @@\w+@@ | @:[A-Za-z_][\w.]*\w | (?<!\w)__[A-Za-z]\w*?__(?!\w))
    | (?P<square>\[\[[^\[\]\n]*\]\] | \[/?[A-Za-z_][\w.-]*(?:=[^\[\]\n]*)?\])
    | (?P<file>(?<![\w./\\-])[\w-]++(?:\.[\w-]++)*?\.(?i:txt|md|[ct]sv|jsonl?|xml|ya?ml|toml|ini|html?|css|js|py|ipynb
        |cpp|php|sql|pdf|docx?|xlsx?|pptx?|od[tsp]|rtf|tex|xliff|tmx|srt|vtt|png|jpe?g|gif|svg|webp|mp[34]|wav|zip|gz|tar
        |rar|exe|dll|apk|iso)(?!\w))
    | (?P<path>(?<![\w/.~<])(?:~|\.{1,2})?(?:/\.?(?!\d)[\w-]++(?:\.[\w-]++)*+)(?:/[\w-]*+(?:\.[\w-]++)*+)*
        | (?<!\w)[A-Za-z]:(?:\\[\w-]++(?:\.[\w-]++)*+)+)
    | (?P<option>(?<![\w-])(?:--[A-Za-z][\w-]*+(?:=[^\s<>"']*[\w/])?|-[A-Za-z](?![\w-])))
    | (?P<identifier>(?<!\w)[A-Za-z][A-Za-z\d]*+(?:_[A-Za-z\d]++)+(?!\w)
        | (?<![\w:/=-])[A-Za-z]\w*+==?-?\w++(?:\.\w++)*+(?!:?\w))
    | (?P<call>(?<![\w.])[A-Za-z_][\w.]*+\(\))
    | (?P<version>(?<![\w.])\d++(?:\.\d++)*+\.[xX*](?!\w) | (?<!\d)\d++[⁰¹²³⁴-⁹]+
        | (?<![\w.])[vV]\d++(?:\.\d++)++(?:-\w++)? | (?<!\w)0[xX][\dA-Fa-f]++(?!\w) | (?<!\w)[A-Z](?:\+\+|\#)(?!\w))
    | (?P<escape>\\[nrtN])
    | (?P<entity>&(?:\#\d+|\#x[0-9A-Fa-f]+|[A-Za-z]+);)
    | (?P<tag></?(?:[A-Za-z][^<>\n]*|\d{1,3}/?)>)
    """,
    re.VERBOSE,
)
_BLOCK = re.compile(r"\{(?:%-?\s*|\{~?(?=[#/^]))(end|[#/^])?(\w+)")
_TAG_NAME = re.compile(r"[<\[]/?([A-Za-z\d][\w:-]*)")  # <c.red> of WebVTT is closed by </c>
_PARTNERS = {"bpt": "ept", "bx": "ex", "sc": "ec"}
_EMPTY_TAGS = ("<br", "<hr", "<img", "<input", "<wbr")
_MESSAGE = re.compile(r"\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal)\s*,")
_BRANCH = re.compile(r"\s*(?:offset:\d+\s*)?(?:=\d+|[\w-]+)\s*\{")
_MESSAGE_END = re.compile(r"\s*\}")
_MAX_NESTING = 5  # messages in one another
_BREAK = re.compile(
    r"</?(?:br|hr|p|div|ul|ol|li|dl|dt|dd|table|tr|td|th|h[1-6]|blockquote|pre|section|article)\b[^<>]*>"
    r"|\\[nrN]|\{\\N\}|.*\n|\{%-?\s*(?:else|el(?:s|se)?if|empty|when)\b[^{}]*\}|\{\{~?\s*else\b[^{}]*\}\}",
    re.IGNORECASE | re.DOTALL,
)
# Codes that are no part of what a sentence says: tags, readings of ruby, escapes, boxes, footnotes, pictures.
_WORDLESS = re.compile(
    r"<r[tp]\b.*|<(?![%?]=)[^>]*>|<!--.*-->"
    r"|\\.|%%|&#?\w+;|\{\\.*\}|\{%.*%\}|\[[ xX]\]|\[\^.*\]:?|:[a-z\d_+-]+:|!\[.*",
    re.DOTALL,
)
_ADDRESS_TAG = re.compile(r"<(?:https?:|[^\s<>]+@)[^<>]*>")
_REMEMBERED = 1000  # codes; a file repeats them
_LONG_CODE = 500  # characters; a search for all that is wordless in it would take time with its square


def find_codes(parts: Sequence[Part]) -> Parts:
    """The same parts, with the placeholders in their text, and the syntax of ICU messages, as codes."""
    found = _with_messages(parts)
    if not any(isinstance(part, str) and may_have_codes(part) for part in found):
        return _pair_blocks([part for part in found if part != ""])
    text = join_parts(found)
    closing = set(re.findall(r"\[/([\w.-]+)\]", text)) if "[/" in text else set()

    def code(match: re.Match[str]) -> Code:
        raw = match[0]
        if match["opening"] or match["closing"]:
            return Code(raw, "opens" if match["opening"] else "closes", is_text=True)
        is_pair = match["tag"] is not None and not (raw.endswith("/>") or raw.lower().startswith(_EMPTY_TAGS))
        if match["square"] is not None and (name := re.match(r"\[/?([\w.-]+)", raw)):
            is_pair = name[1] in closing
        if not is_pair:
            return Code(raw, is_text=True)
        return Code(raw, "closes" if raw[1] == "/" else "opens", is_text=True)

    once = _mark_placeholders(found, code)
    if len(once) > sum(part != "" for part in found):
        once = _mark_placeholders(once, code)  # in \\nfoo() no word precedes foo()
    return _pair_blocks(once)


def _mark_placeholders(parts: Sequence[Part], code: Callable[[re.Match[str]], Code]) -> list[Part]:
    found = list[Part]()
    for part in parts:
        is_searched = isinstance(part, str) and may_have_codes(part)
        found += mark_codes((part,), _PLACEHOLDERS, code) if is_searched else (part,) if part != "" else ()
    return found


def _pair_blocks(parts: Sequence[Part]) -> Parts:
    """The same parts, where a block of a template opens and closes: {% if x %}…{% endif %}, {{#if x}}…{{/if}}."""
    blocks = [_BLOCK.match(part.raw) if isinstance(part, Code) else None for part in parts]
    if not any(blocks):
        return tuple(parts)
    ended = {block[2] for block in blocks if block is not None and block[1] in ("end", "/")}
    return tuple(
        part._replace(kind="closes" if block[1] in ("end", "/") else "opens")
        if isinstance(part, Code) and block is not None and block[2] in ended
        else part
        for part, block in zip(parts, blocks, strict=True)
    )


def mark_messages(parts: Parts) -> tuple[Parts, dict[str, Parts]]:
    """The same parts, with each ICU message as one code, so that the text round it stays whole; what each holds."""
    text, codes = _with_signs(parts)
    found, messages = list[Part](), dict[str, Parts]()
    for part in _read_messages(text, is_whole=True):
        inner = restore_codes(part if isinstance(part, str) else part.raw, codes)
        if isinstance(part, Code):
            part = part._replace(raw=join_parts(inner))
            messages[part.raw] = inner
        found += inner if isinstance(part, str) else (part,)
    return (tuple(found), messages) if messages else (parts, {})


def _with_messages(parts: Sequence[Part]) -> list[Part]:
    """The same parts, with the syntax of messages as codes."""
    text, codes = _with_signs(tuple(parts))
    found = list(_read_messages(text))
    if len(found) == 1:
        return list(parts)
    return [one for part in found for one in (restore_codes(part, codes) if isinstance(part, str) else (part,))]


def _with_signs(parts: Parts) -> tuple[str, dict[str, Code]]:
    """The text with signs for its codes; empty if it can have no message."""
    is_possible = any("{" in part for part in parts if isinstance(part, str))
    return replace_codes(parts) if is_possible else ("", {})


def _read_messages(text: str, *, is_whole: bool = False) -> Iterator[Part]:
    """The text with its ICU messages as codes, or only with their syntax as codes, such as ``{n, plural, one {``."""
    position = 0
    while (start := _MESSAGE.search(text, position)) and (message := _read_message(text, start, 1)):
        yield text[position : start.start()]
        parts, position = message
        yield from [Code(text[start.start() : position], is_text=True)] if is_whole else parts
    yield text[position:]


def _read_message(text: str, start: re.Match[str], depth: int) -> tuple[list[Part], int] | None:
    """The parts of a message and where it ends; None if it is not one."""
    parts, syntax, position = list[Part](), start[0], start.end()
    while branch := _BRANCH.match(text, position):
        parts.append(Code(syntax + branch[0], is_text=True))
        end = _closing_brace(text, branch.end())
        if end is None:
            return None
        position = branch.end()
        while nested := _MESSAGE.search(text, position, end):
            message = _read_message(text, nested, depth + 1) if depth < _MAX_NESTING else None
            if message is None:
                return None
            parts += [*_counts(text[position : nested.start()]), *message[0]]
            position = message[1]
        parts += _counts(text[position:end])
        syntax, position = "}", end + 1
    closing = _MESSAGE_END.match(text, position)
    if closing is None or not parts:
        return None
    return [*parts, Code(syntax + closing[0], is_text=True)], closing.end()


def _closing_brace(text: str, position: int) -> int | None:
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return None


def _counts(text: str) -> Iterator[Part]:
    """The text of a branch, in which # stands for the number."""
    for piece in re.split("(#)", text):
        yield Code(piece, is_text=True) if piece == "#" else piece


@lru_cache(_REMEMBERED)
def begins_new_text(code: Code) -> bool:
    """Whether a code breaks a line, or divides a message or a template into branches, each a text of its own."""
    divides = code.raw[:1] == "}" or (code.raw[-1:] == "{" and _MESSAGE.match(code.raw) is not None)
    return divides or _BREAK.fullmatch(code.raw) is not None


@lru_cache(_REMEMBERED)
def stands_for_word(code: Code) -> bool:
    """Whether a word of the sentence may be behind a code: a name, a number, an address, a piece of a program."""
    if _ADDRESS_TAG.fullmatch(code.raw):
        return True
    if len(code.raw) > _LONG_CODE:
        return code.kind == "alone" and _WORDLESS.fullmatch(code.raw) is None
    is_named = code.kind == "alone" and any(map(str.isalnum, _WORDLESS.sub("", code.raw)))
    return is_named or code.raw in ("{}", "#")


@lru_cache(_REMEMBERED)
def pair_name(code: Code) -> str:
    """What an opening and its closing code have in common."""
    if block := _BLOCK.match(code.raw):
        return block[2]
    found = _TAG_NAME.match(code.raw)
    if found is None or (code.raw.startswith("[") and not code.is_text):
        return ""
    return next((opening for opening, closing in _PARTNERS.items() if found[1] == closing), found[1])


def is_link(parts: Sequence[Part]) -> bool:
    """Whether a pair that ``parts`` open is a link or code; neither may be inside another."""
    opening = next((part for part in parts if isinstance(part, Code) and part.kind == "opens"), None)
    if opening is None:
        return False
    return pair_name(opening).lower() in ("a", "code", "url") or (opening.raw[:1] == "[" and not opening.is_text)


def may_have_codes(text: str) -> bool:
    """Whether a text has a sign that each code has."""
    return HINT.search(text) is not None
