"""A run for CTranslate2: on which device it computes, from which export, and whether it can."""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from glassformer.bundled import BUNDLED
from glassformer.decoding.engines.ctranslate2_engine import (
    COMPUTE_TYPES,
    CTranslate2Engine,
    check_precision,
    name_engine,
    other_engine,
)
from glassformer.decoding.engines.export_cache import cached_export
from glassformer.decoding.search.job import SearchJob
from glassformer.errors import ConfigError
from glassformer.files import remove
from glassformer.interop.ctranslate2 import check_supported
from glassformer.run_directory import RunDirectory, logger
from glassformer.settings import DecodeConfig, RunConfig
from glassformer.text.tokenizer.tokenizer import Tokenizers, check_tokenizers

_DEVICES_OF_GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


def load_engine(
    runs: Sequence[Path], device: str, precision: str | None, workers: int | None, *, shortlist: bool = False
) -> tuple[CTranslate2Engine, Tokenizers, RunConfig]:
    """The engine of one run, exported if need be, with the run's tokenizers and settings.

    With device auto it computes on a GPU if there is one on which it works. Raises ``ConfigError`` for several runs,
    an unknown device, and settings that CTranslate2 does not have.
    """
    if len(runs) != 1:
        raise ConfigError(
            f"engine: found {name_engine(precision)} with {len(runs)} runs, expected one: it has no ensembles. Use "
            f"{other_engine(precision)}."
        )
    run = RunDirectory(runs[0])
    load = partial(open_engine, run, precision=precision, workers=workers, shortlist=shortlist)
    if device != "auto":
        known = ["cpu"] if device == "cpu" else find_devices()
        if device in known:
            return load(device)
        raise ConfigError(
            f"device: found {device!r} with engine ctranslate2, expected one of auto, {', '.join(known)}, which it "
            "finds here. Choose one, or use engine torch."
        )
    if count_gpus():
        try:
            return load("cuda")
        except ConfigError as error:
            logger.warning("%s It computes on the CPU.", error)
    return load("cpu")


def open_engine(
    run: RunDirectory, device: str, precision: str | None, workers: int | None, *, shortlist: bool = False,
    wait: bool = True,
) -> tuple[CTranslate2Engine, Tokenizers, RunConfig]:  # fmt: skip
    """The engine of one run; without ``wait``, ``RunError`` where another process is exporting it."""
    kind = check_precision(precision, device)
    config, _ = run.read_config()
    check_supported(config.model)
    if shortlist:
        _check_shortlist(run)
    export = partial(cached_export, run, COMPUTE_TYPES[kind], logger.warning, wait=wait)
    directory = export()
    tokenizers = run.read_tokenizers()
    check_tokenizers(config.model, *tokenizers)
    load = partial(
        CTranslate2Engine,
        config=config.model, tokenizers=tokenizers, device=device, precision=precision, workers=workers,
        shortlist=shortlist,
    )  # fmt: skip
    try:
        engine = load(directory)
    except (RuntimeError, ValueError) as error:  # its own sums may be right all the same: others may have written it
        logger.warning("%s: cannot be loaded (%.100s); it is made anew.", directory, error)
        remove(directory)
        engine = load(export())
    if device != "cpu":
        _check_gpu(engine)
    return engine, tokenizers, config


def count_gpus() -> int:
    """The CUDA GPUs that CTranslate2 finds; it is only asked where there may be one."""
    if not may_have_gpu() or find_spec("ctranslate2") is None:
        return 0
    import ctranslate2

    return int(ctranslate2.get_cuda_device_count())


def may_have_gpu() -> bool:
    """Whether this machine has a driver for GPUs."""
    return which("nvidia-smi") is not None or any(Path(name).exists() for name in _DEVICES_OF_GPUS)


def find_devices() -> list[str]:
    """The devices on which CTranslate2 can compute here."""
    count = count_gpus()
    return ["cpu", *["cuda"][:count], *(f"cuda:{number}" for number in range(count))]


def _check_gpu(engine: CTranslate2Engine) -> None:
    """Raise ``ConfigError`` if it cannot compute there: the libraries of CUDA are loaded when they are first used."""
    source = [engine.config.src_vocab - 1, engine.config.eos_id]
    try:
        list(engine.search([SearchJob([source], [1], DecodeConfig(beam=1))]))
    except RuntimeError as error:
        raise ConfigError(
            f"device: CTranslate2 cannot compute on {engine.device} ({error!s:.200}). Mend its CUDA libraries, "
            "give device cpu, or use engine torch."
        ) from error


def _check_shortlist(run: RunDirectory) -> None:
    if run.shortlist_file.exists():
        return
    where = "" if run.path.resolve() != BUNDLED.resolve() else f" Copy {BUNDLED} to a place of yours first."
    raise ConfigError(
        f"shortlist: {run.path} has no {run.shortlist_file.name}, expected one. Make it: glassformer shortlist --run "
        f"{'DIR' if where else run.path}.{where}"
    )
