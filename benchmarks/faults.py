"""What `trace --verify` and `diff` find of some hundred deliberate faults, each a change of one place in the source.

    python benchmarks/faults.py [--seconds 240] [--json FILE] [--again]

Each fault of faults.toml runs in a process of its own, on a copy of the package in which it stands: two small trained
models, walks of every kind with `--verify`, and `diff` of the plain pass with every other way. What is in the file
already is left out, so that the measurement may be made in pieces; ``--again`` begins anew. docs/generate.py
writes the table of docs/reliability.md from it.
"""

import importlib
import json
import os
import shutil
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from smoke import ROOT, new_parser, parse_options, write_json

SOURCES = ["A dog is running.", "Two men play football in the park.", "Where is the station?"]
TARGETS = ["Ein Hund rennt.", "Zwei Männer spielen im Park Fußball.", "Wo ist der Bahnhof?"]
SIZES = {"n_encoder_layers": 2, "n_decoder_layers": 2, "max_length": 100}
MODELS: dict[str, dict[str, Any]] = {
    "tied, as in the paper, norms first": {
        "d_model": 32, "n_heads": 4, "d_ff": 64, "norm": "pre", "dropout": 0.1, **SIZES,
    },
    "untied, biased, rotary, norms last": {
        "d_model": 24, "n_heads": 3, "d_k": 8, "d_v": 10, "d_ff": 40, "norm": "post", "positions": "rotary",
        "dropout": 0.0, "tie_embeddings": "none", "attention_bias": True, "output_bias": True, "activation": "gelu",
        **SIZES,
    },
    "relative, swish": {
        "d_model": 24, "n_heads": 3, "d_k": 8, "d_v": 10, "d_ff": 40, "positions": "relative", "activation": "swish",
        "dropout": 0.1, "tie_embeddings": "target", "relative_clip": 4, **SIZES,
    },
    "ALiBi": {"d_model": 24, "n_heads": 3, "d_ff": 40, "positions": "alibi", "dropout": 0.0, **SIZES},
    "learned positions": {"d_model": 24, "n_heads": 3, "d_ff": 40, "positions": "learned", "dropout": 0.0, **SIZES},
}  # fmt: skip
COMPARED = 2  # of the models: all else of `diff` would only take longer
PRELOADED = ("numpy", "safetensors.torch", "tokenizers", "rich.table", "typer", "jaxtyping")  # once for all faults
UPDATES = 40  # of each model, so that its outputs are of several lengths
WARMUP = 5  # of the update that follows a checkpoint


@dataclass(frozen=True)
class Fault:
    """One change: ``old`` stands exactly once in ``file``, a path below the package."""

    area: str
    name: str
    file: str
    old: str
    new: str
    reason: str = ""  # why neither command finds it


with Path(__file__).with_suffix(".toml").open("rb") as _stream:
    FAULTS = [Fault(**fault) for fault in tomllib.load(_stream)["fault"]]


