"""Pack a finished run into the package: int8 rows, tokenizers, settings, confidence, and a card with its scores.

    python examples/bundled/pack.py build/face/wide

The run's final model is written to ``glassformer/bundled/en-de`` as a run directory, with its matrices as int8 rows,
so that it is loaded like any run. Then the confidence of its translations is fitted on the validation pairs, the
files are measured (``measure.py``), and the card is written (``card.py``). What was done already is not done again,
so that the same command continues after an interruption. Without a run it does so with the model that is packed,
whose confidence is fitted anew if its file was deleted. The pairs are those that ``pairs.py`` wrote to build/face.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from augment import letters
from card import write_card
from int8_rows import quantize_rows
from measure import FIRST, PAIRS, read_results, update_results, write_results
from pairs import find_names, form_of

from glassformer import Translator
from glassformer.bundled import BUNDLED
from glassformer.checkpoint import newest_valid, read_json, read_tensors, save_checkpoint
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.settings import RunConfig
from glassformer.settings.section import apply_overrides
from glassformer.text.corpus.corpus import Pair, read_pairs
from glassformer.text.corpus.prepare import prepare
from glassformer.training.evaluation.calibration import fit_confidence, keep_confidence

MAX_BYTES = 11_000_000
DATA = "English-German sentences of Tatoeba (CC BY 2.0 FR), phrasebook-de and written pairs; see README.md"
FILES = ("train", "wide", "valid", "test")
# What the packed model is used with, beside what its training has set.
SETTINGS = ("text.languages=en-de", "decode.match_style=true", "decode.split_sentences=true")


def pack(run: Path, into: Path, settings: Sequence[str] = SETTINGS) -> None:
    """Write the run's final model, with int8 rows, as a run directory; replaces an older one in its place."""
    if into.resolve() == run.resolve() or (into.exists() and any(into.iterdir()) and not RunDirectory(into).exists):
        sys.exit(
            f"{into}: is the run itself or not a run directory, expected another one, empty or with an older model."
        )
    source, target = RunDirectory(run), RunDirectory(into)
    final = final_checkpoint(source)
    try:
        rounded = quantize_rows(read_tensors(final, WEIGHTS))
    except ValueError as error:
        sys.exit(f"{final}: {error}")
    tokenizers, state = source.read_tokenizers(), read_json(final / "state.json")
    if into.exists():
        shutil.rmtree(into)
    target.create()
    write_settings(source, target, settings)
    target.write_tokenizers(*tokenizers)
    save_checkpoint(target.final, int(state["counters"]["update"]), {WEIGHTS: rounded}, state)


def write_settings(source: RunDirectory, target: RunDirectory, settings: Sequence[str]) -> None:
    """Write the settings of the training with those that are given as ``section.key=value``."""
    config, data = source.read_config()
    values = config.to_mapping()
    apply_overrides(values, settings)
    description = {"description": DATA, "fingerprint": data["fingerprint"]}
    target.write_config(RunConfig.from_mapping(values), description)


def is_packed(run: Path, into: Path) -> bool:
    """Whether ``into`` holds the run's final model already."""
    if not RunDirectory(into).exists:
        return False
    there = newest_valid(RunDirectory(into).final, lambda _: None)
    if there is None or read_json(there / "manifest.json")["format"] != 2:
        return False
    expected = quantize_rows(read_tensors(final_checkpoint(RunDirectory(run)), WEIGHTS))
    found = quantize_rows(read_tensors(there, WEIGHTS))
    return expected.keys() == found.keys() and all(
        torch.equal(expected[name], found[name]) for name in expected if not name.startswith("scale/")
    )


def calibrate(into: Path) -> None:
    """Fit the confidence of the packed model on the validation pairs."""
    target, directory = RunDirectory(into), PAIRS / "confidence"
    (config, data), tokenizers = target.read_config(), target.read_tokenizers()
    train, valid = (partial(read_pairs, PAIRS / f"{name}.tsv") for name in ("wide", "valid"))
    text = prepare(
        train, valid, config.text, directory, source=data["fingerprint"], report=print, tokenizers=lambda: tokenizers
    )
    translator = Translator.load(into, device="cpu", precision="float32")
    keep_confidence(target, fit_confidence(translator, text, config.train.metric), print)


