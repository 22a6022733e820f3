"""Write docs/translator.html: the page of the bundled model, which translates offline in any browser.

    python docs/translator.py            where the model or how it reads texts has changed
    python docs/translator.py --force    in any case

Each copy adds its size to the history of the repository. A test holds what it answers with equal to the package.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from glassformer.decoding import Translator
from glassformer.explain import walk
from glassformer.explain.page.packing import unpack
from glassformer.explain.page.weights import pack_model
from glassformer.explain.page.writer import page_html

FILE = Path(__file__).parent / "translator.html"
SENTENCE = "Good night."  # short, so that its recorded numbers are few
MAX_BYTES = 10_000_000


def model_of(page: str) -> dict[str, Any]:
    """What a page answers with: weights, tokenizers, settings, rules."""
    found = {name: re.search(rf'id="{name}">(.*?)</script>', page, re.DOTALL) for name in ("weights", "living")}
    weights, living = (unpack(one[1]) if one else b"{}" for one in found.values())
    return {**json.loads(living), "weights": weights}


def bundled_model() -> dict[str, Any]:
    """The same of the package."""
    packed = pack_model(Translator.load())
    weights = packed.pop("weights")
    return {**json.loads(json.dumps(packed)), "weights": weights}


def main() -> None:
    is_current = FILE.exists() and model_of(FILE.read_text("utf-8")) == bundled_model()
    if is_current and "--force" not in sys.argv:
        print(f"{FILE.name} answers as the package does; nothing is written.")
        return
    translator = Translator.load()
    page = page_html(
        walk(translator, [SENTENCE]), translator, run="en-de", run_option="", first="translate", dense=True
    )
    FILE.write_text(page, encoding="utf-8")
    print(f"{FILE.name}: {FILE.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
