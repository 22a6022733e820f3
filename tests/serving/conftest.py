"""A server with one worker and the bundled model, which all tests share; each may have settings of its own."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.testclient import TestClient

from glassformer.bundled import BUNDLED
from glassformer.serving.access import Access
from glassformer.serving.app import make_app
from glassformer.serving.config import ServeConfig
from glassformer.serving.endpoint import Serving
from glassformer.serving.middleware import Metrics
from glassformer.serving.server import close_serving, open_serving

Connect = Callable[..., TestClient]


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="session")
def serving(portal: BlockingPortal) -> Iterator[Serving]:
    config = ServeConfig(workers=1)
    serving = portal.call(open_serving, [BUNDLED], [], config)
    yield serving
    portal.call(close_serving, serving, 1.0)


@pytest.fixture
def connect(serving: Serving, portal: BlockingPortal) -> Connect:
    """``connect(char_limit=10)``: a client of the same workers by a server with these settings."""

    def make(**changes: Any) -> TestClient:
        config = replace(serving.config, **changes)
        own = Serving(config, Metrics(), Access(config), serving.workers, serving.explanations, serving.files)
        client = TestClient(make_app(own), raise_server_exceptions=True)
        client.portal = portal
        return client

    return make


@pytest.fixture
def client(connect: Connect) -> TestClient:
    return connect()
