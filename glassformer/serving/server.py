"""The server process: it loads the models, listens, and at a signal finishes open requests and ends."""

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
from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from glassformer.errors import ConfigError, GlassformerError
from glassformer.files import check_directory, storage_errors
from glassformer.serving import middleware
from glassformer.serving.access import Access
from glassformer.serving.app import make_app
from glassformer.serving.config import ServeConfig
from glassformer.serving.endpoint import Serving
from glassformer.serving.explanations import Explanations
from glassformer.serving.languages import read_models
from glassformer.serving.middleware import Metrics
from glassformer.serving.scheduling.model_workers import ModelWorkers
from glassformer.serving.store import Files

logger = logging.getLogger(__name__)
_KEEP_ALIVE_S = 75  # longer than clients and proxies, so that none uses a connection that is just closed
_MAX_HEAD_BYTES = 65_536  # of a request's first line and headers
_MAX_FILES = 65_536
_CLOSING_S = 2  # for answers on their way when all else has ended
Report = Callable[[str], None]


async def open_serving(runs: Sequence[Path], langs: Sequence[str], config: ServeConfig) -> Serving:
    """Load the models in worker processes; raises ``GlassformerError`` for what cannot be served."""
    access, metrics = Access(config), Metrics()
    if config.suggestions:
        with storage_errors(f"--suggestions {config.suggestions}", "Name another directory."):
            check_directory(Path(config.suggestions))
    workers = await ModelWorkers(read_models(runs, langs), config, metrics).start()
    return Serving(config, metrics, access, workers, Explanations(workers.languages, config), Files())


async def close_serving(serving: Serving, drain_s: float) -> None:
    """Finish open requests within some seconds, refuse the rest, and end all processes."""
    await serving.workers.drain(drain_s)
    serving.explanations.close()
    serving.files.close()


def run_server(runs: Sequence[Path], langs: Sequence[str], config: ServeConfig, report: Report) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP reloads the models. Raises what ``listen`` and ``open_serving`` raise."""
    logging.basicConfig(format="%(message)s")
    middleware.logger.setLevel(logging.INFO if config.access_log else logging.WARNING)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # often 1,024; each connection takes one
    wanted = _MAX_FILES if most == resource.RLIM_INFINITY else min(most, _MAX_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    with listen(config) as listener, asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_serve(listener, runs, langs, config, report))


def listen(config: ServeConfig) -> socket.socket:
    """The socket that clients connect to; raises ``ConfigError`` for a port that is not free."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server((config.host, config.port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"--port {config.port}: cannot be listened at on {config.host} ({error.strerror or error}), expected a "
            "free port of this machine. Choose another: --port 5001."
        ) from error
    # Without it an answer's second packet waits 40 ms; asyncio sets it only if a socket names its protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # also ends a client that takes nothing of what the kernel holds
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * config.door_s))
    return listener


async def _serve(
    listener: socket.socket, runs: Sequence[Path], langs: Sequence[str], config: ServeConfig, report: Report
) -> None:
    serving = await open_serving(runs, langs, config)
    try:
        server = _Server(serving, runs, langs)
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.reload)
        report(_first_line(serving, listener))
        await server.serve(sockets=[listener])
    finally:
        await close_serving(serving, 0.0)


def _first_line(serving: Serving, listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    shown = f"[{host}]" if ":" in host else host
    workers = serving.workers
    models = ", ".join(model.name for model in workers.languages.models)
    engines = " and ".join(sorted(set(workers.engines.values()) - {""}))
    many = "" if workers.number == 1 else "s"
    return f"http://{shown}:{port}: {models} by {engines}, {workers.number} worker{many}. Ctrl+C ends it."


class _Server(uvicorn.Server):
    """Ends in two steps: while open requests are finished, it answers new ones with 503."""

    def __init__(self, serving: Serving, runs: Sequence[Path], langs: Sequence[str]) -> None:
        config = serving.config
        super().__init__(
            uvicorn.Config(
                make_app(serving), http=_protocol(config.door_s), ws="none", lifespan="off", log_config=None,
                access_log=False, server_header=False, timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_CLOSING_S,
                proxy_headers=bool(config.trusted_proxy), forwarded_allow_ips=config.trusted_proxy or None,
            )
        )  # fmt: skip
        self._serving, self._given = serving, (runs, langs)
        self._ending: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; a second signal exits immediately."""
        if self._ending is not None:
            self.should_exit = self.force_exit = True
        else:
            self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        serving, seconds = self._serving, self._serving.config.drain_s
        await asyncio.gather(serving.workers.drain(seconds), serving.explanations.drain(seconds))
        self.should_exit = True

    def reload(self) -> None:
        """Load the models in new processes; open requests end with the old ones."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._replace())

    async def _replace(self) -> None:
        serving, (runs, langs) = self._serving, self._given
        try:
            workers = await ModelWorkers(read_models(runs, langs), serving.config, serving.metrics).start()
        except GlassformerError as error:
            logger.error("the models were not loaded anew: %s", error)
            return
        old, serving.workers = serving.workers, workers
        serving.explanations.close()
        logger.warning("the models were loaded anew.")
        await old.drain(10 * serving.config.time_limit_s)


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    """Uvicorn's protocol, which ends connections without a request in time or with an endless head."""

    class Protocol(HttpToolsProtocol):
        is_in_head, head_bytes = False, 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(seconds, self._end_if_idle)

        def _end_if_idle(self) -> None:
            if self.transport.is_closing():
                return
            if self.cycle is None or self.is_in_head:
                self.transport.abort()
            else:
                self.loop.call_later(seconds, self._end_if_idle)

        def data_received(self, data: bytes) -> None:
            self.head_bytes = self.head_bytes + len(data) if self.is_in_head else 0
            if self.head_bytes > _MAX_HEAD_BYTES:
                self.transport.abort()
            else:
                super().data_received(data)

        def on_message_begin(self) -> None:
            self.is_in_head = True
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self.is_in_head = False
            super().on_headers_complete()

    return Protocol
