"""Measure a model: test pairs by length, sixty first sentences, and whether it knows what it cannot translate.

    python examples/bundled/measure.py previous glassformer/bundled/en-de
    python examples/bundled/measure.py trial build/face/trial
    python examples/bundled/measure.py bundled glassformer/bundled/en-de --float32 build/face/run

Each NAME gets a section in benchmarks/results/bundled.json, from which the card is written. A section that was
measured of the same weights on the same pairs is kept, so that an interrupted measurement continues.
"""

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from first_sentences import SENTENCES
from pairs import BUCKETS, WRITTEN
from reasons import TEXTS
from sacrebleu.metrics.chrf import CHRF
from strange_inputs import NONSENSE, SPANISH

from glassformer import Translation, Translator
from glassformer.checkpoint import newest_valid
from glassformer.files import sha256, write_durably
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.text.corpus.corpus import Pair, read_pairs
from glassformer.text.corpus.noise import KINDS
from glassformer.training.evaluation.calibration import GOOD_CHRF
from glassformer.training.evaluation.evaluation import score

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))
from benchmarks.machine import library_versions, machine  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "bundled.json"
PAIRS = ROOT / "build" / "face"
GERMAN = 200  # references of the test that are given to the model as sources
WORDS = 300  # of the single words in written.tsv
FIRST = [sentence for group in SENTENCES.values() for sentence in group]


def read_results() -> dict[str, Any]:
    """The sections that were measured so far."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def write_results(results: dict[str, Any]) -> None:
    with write_durably(RESULTS) as stream:
        json.dump(results, stream, indent=1, ensure_ascii=False)
        stream.write("\n")


def scores(outputs: Sequence[str], pairs: Sequence[Pair]) -> dict[str, Any]:
    """BLEU, chrF and exact matches of all pairs and of each bucket, by the words of the source."""
    groups = {"all": range(len(pairs))}
    for first, last in BUCKETS:
        name = f"{first}-{last}" if last < 100 else f"{first}+"
        groups[name] = [n for n, pair in enumerate(pairs) if first <= len(pair.src.split()) <= last]
    found = {}
    for name, numbers in groups.items():
        one = score([outputs[n] for n in numbers], [pairs[n].tgt for n in numbers])
        found[name] = {"sentences": one.sentences, **one.values}
        signatures = one.signatures
    return {"by_words": found, "signatures": signatures}


def worth(translations: Sequence[Translation], pairs: Sequence[Pair]) -> dict[str, Any]:
    """What the confidence is worth: how well it tells good translations from bad ones, and how many are warned of."""
    chances = np.array([one.hypotheses[0].confidence for one in translations])
    warned = np.array([one.doubt is not None for one in translations])
    good = np.array(
        [CHRF().sentence_score(one.text, [pair.tgt]).score for one, pair in zip(translations, pairs, strict=True)]
    )
    good = good >= GOOD_CHRF
    order = chances.argsort().argsort()
    area = (order[good].sum() - good.sum() * (good.sum() - 1) / 2) / max(1, good.sum() * (~good).sum())
    edges = np.minimum(9, (10 * chances).astype(int))
    return {
        "good": int(good.sum()),
        "bad": int((~good).sum()),
        "mean_confidence": round(float(chances.mean()), 3),
        "area_under_roc": round(float(area), 4),
        "warned": {"bad ones": int(warned[~good].sum()), "good ones": int(warned[good].sum())},
        "tenths": [
            {
                "sentences": int((edges == tenth).sum()),
                "mean_confidence": round(float(chances[edges == tenth].mean()), 3),
                "share_good": round(float(good[edges == tenth].mean()), 3),
            }
            for tenth in range(10)
            if (edges == tenth).any()
        ],
    }


def doubts(translator: Translator, translations: Sequence[Translation], pairs: Sequence[Pair]) -> dict[str, Any]:
    """What the confidence is worth: on the test pairs, and on German, Spanish and nonsense instead of English."""
    strange = {"German": [pair.tgt for pair in pairs[:GERMAN]], "Spanish": SPANISH, "nonsense": NONSENSE}
    answers = {  # a line without a letter is copied, with no confidence
        name: [one for one in translator.translate(list(texts)) if one.source_tokens]
        for name, texts in strange.items()
    }
    found = worth(translations, pairs)
    found["warned"] |= {name: sum(one.doubt is not None for one in each) for name, each in answers.items()}
    return {
        **found,
        "doubtful": round(translator.confidence.doubtful, 3),
        "strange": {name: len(each) for name, each in answers.items()},
    }


def reasons(translator: Translator) -> dict[str, dict[str, int]]:
    """How many of the texts of each kind have each reason of a warning, or none."""
    found = {}
    for kind, texts in TEXTS.items():
        doubts = [one.doubt for one in translator.translate(texts)]
        found[kind] = dict(Counter("none" if one is None else one.reason for one in doubts))
    return found


def single_words(translator: Translator) -> dict[str, Any]:
    """How many of some single words, which were in training, get an answer that they had there, case aside."""
    answers: dict[str, set[str]] = {}
    for pair in read_pairs(WRITTEN):
        if pair.src.isalpha():
            answers.setdefault(pair.src.lower(), set()).add(pair.tgt.lower())
    asked = Random(1).sample(sorted(answers), WORDS)
    translations = translator.translate(asked)
    right = [one.text.lower() in answers[one.source] for one in translations]
    doubted = [one.doubt is not None for one in translations]
    warned = sum(doubt and not ok for doubt, ok in zip(doubted, right, strict=True))
    return {
        "asked": WORDS,
        "right": sum(right),
        "warned": {"wrong ones": warned, "right ones": sum(doubted) - warned},
    }


def rounding(outputs: Sequence[str], pairs: Sequence[Pair], float32: Path) -> dict[str, Any]:
    """The cost of int8 rows: the scores of the run's own weights, and how many outputs differ."""
    translator = Translator.load(float32, device="cpu", precision="float32")
    others = [one.text for one in translator.translate([pair.src for pair in pairs])]
    found = scores(others, pairs)["by_words"]["all"]
    differing = sum(output != other for output, other in zip(outputs, others, strict=True))
    return {"bleu": found["bleu"], "chrf": found["chrf"], "exact_match": found["exact_match"], "differing": differing}


