"""Contracts of a browser's tools, each an entry: MTranServer, Immersive Translate, KISS Translator, DeepLX."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import NODEFAULT, defstruct

from glassformer.serving.endpoint import Answer, Contract, Endpoint, RequestContext

CONTRACT = Contract("token", is_json=True, key_statuses=(401, 401))


def _tool(path: str, names: dict[str, str], write: Callable[[Sequence[Answer], str], Any]) -> Endpoint:
    """The endpoint of a tool: its names of source, target, text and texts, and what writes its answer.

    ``write`` is given the answers, and the target as the tool names it. A tool that has text and texts sends either.
    """
    empty = {"text": "", "texts": []} if {"text", "texts"} <= set(names) else {}
    kinds: dict[str, Any] = {"target": str, "source": str, "text": str, "texts": list[str]}
    defaults = {"source": "auto", **empty}
    fields = [(name, kinds[name], defaults.get(name, NODEFAULT)) for name in names]
    asked = defstruct(f"Tool{path.replace('/', '_')}", fields, rename=names, kw_only=True)

    async def translate(context: RequestContext, asked: Any) -> Any:
        """The translations of a browser's tool."""
        texts = getattr(asked, "texts", None) or [getattr(asked, "text", "")]
        return write(await context.translate(texts, asked.source, asked.target), asked.target)

    counted = tuple(names[name] for name in ("texts", "text") if name in names)
    return Endpoint(CONTRACT, "POST", path, translate, asked, counted)


def _write_immersive(found: Sequence[Answer], target: str) -> dict[str, Any]:
    return {"translations": [{"detected_source_lang": one.source, "text": one.text} for one in found]}


def _write_kiss(found: Sequence[Answer], target: str) -> dict[str, Any]:
    several = [{"text": one.text, "src": one.source} for one in found]
    return {"text": found[0].text, "from": found[0].source, "to": target, "translations": several}


def _write_deeplx(found: Sequence[Answer], target: str) -> dict[str, Any]:
    languages = {"source_lang": found[0].source.upper(), "target_lang": target.upper()}
    return {"code": 200, "id": 0, "data": found[0].text, "alternatives": [], "method": "Free", **languages}


_FROM_TO, _LANGS = {"source": "from", "target": "to"}, {"source": "source_lang", "target": "target_lang"}
ENDPOINTS = (
    _tool(
        "/translate/batch", _FROM_TO | {"texts": "texts"}, lambda found, _: {"results": [one.text for one in found]}
    ),
    _tool("/imme", _LANGS | {"texts": "text_list"}, _write_immersive),
    _tool("/kiss", _FROM_TO | {"text": "text", "texts": "texts"}, _write_kiss),
    _tool("/deeplx", _LANGS | {"text": "text"}, _write_deeplx),
)
