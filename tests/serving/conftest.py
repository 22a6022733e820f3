"""A server with one thread and the bundled model, which all tests share; each may have settings of its own."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.testclient import TestClient

from glassformer.bundled import BUNDLED
from glassformer.serving.app import make_app
from glassformer.serving.config import ServeConfig
from glassformer.serving.endpoint import Serving
from glassformer.serving.middleware import Metrics
from glassformer.serving.server import open_serving

Connect = Callable[..., TestClient]


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="session")
def serving() -> Iterator[Serving]:
    serving = open_serving([BUNDLED], [], ServeConfig(threads=1))
    yield serving
    serving.models.close()


@pytest.fixture
def connect(serving: Serving, portal: BlockingPortal) -> Connect:
    """``connect(char_limit=10)``: a client of the same models by a server with these settings."""

    def make(**changes: Any) -> TestClient:
        own = Serving(replace(serving.config, **changes), serving.models, Metrics())
        client = TestClient(make_app(own), raise_server_exceptions=True)
        client.portal = portal
        return client

    return make


@pytest.fixture
def client(connect: Connect) -> TestClient:
    return connect()
