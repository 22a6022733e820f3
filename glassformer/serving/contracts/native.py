"""Our own contract: all that the models and the documents have, and explanations. The types are the documentation."""

from functools import partial
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import HTMLResponse, Response

from glassformer.decoding.translation import Translation
from glassformer.serving.endpoint import Contract, Endpoint, RequestContext, event
from glassformer.serving.explanations import ExplainRequest
from glassformer.serving.http_errors import bad_request
from glassformer.serving.scheduling.batch_queue import BatchKey
from glassformer.serving.service import TranslationRequest, check_codes

Language = Annotated[str, Meta(min_length=1, max_length=40, examples=["en"])]
_OF_HYPOTHESIS = ("text", "log_prob", "score", "tokens", "truncated", "confidence", "unmet")
CONTRACT = Contract("native", is_json=True)


class TranslateRequest(TranslationRequest, kw_only=True, forbid_unknown_fields=True):
    """What to translate and how. With n_best, prefix, must, ban or alignment it gives the model's own outputs."""

    text: Annotated[str | list[str], Meta(description="one text, or several")]
    target: Language
    source: Annotated[Language, Meta(description="a code, or auto")] = "auto"
    stream: Annotated[bool, Meta(description="one text, as server-sent events: piece, ..., translation")] = False


class TranslationAnswer(Struct, omit_defaults=True):
    """The translation of one text. ``check`` names each placeholder or tag that is missing or was added."""

    text: str
    source: str
    target: str
    check: list[str]
    flags: list[str]
    notes: list[str]
    engine: str
    log_prob: float | UnsetType = UNSET
    score: float | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    doubt: dict[str, Any] | UnsetType = UNSET
    """Why it is probably wrong, with the characters or words of the text that the reason names."""
    source_tokens: list[str] | UnsetType = UNSET
    hypotheses: list[dict[str, Any]] | UnsetType = UNSET
    """The model's outputs; the ``check`` of each is whether it has all placeholders and tags of the source."""
    alignment: list[tuple[int, int]] | UnsetType = UNSET


class ExplainBody(Struct, forbid_unknown_fields=True):
    """One sentence whose translation is to be explained."""

    text: Annotated[str, Meta(min_length=1)]
    target: Language
    source: Language
    beam: Annotated[int, Meta(ge=1, le=64)] | None = None
    values: Annotated[bool, Meta(description="every number of the walk, not only its steps")] = False


async def translate(
    context: RequestContext, asked: TranslateRequest
) -> dict[str, list[TranslationAnswer]] | Response:
    """Texts with all that there is to say of their translations."""
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    if asked.n_best > (most := context.serving.config.n_best_limit):
        raise bad_request(f"n_best must be <= {most}")
    if not all(len(term) > 1 and all(term) for term in asked.glossary):
        raise bad_request("a term of the glossary has no translation, expected a list of the term and that")
    if asked.beam is not None and asked.beam < asked.n_best:
        raise bad_request(f"n_best: found {asked.n_best} with a beam of {asked.beam}, expected at most that")
    requests = context.requests_for(asked, texts)
    if asked.stream:
        if len(requests) != 1:
            raise bad_request(f"stream: found {len(requests)} texts, expected one")
        return await context.stream(context.pieces(requests[0]), partial(_event, requests[0]))
    answers = await context.translate(requests)
    return {"translations": list(map(_translation, requests, answers))}


def _translation(request: TranslationRequest, found: Translation) -> TranslationAnswer:
    check = check_codes(request.text, found.parts)
    answer = TranslationAnswer(
        found.text, request.source, request.target, list(check), list(found.flags), list(found.notes), found.engine
    )
    best = found.hypotheses[0]
    if found.engine:
        answer.log_prob, answer.score = best.log_prob, best.score
        answer.confidence = UNSET if best.confidence is None else best.confidence
        answer.doubt = UNSET if found.doubt is None else found.doubt.to_mapping()
    if request.needs_model_output:
        output = found.to_mapping(attention=False)
        answer.hypotheses = [_hypothesis(str(request.text), one) for one in output["hypotheses"]]
        answer.source_tokens = output["source_tokens"]
        if request.alignment:
            answer.alignment = output.get("links", [])
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
    changes = () if asked.beam is None else (("beam", asked.beam),)
    wanted = ExplainRequest(BatchKey(route[0].name, "explain", changes), text, asked.values)
    return await context.serving.explanations.explain(wanted, context.client)


async def page(context: RequestContext) -> HTMLResponse:
    """The page of an answer that was explained, for the same client."""
    return HTMLResponse(await context.serving.explanations.page(context.number, context.client))


ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/v1/translate", translate, texts=("text",)),
    Endpoint(CONTRACT, "POST", "/v1/explain", explain, texts=("text",)),
    Endpoint(CONTRACT, "GET", "/v1/explain/{number}", page),
)
