"""Chat messages that wrap a text in an instruction: the text alone is translated, or the message refused."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from glassformer.serving.http_errors import bad_request
from glassformer.text.lines import has_letter

_VERB = r"(?:translate|render|localize|localise|convert|turn|rewrite|übersetze)"
_SUBJECT = (
    r"(?:following|below|above|texts?|lines?|tags?|json|subtitles?|markdown|sentences?|strings?|message|this|that|it)"
)
_INSTRUCTION = re.compile(
    rf"(?:^|[.!?:]\s|\n)\W{{0,9}}(?:please |can you |could you |your task is to |you (?:will|must|should) )?{_VERB}\b"
    rf"[^.\n]{{0,200}}?(?:\b{_SUBJECT}\b|\b(?:into|to|in|from|ins) [A-ZÄÖÜ{{]\w|:)"
    r"|\byou are an? [^.\n]{0,80}\b(?:translat|assistant|expert)|\btranslation engine\b|^\W{0,9}act as an?\b"
    r"|\b(?:answer|reply|respond|return|output|write|give)\b[^.\n]{0,60}\b(?:only|nothing but|just)\b"
    r"|\b(?:only|nothing but|just) (?:the )?(?:translation|translated text)\b"
    r"|\b(?:no|without) (?:comments|explanations|notes)\b",
    re.IGNORECASE,
)
_LOOKED_AT = 2000  # characters at both ends of a message
_SOURCE_MARK = re.compile(r"^\W{0,9}(?:(?:source|original|input) )?text\W{0,3}:", re.IGNORECASE | re.MULTILINE)
_TARGET_MARK = re.compile(r"\n\W{0,9}(?:translat(?:ed text|ion)|output)\W{0,9}$", re.IGNORECASE)
_MARKS = {"```": "```", "<<<": ">>>", '"""': '"""', "'''": "'''", "---": "---", "###": "###"}
_FENCE_NAME = re.compile(r"^\w*\n")
_TAG = re.compile(r"<(\w+)>")
_COLON = re.compile(r"[^\n:]{1,500}:[ \t]{1,9}(?=[^\s\W])|[^\0]{1,2000}?:[ \t]{0,9}\n")
_REFUSED = (
    "the message holds an instruction, and this server follows none: it translates a text. Empty the program's "
    "prompt, or reduce it to the text: {text}"
)
_NOT_TEXT = re.compile(
    r"(?:.*_)?(?:id|ids|lang|language|key|index|number|type|role|kind|start|end|time|task|action|mode|format|target)",
    re.IGNORECASE,
)


class Prompt(NamedTuple):
    """The texts of a message, and what writes the answer from their translations."""

    texts: list[str]
    write: Callable[[list[str]], str]


def read_prompt(message: str) -> Prompt:
    """Read a message; ``HTTPError`` for one whose instruction cannot be told from its text."""
    text = message
    if _is_instruction(message):
        text = next((inner for before, inner in _wrapped(message.rstrip()) if _is_instruction(before)), message)
    prompt = _read_json(text) or Prompt([text], lambda answers: answers[0])
    if any(map(_is_instruction, prompt.texts)):
        raise bad_request(_REFUSED)
    return prompt


def _is_instruction(text: str) -> bool:
    return any(map(_INSTRUCTION.search, (text[:_LOOKED_AT], text[-_LOOKED_AT:])))


def _wrapped(message: str) -> Iterator[tuple[str, str]]:
    """Each way in which a text may stand in a message: what is before it, and the text."""
    for opening, closing in _MARKS.items():
        before, mark, inner = message.removesuffix(closing).rpartition(opening)
        if mark and message.endswith(closing):
            yield before, _FENCE_NAME.sub("", inner).strip()
    tag, source, colon = _TAG.search(message), _SOURCE_MARK.search(message), _COLON.match(message)
    if tag and message.endswith(f"</{tag[1]}>"):
        yield message[: tag.start()], message[tag.end() :].removesuffix(f"</{tag[1]}>").strip()
    if source:
        last = _TARGET_MARK.search(message, max(source.end(), len(message) - 60))
        yield message[: source.start()], message[source.end() : last.start() if last else None].strip()
    if colon:
        yield colon[0], message[colon.end() :].strip()


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
