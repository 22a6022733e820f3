"""The server process: it loads the models, listens, and at a signal finishes open requests and ends."""

import asyncio
import logging
import resource
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.loops.auto import auto_loop_factory

from glassformer.errors import ConfigError, GlassformerError
from glassformer.serving.app import make_app
from glassformer.serving.batcher import Batcher
from glassformer.serving.config import ServeConfig
from glassformer.serving.endpoint import Serving
from glassformer.serving.languages import read_models
from glassformer.serving.middleware import Metrics
from glassformer.serving.models import Models
from glassformer.text.corpus.workers import available_cores

_KEEP_ALIVE_S = 75  # longer than clients and proxies, so that none uses a connection that is just closed
_MAX_FILES = 65_536
_CLOSING_S = 0.1  # for the answers to requests that were ended


def open_serving(runs: Sequence[Path], langs: Sequence[str], config: ServeConfig) -> Serving:
    """Load the models; raises ``GlassformerError`` for what cannot be served."""
    metrics, found = Metrics(), read_models(runs, langs)
    models = Models(found, config.engine, Batcher(config.threads or available_cores(), metrics))
    try:
        return Serving(config, models, metrics)
    except GlassformerError:
        models.close()
        raise


def run_server(
    runs: Sequence[Path], langs: Sequence[str], config: ServeConfig, report: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT. Raises what ``listen`` and loading raise."""
    logging.basicConfig(format="%(asctime)s %(message)s", force=True)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # its warnings are answered to the client
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # often 1,024; each connection takes one
    wanted = _MAX_FILES if most == resource.RLIM_INFINITY else min(most, _MAX_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    with listen(config) as listener, asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        serving = open_serving(runs, langs, config)
        try:
            runner.run(_serve(serving, listener, report))
        finally:
            serving.models.close()


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
    return listener


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; a second signal ends at once."""
        self.should_exit, self.force_exit = True, self.should_exit


async def _serve(serving: Serving, listener: socket.socket, report: Callable[[str], None]) -> None:
    config = serving.config
    server = _Server(
        uvicorn.Config(
            make_app(serving), http="httptools", ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, timeout_keep_alive=_KEEP_ALIVE_S, timeout_graceful_shutdown=round(config.drain_s),
            proxy_headers=bool(config.trusted_proxy), forwarded_allow_ips=config.trusted_proxy or None,
        )
    )  # fmt: skip
    report(_first_line(serving, listener))
    await server.serve(sockets=[listener])
    await asyncio.sleep(_CLOSING_S)


def _first_line(serving: Serving, listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    shown = f"[{host}]" if ":" in host else host
    models = ", ".join(model.name for model in serving.models.languages.models)
    engines = " and ".join(sorted(serving.models.engines))
    return f"http://{shown}:{port}: {models} by {engines}. Ctrl+C ends it."
