"""Write docs/translator.html: the page of the bundled model, which translates offline in any browser.

    python docs/translator.py            where the model or how it reads texts has changed
    python docs/translator.py --force    in any case

Each copy adds its size to the history of the repository. A test holds what it answers with equal to the package.
"""

import re
import sys
from pathlib import Path

from glassformer.decoding import Translator
from glassformer.explain import walk
from glassformer.explain.page.weights import pack_model
from glassformer.explain.page.writer import digest_model, page_html

FILE = Path(__file__).parent / "translator.html"
SENTENCE = "Good night."  # short, so that its recorded numbers are few
MAX_BYTES = 10_000_000


def digest_of(page: str) -> str:
    """The sum that a page names of what it answers with: weights, tokenizers, settings, rules."""
    found = re.search(r'<meta name="glassformer-model" content="(\w+)">', page)
    return "" if found is None else found[1]


def bundled_digest() -> str:
    """The same of the package."""
    return digest_model(pack_model(Translator.load()))


def main() -> None:
    is_current = FILE.exists() and digest_of(FILE.read_text("utf-8")) == bundled_digest()
    if is_current and "--force" not in sys.argv:
        print(f"{FILE.name} answers as the package does; nothing is written.")
        return
    translator = Translator.load()
    page = page_html(
        walk(translator, [SENTENCE]), translator, run="en-de", run_option="", dense=True, first="translate"
    )
    FILE.write_text(page, encoding="utf-8")
    print(f"{FILE.name}: {FILE.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
