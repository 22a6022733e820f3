"""The blocks of a Markdown text, as markdown-it finds them."""

import re
from collections.abc import Iterator
from typing import Any

from glassformer.text.lines import is_blank

# YAML between lines of ---, or TOML between lines of +++.
_FRONT_MATTER = re.compile(
    r"\A()(?:---\r?\n(?=#|[\w\"'.-]+[ \t]*:).*?\n---|\+\+\+\r?\n.*?\n\+\+\+)[ \t]*\r?\n", re.DOTALL
)
# Imports and exports (MDX), up to a blank line.
_MODULE = re.compile(
    r"""^()(?:import\s(?:[\w*{$][^;"']{0,500}?\sfrom\s+)?["'][^"'\n]+["'];?[ \t]*\r?$
    |export[ ](?:const|let|var|default|function|class|async)\b.*(?:\n(?![ \t]*\r?$).+)*)""",
    re.MULTILINE | re.VERBOSE,
)
# Lines without text: fences, tab heads, contents, abbreviations, labels, templates.
_FORM_LINES = re.compile(
    r"""^([ \t>]*)(?: :{3,}.* | ===[!+]?[ ]".*" | \[\[?_?toc_?]?] | \*\[[^]\n]+]:.*
    | \([\w-]+\)= | {{[^{}\n]*}} | {%(?:(?!%}).)*%} | {/\*.*\*/} )[ \t]*\r?$""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)


def markdown_blocks(parser: Any, text: str, env: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Tokens with text and their block's opening; ``env`` gets ``references``."""
    for pattern in (_FRONT_MATTER, _MODULE, _FORM_LINES):
        text = pattern.sub(lambda found: (found[1] or "") + "\n" * found[0].count("\n"), text)
    tokens = parser.parse(text, env)
    tokens.reverse()
    before = None
    while tokens:  # freed once read
        token = tokens.pop()
        is_title = before is not None and before.type == "admonition_title_open"
        if token.type in ("inline", "html_block") and not (is_title or is_blank(token.content)):
            yield before, token
        before = token


def new_parser() -> Any:
    """The parser of blocks without their tokens."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.admon import admon_plugin
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable(["text_join", "inline"])
    parser.use(admon_plugin).use(deflist_plugin)
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    parser.block.ruler.at("reference", _read_reference)
    return parser


def _read_reference(state: Any, start: int, end: int, silent: bool) -> bool:
    """Definitions ``[name]: address``, but not footnotes, which are text."""
    from markdown_it.rules_block import reference

    is_footnote = state.src.startswith("[^", state.bMarks[start] + state.tShift[start])
    return not is_footnote and reference(state, start, end, silent)
