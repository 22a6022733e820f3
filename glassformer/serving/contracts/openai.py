"""The contract of OpenAI's chat, for programs that translate by it. A model here follows no instructions.

The last message of the user is the text, as ``prompts`` and the two protocols of Weblate wrap it. A model is named by
its languages, such as en-de.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from starlette.responses import Response

from glassformer.decoding.translation import Translation
from glassformer.serving.contracts.prompts import read_prompt
from glassformer.serving.endpoint import Contract, Endpoint, RequestContext, check, event, summarize
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.service import Text, TranslationRequest
from glassformer.text.codes.code import Code, Part, mark_codes

_PART = "\n==WEBLATE_PART==\n"
_SAMPLE = re.compile(r"\[X\d+X\]|@@PH\d+@@")
_LIMITS = "Translates what the last message of the user says; follows no instructions."
_IN_ORDER = ("syntax", "markup")
CONTRACT = Contract("OpenAI", is_json=True, key_statuses=(401, 401))


class _WeblateString(Struct):
    source: str
    parts: list[dict[str, Any]] = []


class _WeblateRequest(Struct):
    """The message of the user in Weblate's structured protocol."""

    source_language: str
    target_language: str
    strings: list[_WeblateString]
    glossary: list[dict[str, Any]] = []


class _Chat(NamedTuple):
    """What a message asks to translate, and what writes the answer from the translations."""

    texts: list[Text]
    write: Callable[[Sequence[Translation]], str]
    is_plain: bool = False
    languages: tuple[str, str] | None = None
    terms: tuple[list[str], ...] = ()


async def models(context: RequestContext) -> dict[str, Any]:
    """A model for each pair of languages, those by way of a third language included."""
    return {"object": "list", "data": [_model(*pair) for pair in context.languages.routes]}


async def find_model(context: RequestContext) -> dict[str, Any]:
    """One of these."""
    return _model(*_read_pair(context, context.request.path_params["name"]))


def _model(*pair: str) -> dict[str, Any]:
    return {"id": "-".join(pair), "object": "model", "created": 0, "owned_by": "glassformer", "description": _LIMITS}


def _read_pair(context: RequestContext, name: str) -> tuple[str, str]:
    """The languages of a model that is named by a client."""
    known = {"-".join(pair): pair for pair in context.languages.routes}
    found = next((pair for each, pair in known.items() if each.lower() == name.lower()), None)
    if not name and len(known) == 1:
        return next(iter(known.values()))
    if found is None:
        some = ", ".join(list(known)[:20])
        raise HTTPError(404 if name else 400, f"the model {name[:40]!r} does not exist, expected one of {some}")
    return found


async def chat(
    context: RequestContext,
    *,
    messages: list[dict[str, Any]],
    model: str = "",
    stream: bool = False,
    stream_options: dict[str, Any] = {},  # noqa: B006  # read only
    n: int = 1,
    stop: str | list[str] = "",
    max_tokens: int = 0,
    max_completion_tokens: int = 0,
) -> Any:
    """The translation of the last message of the user, whole or in chunks."""
    text = _last_text(messages)
    context.check_size([text])
    if n != 1:
        raise bad_request(f"n: found {n}, expected 1: each text has one translation")
    if stop:
        raise bad_request("stop: found, expected none: a translation ends where its text ends")
    pair = _read_pair(context, model)
    asked = _read_weblate(text) or _read_plain(text)
    source, target = asked.languages or pair
    request = TranslationRequest(text="", source=source, target=target, glossary=list(asked.terms))
    requests = context.requests_for(request, asked.texts)
    show = _chunks("-".join(pair), include_usage=stream_options.get("include_usage") is True)
    if stream and asked.is_plain:
        return await context.stream(requests[0], lambda piece: show([piece], requests))
    answers = await context.translate(requests)
    content, usage = asked.write(answers), _usage(answers)
    limit = max_completion_tokens or max_tokens
    if 0 < limit < usage["completion_tokens"]:
        raise bad_request(f"max_tokens: found {limit}, expected at least {usage['completion_tokens']} for this text")
    if stream:
        body = show([content], requests) + show(answers, requests)
        return Response(body, media_type="text/event-stream")
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return _about("-".join(pair), "chat.completion") | {"choices": [choice], "usage": usage}


def _last_text(messages: list[dict[str, Any]]) -> str:
    content = next((one.get("content") for one in reversed(messages) if one.get("role") == "user"), None)
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") in ("text", "input_text")]
        content = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    if not isinstance(content, str) or not content.strip():
        raise bad_request("messages has no text, expected a message of the user with one")
    return content


