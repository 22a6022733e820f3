"""Our own contract: all that the models and the documents have, and explanations. The types are the documentation."""

from functools import partial
from secrets import token_hex
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import HTMLResponse, Response

from glassformer.decoding.translation import Translation
from glassformer.serving import models
from glassformer.serving.batcher import BatchKey
from glassformer.serving.endpoint import Contract, Endpoint, RequestContext, check, event
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.service import TranslationRequest, check_codes

Language = Annotated[str, Meta(min_length=1, max_length=40, examples=["en"])]
_OF_HYPOTHESIS = ("text", "log_prob", "score", "tokens", "truncated", "confidence", "unmet")
_EXPLAIN_S = 120.0
CONTRACT = Contract("native", is_json=True)


class TranslateRequest(TranslationRequest, kw_only=True, forbid_unknown_fields=True):
    """What to translate and how. With n_best, prefix, must, ban or alignment it gives the model's own outputs."""

    text: Annotated[str | list[str], Meta(description="one text, or several")]
    target: Language
    source: Annotated[Language, Meta(description="a code, or auto")] = "auto"
    stream: Annotated[bool, Meta(description="one text, as server-sent events: piece, ..., translation")] = False


class ExplainBody(Struct, forbid_unknown_fields=True):
    """One sentence whose translation is to be explained."""

    text: Annotated[str, Meta(min_length=1)]
    target: Language
    source: Language
    beam: Annotated[int, Meta(ge=1, le=64)] | None = None
    values: Annotated[bool, Meta(description="every number of the walk, not only its steps")] = False


async def translate(context: RequestContext, asked: TranslateRequest) -> dict[str, Any] | Response:
    """Texts with all that there is to say of their translations.

    ``check`` names what should be looked at: a placeholder or a tag that is missing or was added, a cut, a doubt.
    """
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    most = context.serving.config.n_best_limit
    if asked.n_best > most:
        raise bad_request(f"n_best must be <= {most}")
    if not all(len(term) > 1 and all(term) for term in asked.glossary):
        raise bad_request("a term of the glossary has no translation, expected a list of the term and that")
    if asked.beam is not None and asked.beam < asked.n_best:
        raise bad_request(f"n_best: found {asked.n_best} with a beam of {asked.beam}, expected at most that")
    requests = context.requests_for(asked, texts)
    if asked.stream:
        if len(requests) != 1:
            raise bad_request(f"stream: found {len(requests)} texts, expected one")
        return await context.stream(requests[0], partial(_event, requests[0]))
    answers = await context.translate(requests)
    return {"translations": list(map(_translation, requests, answers))}


def _translation(request: TranslationRequest, found: Translation) -> dict[str, Any]:
    answer: dict[str, Any] = {"text": found.text, "source": request.source, "target": request.target}
    answer |= {"check": check(request, found), "flags": found.flags, "notes": found.notes, "engine": found.engine}
    best, output = found.hypotheses[0], found.to_mapping(attention=False)
    if found.engine:
        answer |= {"log_prob": best.log_prob, "score": best.score}
        answer |= {} if best.confidence is None else {"confidence": best.confidence}
        answer |= {name: output[name] for name in ("doubt",) if name in output}
    if request.needs_model_output:
        answer["hypotheses"] = [_hypothesis(str(request.text), one) for one in output["hypotheses"]]
        answer["source_tokens"] = output["source_tokens"]
        answer |= {"alignment": output.get("links", [])} if request.alignment else {}
    return answer


def _hypothesis(source: str, output: dict[str, Any]) -> dict[str, Any]:
    given = {name: output[name] for name in _OF_HYPOTHESIS if name in output}
    return given | {"check": not check_codes(source, output["text"])}


def _event(request: TranslationRequest, piece: str | Translation) -> bytes:
    if isinstance(piece, str):
        return event({"text": piece}, "piece")
    return event(_translation(request, piece), "translation")


async def explain(context: RequestContext, asked: ExplainBody) -> dict[str, Any]:
    """What the model wrote, its walk, and the address of a page that shows it for a while."""
    source, target = context.languages.read(asked.source), context.languages.read(asked.target)
    route, text = context.languages.route(source, target), asked.text.strip()
    if len(route) != 1:
        raise bad_request(f"{source} to {target} is not the work of one model, expected languages of one")
    if len(text.splitlines()) != 1:
        raise bad_request("text: found none, or several lines, expected one sentence to explain")
    key, number = BatchKey(route[0].name, () if asked.beam is None else (("beam", asked.beam),)), token_hex(16)
    answer = await context.serving.models.call(models.explain, key, text, asked.values, seconds=_EXPLAIN_S)
    context.serving.explained[number] = (context.client, key, text, answer["ids"])
    return {"id": number, "page": f"/v1/explain/{number}"} | answer


async def page(context: RequestContext) -> HTMLResponse:
    """The page of an answer that was explained, for the same client."""
    client, *kept = context.serving.explained.get(context.number, (None,))
    if not kept or client != context.client:
        kept_for = f"one is kept for {context.serving.config.explain_minutes:g} minutes, for who asked"
        raise HTTPError(404, f"there is no such answer: {kept_for}. Ask again: POST /v1/explain")
    key, text, ids = kept
    given = text, context.number, ids
    return HTMLResponse(await context.serving.models.call(models.make_page, key, *given, seconds=_EXPLAIN_S))


ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/v1/translate", translate, texts=("text",)),
    Endpoint(CONTRACT, "POST", "/v1/explain", explain, texts=("text",)),
    Endpoint(CONTRACT, "GET", "/v1/explain/{number}", page),
)