def run_child(package: Path, work: Callable[[], Any]) -> Any:
    """What ``work`` returns, as JSON, in a process of its own that has the package of this directory."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            sys.path.insert(0, str(package))
            warnings.simplefilter("ignore")
            torch.set_num_threads(1)
            result = work()
        except BaseException:
            result = {"failed": traceback.format_exc()}
        with os.fdopen(write, "w") as stream:
            json.dump(result, stream)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"failed": "the process ended"}


def copy_package(fault: Fault | None, place: Path) -> None:
    """The package with the fault: links to all other files."""
    shutil.copytree(ROOT / "glassformer", place / "glassformer", copy_function=os.symlink,
                    ignore=shutil.ignore_patterns("__pycache__", "assets", "en-de"))  # fmt: skip
    if fault is not None:
        path = place / "glassformer" / fault.file
        text = path.read_text(encoding="utf-8")
        if text.count(fault.old) != 1:
            raise SystemExit(f"{fault.name}: {fault.old!r} stands {text.count(fault.old)} times in {fault.file}.")
        path.unlink()
        path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def load_translators(scratch: Path) -> list[Any]:
    """The models with the tokenizer of the bundled one, and their weights once they are there."""
    from glassformer.decoding import Translator
    from glassformer.model import Transformer
    from glassformer.settings import DecodeConfig, ModelConfig
    from glassformer.text import Tokenizer

    tokenizer = Tokenizer.load(ROOT / "glassformer" / "bundled" / "en-de" / "tokenizer.src.json")
    translators = []
    for number, options in enumerate(MODELS.values()):
        torch.manual_seed(number)
        model = Transformer(ModelConfig(src_vocab=tokenizer.size, tgt_vocab=tokenizer.size, **options)).eval()
        if (scratch / f"{number}.pt").exists():
            model.load_state_dict(torch.load(scratch / f"{number}.pt"))
        translators.append(Translator(model, tokenizer, tokenizer, DecodeConfig(max_length_a=1, max_length_b=4)))
    return translators


def prepare(scratch: Path) -> int:
    """Train the models a little, with a checkpoint of each, before anything is false."""
    from dataclasses import asdict

    from glassformer.checkpoint import save_checkpoint
    from glassformer.explain.recording.sentence_batch import read_sentences
    from glassformer.run_directory import RunDirectory
    from glassformer.settings import TrainConfig
    from glassformer.training.loop.checkpointing import TrainState
    from glassformer.training.loop.optimizer import OPTIMIZER, new_optimizer, optimizer_tensors
    from glassformer.training.loop.strategy import ParallelStrategy
    from glassformer.training.loop.update import update

    for number, translator in enumerate(load_translators(scratch)):
        model, train = translator.model.train(), TrainConfig(warmup=WARMUP, schedule="inverse_sqrt", peak_rate=3e-3)
        batch = read_sentences(translator, SOURCES, TARGETS).batch
        strategy, optimizer = ParallelStrategy(model, train), new_optimizer(model, train)
        for made in range(UPDATES):
            update(
                strategy, optimizer, [batch], tokens=batch.target_tokens, state=TrainState(update=made), config=train
            )
        torch.save(model.state_dict(), scratch / f"{number}.pt")
        made = TrainState(update=UPDATES, restarts=1, cooldown_from=UPDATES - 5, cooldown_to=UPDATES + 10)
        state = {"counters": asdict(made)}
        place = RunDirectory(scratch / f"run{number}").latest
        save_checkpoint(place, 1, {OPTIMIZER: optimizer_tensors(model, optimizer)}, state)
    return UPDATES


def walks(scratch: Path) -> Iterator[tuple[str, Any, Any]]:
    """A walk of each kind, one after the other, with what it is and its model."""
    from glassformer.decoding import Constraints
    from glassformer.explain.walks import walk, walk_generation, walk_training
    from glassformer.settings import DecodeConfig, TrainConfig

    (tied, other, *more), lengths = load_translators(scratch), {"max_length_a": 1.0, "max_length_b": 4}
    yield "a pass", walk(tied, SOURCES), tied.model
    yield "a pass of the other model", walk(other, SOURCES, TARGETS), other.model
    yield "an update", walk_training(tied, SOURCES, TARGETS, TrainConfig(clip_norm=0.1, warmup=4000)), tied.model
    resumed = TrainConfig(warmup=WARMUP, schedule="inverse_sqrt", peak_rate=3e-3, freeze="*.1.feed_forward")
    yield "an update of a run", walk_training(other, SOURCES, TARGETS, resumed, run=scratch / "run1"), other.model
    for what, translator, options in (
        ("a search", tied, DecodeConfig(beam=4, n_best=4, **lengths)),
        ("a search with rules", other, DecodeConfig(beam=3, n_best=2, cache=False, min_length=5, no_repeat_ngram=1,
                                                    repetition_penalty=1.4, coverage_penalty=0.3, **lengths)),
        ("a search by its heuristic", tied, DecodeConfig(beam=3, n_best=3, early_stopping="heuristic",
                                                         length_norm="power", length_penalty=0.8, **lengths)),
        ("sampling by other filters", other,
         DecodeConfig(sample=True, n_best=2, min_p=0.4, typical_p=0.9, **lengths)),
        ("sampling", tied, DecodeConfig(sample=True, n_best=2, top_k=50, top_p=0.95, temperature=0.8, **lengths)),
    ):  # fmt: skip
        yield what, walk_generation(translator, SOURCES, options), translator.model
    constraints = [
        Constraints(required=((900, 901),)),
        Constraints(banned=((5,), (6, 7))),
        Constraints(prefix=(700,)),
    ]
    yield "a search with demands", walk_generation(other, SOURCES, other.config, constraints=constraints), other.model
    for translator, name in zip(more, list(MODELS)[COMPARED:], strict=True):
        yield f"a pass of {name}", walk(translator, SOURCES, TARGETS), translator.model


def verify(scratch: Path) -> str:
    """The first line by which `--verify` shows that something is false; nothing if all follows."""
    from glassformer.explain.verify import prove

    for what, walked, model in walks(scratch):
        proof = prove(walked, model)
        if not proof.holds:
            lines = list(proof.lines())
            return f"{what}: {next((line for line in lines if line.startswith(('does not', 'They'))), lines[-1])}"
        if walked.kind == "generation" and not walked.decode.sample and "demands" not in what:  # as the command does
            found = [one.text for one in walked.translator.translate(SOURCES, walked.decode)]
            if found != list(walked.sentences.targets):
                return f"{what}: translate writes something else"
    return ""


def diff(scratch: Path) -> str:
    """The first line by which `diff` shows that two ways do not agree; nothing if all do."""
    from glassformer.explain.compare.passes import Mode
    from glassformer.explain.compare.runs import ModelPass, diff_sides
    from glassformer.explain.recording.sentence_batch import read_sentences
    from glassformer.settings import DecodeConfig, RunConfig

    decode = DecodeConfig(max_length_a=1, max_length_b=4)
    for translator in load_translators(scratch)[:COMPARED]:
        batch = read_sentences(translator, SOURCES, TARGETS).batch
        for way in Mode:
            if way in (Mode.PLAIN, Mode.COMPILED, Mode.BF16, Mode.INT8):
                continue  # compiling takes a minute; the others have their own tolerance
            sides = (ModelPass(translator.model), ModelPass(translator.model, way))
            found = diff_sides(*sides, batch.src_ids, batch.tgt_in_ids, config=RunConfig(decode=decode))
            if not found.agrees:
                return f"--b {way}: {found.first_lines()[0]}"
    return ""


def examine(scratch: Path) -> dict[str, Any]:
    """What both find; a command that stops with an error has found something, too."""
    found: dict[str, Any] = {}
    for name, check in (("verify", verify), ("diff", diff)):
        started = time.process_time()
        try:
            found[name] = check(scratch)
        except Exception as error:
            found[name] = f"stops: {type(error).__name__}: {error}"[:200]
        found[f"{name}_s"] = round(time.process_time() - started, 1)
    return found


def measure(faults: list[Fault], results: dict[str, Any], options: Any) -> None:
    """Examine each fault that has no result, until the time is over; first the package as it is."""
    stop = time.monotonic() + options.seconds
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        copy_package(None, scratch / "none")
        run_child(scratch / "none", lambda: prepare(scratch))
        if "none" not in results:
            results["none"] = run_child(scratch / "none", lambda: examine(scratch))
            print(f"no fault: {results['none']}", flush=True)
        for fault in faults:
            if fault.name in results:
                continue
            if time.monotonic() > stop:
                print("stopped: call it again for the others")
                return
            copy_package(fault, scratch / "faulty")
            results[fault.name] = {"area": fault.area, **run_child(scratch / "faulty", lambda: examine(scratch))}
            shutil.rmtree(scratch / "faulty")
            print(f"{fault.area}, {fault.name}: {results[fault.name]}", flush=True)
            write_json(options.json, results)


def read_results(path: Path | None) -> dict[str, Any]:
    """What was measured before, if anything was."""
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}
    return results


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=240.0, help="begin no fault after so long")
    parser.add_argument("--again", action="store_true", help="measure again what is in the file")
    parser.add_argument("--only", help="the name of one fault")
    options = parse_options(parser, "--only 'length penalty one short'", kept="faults.json")
    results = {} if options.again else read_results(options.json)
    if options.only:
        results.pop(options.only, None)
    measure([fault for fault in FAULTS if options.only in (None, fault.name)], results, options)
    write_json(options.json, results)


if __name__ == "__main__":
    main()
