"""Fill the empty messages of a gettext catalog, examples/data/app.po, with the bundled model.

    python examples/fill_a_catalog.py [CATALOG OUT]

What is translated already stays, placeholders are kept, and what a person should look at is listed.
"""

import sys
from pathlib import Path

from glassformer import Translator
from glassformer.documents import FileTranslator

CATALOG = Path(__file__).parent / "data" / "app.po"


def main(catalog: Path, out: Path) -> None:
    report = FileTranslator(Translator.load()).translate(catalog, out)
    print(out.read_text(encoding="utf-8"))
    print(f"{report.segments} messages filled in {out}.")
    for remark in report.flagged:
        print(f"line {remark.line}: {remark.text!r} for {remark.source!r}: {remark.remark}")


if __name__ == "__main__":
    main(*(Path(name) for name in sys.argv[1:3] or (CATALOG, "app.de.po")))
