"""The process of a server: it loads the models, listens, and at a signal finishes what it has begun and ends."""

import asyncio
import logging
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from glassformer.errors import ConfigError, GlassformerError
from glassformer.serving import door
from glassformer.serving.access import Access
from glassformer.serving.app import make_app
from glassformer.serving.config import ServeConfig
from glassformer.serving.door import Metrics
from glassformer.serving.endpoint import Serving
from glassformer.serving.explanations import Explanations
from glassformer.serving.scheduling.workers import Loaded
from glassformer.serving.service import Service
from glassformer.serving.store import Files

logger = logging.getLogger(__name__)
_KEEP_ALIVE_S = 75  # longer than clients and proxies do, so that none of them uses what is just being closed
_MAX_HEADER_BYTES = 65_536
_MAX_FILES = 65_536
_CLOSING_S = 2  # for answers that are on their way when all else has ended
Report = Callable[[str], None]


async def open_serving(runs: Sequence[Path], langs: Sequence[str], config: ServeConfig) -> Serving:
    """Load the models, in processes of their own; raises ``GlassformerError`` for what cannot be served."""
    access, metrics = Access(config), Metrics()
    loaded = await Loaded.load(runs, langs, config, metrics)
    service, explanations = Service(loaded, config.time_limit_s), Explanations(loaded.languages, config)
    return Serving(config, metrics, access, service, explanations, Files())


async def close_serving(serving: Serving, drain_s: float) -> None:
    """Finish within some seconds what was begun, refuse the rest, and end all processes."""
    await serving.service.loaded.drain(drain_s)
    serving.explanations.close()
    serving.files.close()


def run_server(runs: Sequence[Path], langs: Sequence[str], config: ServeConfig, report: Report) -> None:
    """Serve until a signal: SIGTERM and SIGINT end the server, SIGHUP loads the models anew.

    Raises ``ConfigError`` for a port that cannot be had, and what ``open_serving`` raises.
    """
    logging.basicConfig(format="%(message)s")
    door.logger.setLevel(logging.INFO if config.access_log else logging.WARNING)
    _allow_connections()
    with listen(config) as listener:
        asyncio.run(_serve(listener, runs, langs, config, report))


def _allow_connections() -> None:
    """Each takes an open file; a process often may have only 1,024 unless it asks for more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if most == resource.RLIM_INFINITY else min(most, _MAX_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def listen(config: ServeConfig) -> socket.socket:
    """The socket that clients connect to; raises ``ConfigError`` for a port that cannot be had."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server((config.host, config.port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"--port {config.port}: cannot be listened at on {config.host} ({error.strerror or error}), expected a "
            "free port of this machine. Choose another: --port 5001."
        ) from error
    # Without it an answer's second packet waits 40 ms; asyncio sets it only where a socket names its protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # of a client that takes nothing, also where the kernel holds the answer
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * config.door_s))
    return listener


async def _serve(
    listener: socket.socket, runs: Sequence[Path], langs: Sequence[str], config: ServeConfig, report: Report
) -> None:
    serving = await open_serving(runs, langs, config)
    try:
        server = _Server(serving, runs, langs)
        report(_first_line(serving, listener))
        await server.serve(sockets=[listener])
    finally:
        await close_serving(serving, 0.0)


def _first_line(serving: Serving, listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    shown = f"[{host}]" if ":" in host else host
    models = ", ".join(model.name for model in serving.languages.models)
    loaded = serving.service.loaded
    engines = " and ".join(sorted(set(loaded.engines.values()) - {""}))
    return f"http://{shown}:{port}: {models} by {engines}, {loaded.number} workers. Ctrl+C ends it."


class _Server(uvicorn.Server):
    """Ends in two steps: while it finishes what was begun, it still answers, with 503."""

    def __init__(self, serving: Serving, runs: Sequence[Path], langs: Sequence[str]) -> None:
        config = serving.config
        super().__init__(
            uvicorn.Config(
                make_app(serving), http=_protocol(config.door_s), ws="none", lifespan="off", log_config=None,
                access_log=False, server_header=False, timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_CLOSING_S, h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
                proxy_headers=bool(config.trusted_proxy), forwarded_allow_ips=config.trusted_proxy or None,
            )
        )  # fmt: skip
        self._serving, self._given = serving, (runs, langs)
        self._ending: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal ends it."""
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._load_anew)
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; told a second time, at once."""
        loop = asyncio.get_running_loop()
        if self._ending is not None:
            self.should_exit = self.force_exit = True
        else:
            self._ending = loop.create_task(self._end())

    async def _end(self) -> None:
        await self._serving.service.loaded.drain(self._serving.config.drain_s)
        self.should_exit = True

    def _load_anew(self) -> None:
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._replace())

    async def _replace(self) -> None:
        """Load the models in new processes; requests that have begun end with the old ones."""
        serving, (runs, langs) = self._serving, self._given
        try:
            loaded = await Loaded.load(runs, langs, serving.config, serving.metrics)
        except GlassformerError as error:
            logger.error("the models were not loaded anew: %s", error)
            return
        old, serving.service.loaded = serving.service.loaded, loaded
        serving.explanations.close()
        logger.warning("the models were loaded anew.")
        await old.drain(10 * serving.config.time_limit_s)


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    """The protocol of uvicorn, ending connections that begin no request in time."""

    class Protocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(seconds, self._end_if_idle)

        def _end_if_idle(self) -> None:
            if self.transport.is_closing():
                return
            has_begun_another = self.cycle is not None and self.cycle.response_complete and self.conn.trailing_data[0]
            if self.cycle is None or has_begun_another:
                self.transport.abort()
            else:
                self.loop.call_later(seconds, self._end_if_idle)

    return Protocol
