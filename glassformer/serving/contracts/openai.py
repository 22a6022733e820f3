"""The contract of OpenAI's chat, for programs that translate by it. A model here follows no instructions.

The last message of the user is the text, as ``prompts`` reads it. A model is named by its languages, such as en-de.
"""

import time
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from glassformer.serving.contracts.prompts import read_prompt
from glassformer.serving.endpoint import Answer, Contract, Endpoint, RequestContext, event, summarize
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.service import Options

_LIMITS = "Translates what the last message of the user says; follows no instructions."
CONTRACT = Contract(is_json=True, key_statuses=(401, 401))


async def models(context: RequestContext) -> dict[str, Any]:
    """A model for each pair of languages, those by way of a third language included."""
    return {"object": "list", "data": [_model(*pair) for pair in context.languages.routes]}


async def find_model(context: RequestContext) -> dict[str, Any]:
    """One of these."""
    return _model(*_read_pair(context, context.request.path_params["name"]))


def _model(*pair: str) -> dict[str, Any]:
    return {"id": "-".join(pair), "object": "model", "created": 0, "owned_by": "glassformer", "description": _LIMITS}


def _read_pair(context: RequestContext, name: str) -> tuple[str, str]:
    """The languages of a model that is named by a client; the only one needs no name."""
    known = {"-".join(pair).lower(): pair for pair in context.languages.routes}
    if not name and len(known) == 1:
        return next(iter(known.values()))
    if name.lower() not in known:
        some = ", ".join(list(known)[:20])
        raise HTTPError(404 if name else 400, f"the model {name[:40]!r} does not exist, expected one of {some}")
    return known[name.lower()]


class Chat(Struct):
    """What chat clients send; other parameters are not read."""

    messages: list[dict[str, Any]]
    model: str = ""
    stream: bool = False
    stream_options: dict[str, Any] = {}
    n: int = 1
    stop: str | list[str] = ""
    max_tokens: int = 0
    max_completion_tokens: int = 0


async def chat(context: RequestContext, asked: Chat) -> Any:
    """The translation of the last message of the user, whole or in chunks."""
    text = _last_text(asked.messages)
    context.check_size([text])
    if asked.n != 1:
        raise bad_request(f"n: found {asked.n}, expected 1: each text has one translation")
    if asked.stop:
        raise bad_request("stop: found, expected none: a translation ends where its text ends")
    pair, prompt = _read_pair(context, asked.model), read_prompt(text)
    show = _chunks("-".join(pair), include_usage=asked.stream_options.get("include_usage") is True)
    if asked.stream and prompt.texts == [text]:
        return await context.stream(text, *pair, Options(), show)
    answers = await context.translate(prompt.texts, *pair)
    content, usage = prompt.write([one.text for one in answers]), _usage(answers)
    limit = asked.max_completion_tokens or asked.max_tokens
    if 0 < limit < usage["completion_tokens"]:
        raise bad_request(f"max_tokens: found {limit}, expected at least {usage['completion_tokens']} for this text")
    if asked.stream:
        return Response(show(content) + show(*answers), media_type="text/event-stream")
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


def _about(name: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{token_hex(12)}", "object": kind, "created": int(time.time()), "model": name}


def _usage(answers: Sequence[Answer]) -> dict[str, int]:
    """Tokens of the model; what it did not have to translate counts as one."""
    read = sum(max(1, len(one.found.source_tokens)) for one in answers)
    written = sum(max(1, len(one.found.hypotheses[0].tokens)) for one in answers)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _chunks(name: str, *, include_usage: bool) -> Callable[..., bytes]:
    """What makes chunks: one of each piece of text, and the last ones of the answers."""
    about, role = _about(name, "chat.completion.chunk"), {"role": "assistant"}

    def show(*pieces: str | Answer) -> bytes:
        answers = [one for one in pieces if isinstance(one, Answer)]
        if not answers and pieces:
            choice = {"index": 0, "delta": role | {"content": pieces[0]}, "finish_reason": None}
            role.clear()  # only the first has it
            return event(about | {"choices": [choice]})
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        checks = summarize([one.check for one in answers])
        usage = event(about | {"choices": [], "usage": _usage(answers)}) if include_usage else b""
        return event(about | {"choices": [last], "check": checks}) + usage + b"data: [DONE]\n\n"

    return show


ENDPOINTS = (
    Endpoint(CONTRACT, "GET", "/v1/models", models, access="free"),
    Endpoint(CONTRACT, "GET", "/v1/models/{name}", find_model, access="free"),
    Endpoint(CONTRACT, "POST", "/v1/chat/completions", chat, Chat),
)
