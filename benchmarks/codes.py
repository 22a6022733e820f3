"""How many generated texts with codes come back whole from an ordinary translator, and how many are flagged.

    python benchmarks/codes.py [--texts 3200] [--seed 1] [--show] [--json FILE]

Of each of five formats, ``--texts`` are translated, and a quarter of them is then taken from a memory, half of whose
pairs are damaged. The translator keeps the order of two texts of three, and moves one word in the third; its
attention is exact. So all that is wrong is the fault of the code round the model. None may lose, double, cross or
glue a code without a flag.
"""

import argparse
import tempfile
from pathlib import Path

from generated_texts import FORMATS, translate_generated
from machine import machine
from smoke import parse_options, write_json
from word_translator import Ordinary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=3200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print the texts with faults, and those flagged without")
    options = parse_options(parser, "--texts 40", kept="codes.json")
    formats = {}
    for form in FORMATS:
        with tempfile.TemporaryDirectory() as scratch:
            outcome = translate_generated(
                form, options.seed, options.texts, Path(scratch), Ordinary(options.seed, "x")
            )
        formats[form.ending] = outcome.counts
        print(f"{form.ending:6} {outcome.counts}")
        if options.show:
            print(*(f"  silent: {each}" for each in outcome.silent), sep="\n")
            print(*(f"  needless: {each}" for each in outcome.needless), sep="\n")
    total = {key: sum(row[key] for row in formats.values()) for key in next(iter(formats.values()))}
    print(f"{'all':6} {total}; flagged without a fault: {total['needless'] / total['texts']:.2%}")
    report = {"machine": machine(), "seed": options.seed, "formats": formats, "all": total}
    write_json(options.json, report)


if __name__ == "__main__":
    main()
