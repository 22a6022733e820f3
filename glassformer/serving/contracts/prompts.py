"""Chat messages that wrap a text in an instruction: the text alone is translated, or the message refused."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
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
_MARKS = {"```": "```", "<<<": ">>>", '"""': '"""', "'''": "'''", "---": "---", "###": "###"}
_FENCE_NAME = re.compile(r"^\w*\n")
_FORMS = (
    re.compile(r"<(?P<tag>\w+)>(?P<text>.*)</(?P=tag)>\Z", re.DOTALL),
    re.compile(
        r"^\W{0,9}(?:(?:source|original|input) )?text\W{0,3}:(?P<text>[^\0]*?)"
        r"(?:\n\W{0,9}(?:translat(?:ed text|ion)|output)\W{0,9})?\Z",
        re.IGNORECASE | re.MULTILINE,
    ),
    re.compile(r"\A(?:[^\n:]{1,500}:[ \t]{1,9}(?=[^\s\W])|[^\0]{1,2000}?:[ \t]{0,9}\n)(?P<text>[^\0]*)"),
)
_PART = "\n==WEBLATE_PART==\n"
_REFUSED = (
    "the message holds an instruction, and this server follows none: it translates a text. Empty the program's "
    "prompt, or reduce it to the text: {text}"
)
_WEBLATE = (
    "the message is in a format of Weblate's own, expected a text. Add Weblate's machinery LibreTranslate or DeepL "
    "with the address of this server instead"
)
_NOT_TEXT = re.compile(
    r"(?:.*_)?(?:id|ids|lang|language|key|index|number|type|role|kind|start|end|time|task|action|mode|format|target)",
    re.IGNORECASE,
)


class Prompt(NamedTuple):
    """The texts of a message, and what writes the answer from their translations."""

    texts: list[str]
    write: Callable[[Sequence[str]], str]


def read_prompt(message: str) -> Prompt:
    """Read a message; ``HTTPError`` for one whose instruction cannot be told from its text."""
    text = message
    if _is_instruction(message):
        text = next((inner for before, inner in _find_inner(message.rstrip()) if _is_instruction(before)), message)
    prompt = _read_json(text) or Prompt(text.split(_PART), _PART.join)
    if any(map(_is_instruction, prompt.texts)):
        raise bad_request(_REFUSED)
    return prompt


def _is_instruction(text: str) -> bool:
    return any(map(_INSTRUCTION.search, (text[:_LOOKED_AT], text[-_LOOKED_AT:])))


def _find_inner(message: str) -> Iterator[tuple[str, str]]:
    """Each way in which a text may stand in a message: what is before it, and the text."""
    for opening, closing in _MARKS.items():
        before, mark, inner = message.removesuffix(closing).rpartition(opening)
        if mark and message.endswith(closing):
            yield before, _FENCE_NAME.sub("", inner).strip()
    for pattern in _FORMS:
        if found := pattern.search(message):
            yield message[: found.start("text")], found["text"].strip()


def _read_json(text: str) -> Prompt | None:
    """The strings of an object or a list, whose keys stay."""
    try:
        value = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None
    if isinstance(value, dict) and {"source_language", "strings"} <= set(value):
        raise bad_request(_WEBLATE)
    texts = list[str]()
    _replace_strings(value, texts.append)

    def write(answers: Sequence[str]) -> str:
        waiting = iter(answers)
        return json.dumps(_replace_strings(value, lambda _: next(waiting)), ensure_ascii=False)

    return Prompt(texts, write)


def _replace_strings(value: Any, change: Callable[[str], Any]) -> Any:
    """The same value with its strings changed, but for those that are no text."""
    if isinstance(value, str) and has_letter(value):
        return change(value)
    if isinstance(value, list):
        return [_replace_strings(one, change) for one in value]
    if isinstance(value, dict):
        return {key: one if _NOT_TEXT.fullmatch(key) else _replace_strings(one, change) for key, one in value.items()}
    return value
