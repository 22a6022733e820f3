"""What the sinusoids of a conversion change, on models of Marian's.

    python benchmarks/sinusoids.py [--models DIR] [--json FILE]

A directory in DIR holds a model and pairs test.en, test.de, or DIR holds these. Its weights are written as a
MarianMT, whose table is the paper's, as Hugging Face's own conversion does it. That is imported twice, as it is and
with ``--positions marian``. Printed are the differences of log-probabilities of the pairs, and how many greedy
outputs differ; the results also say by how much ``--positions marian`` differs from the import of Marian's own file.
"""

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine import machine
from smoke import ROOT, new_parser, parse_options, write_json

from glassformer.decoding.translator import Translator
from glassformer.errors import ConfigError
from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.marian.release import import_marian
from glassformer.interop.transformers import import_transformers
from glassformer.interop.transformers_export import export_transformers
from glassformer.run_directory import load_run
from glassformer.settings import DecodeConfig

MODELS = ROOT / "tests" / "interop" / "marian_models"


def answers(
    model: ImportedModel, pairs: tuple[list[str], list[str]], options: DecodeConfig
) -> tuple[list[float], list[str]]:
    """The log-probability of each pair, and the output of each source."""
    translator = Translator(model.model(), *model.tokenizers, options)
    scores = [float(score) for score in translator.score(*pairs)]
    return scores, [one.text for one in translator.translate(pairs[0], options)]


def measure(place: Path, pairs: tuple[list[str], list[str]], work: Path) -> dict[str, Any]:
    """One model."""
    import_marian(place, positions="paper").write(work / "run")
    export_transformers(load_run(work / "run", "cpu"), work / "hf")
    marians = import_marian(place)
    options = replace(marians.config.decode, beam=1, n_best=1, length_penalty=0.0)
    papers, theirs = (answers(import_transformers(work / "hf", name), pairs, options) for name in ("", "marian"))
    own = answers(marians, pairs, options)
    gaps = [abs(a - b) for a, b in zip(papers[0], theirs[0], strict=True)]
    return {
        "pairs": len(gaps), "mean": statistics.mean(gaps), "most": max(gaps),
        "other_outputs": sum(map(str.__ne__, papers[1], theirs[1])),
        "from_marians_file": max(abs(a - b) for a, b in zip(own[0], theirs[0], strict=True)),
        "outputs_other_than_of_marians_file": sum(map(str.__ne__, own[1], theirs[1])),
    }  # fmt: skip


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--models", type=Path, default=MODELS)
    options = parse_options(parser, "", modules=["yaml"], kept="sinusoids.json")
    found: dict[str, Any] = {"machine": machine(), "models": {}}
    for place in sorted(path for path in options.models.iterdir() if path.is_dir()):
        texts = place if (place / "test.en").is_file() else options.models
        src, tgt = ((texts / f"test.{side}").read_text("utf-8").splitlines() for side in ("en", "de"))
        try:
            with tempfile.TemporaryDirectory() as work:
                row = found["models"][place.name] = measure(place, (src, tgt), Path(work))
        except ConfigError as error:
            print(place.name, "left out:", error)
            continue
        print(f"{place.name}: {row['pairs']} log-probabilities differ by {row['mean']:.3f} in the mean, "
              f"{row['most']:.3f} at most; {row['other_outputs']} greedy outputs differ")  # fmt: skip
    write_json(options.json, found)


if __name__ == "__main__":
    main()
