"""Write the screenshots of docs/page.md and docs/translator_page.md, each view in two themes and in several widths.

    python docs/screenshots.py
    python docs/screenshots.py translate    only those of the Translate view

It needs Chromium at /usr/bin/chromium, Playwright's client and Pillow; all come with `pip install '.[dev]'`
but the browser.
"""

import io
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from glassformer.decoding import Translator
from glassformer.explain import walk

PLACE = Path(__file__).parent / "page"
SENTENCE = "I love you, too."
CELL = "decoder.layers.1.cross_attention.weights[heads=1,query=1,key=1]"
VIEWS = {
    "home": "",
    "head": "#decoder.layers.1.cross_attention.weights[heads=1]",
    "number": f"#{CELL}&step=1",
    "why": "#why&step=1",
    "beam": "#beam",
}
SIZES = {"laptop": (1280, 800), "phone": (390, 844)}
PROJECTOR = (1024, 768)
TRANSLATE = {"translate": (1440, 760), "translate-tablet": (820, 760), "translate-phone": (390, 844)}
TEXT = "I love you, too. The water was too cold, but we went swimming.\n\nHis grumpy uncle reads a book."
WORD = "kalt"  # whose alternatives are shown
COLOURS = 256
AWAKE = "window.glassformer.living?.ready && window.glassformer.living.telling !== undefined"


@contextmanager
def open_browser(sentence: str) -> Iterator[tuple[Browser, Path]]:
    """A browser, and the file of the bundled model's page for a sentence."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as started:
        page_file = Path(scratch, "page.html")
        walk(Translator.load(), [sentence]).to_page(page_file, run="en-de", run_option="")
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        yield browser, page_file
        browser.close()


def shoot(
    browser: Browser,
    page_file: Path,
    place: str,
    *,
    size: tuple[int, int],
    scheme: Literal["light", "dark"],
    target: Path,
) -> None:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce", offline=True
    )
    page = context.new_page()
    page.goto(page_file.as_uri() + place)
    page.wait_for_selector("#view .view")
    while not page.evaluate(f"{AWAKE} && !document.querySelector('[role=status]')"):
        time.sleep(0.1)
    page.wait_for_timeout(500)
    if place == VIEWS["number"]:
        page.evaluate("document.querySelector('.total, .origin').scrollIntoView({block: 'center'})")
    elif place and size == SIZES["phone"]:
        page.evaluate("scrollTo(0, document.querySelector('#view').getBoundingClientRect().top + scrollY - 12)")
    page.wait_for_timeout(300)
    save(page.screenshot(), target)
    context.close()


def save(shot: bytes, target: Path) -> None:
    picture = Image.open(io.BytesIO(shot))
    picture.convert("RGB").quantize(COLOURS, kmeans=3, dither=Image.Dither.NONE).save(target, optimize=True)
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")


def shoot_translation(browser: Browser, page_file: Path, scheme: Literal["light", "dark"]) -> None:
    """The Translate view in each width, and the panel on a word."""
    ending = "" if scheme == "light" else "-dark"
    for name, (width, height) in TRANSLATE.items():
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", offline=True
        )
        page = context.new_page()
        page.goto(f"{page_file.as_uri()}#translate")
        page.fill("#source", TEXT)
        page.wait_for_selector(f".t-word:text('{WORD}')")
        page.locator(".t-word", has_text=WORD).hover()
        page.wait_for_timeout(1000)
        save(page.screenshot(), PLACE / f"{name}{ending}.png")
        page.locator(".t-word", has_text=WORD).click()
        while page.locator(".choices .choice").count() < 6:
            page.wait_for_timeout(100)
        page.wait_for_timeout(1500)
        save(page.screenshot(), PLACE / f"{name.replace('translate', 'words')}{ending}.png")
        context.close()


def main() -> None:
    with open_browser(SENTENCE) as (browser, page_file):
        for scheme in ("light", "dark"):
            shoot_translation(browser, page_file, scheme)
            if sys.argv[1:] == ["translate"]:
                continue
            ending = "" if scheme == "light" else "-dark"
            target = PLACE / f"home-projector{ending}.png"
            shoot(browser, page_file, "", size=PROJECTOR, scheme=scheme, target=target)
            for view, place in VIEWS.items():
                for name, size in SIZES.items():
                    width = "" if name == "laptop" else f"-{name}"
                    target = PLACE / f"{view}{width}{ending}.png"
                    shoot(browser, page_file, place, size=size, scheme=scheme, target=target)


if __name__ == "__main__":
    main()
