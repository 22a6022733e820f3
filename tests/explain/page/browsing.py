"""The page driven in a headless Chromium, opened from disk with the network blocked."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Frame, Page

SIZE = {"width": 1280, "height": 800}


@contextmanager
def opened(
    browser: Browser, path: Path, place: str = "", *, wait: str = "#view .view", **options: Any
) -> Iterator[Page]:
    """The page at a place, once ``wait`` is there; it fails when anything is logged, thrown or fetched."""
    context = browser.new_context(offline=True, **{"viewport": SIZE, **options})
    page, troubles = context.new_page(), []
    page.set_default_timeout(60_000)
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url) if request.url.startswith("http") else None)
    page.goto(f"{path.as_uri()}{place}")
    page.wait_for_selector(wait)
    yield page
    context.close()
    assert not troubles, troubles


def until(page: Page | Frame, expression: str, timeout_s: float = 60.0) -> None:
    """Wait until it is true. Playwright's own waiting needs eval, which the page's security policy forbids."""
    end = time.monotonic() + timeout_s
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def living(page: Page | Frame) -> None:
    """Wait until the page's model computes."""
    until(page, "window.glassformer.living?.ready")