def noisy(translator: Translator, pairs: Sequence[Pair]) -> dict[str, Any]:
    """BLEU and chrF of the pairs that a kind of noise changes, before and after the change.

    The texts are read as the packed model reads them, so that models differ in what they have learned alone. Of texts
    with typing mistakes also what the confidence is worth.
    """
    options = translator.config.with_changes({"match_style": True, "split_sentences": True})
    found = {}
    for kind, change in KINDS.items():
        copies = [(pair, change(pair, Random("\t".join(pair)))) for pair in pairs]
        copies = [(pair, copy) for pair, copy in copies if copy != pair]
        texts = {"clean": [pair for pair, _ in copies], "noisy": [copy for _, copy in copies]}
        translations = {
            name: translator.translate([one.src for one in some], options) for name, some in texts.items()
        }
        found[kind] = {"pairs": len(copies)} | {
            name: _bleu_and_chrf(translations[name], some) for name, some in texts.items()
        }
        if kind == "typos" and translator.confidence is not None:
            found[kind]["confidence"] = worth(translations["noisy"], texts["noisy"])
    return found


def _bleu_and_chrf(translations: Sequence[Translation], pairs: Sequence[Pair]) -> dict[str, float]:
    values = score([one.text for one in translations], [pair.tgt for pair in pairs]).values
    return {name: round(values[name], 2) for name in ("bleu", "chrf")}


def measure(run: Path, pairs: Sequence[Pair], float32: Path | None = None) -> dict[str, Any]:
    """One section: all figures of a model."""
    began = time.monotonic()
    translator = Translator.load(run, device="cpu", precision="float32")
    translations = translator.translate([pair.src for pair in pairs])
    seconds = time.monotonic() - began
    outputs = [one.text for one in translations]
    installed = Translator.load(run, device="cpu")
    answers = installed.translate(FIRST)
    section: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in translator.model.parameters()),
        "search": f"beam {translator.config.beam}, length penalty {translator.config.length_penalty}",
        **scores(outputs, pairs),
        "seconds": round(seconds, 1),
        "noisy": noisy(translator, pairs),
        "single_words": single_words(installed),
        "first_sentences": {one.source: one.text for one in answers},
    }
    if translator.confidence is not None:
        section["confidence"] = doubts(translator, translations, pairs)
        section["reasons"] = reasons(translator)
        section["doubted_first_sentences"] = [one.source for one in answers if one.doubt is not None]
    if float32 is not None:
        section["float32"] = rounding(outputs, pairs, float32)
    return {**section, "machine": {**machine(), **library_versions()}}


def sealed(run: Path) -> str:
    """The SHA-256 sum of the weights of a run's final model, or of what stands in for it."""
    checkpoint = newest_valid(RunDirectory(run).final, print) or RunDirectory(run).usable_checkpoint(print)
    return sha256(checkpoint / f"{WEIGHTS}.safetensors")


def update_results(name: str, run: Path, float32: Path | None = None) -> dict[str, Any]:
    """All results, with the section ``name`` measured anew if its weights, its confidence or the pairs are new."""
    test = PAIRS / "test.tsv"
    pairs, results = list(read_pairs(test)), read_results()
    estimate = RunDirectory(run).confidence_file
    measured = {
        "weights": sealed(run),
        "confidence_file": sha256(estimate) if estimate.is_file() else "",
        "test": hashlib.sha256(test.read_bytes()).hexdigest(),
    }
    known = results.get(name, {})
    if {key: known.get(key) for key in measured} != measured or (float32 is not None and "float32" not in known):
        same_model = all(known.get(key) == measured[key] for key in ("weights", "test"))
        before = {"float32": known["float32"]} if same_model and "float32" in known else {}
        results[name] = {**measured, **before, **measure(run, pairs, float32)}
        write_results(results)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the section: previous, trial or bundled")
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("--float32", type=Path, help="the run that it was rounded from")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = update_results(options.name, options.run, options.float32)
    print(
        json.dumps({key: value for key, value in results[options.name].items() if key != "first_sentences"}, indent=1)
    )


if __name__ == "__main__":
    main()
