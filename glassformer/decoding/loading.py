"""Run directories to models, and the engine that runs them with PyTorch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.bundled import find_run
from glassformer.decoding.engines.ctranslate2_engine import ONLY_HERE
from glassformer.decoding.engines.engine import check_workers
from glassformer.errors import ConfigError, RunError, TokenizerError, check_type
from glassformer.run_directory import LoadedRun, RunDirectory, find_members

if TYPE_CHECKING:
    from glassformer.decoding.engines.torch_engine import TorchEngine
    from glassformer.model import Transformer

ENGINES = ("auto", "torch", "ctranslate2")


def check_loading(engine: object, precision: object, workers: int | None, shortlist: object) -> None:
    """Raise ``ConfigError`` for an unknown engine, and for what PyTorch lacks."""
    if workers is not None:
        check_workers(workers)
    check_type("precision", precision, str | None, "the name of a precision, a str")
    check_type("shortlist", shortlist, bool, "True or False")
    if not isinstance(engine, str) or engine not in ENGINES:
        raise ConfigError(f"engine: found {engine!r}, expected one of {', '.join(ENGINES)}. Choose one.")
    if precision in ONLY_HERE and engine == "torch":
        raise ConfigError(
            f"precision: found {precision} with engine torch, which does not have it, expected float32 or bf16. "
            "Leave the engine out, or use engine ctranslate2."
        )
    if shortlist and engine == "torch":
        raise ConfigError(
            "shortlist: found with engine torch, which has none, expected engine ctranslate2. Leave it out, or "
            "use engine ctranslate2."
        )


def choose_engine(engine: str, precision: str | None, *, shortlist: bool = False) -> str:
    """The engine: CTranslate2 alone has shortlists and some precisions."""
    return "ctranslate2" if engine == "auto" and (shortlist or precision in ONLY_HERE) else engine


def find_runs(directories: str | Path | Sequence[str | Path]) -> list[Path]:
    """The directories as a list; ``RunError`` for none or for no path."""
    if isinstance(directories, str | Path):
        return find_members(find_run(directories))
    check_type("run", directories, Sequence, "the path of a run directory, or a list of such paths", RunError)
    if not directories:
        raise RunError("run: found none, expected at least one run directory. Name one.")
    for number, directory in enumerate(directories):
        check_type(f"run[{number}]", directory, str | Path, "the path of a run directory", RunError)
    return [member for directory in directories for member in find_members(find_run(directory))]


def load_ensemble(places: Sequence[Path], device: str) -> list[LoadedRun]:
    """Each run on ``device``; ``TokenizerError`` if tokenizers differ."""
    runs = [RunDirectory(place).load(device) for place in places]
    for place, run in zip(places, runs, strict=True):
        for side in ("src", "tgt"):
            one, other = (getattr(each, f"{side}_tokenizer") for each in (runs[0], run))
            if one.digest != other.digest:
                raise TokenizerError(
                    f"{place}/tokenizer.{side}.json: is not the tokenizer of {places[0]}, expected the same: in an "
                    "ensemble an id must have one meaning. Train the runs on one text with one vocabulary."
                )
    return runs


def open_torch(run: RunDirectory, device: str, workers: int | None, checkpoint: Path) -> "TorchEngine":
    """One run's engine, on a CPU with threads that suit its model."""
    from glassformer.threads import fit_threads

    model = run.load(device, checkpoint=checkpoint).model
    fit_threads(model)
    return make_torch_engine([model], None, workers)


def make_torch_engine(models: "Sequence[Transformer]", precision: str | None, workers: int | None) -> "TorchEngine":
    """The models' engine, here or in ``workers`` processes."""
    from glassformer.decoding.engines.torch_engine import TorchEngine
    from glassformer.decoding.engines.worker_pool import WorkerPool
    from glassformer.model.inference import read_precision

    workers = 1 if workers is None else check_workers(workers)
    if workers == 1:
        return TorchEngine(models, read_precision(precision))
    return WorkerPool(models, read_precision(precision), workers)
