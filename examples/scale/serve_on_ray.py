"""Serve a model with Ray Serve: replicas of the whole server behind one address, which Ray starts again if they end.

    pip install 'ray[serve]' '.[serve]'
    python examples/scale/serve_on_ray.py --run bundled --replicas 2 --port 8000

Each replica is the server of ``glassformer serve`` with one thread, so that texts join in batches within a replica.
What a client leaves there (translated files, explanations) only that replica knows.
"""

import argparse
import signal
import threading
from pathlib import Path
from typing import Any

from ray import serve

from glassformer.bundled import find_run
from glassformer.serving.app import make_app
from glassformer.serving.config import ServeConfig
from glassformer.serving.server import open_serving


class Replica:
    """The application: it loads its models when Ray starts it, and finishes its requests when Ray ends it."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            assert self.app is not None, "Ray starts a replica before it sends requests"
            await self.app(scope, receive, send)
            return
        await receive()
        serving = open_serving([self.run], [], ServeConfig(threads=1))
        self.app = make_app(serving)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        serving.models.close()
        await send({"type": "lifespan.shutdown.complete"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="bundled")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    serve.start(http_options={"port": options.port})

    @serve.deployment(num_replicas=options.replicas, ray_actor_options={"num_cpus": 1}, max_ongoing_requests=256)
    @serve.ingress(Replica(find_run(options.run)))
    class Server:
        pass

    serve.run(Server.bind(), name="glassformer", route_prefix="/")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    serve.shutdown()


if __name__ == "__main__":
    main()
