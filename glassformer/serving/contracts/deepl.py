"""The contract of DeepL: translate, languages, usage; there are no glossaries.

What a model cannot do, such as formality, is ignored or refused as DeepL does.
"""

from functools import partial
from typing import Any, Literal

from glassformer.serving.endpoint import Contract, Endpoint, RequestContext
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.markup import ProtectElements, ReadXml
from glassformer.serving.service import TranslationRequest
from glassformer.settings import language_name
from glassformer.text.steps.step import Step

_MAX_TEXTS = 50
_UNLIMITED = 1_000_000_000_000
_SPLITS = {"0": False, "1": True, "nonewlines": True, "False": False, "True": True, "false": False, "true": True}
_UNSUPPORTED = "Value for '{}' not supported"
CONTRACT = Contract(
    "DeepL",
    "auth_key",
    repeated=frozenset({"text", "ignore_tags", "splitting_tags", "non_splitting_tags"}),
    key_statuses=(403, 403),
    missing_message="Parameter '{}' not specified",
    invalid_messages={
        "text": "Parameter 'text' not specified",
        "resource": f"{_UNSUPPORTED.format('resource')}",
        "type": f"{_UNSUPPORTED.format('type')}, expected source or target",
        "tag_handling": f"{_UNSUPPORTED.format('tag_handling')}, expected xml or html",
        "model_type": _UNSUPPORTED.format("model_type"),
        "formality": f"{_UNSUPPORTED.format('formality')}, expected default, more, less, prefer_more or prefer_less",
    },
)


async def translate(
    context: RequestContext,
    *,
    text: str | list[str],
    target_lang: str,
    source_lang: str = "",
    split_sentences: str | bool | int = "1",
    tag_handling: Literal["", "xml", "html"] = "",
    ignore_tags: str | list[str] = "",
    splitting_tags: str | list[str] = "",
    non_splitting_tags: str | list[str] = "",
    outline_detection: bool = True,
    formality: Literal["", "default", "more", "less", "prefer_more", "prefer_less"] = "",
    glossary_id: str = "",
    show_billed_characters: bool = False,
    model_type: Literal["", "latency_optimized", "quality_optimized", "prefer_quality_optimized"] = "",
) -> dict[str, list[dict[str, Any]]]:
    """Translate texts."""
    texts = [text] if isinstance(text, str) else text
    if len(texts) > _MAX_TEXTS:
        raise HTTPError(400, f"Too many texts: found {len(texts)}, expected at most {_MAX_TEXTS}")
    if formality in ("more", "less"):
        raise HTTPError(400, f"'formality' is not supported for given 'target_lang': {target_lang.upper()}")
    if glossary_id:
        raise HTTPError(404, "Glossary not found: 'glossary_id' names none of this server, which keeps no glossaries")
    splits = _SPLITS.get(str(split_sentences))
    if splits is None:
        raise HTTPError(400, f"{_UNSUPPORTED.format('split_sentences')}, expected 0, 1 or nonewlines")
    for name, code in (("source_lang", source_lang), ("target_lang", target_lang)):
        _check_language(context, name, code)
    request = TranslationRequest(
        text="",
        source=source_lang,
        target=target_lang,
        format="html" if tag_handling == "html" else "text",
        split_sentences=splits,
    )
    markup = list[Step]()
    if tag_handling and ignore_tags:
        markup.append(ProtectElements(tuple(_names(ignore_tags))))
    if tag_handling == "xml":
        borders = frozenset(_names(splitting_tags)), frozenset(_names(non_splitting_tags))
        markup.append(ReadXml(*borders, outline_detection))
    joined = [one.replace("\n", " ") for one in texts] if split_sentences == "nonewlines" else texts
    requests = context.requests_for(request, joined)
    answers = await context.translate(requests, markup=markup)
    found: list[dict[str, Any]] = [
        {"detected_source_language": asked.source.upper(), "text": answer.text}
        for asked, answer in zip(requests, answers, strict=True)
    ]
    for one, given in zip(found, texts, strict=True):
        one |= {"billed_characters": len(given)} if show_billed_characters else {}
        one |= {"model_type_used": model_type.removeprefix("prefer_")} if model_type else {}
    return {"translations": found}


def _check_language(context: RequestContext, name: str, code: str) -> None:
    try:
        _ = code and context.languages.read(code)
    except HTTPError as error:
        raise HTTPError(400, f"{_UNSUPPORTED.format(name)}: {error.message}") from error


def _names(given: str | list[str]) -> list[str]:
    """The names in a list, each of which may hold several with commas between them."""
    names = ",".join([given] if isinstance(given, str) else given).split(",")
    return [name.strip() for name in names if name.strip()]


async def languages(context: RequestContext, *, type: Literal["source", "target"] = "source") -> list[dict[str, Any]]:
    """The source or target languages."""
    sides = {pair[type == "target"] for pair in context.languages.routes}
    more = {"supports_formality": False} if type == "target" else {}
    codes = [code for code in context.languages.codes if code in sides]
    return [{"language": code.upper(), "name": language_name(code)} | more for code in codes]


async def languages_v3(context: RequestContext) -> list[dict[str, Any]]:
    """All languages, and on which sides they may be."""
    sources, targets = (set(side) for side in zip(*context.languages.routes, strict=True))
    features = {"auto_detection": {"status": "stable"}, "tag_handling": {"status": "stable"}}
    return [
        {
            "lang": code, "name": language_name(code), "status": "stable", "usable_as_source": code in sources,
            "usable_as_target": code in targets, "features": features,
        }
        for code in context.languages.codes
    ]  # fmt: skip


async def usage(context: RequestContext) -> dict[str, int]:
    """The characters of this client since the server started; there is no quota."""
    count = context.serving.access.characters.get(context.client, 0)
    return {"character_count": count, "character_limit": _UNLIMITED}


async def glossaries(context: RequestContext) -> dict[str, list[Any]]:
    """No glossaries."""
    return {"glossaries": []}


_FREE = partial(Endpoint, CONTRACT, access="free")
ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/v2/translate", translate, texts=("text",)),
    _FREE("GET POST", "/v2/languages", languages),
    _FREE("GET POST", "/v2/usage", usage),
    _FREE("GET", "/v3/languages", languages_v3),
    _FREE("GET", "/v3/glossaries", glossaries),
)