def _read_plain(text: str) -> _Chat:
    """Weblate's older protocol, or a prompt."""
    if _PART in text:
        marked: list[Text] = [_mark_samples(part) for part in text.split(_PART)]
        return _Chat(marked, lambda answers: _PART.join(one.text for one in answers))
    prompt = read_prompt(text)
    texts: list[Text] = [_mark_samples(one) for one in prompt.texts]
    is_plain = len(texts) == 1 and prompt.write([text]) == text
    return _Chat(texts, lambda answers: prompt.write([one.text for one in answers]), is_plain)


def _read_weblate(text: str) -> _Chat | None:
    """The message of Weblate's structured protocol, if it is one."""
    try:
        found = msgspec.json.decode(text, type=_WeblateRequest) if text.lstrip().startswith("{") else None
    except (msgspec.DecodeError, RecursionError):
        return None
    if found is None:
        return None
    pairs = [[one.get("source"), one.get("target")] for one in found.glossary]
    terms = [[str(word) for word in pair] for pair in pairs if all(isinstance(word, str) and word for word in pair)]

    def write(answers: Sequence[Translation]) -> str:
        written = [_weblate_answer(*pair) for pair in zip(found.strings, answers, strict=True)]
        return json.dumps(written, ensure_ascii=False)

    languages = found.source_language, found.target_language
    return _Chat([_parts_of(one) for one in found.strings], write, languages=languages, terms=tuple(terms))


def _mark_samples(text: str) -> Text:
    """A text in which the placeholders of Weblate's older protocol are codes."""
    return mark_codes((text,), _SAMPLE, lambda match: Code(match[0], is_text=True))


def _parts_of(string: _WeblateString) -> Text:
    """A text's parts, its placeholders as codes that carry their ids."""
    if not string.parts:
        return _mark_samples(string.source)
    closed = {part.get("close_id") for part in string.parts}
    found = list[Part]()
    for part in string.parts:
        if part.get("type") != "placeholder":
            found.append(str(part.get("text", "")))
            continue
        code = Code(str(part.get("id", "")), "closes" if part.get("id") in closed else "alone", is_text=True)
        found.append(code if part.get("close_id") is None else code._replace(kind="opens"))
    return tuple(part for part in found if part != "")


def _weblate_answer(string: _WeblateString, answer: Translation) -> Any:
    """The parts of an answer, with its source's very placeholders; a text for one that had no parts."""
    if not string.parts:
        return answer.text
    known = {str(part.get("id")): part for part in string.parts if part.get("type") == "placeholder"}
    numbers = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    pieces = [piece for piece in re.split(f"({numbers})", answer.text) if piece] if known else [answer.text]
    ordered = {number for number, part in known.items() if part.get("kind") in _IN_ORDER}
    in_order = iter([number for number in known if number in ordered])
    pieces = [next(in_order, piece) if piece in ordered else piece for piece in pieces]
    return {"parts": [known.get(piece, {"type": "text", "text": piece}) for piece in pieces]}


def _about(name: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{token_hex(12)}", "object": kind, "created": int(time.time()), "model": name}


def _usage(answers: Sequence[Translation]) -> dict[str, int]:
    """Tokens of the model; what it did not have to translate counts as one."""
    read = sum(max(1, len(one.source_tokens)) for one in answers)
    written = sum(max(1, len(one.hypotheses[0].tokens)) for one in answers)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _chunks(name: str, *, include_usage: bool) -> Callable[..., bytes]:
    """What makes chunks: one of each piece of text, and the last ones of the translations."""
    about, role = _about(name, "chat.completion.chunk"), {"role": "assistant"}

    def show(pieces: Sequence[Any], requests: Sequence[TranslationRequest]) -> bytes:
        answers = [one for one in pieces if isinstance(one, Translation)]
        if not answers and pieces:
            choice = {"index": 0, "delta": role | {"content": pieces[0]}, "finish_reason": None}
            role.clear()  # only the first has it
            return event(about | {"choices": [choice]})
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        checks = summarize([check(*pair) for pair in zip(requests, answers, strict=True)])
        usage = event(about | {"choices": [], "usage": _usage(answers)}) if include_usage else b""
        return event(about | {"choices": [last], "check": checks}) + usage + b"data: [DONE]\n\n"

    return show


ENDPOINTS = (
    Endpoint(CONTRACT, "GET", "/v1/models", models, access="free"),
    Endpoint(CONTRACT, "GET", "/v1/models/{name}", find_model, access="free"),
    Endpoint(CONTRACT, "POST", "/v1/chat/completions", chat),
)