def final_checkpoint(run: RunDirectory) -> Path:
    """The checkpoint of the run's final model, which is written when the training ends."""
    found = newest_valid(run.final, lambda message: print(message, file=sys.stderr))
    if found is None:
        sys.exit(f"{run.path}: has no final model, expected one. Let the training finish.")
    return found


def check_size(directory: Path) -> None:
    """Exit if the files are more than ``MAX_BYTES`` in all."""
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    if size > MAX_BYTES:
        sys.exit(f"{directory}: found {size:,} bytes, expected at most {MAX_BYTES:,}.")


def read_all(directory: Path) -> dict[str, list[Pair]]:
    """The pairs that ``pairs.py`` wrote; exits if a test sentence is among the training sentences."""
    pairs = {name: list(read_pairs(directory / f"{name}.tsv")) for name in FILES}
    names = find_names(pair.src for pair in pairs["train"])
    for side in ("src", "tgt"):
        learned = {form_of(getattr(pair, side), names) for pair in pairs["wide"]}
        tests = [getattr(pair, side) for pair in pairs["test"]]
        if known := [text for text in tests if form_of(text, names) in learned]:
            sys.exit(
                f"{directory}: {len(known)} test sentences are among the training sentences, expected none: "
                f"{known[:3]}."
            )
    return pairs


def text_facts(pairs: dict[str, list[Pair]]) -> dict[str, Any]:
    """What the card says of the pairs."""
    known = {letters(pair) for pair in pairs["wide"]}
    words = sorted(len(pair.src.split()) for pair in pairs["train"])
    return {
        "pairs": {name: len(found) for name, found in pairs.items()},
        "words": {"median": words[len(words) // 2], "most": words[-1]},
        "known_first_sentences": [one for one in FIRST if letters(Pair(one, "")) in known],
    }


def training_facts(run: Path) -> dict[str, Any]:
    """What the card says of a training, from the run's log, its settings and its counters."""
    place = RunDirectory(run)
    state, (config, _) = read_json(final_checkpoint(place) / "state.json"), place.read_config()
    log = place.log_file.read_text(encoding="utf-8").splitlines()
    kept = [line.split("  ", 2)[2].strip() for line in log if line.endswith("<- kept")]
    if averaged := state.get("averaged"):
        kept = ["the last checkpoint" if averaged == 1 else f"the average of the last {averaged} checkpoints"]
    return {
        "updates": state["counters"]["update"],
        "target_tokens": state["counters"]["target_tokens"],
        "elapsed_s": state["counters"]["elapsed_s"],
        "precision": config.train.precision,
        "threads": state["threads"],
        "torch": state["torch"],
        "kept": " ".join(kept[-1].removesuffix("<- kept").split()) if kept else "",
    }


def with_training(trainings: dict[str, Any], run: Path) -> dict[str, Any]:
    """The trainings before this run's, which it continues, and this one."""
    before = dict(takewhile(lambda item: item[0] != run.name, trainings.items()))
    return {**before, run.name: training_facts(run)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", help="the run directory of a training that has ended")
    parser.add_argument("--into", type=Path, default=BUNDLED, help="where to write")
    parser.add_argument(
        "--set", action="append", metavar="SECTION.KEY=VALUE", help=f"instead of {' '.join(SETTINGS)}"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs = read_all(PAIRS)
    settings = SETTINGS if options.set is None else options.set
    if options.run is not None:
        if not is_packed(options.run, options.into):
            pack(options.run, options.into, settings)
        write_settings(RunDirectory(options.run), RunDirectory(options.into), settings)
    check_size(options.into)
    if not RunDirectory(options.into).confidence_file.exists():
        calibrate(options.into)
    results = read_results()
    if options.run is not None:
        results["trainings"] = with_training(results.get("trainings", {}), options.run)
    write_results({**results, "text": text_facts(pairs)})
    update_results("bundled", options.into, options.run)
    print(write_card(options.into))
    check_size(options.into)


if __name__ == "__main__":
    main()
