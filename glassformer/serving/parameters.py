"""The parameters of a request, from JSON, a form and the URL."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.requests import Request

from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.text.lines import without_surrogates

_MAX_FIELDS, _MAX_FILES = 5000, 1  # of a form


class Upload(NamedTuple):
    """A file that a client sends."""

    name: str
    content: bytes


async def read_parameters(request: Request, is_json: bool, has_lists: bool) -> dict[str, Any]:
    """The parameters of a request; ``HTTPError`` for a body that cannot be read.

    With ``is_json`` the body is JSON whatever its header says. With ``has_lists`` a parameter of a form that is
    repeated is a list, else its first value counts.
    """
    kind, _, rest = request.headers.get("content-type", "").lower().partition(";")
    charset = rest.partition("charset=")[2].strip(' "') or None
    items: list[tuple[str, Any]] = _read_form(request.scope["query_string"])
    if kind.startswith("multipart/"):
        async with request.form(max_files=_MAX_FILES, max_fields=_MAX_FIELDS, max_part_size=2**40) as form:
            for name, part in form.multi_items():
                items.append(
                    (name, part if isinstance(part, str) else Upload(part.filename or "", await part.read()))
                )
    elif body := await request.body():
        if "json" in kind or is_json:
            return _read_json(body, charset)
        items += _read_form(body, charset) if kind == "application/x-www-form-urlencoded" else []
    elif "json" in kind and request.method != "GET":
        raise HTTPError(400, "Invalid JSON format")
    return _collect(items, has_lists)


def _collect(items: Sequence[tuple[str, Any]], has_lists: bool) -> dict[str, Any]:
    values = dict[str, list[Any]]()
    for name, value in items:
        values.setdefault(_clean(name), []).append(_clean(value))
    return {name: each if has_lists and len(each) > 1 else each[0] for name, each in values.items()}


def _read_json(body: bytes, charset: str | None) -> dict[str, Any]:
    """An object; a mark of byte order, UTF-16 and UTF-32 are read, half of a surrogate pair is U+FFFD."""
    try:
        found = _clean(json.loads(body.decode(charset or json.detect_encoding(body))))
    except UnicodeDecodeError as error:
        raise HTTPError(400, "Invalid JSON format: expected UTF-8") from error
    except (ValueError, RecursionError, LookupError) as error:
        raise HTTPError(400, "Invalid JSON format") from error
    if not isinstance(found, dict):
        raise HTTPError(400, "Invalid JSON format")
    return found


def _read_form(body: bytes, charset: str | None = None) -> list[tuple[str, str]]:
    try:
        text, kind = body.decode(charset or "utf-8"), charset or "utf-8"
        found = parse_qsl(text, keep_blank_values=True, encoding=kind, errors="strict", max_num_fields=_MAX_FIELDS)
    except (ValueError, LookupError) as error:
        raise bad_request("the form cannot be read, expected UTF-8") from error
    return [(name, value.replace("\r\n", "\n").replace("\r", "\n")) for name, value in found]


def _clean(value: Any) -> Any:
    """The same without halves of surrogate pairs."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_clean(one) for one in value]
    return {_clean(key): _clean(one) for key, one in value.items()} if isinstance(value, dict) else value
