"""Where clients put their parameters: in JSON, a form, several parts of a form, or the address itself."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from glassformer.serving.refusal import Refusal, bad_request
from glassformer.text.lines import without_surrogates

Struct = TypeVar("Struct")
Values = dict[str, Any]
_MAX_FIELDS, _MAX_FILES = 5000, 1


class Upload(NamedTuple):
    """A file that a client sends; the door limits its size."""

    name: str
    content: bytes


async def read_values(request: Request) -> Values:
    """The parameters of a request by their names; one that is repeated has a list of values.

    Raises ``Refusal`` for JSON that is none or no object.
    """
    body = await request.body() if is_json(request) else b""
    if is_json(request) and (body or request.method != "GET"):
        values = decode_json(body)
        if not isinstance(values, dict):
            raise Refusal(400, "Invalid JSON format")
        return values
    pairs: list[tuple[str, str | Upload]] = [*request.query_params.multi_items()]
    async with request.form(max_files=_MAX_FILES, max_fields=_MAX_FIELDS, max_part_size=2**40) as form:
        pairs += [(name, await _read(value)) for name, value in form.multi_items()]
    values = Values()
    for name, value in pairs:
        read = value if isinstance(value, Upload) else _one_line_end(value)
        before = values.get(name)
        values[name] = read if before is None else [*(before if isinstance(before, list) else [before]), read]
    return values


def is_json(request: Request) -> bool:
    """Whether a client says that it sends JSON."""
    return "json" in request.headers.get("content-type", "").lower().partition(";")[0]


async def _read(value: UploadFile | str) -> Upload | str:
    return value if isinstance(value, str) else Upload(value.filename or "", await value.read())


def _one_line_end(text: str) -> str:
    return without_surrogates(text.replace("\r\n", "\n").replace("\r", "\n"))


def decode_json(body: bytes) -> Any:
    """What a body says in JSON; ``Refusal`` if it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(400, "Invalid JSON format") from error


def read_struct(values: Mapping[str, Any], kind: type[Struct], *, strict: bool = True) -> Struct:
    """Values as a record; ``Refusal`` says what is wrong with which. Not ``strict``: texts may be numbers."""
    try:
        return msgspec.convert(dict(values), kind, strict=strict)
    except msgspec.ValidationError as error:
        raise bad_request(str(error).replace("Object ", "").replace("`$.", "`")) from error


def first(values: Values, name: str) -> Any:
    """One value of a parameter that may be repeated."""
    value = values.get(name)
    return value[0] if isinstance(value, list) and value else value


def bearer(request: Request) -> str:
    """The key in the header Authorization, after Bearer or DeepL-Auth-Key; empty if there is none."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() in ("bearer", "deepl-auth-key") else ""


def address_of(request: Request) -> str:
    """The client's address."""
    return request.client.host if request.client else ""


def json_response(answer: Any, headers: Mapping[str, str]) -> Response:
    """An answer of records in JSON."""
    return Response(msgspec.json.encode(answer), media_type="application/json", headers=dict(headers))
