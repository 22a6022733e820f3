"""Records the animation of the README from the real page: a sentence is typed, and a head is silenced.

    python docs/animation.py        writes docs/page/try.webp and try-phone.webp, each also for a dark page

It needs what docs/screenshots.py needs. It finds what it presses by roles and names, and ends with an error if the
page does not come to the translations that it expects.
"""

import io
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Locator, Page
from screenshots import open_browser

PLACE = Path(__file__).parent / "page"
FIRST, TYPED = "I love you, too.", "I am hungry."
LAYER, HEAD = 1, 3
BEFORE, AFTER = re.compile("Ich habe Hunger"), re.compile("Ich bin hungrig")
SIZES = {"": (1024, 640), "-phone": (390, 700)}
QUALITY, SECONDS = 72, 60.0
_POINTER = """(place) => {
  let pointer = document.getElementById("recorded-pointer");
  if (!pointer) {
    pointer = document.body.appendChild(document.createElement("div"));
    pointer.id = "recorded-pointer";
    pointer.setAttribute("aria-hidden", "true");
    pointer.style = "position:fixed;z-index:99;width:26px;height:26px;margin:-13px;border-radius:50%;"
      + "pointer-events:none;background:rgb(207 116 36 / 45%);border:2px solid rgb(207 116 36)";
  }
  pointer.style.left = `${place.x}px`;
  pointer.style.top = `${place.y}px`;
}"""


@dataclass
class Recorder:
    """Frames of a page, each with how long it is shown, in milliseconds."""

    page: Page
    frames: list[Image.Image] = field(default_factory=list)
    durations: list[int] = field(default_factory=list)

    def shoot(self, milliseconds: int) -> None:
        picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        if self.frames and picture.tobytes() == self.frames[-1].tobytes():
            self.durations[-1] += milliseconds
            return
        self.frames.append(picture)
        self.durations.append(milliseconds)

    def type_text(self, field: Locator, text: str) -> None:
        field.fill("")
        for end in range(2, len(text) + 2, 2):
            field.fill(text[:end])
            self.shoot(120)

    def move_to(self, target: Locator) -> None:
        """The pointer goes to a control, in a few frames."""
        box = target.bounding_box()
        assert box is not None, "what is pressed is not to be seen"
        size = self.page.viewport_size
        assert size is not None
        start = (size["width"] * 0.6, size["height"] * 0.75)
        end = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for step in range(1, 5):
            place = {axis: a + (b - a) * step / 4 for axis, a, b in zip("xy", start, end, strict=True)}
            self.page.evaluate(_POINTER, place)
            self.shoot(110)

    def scroll_to(self, top: float) -> None:
        """Up or down to a place, in a few frames."""
        now = float(self.page.evaluate("scrollY"))
        if abs(now - top) > 1:
            for step in range(1, 5):
                self.page.evaluate("(y) => scrollTo(0, y)", now + (top - now) * step / 4)
                self.shoot(80)

    def save(self, target: Path) -> None:
        first, *rest = self.frames
        first.save(target, save_all=True, append_images=rest, duration=self.durations, quality=QUALITY, method=6)
        seconds = sum(self.durations) / 1000
        print(f"{target.name}: {len(self.frames)} frames, {seconds:.1f} s, {target.stat().st_size / 1000:.0f} kB")


def record(page: Page, target: Path) -> None:
    """The recording, some ten seconds."""
    recorder = Recorder(page)
    settle(page)
    recorder.shoot(1300)
    sentence = page.get_by_role("textbox", name="Sentence").or_(page.get_by_role("combobox", name="Sentence"))
    recorder.type_text(sentence, TYPED)
    sentence.press("Enter")
    wait_for(page, BEFORE)
    page.evaluate(f"location.hash = 'decoder.layers.{LAYER}.cross_attention.weights'")
    settle(page)
    recorder.shoot(1900)
    switch = silence_button(page)
    below = switch.evaluate("(one) => one.getBoundingClientRect().bottom - innerHeight + 40")
    recorder.scroll_to(max(0.0, float(page.evaluate("scrollY")) + below))
    recorder.move_to(switch)
    recorder.shoot(300)
    switch.click()
    wait_for(page, AFTER)
    recorder.shoot(700)
    page.evaluate("document.getElementById('recorded-pointer').remove()")
    recorder.scroll_to(0.0)
    recorder.shoot(4200)
    recorder.save(target)


def silence_button(page: Page) -> Locator:
    """What switches the head off, first on the page."""
    named = page.get_by_role("button", name=re.compile(rf"switch head {HEAD} off", re.IGNORECASE))
    return named.or_(page.get_by_role("switch", name=re.compile(rf"head {HEAD}\b"))).first


def settle(page: Page) -> None:
    """Wait until the page's model computes and nothing is waited for."""
    page.wait_for_selector("#view .view")
    end = time.monotonic() + SECONDS
    while not page.evaluate("window.glassformer.living?.ready && !document.querySelector('.computing, .stale')"):
        assert time.monotonic() < end, "the page does not come to rest"
        page.wait_for_timeout(50)
    page.wait_for_timeout(400)


def wait_for(page: Page, words: re.Pattern[str]) -> None:
    """Wait until the page shows these tokens one after another."""
    end = time.monotonic() + SECONDS
    while not words.search(" ".join(shown_text(page).split())):
        assert time.monotonic() < end, f"the page does not show {words.pattern!r}"
        page.wait_for_timeout(50)
    settle(page)


def shown_text(page: Page) -> str:
    return str(page.evaluate("document.body.innerText")).replace("▁", "")


def record_all(browser: Browser, page_file: Path) -> None:
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for width, size in SIZES.items():
        for scheme in schemes:
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce",
                offline=True, has_touch=bool(width),
            )  # fmt: skip
            page = context.new_page()
            page.goto(page_file.as_uri())
            record(page, PLACE / f"try{width}{'' if scheme == 'light' else '-dark'}.webp")
            context.close()


def main() -> None:
    with open_browser(FIRST) as (browser, page_file):
        record_all(browser, page_file)


if __name__ == "__main__":
    main()
