"""The contract of DeepL: translate, languages, usage; there are no glossaries.

What a model cannot do, such as formality, is ignored or refused as DeepL does.
"""

from functools import partial
from typing import Any, Literal

from msgspec import Struct

from glassformer.serving.endpoint import Contract, Endpoint, RequestContext
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.markup import ProtectElements, ReadXml
from glassformer.serving.service import Options
from glassformer.settings import language_name
from glassformer.text.steps.step import Step

_MAX_TEXTS = 50
_UNLIMITED = 1_000_000_000_000
_UNSUPPORTED = "Value for '{}' not supported: {}"
CONTRACT = Contract(
    "auth_key",
    has_lists=True,
    key_statuses=(403, 403),
    missing="Parameter '{}' not specified",
    invalid=_UNSUPPORTED,
)
_Names = str | list[str]  # in a string with commas between them


class Translate(Struct):
    """What DeepL's clients send."""

    text: str | list[str]
    target_lang: str
    source_lang: str = ""
    split_sentences: Literal["0", "1", "nonewlines"] | bool | Literal[0, 1] = "1"
    tag_handling: Literal["", "xml", "html"] = ""
    ignore_tags: _Names = ""
    splitting_tags: _Names = ""
    non_splitting_tags: _Names = ""
    outline_detection: bool = True
    formality: Literal["", "default", "more", "less", "prefer_more", "prefer_less"] = ""
    glossary_id: str = ""
    show_billed_characters: bool = False
    model_type: Literal["", "latency_optimized", "quality_optimized", "prefer_quality_optimized"] = ""

    def markup(self) -> tuple[Step, ...]:
        """The steps for its tags."""
        if not self.tag_handling:
            return ()
        ignored = ProtectElements(_names(self.ignore_tags))
        borders = frozenset(_names(self.splitting_tags)), frozenset(_names(self.non_splitting_tags))
        return (ignored, ReadXml(*borders, self.outline_detection)) if self.tag_handling == "xml" else (ignored,)


async def translate(context: RequestContext, asked: Translate) -> dict[str, list[dict[str, Any]]]:
    """Translate texts."""
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    if len(texts) > _MAX_TEXTS:
        raise HTTPError(400, f"Too many texts: found {len(texts)}, expected at most {_MAX_TEXTS}")
    if asked.formality in ("more", "less"):
        raise HTTPError(400, f"'formality' is not supported for given 'target_lang': {asked.target_lang.upper()}")
    if asked.glossary_id:
        raise HTTPError(404, "Glossary not found: 'glossary_id' names none of this server, which keeps no glossaries")
    for name, code in (("source_lang", asked.source_lang), ("target_lang", asked.target_lang)):
        try:
            _ = code and context.languages.read(code)
        except HTTPError as error:
            raise HTTPError(400, _UNSUPPORTED.format(name, error.message)) from error
    options = Options(
        format="html" if asked.tag_handling == "html" else "text",
        split_sentences=str(asked.split_sentences).lower() not in ("0", "false"),
    )
    joined = [one.replace("\n", " ") for one in texts] if asked.split_sentences == "nonewlines" else texts
    answers = await context.translate(joined, asked.source_lang, asked.target_lang, options, asked.markup())
    found: list[dict[str, Any]] = [
        {"detected_source_language": one.source.upper(), "text": one.text} for one in answers
    ]
    for one, text in zip(found, texts, strict=True):
        one |= {"billed_characters": len(text)} if asked.show_billed_characters else {}
        one |= {"model_type_used": asked.model_type.removeprefix("prefer_")} if asked.model_type else {}
    return {"translations": found}


def _names(given: _Names) -> tuple[str, ...]:
    """The names in a list, each of which may hold several."""
    names = ",".join([given] if isinstance(given, str) else given).split(",")
    return tuple(name.strip() for name in names if name.strip())


class Side(Struct):
    """Of which languages are wanted."""

    type: Literal["source", "target"] = "source"


async def languages(context: RequestContext, asked: Side) -> list[dict[str, Any]]:
    """The source or target languages."""
    sides = {pair[asked.type == "target"] for pair in context.languages.routes}
    more = {"supports_formality": False} if asked.type == "target" else {}
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
    Endpoint(CONTRACT, "POST", "/v2/translate", translate, Translate, texts=("text",)),
    _FREE("GET POST", "/v2/languages", languages, Side),
    _FREE("GET POST", "/v2/usage", usage),
    _FREE("GET", "/v3/languages", languages_v3),
    _FREE("GET", "/v3/glossaries", glossaries),
)
