"""The blocks of a Markdown text, as markdown-it finds them, in less time than its own rules take."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from glassformer.text.lines import is_blank


def markdown_blocks(parser: Any, text: str, env: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The tokens with text, each with the one before it, which opens its block.

    Front matter and other lines that are no text are left out. ``env`` gets the parser's ``references``.
    """
    for pattern in (_FRONT_MATTER, _MODULE, _FORM_LINES):
        text = pattern.sub(lambda found: (found[1] or "") + "\n" * found[0].count("\n"), text)
    # It would read each line of a paragraph once more; any of them may belong to such a heading.
    parser.disable("plain" if _UNDERLINE.search(text) else "lheading")
    before = None
    for token in _parse_blocks(parser, text, env):
        is_title = before is not None and before.type == "admonition_title_open"
        if token.type in ("inline", "html_block") and token.map and not (is_title or is_blank(token.content)):
            yield before, token
        if not isinstance(token, _Item):
            before = token


class _Item(NamedTuple):
    """An item of a long list that the parser did not read, with those fields of a token that are used."""

    map: list[int]
    content: str
    type: str = "inline"


def _parse_blocks(parser: Any, text: str, env: dict[str, Any]) -> Iterator[Any]:
    """The tokens of a text; for items of long lists that the parser did not read, ``_Item``."""
    lines = text.split("\n")
    runs = _flat_runs(lines)
    tokens = _parse_without(parser, lines, runs, env) if runs else None
    if tokens is None:
        tokens, runs = parser.parse(text, env), {}
    tokens.reverse()
    while tokens:  # each is freed when it was read: together they take more memory than the segments
        token = tokens.pop()
        yield token
        if token.type == "inline":
            yield from (_Item([number, number + 1], lines[number][2:]) for number in runs.get(token.map[0], ()))


def _flat_runs(lines: Sequence[str]) -> dict[int, range]:
    """The lines that need no parser: in long lists of one-line items all but the first two items and the last.

    The parser's state after the second item is its state after each later one. The keys are the lines of second
    items.
    """
    runs = dict[int, range]()
    for sign, group in groupby(enumerate(lines), lambda each: _FLAT_ITEM.match(each[1]) and each[1][0]):
        numbers = [number for number, _ in group]
        if sign and len(numbers) > _LONG_LIST:
            runs[numbers[1]] = range(numbers[2], numbers[-1])
    return runs


def _parse_without(parser: Any, lines: Sequence[str], runs: dict[int, range], env: dict[str, Any]) -> Any:
    """The tokens of the other lines; None if what stands before a run is no item but, say, code."""
    left_out = {number for run in runs.values() for number in run}
    kept = [number for number in range(len(lines)) if number not in left_out]
    tokens = parser.parse("\n".join([lines[number] for number in kept]), env)
    for token in tokens:
        start, end = token.map or (0, 0)
        token.map = token.map and [kept[start], kept[max(start, end - 1)] + 1]
    read = {token.map[0] for token in tokens if token.type == "inline" and token.content == lines[token.map[0]][2:]}
    return tokens if read.issuperset(runs) else None


