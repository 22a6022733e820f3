"""Chat messages of programs that wrap a text in an instruction: the text alone is translated, or the message refused."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from glassformer.serving.http_errors import bad_request
from glassformer.text.lines import has_letter

_VERB = r"(?:translate|render|localize|localise|convert|turn|rewrite|übersetze)"
_INSTRUCTION = re.compile(
    rf"(?:^|[.!?:]\s+|\n)\W*(?:please |can you |could you |your task is to |you (?:will|must|should) )?{_VERB}\b"
    r"[^.\n]*(?:\b(?:following|below|above|text|texts|lines?|tags?|json|subtitles?|markdown|sentences?|strings?|message)\b"
    r"|\b(?:into|to|in|from|ins) [A-ZÄÖÜ{]\w+|:)"
    r"|\byou are an? [^.\n]*\b(?:translat|assistant|expert)|\btranslation engine\b|^\W*act as an?\b"
    r"|\b(?:only|nothing but|just) (?:the )?(?:translation|translated text|result|output)\b"
    r"|\b(?:no|without) (?:comments|explanations|notes)\b",
    re.IGNORECASE,
)  # fmt: skip
_WRAPPED = (
    re.compile(r"(?P<before>.*?)^```\w*\n(?P<text>.*)\n```\s*$(?P<after>)", re.DOTALL | re.MULTILINE),
    re.compile(r"(?P<before>.*?)<(?P<tag>\w+)>\s*(?P<text>.*?)\s*</(?P=tag)>(?P<after>\s*)$", re.DOTALL),
    re.compile(
        r"(?P<before>.*?)^\W*(?:source|original|input)?\s*text\W*?:\s*(?P<text>.*?)"
        r"\s*^\W*(?:translat(?:ed text|ion)|output|target(?: text)?)\W*:?\s*(?P<after>)$",
        re.DOTALL | re.MULTILINE | re.IGNORECASE,
    ),
    re.compile(r"(?P<before>[^\n]*?:|.*?:[ \t]*\n)\s*(?P<text>.+)(?P<after>)$", re.DOTALL),
)
_REFUSED = (
    "the message holds an instruction, and this server follows none: it translates a text. Empty the program's prompt, "
    "or reduce it to the text: {text}"
)
_NOT_TEXT = re.compile(
    r"(?:.*_)?(?:id|ids|lang|language|key|index|number|type|role|kind|start|end|time)", re.IGNORECASE
)


class Prompt(NamedTuple):
    """The texts of a message, and what writes the answer from their translations."""

    texts: list[str]
    write: Callable[[list[str]], str]


def read_prompt(message: str) -> Prompt:
    """Read a message; ``HTTPError`` for one whose instruction cannot be told from its text."""
    text = message
    if _INSTRUCTION.search(message):
        for form in _WRAPPED:
            match = form.match(message)
            if match and (_INSTRUCTION.search(match["before"]) or "tag" in match.groupdict()):
                text = match["text"]
                break
    found = _read_json(text)
    prompt = Prompt([text], lambda answers: answers[0]) if found is None else found
    if any(map(_INSTRUCTION.search, prompt.texts)):
        raise bad_request(_REFUSED)
    return prompt


def _read_json(text: str) -> Prompt | None:
    """The strings of an object or a list, whose keys stay."""
    try:
        value = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None
    texts = list(_strings(value))

    def write(answers: list[str]) -> str:
        return json.dumps(_fill(value, iter(answers)), ensure_ascii=False)

    return Prompt(texts, write)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str) and has_letter(value):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from () if _NOT_TEXT.fullmatch(key) else _strings(one)


def _fill(value: Any, answers: Iterator[str]) -> Any:
    if isinstance(value, str) and has_letter(value):
        return next(answers)
    if isinstance(value, list):
        return [_fill(one, answers) for one in value]
    if isinstance(value, dict):
        return {key: one if _NOT_TEXT.fullmatch(key) else _fill(one, answers) for key, one in value.items()}
    return value
