"""The contract of OpenAI's chat, for programs that translate by it. A model here follows no instructions.

The last message of the user is the text; what comes before it is read for languages only where its form is known: the
two protocols of Weblate, whose placeholders are codes to us. A model is named by its languages, such as en-de.
"""

import json
import re
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from secrets import token_hex
from typing import Any

import msgspec
from msgspec import Struct

from glassformer.decoding.translation import EMPTY, Translation
from glassformer.serving.endpoint import Contract, Endpoint, RequestContext, event
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.service import Text, TranslationRequest
from glassformer.text.codes.code import Code, Part, mark_codes

_PART = "\n==WEBLATE_PART==\n"
_SAMPLE = re.compile(r"\[X\d+X\]|@@PH\d+@@")
_LIMITS = "Translates what the last message of the user says; follows no instructions."
_IN_ORDER = ("syntax", "markup")
CONTRACT = Contract("OpenAI", is_json=True)


class Message(Struct):
    """One message of a chat; its content is a text, or parts; those of type text are read."""

    role: str
    content: str | list[dict[str, Any]]

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(
            str(part.get("text", "")) for part in self.content if part.get("type") in ("text", "input_text")
        )


class WeblateString(Struct):
    """One text of ``WeblateRequest``."""

    source: str
    parts: list[dict[str, Any]] = []


class WeblateRequest(Struct):
    """The message of the user in Weblate's structured protocol."""

    source_language: str
    target_language: str
    strings: list[WeblateString]
    glossary: list[dict[str, Any]] = []


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
    if found is None:
        some = ", ".join(list(known)[:20])
        raise HTTPError(404, f"the model {name[:40]!r} does not exist, expected one of {some}")
    return found


async def chat(context: RequestContext, *, model: str, messages: list[Message], stream: bool = False) -> Any:
    """The translation of the last message of the user, whole or in chunks."""
    text = next((one.text for one in reversed(messages) if one.role == "user"), "")
    context.check_size([text])
    if not text:
        raise bad_request("messages has no message of the user, expected one with the text")
    structured = _read_weblate(text)
    requests = _requests(context, _read_pair(context, model), text, structured)
    if stream and structured is None and _PART not in text:
        return await context.stream(context.pieces(requests[0]), _chunks(model))
    answers = await context.translate(requests)
    content = _PART.join(answer.text for answer in answers)
    if structured is not None:
        found = [_weblate_answer(*pair) for pair in zip(structured.strings, answers, strict=True)]
        content = json.dumps(found, ensure_ascii=False)
    if stream:
        return await context.stream(_whole(content), _chunks(model))
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return _about(model, "chat.completion") | {"choices": [choice], "usage": usage}


def _read_weblate(text: str) -> WeblateRequest | None:
    """The message of Weblate's structured protocol, if it is one."""
    try:
        return msgspec.json.decode(text, type=WeblateRequest) if text.lstrip().startswith("{") else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _requests(
    context: RequestContext, pair: tuple[str, str], text: str, structured: WeblateRequest | None
) -> list[TranslationRequest]:
    if structured is None:
        request = TranslationRequest(text="", source=pair[0], target=pair[1])
        return context.requests_for(request, [_mark_samples(part) for part in text.split(_PART)])
    pairs = [[one.get("source"), one.get("target")] for one in structured.glossary]
    terms = [[str(word) for word in pair] for pair in pairs if all(isinstance(word, str) and word for word in pair)]
    source, target = structured.source_language, structured.target_language
    request = TranslationRequest(text="", source=source, target=target, glossary=terms)
    return context.requests_for(request, [_parts_of(one) for one in structured.strings])


def _mark_samples(text: str) -> Text:
    """A text in which the placeholders of Weblate's older protocol are codes."""
    return mark_codes((text,), _SAMPLE, lambda match: Code(match[0], is_text=True))


def _parts_of(string: WeblateString) -> Text:
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


def _weblate_answer(string: WeblateString, answer: Translation) -> Any:
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


async def _whole(content: str) -> AsyncGenerator[str | Translation, None]:
    yield content
    yield Translation(content, [], False, [replace(EMPTY, text=content)])


def _chunks(model: str) -> Callable[[str | Translation], bytes]:
    """What makes a chunk of each piece, and the end of the stream of the answer."""
    about, role = _about(model, "chat.completion.chunk"), {"role": "assistant"}

    def chunk(piece: str | Translation) -> bytes:
        if isinstance(piece, Translation):
            last = {"index": 0, "delta": {}, "finish_reason": "stop"}
            return event(about | {"choices": [last]}) + b"data: [DONE]\n\n"
        choice = {"index": 0, "delta": role | {"content": piece}, "finish_reason": None}
        role.clear()  # only the first has it
        return event(about | {"choices": [choice]})

    return chunk


ENDPOINTS = (
    Endpoint(CONTRACT, "GET", "/v1/models", models, access="free"),
    Endpoint(CONTRACT, "GET", "/v1/models/{name}", find_model, access="free"),
    Endpoint(CONTRACT, "POST", "/v1/chat/completions", chat),
)
