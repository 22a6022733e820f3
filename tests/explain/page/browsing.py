"""The page driven in a headless Chromium, opened from disk with the network blocked."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Frame, Page

SIZE = {"width": 1280, "height": 800}


@contextmanager
def open_page(
    browser: Browser, path: Path, place: str = "", *, wait: str = "#view .view", script: str = "", **options: Any
) -> Iterator[Page]:
    """The page at a place, once ``wait`` is there; it fails when anything is logged, thrown or fetched.

    ``script`` runs before those of the page.
    """
    context = browser.new_context(offline=True, **{"viewport": SIZE, **options})
    context.add_init_script(script)
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


def go(page: Page | Frame, place: str) -> None:
    """Another place of the page, once it is drawn and nothing in it is computed any more."""
    page.evaluate("place => { location.hash = place }", place)
    address = re.split(r"[\[&]", place)[0]
    until(page, f"window.glassformer.drawn === {json.dumps(address)} && !document.querySelector('[role=status]')")


def scroll_through(page: Page) -> None:
    """From the top to the end, as with a wheel."""
    size = page.viewport_size or SIZE
    page.mouse.move(size["width"] / 2, size["height"] / 2)
    step = max(200, page.evaluate("document.documentElement.scrollHeight") / 12)
    for _ in range(12):
        page.mouse.wheel(0, step)
        page.wait_for_timeout(40)
    page.wait_for_timeout(200)


def longest_task_ms(browser: Browser, page: Page, act: Callable[[], object]) -> float:
    """The processor time of the main thread's longest task while something is done; other programs do not add to it."""
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    act()
    events = json.loads(browser.stop_tracing())["traceEvents"]
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one.get("name") == "thread_name"}
    main = {thread for thread, name in names.items() if name == "CrRendererMain"}
    tasks = [one for one in events if one.get("ph") == "X" and (one["pid"], one["tid"]) in main]
    times = [one["tdur"] / 1000 for one in tasks if one["name"].endswith("RunTask") and "tdur" in one]
    assert times, "the trace holds no task of the main thread"
    return max(times)