# No dollar: a block of mathematics reads on to the next two.
_FLAT_ITEM, _LONG_LIST = re.compile(r"[-+*] (?:[^\W\d_]|\\)[^$\r\0]*(?<=\S)\Z"), 100
# YAML between lines of ---, or TOML between lines of +++.
_FRONT_MATTER = re.compile(
    r"\A()(?:---\r?\n(?=#|[\w\"'.-]+[ \t]*:).*?\n---|\+\+\+\r?\n.*?\n\+\+\+)[ \t]*\r?\n", re.DOTALL
)
# What a page imports and exports (MDX), up to a blank line.
_MODULE = re.compile(
    r"""^()(?:import\s(?:[\w*{$][^;"']{0,500}?\sfrom\s+)?["'][^"'\n]+["'];?[ \t]*\r?$
    |export[ ](?:const|let|var|default|function|class|async)\b.*(?:\n(?![ \t]*\r?$).+)*)""",
    re.MULTILINE | re.VERBOSE,
)
# Lines that have no text: fences of ::: blocks, heads of tabs, where contents are listed, abbreviations, labels,
# templates.
_FORM_LINES = re.compile(
    r"""^([ \t>]*)(?: :{3,}.* | ===[!+]?[ ]".*" | \[\[?_?toc_?]?] | \*\[[^]\n]+]:.*
    | \([\w-]+\)= | {{[^{}\n]*}} | {%(?:(?!%}).)*%} | {/\*.*\*/} )[ \t]*\r?$""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
_UNDERLINE = re.compile(r"^[^\w\n]*[=-][ \t]*\r?$", re.MULTILINE)  # of a heading


def new_parser() -> Any:
    """The parser of blocks; the tokens in each, which are many, are made where they are read."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.admon import admon_plugin
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable(["text_join", "inline"])
    parser.use(admon_plugin).use(deflist_plugin)
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    parser.block.ruler.at("reference", _read_reference)
    parser.block.ruler.at("paragraph", _read_paragraph)
    parser.block.ruler.before("table", "plain", _read_plain_paragraph)
    return parser


def _read_plain_paragraph(state: Any, start: int, end: int, silent: bool) -> bool:
    """A rule that stands before all others and saves their time, where a line can only begin a paragraph.

    A line that begins with a letter, an escape, a bracket or a quote begins one, unless it is indented code or the
    line below makes it the head of a table or a term with a definition.
    """
    below = start + 1 + state.isEmpty(start + 1)
    is_alone = below >= end or state.sCount[below] < state.blkIndent or _sign_at(state, below) not in _BELOW_HEADS
    is_plain = is_alone and _PLAIN_START.match(_sign_at(state, start)) and not state.is_code_block(start)
    return bool(is_plain) and _read_paragraph(state, start, end, silent)


def _read_paragraph(state: Any, start: int, end: int, silent: bool) -> bool:
    """The parser's rule for paragraphs, in less time: others are asked only where a block may begin.

    A plain line (``_is_plain_line``) goes on with the paragraph, and an item of a list ends it.
    """
    from markdown_it.common.utils import mdTrim

    rules, line, parent = state.md.block.ruler.getRules("paragraph"), start + 1, state.parentType
    state.parentType = "paragraph"
    while line < state.lineMax and not state.isEmpty(line):
        indent = state.sCount[line]  # below 0: a rule for quotations was asked about the line before
        if 0 <= indent <= state.blkIndent + 3 and not _is_plain_line(state, line):
            is_item = indent < state.listIndent + 4 and _ITEM.match(
                state.src, state.bMarks[line] + state.tShift[line]
            )
            if is_item or any(rule(state, line, state.lineMax, True) for rule in rules):
                break
        line += 1
    state.line = line
    for kind, tag, nesting in (("paragraph_open", "p", 1), ("inline", "", 0), ("paragraph_close", "p", -1)):
        token = state.push(kind, tag, nesting)
        if nesting >= 0:
            token.map = [start, line]
        if not nesting:
            token.content, token.children = mdTrim(state.getLines(start, line, state.blkIndent, False)), []
    state.parentType = parent
    return True


def _is_plain_line(state: Any, line: int) -> bool:
    """Whether the line begins as no block does, and the one below it is no row of a table's dashes."""
    is_plain = _PLAIN_START.match(_sign_at(state, line)) is not None
    return is_plain and _sign_at(state, line + 1) not in _BELOW_HEADS


def _sign_at(state: Any, line: int) -> str:
    """The first character of a line, white space apart; empty below the last one."""
    place = state.bMarks[line] + state.tShift[line]
    return str(state.src[place : place + 1])


_PLAIN_START, _ITEM = re.compile(r"[^\W\d_]|[\\(\"']"), re.compile(r"[-+*] \S")
_BELOW_HEADS = ("|", "-", ":", "~")  # with which the line below a table's head, or a definition, begins


def _read_reference(state: Any, start: int, end: int, silent: bool) -> bool:
    """The parser's rule for what ``[name]: address`` defines, but not for a footnote, which is a text."""
    from markdown_it.rules_block import reference

    is_footnote = state.src.startswith("[^", state.bMarks[start] + state.tShift[start])
    return not is_footnote and reference(state, start, end, silent)
