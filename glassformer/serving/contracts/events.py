"""Server-sent events: an answer in pieces. What fails before the first piece is refused as any request is."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from glassformer.serving.refusal import INTERNAL, Refusal

_MAX_AHEAD = 100  # events that a slow reader may leave waiting


def event(body: Any, name: str = "") -> bytes:
    """One event with a body in JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(body) + b"\n\n"


async def event_stream(
    events: AsyncIterator[bytes], headers: Mapping[str, str], error: Callable[[Refusal], bytes]
) -> StreamingResponse:
    """A response with the events, each as soon as it is there; ``error`` makes one of a refusal in the middle."""
    waiting: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_MAX_AHEAD)
    producer = asyncio.create_task(_produce(events, waiting))
    first = await waiting.get()
    if isinstance(first, Exception):
        raise first
    body = _body(first, waiting, producer, error)
    return StreamingResponse(body, media_type="text/event-stream", headers={**headers, "Cache-Control": "no-cache"})


async def _produce(events: AsyncIterator[bytes], waiting: "asyncio.Queue[bytes | Exception | None]") -> None:
    try:
        async for one in events:
            await waiting.put(one)
    except Exception as error:
        await waiting.put(error)
    else:
        await waiting.put(None)


async def _body(
    first: bytes | None,
    waiting: "asyncio.Queue[bytes | Exception | None]",
    producer: "asyncio.Task[None]",
    error: Callable[[Refusal], bytes],
) -> AsyncIterator[bytes]:
    found: bytes | Exception | None = first
    try:
        while found is not None:
            if isinstance(found, Exception):
                yield error(found if isinstance(found, Refusal) else Refusal(500, INTERNAL))
                return
            yield found
            found = await waiting.get()
    finally:
        producer.cancel()
