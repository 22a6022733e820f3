"""Our own contract: all that the models and the documents have, and explanations. The types are the documentation."""

from typing import Annotated, Any
from urllib.parse import urlencode

from msgspec import Meta, Struct
from starlette.responses import HTMLResponse, Response

from glassformer.serving import models
from glassformer.serving.endpoint import Answer, Contract, Endpoint, RequestContext, check_codes, event
from glassformer.serving.http_errors import bad_request
from glassformer.serving.languages import ServedModel
from glassformer.serving.service import Options

Language = Annotated[str, Meta(min_length=1, max_length=40, examples=["en"])]
_OF_HYPOTHESIS = ("text", "log_prob", "score", "tokens", "truncated", "confidence", "unmet")
_EXPLAIN_S = 120.0
CONTRACT = Contract(is_json=True)


class TranslateRequest(Options, kw_only=True, forbid_unknown_fields=True):
    """What to translate and how. With n_best, prefix, must, ban or alignment it gives the model's own outputs."""

    text: Annotated[str | list[str], Meta(description="one text, or several")]
    target: Language
    source: Annotated[Language, Meta(description="a code, or auto")] = "auto"
    stream: Annotated[bool, Meta(description="one text, as server-sent events: piece, ..., translation")] = False


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
    if not asked.stream:
        answers = await context.translate(texts, asked.source, asked.target, asked)
        return {"translations": [_translation(asked, one) for one in answers]}
    if len(texts) != 1:
        raise bad_request(f"stream: found {len(texts)} texts, expected one")

    def show(piece: str | Answer) -> bytes:
        if isinstance(piece, str):
            return event({"text": piece}, "piece")
        return event(_translation(asked, piece), "translation")

    return await context.stream(texts[0], asked.source, asked.target, asked, show)


def _translation(options: Options, one: Answer) -> dict[str, Any]:
    found, best = one.found, one.found.hypotheses[0]
    output = found.to_mapping(attention=False)
    answer: dict[str, Any] = {"text": one.text, "source": one.source, "target": one.target, "check": one.check}
    answer |= {"flags": found.flags, "notes": found.notes, "engine": found.engine}
    if found.engine:
        answer |= {"log_prob": best.log_prob, "score": best.score}
        answer |= {} if best.confidence is None else {"confidence": best.confidence}
        answer |= {name: output[name] for name in ("doubt",) if name in output}
    if options.has_outputs:
        answer["hypotheses"] = [
            {name: each[name] for name in _OF_HYPOTHESIS if name in each}
            | {"check": not check_codes(found.source, each["text"])}
            for each in output["hypotheses"]
        ]
        answer["source_tokens"] = output["source_tokens"]
        answer |= {"alignment": output.get("links", [])} if options.alignment else {}
    return answer


class Sentence(Struct):
    """One sentence whose translation is to be explained."""

    text: Annotated[str, Meta(min_length=1)]
    target: Language
    source: Language
    beam: Annotated[int, Meta(ge=1, le=64)] | None = None

    def model(self, context: RequestContext) -> ServedModel:
        """The model that translates it; ``HTTPError`` for what is not one sentence of one."""
        source, target = context.languages.read(self.source), context.languages.read(self.target)
        route = context.languages.route(source, target)
        if len(route) != 1:
            raise bad_request(f"{source} to {target} is not the work of one model, expected languages of one")
        if len(self.text.strip().splitlines()) != 1:
            raise bad_request("text: found none, or several lines, expected one sentence to explain")
        return route[0]


class ExplainBody(Sentence, kw_only=True, forbid_unknown_fields=True):
    """One sentence whose translation is to be explained."""

    values: Annotated[bool, Meta(description="every number of the walk, not only its steps")] = False


async def explain(context: RequestContext, asked: ExplainBody) -> dict[str, Any]:
    """What the model wrote, its walk, and the address of a page that shows it."""
    given = asked.model(context).path, asked.text.strip(), asked.beam, asked.values
    answer = await context.serving.models.call(models.explain, *given, seconds=_EXPLAIN_S)
    named = {"text": asked.text, "source": asked.source, "target": asked.target}
    named |= {} if asked.beam is None else {"beam": str(asked.beam)}
    return {"page": f"/v1/explain?{urlencode(named)}"} | answer


async def page(context: RequestContext, asked: Sentence) -> HTMLResponse:
    """The living page of a sentence."""
    model = asked.model(context)
    given = model.path, asked.text.strip(), asked.beam, model.name
    return HTMLResponse(await context.serving.models.call(models.make_page, *given, seconds=_EXPLAIN_S))


ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/v1/translate", translate, TranslateRequest, texts=("text",)),
    Endpoint(CONTRACT, "POST", "/v1/explain", explain, ExplainBody, texts=("text",)),
    Endpoint(CONTRACT, "GET", "/v1/explain", page, Sentence, texts=("text",)),
)
