"""Our own contract: all that the models and the documents have, and explanations. The types are the documentation."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert
from starlette.responses import HTMLResponse, Response

from glassformer.serving.endpoint import Contract, Endpoint, Nothing, Visit, event, event_stream
from glassformer.serving.explanations import ExplainRequest
from glassformer.serving.refusal import Refusal, bad_request
from glassformer.serving.scheduling.batch_queue import Recipe
from glassformer.serving.service import Answer, Order, lost_codes

Language = Annotated[str, Meta(min_length=1, max_length=40, examples=["en"])]
CONTRACT = Contract(is_json=True)


class TranslateRequest(Order, kw_only=True, forbid_unknown_fields=True):
    """What to translate and how. With n_best, prefix, must, ban or alignment it gives the model's own outputs."""

    text: Annotated[str | list[str], Meta(description="one text, or several")]
    target: Language
    source: Annotated[Language, Meta(description="a code, or auto")] = "auto"
    stream: Annotated[bool, Meta(description="one text, as server-sent events: piece, ..., translation")] = False


class Hypothesis(Struct, omit_defaults=True):
    """One output of the model."""

    text: str
    log_prob: float
    score: float
    tokens: list[str]
    truncated: bool
    check: bool
    """Whether it has every placeholder and tag as often as its source."""
    confidence: float | UnsetType = UNSET
    unmet: list[str] | UnsetType = UNSET


class Doubt(Struct):
    """Why a translation is probably wrong, with the characters or words of the text that it names."""

    reason: Literal["language", "characters", "words", "length", "unsure"]
    named: list[str]
    text: str


class Translation(Struct, omit_defaults=True):
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
    doubt: Doubt | UnsetType = UNSET
    source_tokens: list[str] | UnsetType = UNSET
    hypotheses: list[Hypothesis] | UnsetType = UNSET
    alignment: list[tuple[int, int]] | UnsetType = UNSET


class TranslateAnswer(Struct):
    """One translation for each text, in order."""

    translations: list[Translation]


class ExplainBody(Struct, forbid_unknown_fields=True):
    """One sentence whose translation is to be explained."""

    text: Annotated[str, Meta(min_length=1)]
    target: Language
    source: Language
    beam: Annotated[int, Meta(ge=1, le=64)] | None = None
    values: Annotated[bool, Meta(description="every number of the walk, not only its steps")] = False


class ExplainAnswer(Struct):
    """What the model wrote, its walk, and the address of a page that shows it for a while."""

    id: str
    page: str
    source: str
    text: str
    tokens: list[str]
    ids: list[int]
    log_prob: float
    score: float
    truncated: bool
    engine: str
    walk: dict[str, Any]


async def translate(visit: Visit, asked: TranslateRequest) -> TranslateAnswer | Response:
    """Texts with all that there is to say of their translations."""
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    if asked.n_best > (most := visit.serving.config.n_best_limit):
        raise bad_request(f"n_best must be <= {most}")
    if not all(len(term) > 1 and all(term) for term in asked.glossary):
        raise bad_request("a term of the glossary has no translation, expected a list of the term and that")
    if asked.beam is not None and asked.beam < asked.n_best:
        raise bad_request(f"n_best: found {asked.n_best} with a beam of {asked.beam}, expected at most that")
    orders = visit.orders(asked, texts)
    if asked.stream:
        if len(orders) != 1:
            raise bad_request(f"stream: found {len(orders)} texts, expected one")
        return await event_stream(_events(visit, orders[0]), _error_event)
    answers = await visit.translate(*orders)
    return TranslateAnswer(list(map(_translation, orders, answers)))


def _translation(order: Order, answer: Answer) -> Translation:
    found = Translation(
        answer.text, order.source, order.target, list(answer.check), list(dict.fromkeys(answer.flags)),
        list(answer.notes), answer.engine,
    )  # fmt: skip
    if scores := answer.scores:
        found.log_prob, found.score = sum(one.log_prob for one in scores), sum(one.score for one in scores)
        found.confidence = min((one.confidence for one in scores if one.confidence is not None), default=UNSET)
        doubts = (convert(one.doubt.to_mapping(), Doubt) for one in scores if one.doubt is not None)
        found.doubt = next(doubts, UNSET)
    if (output := answer.output) is not None:
        found.hypotheses = [_hypothesis(str(order.text), one) for one in output["hypotheses"]]
        found.source_tokens = output["source_tokens"]
        if order.alignment:
            found.alignment = output.get("links", [])
    return found


def _hypothesis(source: str, output: dict[str, Any]) -> Hypothesis:
    given = {name: output[name] for name in Hypothesis.__struct_fields__ if name in output}
    return Hypothesis(**given, check=not lost_codes(source, output["text"]))


async def _events(visit: Visit, order: Order) -> AsyncGenerator[bytes, None]:
    async with visit.task() as task:
        async for piece in task.stream(order):
            if isinstance(piece, Answer):
                yield event(_translation(order, piece), "translation")
            else:
                yield event({"text": piece}, "piece")


def _error_event(refusal: Refusal) -> bytes:
    return event({"error": refusal.message}, "error")


async def explain(visit: Visit, asked: ExplainBody) -> ExplainAnswer:
    """A translation, with every step on the way to it."""
    source, target = visit.languages.read(asked.source), visit.languages.read(asked.target)
    route, text = visit.languages.route(source, target), asked.text.strip()
    if len(route) != 1:
        raise bad_request(f"{source} to {target} is not the work of one model, expected languages of one")
    if len(text.splitlines()) != 1:
        raise bad_request("text: found none, or several lines, expected one sentence to explain")
    changes = () if asked.beam is None else (("beam", asked.beam),)
    wanted = ExplainRequest(Recipe(route[0].name, "explain", changes), text, asked.values)
    answer = await visit.serving.explanations.explain(wanted, visit.client)
    return ExplainAnswer(**{name: answer[name] for name in ExplainAnswer.__struct_fields__})


async def page(visit: Visit, _: Nothing) -> HTMLResponse:
    """The page of an answer that was explained, for the same client."""
    return HTMLResponse(await visit.serving.explanations.page(visit.request.path_params["number"], visit.client))


ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/v1/translate", translate, TranslateRequest, TranslateAnswer, texts=("text",)),
    Endpoint(CONTRACT, "POST", "/v1/explain", explain, ExplainBody, ExplainAnswer, texts=("text",)),
    Endpoint(CONTRACT, "GET", "/v1/explain/{number}", page),
)
