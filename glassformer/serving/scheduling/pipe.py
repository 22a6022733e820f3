"""The server's end of the pipe to a worker: threads read and write it, so that a message of any size blocks nobody.

The event loop must not watch it: uvloop makes it non-blocking, and then ``recv`` fails on half a message.
"""

import asyncio
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from glassformer.errors import WorkerError

_SMALL_BYTES = 16_384  # the pipe takes a message of this size at once, which saves the way to a thread


class AsyncPipe:
    """Raises ``WorkerError`` once the worker has ended. It closes when nothing refers to it any more."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._loop = connection, asyncio.get_running_loop()
        self._messages = asyncio.Queue[Any]()
        self._writer = ThreadPoolExecutor(1)  # its own: files may hold all threads of the loop

    def start_reading(self) -> None:
        """Read until the worker ends."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        is_open = True
        while is_open:
            try:
                message = self._connection.recv()
            except Exception:  # the end, half a message, or one that cannot be unpickled
                message, is_open = _dead_worker_error(), False
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._messages.put_nowait, message)

    async def receive(self, seconds: float) -> Any:
        """The next message; None if there is none within some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                message = await self._messages.get()
            if isinstance(message, WorkerError):
                raise message
            return message
        return None

    async def send(self, message: Any, seconds: float) -> None:
        """Send a message; a worker that does not take it within some seconds counts as ended."""
        pickled = pickle.dumps(message)
        try:
            if len(pickled) <= _SMALL_BYTES:
                self._connection.send_bytes(pickled)
            else:
                async with asyncio.timeout(seconds):
                    await self._loop.run_in_executor(self._writer, self._connection.send_bytes, pickled)
        except OSError as error:  # TimeoutError is one
            raise _dead_worker_error() from error


def _dead_worker_error() -> WorkerError:
    return WorkerError("workers: a worker ended before its answer: killed, or out of memory.")
