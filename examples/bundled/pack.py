"""Pack a finished run into the package: float16 weights, tokenizers, settings, and a model card with new scores.

    python examples/bundled/pack.py runs/bundled runs/bundled-teachers

The run's final model is rounded to float16 and written to ``glassformer/bundled/en-de`` as a run directory, so that
it is loaded like any run. Then these files are loaded and scored, and the card is written with the results. The pairs
are read from the directory that the run names; ``--pairs`` names another.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from card import CardFacts, card
from measure import measure, rounding
from sentences import FIRST, RIGHT, find_training_sources

from glassformer import Translator
from glassformer.bundled import BUNDLED
from glassformer.checkpoint import newest_valid, read_json, read_tensors, save_checkpoint
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.text.corpus import Pair, read_pairs

MAX_BYTES = 6_000_000
DATA = "Short English-German sentences of Tatoeba (CC BY 2.0 FR) and the task phrasebook-de; see README.md"
FILES = ("train.tsv", "learned.jsonl", "valid.tsv", "test.tsv", "phrasebook-test.tsv", "joined-test.jsonl")
TESTS = ("test", "joined-test", "phrasebook-test")


def pack(run: Path, into: Path) -> None:
    """Write the run's final model, in float16, as a run directory; replaces an older one in its place."""
    if into.resolve() == run.resolve() or (into.exists() and any(into.iterdir()) and not RunDirectory(into).exists):
        sys.exit(
            f"{into}: is the run itself or not a run directory, expected another one, empty or with an older model."
        )
    source, target = RunDirectory(run), RunDirectory(into)
    final = final_checkpoint(source)
    halves = {name: weight.to(torch.float16) for name, weight in read_tensors(final, WEIGHTS).items()}
    infinite = [name for name, weight in halves.items() if not weight.isfinite().all()]
    if infinite:
        sys.exit(f"{final}: {infinite[0]} has a value that float16 cannot represent, expected all below 65,520.")
    config, data = source.read_config()
    tokenizers, state = source.read_tokenizers(), read_json(final / "state.json")
    if into.exists():
        shutil.rmtree(into)
    target.create()
    target.write_config(config, {"description": DATA, "fingerprint": data["fingerprint"]})
    target.write_tokenizers(*tokenizers)
    saved = save_checkpoint(target.final, int(state["counters"]["update"]), {WEIGHTS: halves}, state)
    # safetensors makes the file readable by its owner only; installed files must be readable by all.
    (saved / f"{WEIGHTS}.safetensors").chmod(0o644)


def final_checkpoint(run: RunDirectory) -> Path:
    """The checkpoint of the run's final model, which is written when the training ends."""
    found = newest_valid(run.final, lambda message: print(message, file=sys.stderr))
    if found is None:
        sys.exit(f"{run.path}: has no final model, expected one. Let the training finish.")
    return found


def training_state(run: Path) -> dict[str, Any]:
    """The training state in the checkpoint of a run's final model."""
    return read_json(final_checkpoint(RunDirectory(run)) / "state.json")


def file_sizes(directory: Path) -> dict[str, int]:
    """The bytes of each file, by its path in the directory; exits if they are more than ``MAX_BYTES`` in all."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    sizes = {path.relative_to(directory).as_posix(): path.stat().st_size for path in files}
    if sum(sizes.values()) > MAX_BYTES:
        sys.exit(f"{directory}: found {sum(sizes.values()):,} bytes, expected at most {MAX_BYTES:,}.")
    return sizes


def read_all(directory: Path) -> dict[str, list[Pair]]:
    """The pairs that ``pairs.py`` and ``more.py`` wrote; exits if a test source is among the training sources."""
    pairs = {Path(name).stem: list(read_pairs(directory / name)) for name in FILES}
    tests = (pair.src for name in ("test", "joined-test") for pair in pairs[name])
    sentences = [*(source for source in RIGHT if source != FIRST), *tests]
    seen = {pair.src for pair in pairs["learned"]} & {pair.src for pair in pairs["phrasebook-test"]}
    if known := [*find_training_sources(sentences, pairs["learned"]), *seen]:
        sys.exit(
            f"{directory}: {len(known)} test sources are among the training sources, expected none: {known[:3]}."
        )
    return pairs


def collect_facts(run: Path, teachers: Path, into: Path, pairs: dict[str, list[Pair]]) -> CardFacts:
    """The contents of the card: from the files in ``into``, the run's log, the teachers' states, and measurements."""
    shipped, float32 = Translator.load(into, device="cpu"), Translator.load(run, device="cpu")
    tests = {name: pairs[name] for name in TESTS}
    return CardFacts(
        run=RunDirectory(into).load("cpu"),
        sizes=file_sizes(into),
        state=training_state(into),
        teachers=[training_state(teachers / direction) for direction in ("forward", "backward")],
        log=RunDirectory(run).log_file.read_text(encoding="utf-8").splitlines(),
        pairs=pairs,
        measured=measure(shipped, float32, tests),
        rounding=rounding(shipped, float32, tests["test"]),
        outputs={source: shipped.translate([source])[0].text for source in RIGHT},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run directory of a training that has ended")
    parser.add_argument("teachers", type=Path, help="the directory that glassformer diversify wrote")
    parser.add_argument("--pairs", type=Path, help="the directory that pairs.py and more.py wrote")
    parser.add_argument("--into", type=Path, default=BUNDLED, help="where to write")
    options = parser.parse_args()
    _, data = RunDirectory(options.run).read_config()
    pairs = read_all(options.pairs or Path(data["files"][0]).parent)
    pack(options.run, options.into)
    text = card(collect_facts(options.run, options.teachers, options.into, pairs))
    (options.into / "README.md").write_text(text, encoding="utf-8", newline="\n")
    print(text)
    print(f"{options.into}: {sum(file_sizes(options.into).values()):,} bytes")


if __name__ == "__main__":
    main()
