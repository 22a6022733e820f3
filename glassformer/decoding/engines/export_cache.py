"""The CTranslate2 directory of a run, in the run or in the user's cache, written once and verified at each start.

Its manifest says which weights, settings and tokenizers it has. PyTorch is imported only to write one.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.bundled import BUNDLED
from glassformer.checkpoint import MANIFEST, STATE, read_json, tensors_sha256
from glassformer.errors import CheckpointError, RunError, StorageError
from glassformer.files import (
    json_sha256,
    lock_file,
    make_directory,
    open_to_append,
    refuse_link,
    remove,
    remove_unfinished,
    sha256,
)
from glassformer.interop.ctranslate2 import export_ctranslate2
from glassformer.run_directory import WEIGHTS, RunDirectory

CACHE = "ctranslate2"
_FORMAT = 1  # of what is written; another number makes all be written anew
_SECONDS_BETWEEN_TRIES = 0.1
_MAX_WAIT = 600.0  # seconds for another process to write an export


def cached_export(run: RunDirectory, quantization: str, warn: Callable[[str], None], *, wait: bool = True) -> Path:
    """The directory with the weights that ``run.load`` takes; written, if there is none.

    Raises ``StorageError`` if it can be written nowhere, ``RunError`` if another process writes: without ``wait`` at
    once, else after some time.
    """
    checkpoint, origin = _origin(run, quantization, warn)
    return _find(run, origin) or _write(run, checkpoint, origin, warn, max_wait=_MAX_WAIT if wait else 0.0)


def find_export(run: RunDirectory, quantization: str, warn: Callable[[str], None]) -> Path | None:
    """The same directory, if it was written before."""
    return _find(run, _origin(run, quantization, warn)[1])


def _find(run: RunDirectory, origin: dict[str, Any]) -> Path | None:
    return next((place for place in _places(run, origin) if _is_whole(place, origin)), None)


def _origin(run: RunDirectory, quantization: str, warn: Callable[[str], None]) -> tuple[Path, dict[str, Any]]:
    """The checkpoint that ``run.load`` takes, and all that an export depends on."""
    config, _ = run.read_config()
    checkpoint = run.usable_checkpoint(warn)
    run.check_state(config, checkpoint, read_json(checkpoint / STATE))
    origin = {
        "format": _FORMAT, "quantization": quantization, "model": config.model.to_mapping(),
        "weights": tensors_sha256(checkpoint, WEIGHTS),
        "tokenizers": [sha256(run.path / f"tokenizer.{side}.json") for side in ("src", "tgt")],
    }  # fmt: skip
    if run.shortlist_file.exists():
        origin["shortlist"] = sha256(run.shortlist_file)
    return checkpoint, origin


def _places(run: RunDirectory, origin: dict[str, Any]) -> list[Path]:
    """In the run, and the user's cache; of the bundled model, which belongs to the package, only the latter."""
    own = None if run.path.resolve() == BUNDLED.resolve() else run.path / CACHE
    name = f"{origin['quantization']}-{json_sha256(origin)[:16]}"
    return [place / name for place in (own, user_cache()) if place is not None]


def user_cache() -> Path | None:
    """Where this system keeps what a program can make again; None for a user without a home directory."""
    try:
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # no HOME, and no entry for the user
        return None
    return Path(base) / "glassformer" / CACHE


def _is_whole(directory: Path, origin: dict[str, Any]) -> bool:
    """Whether it is of these weights, and each file is as it was written."""
    try:
        manifest = read_json(directory / MANIFEST)
        sums: dict[str, str] = manifest["files"]
        return manifest["of"] == origin and all(sha256(directory / name) == sums[name] for name in sums)
    except (CheckpointError, KeyError, TypeError, AttributeError, OSError, ValueError):
        return False


def _write(
    run: RunDirectory, checkpoint: Path, origin: dict[str, Any], warn: Callable[[str], None], *, max_wait: float
) -> Path:
    """The first directory that can be written; those of other weights of the run are deleted."""
    from glassformer.interop.shortlist import read_shortlist

    failed = StorageError("This system names no home directory. Set XDG_CACHE_HOME to a directory for what is made.")
    for directory in _places(run, origin):
        try:
            refuse_link(directory.parent)
            make_directory(directory.parent)
            with _lock(directory.parent, warn, max_wait):
                if _is_whole(directory, origin):  # another process was faster
                    return directory
                remove(directory)  # damaged, if it exists
                remove_unfinished(directory.parent)
                loaded = run.load("cpu", checkpoint=checkpoint)
                export_ctranslate2(loaded, directory, origin["quantization"], origin, read_shortlist(loaded))
                if directory.parent.parent == run.path:
                    for outdated in {*directory.parent.glob(f"{origin['quantization']}-*")} - {directory}:
                        remove(outdated)
                return directory
        except (StorageError, OSError) as error:
            reason = error if isinstance(error, StorageError) else error.strerror or error
            failed = StorageError(
                f"{directory}: the export for CTranslate2 cannot be kept there ({reason}). Set XDG_CACHE_HOME to a "
                "directory that can be written, or use engine torch."
            )
    raise failed


@contextmanager
def _lock(directory: Path, warn: Callable[[str], None], max_wait: float) -> Iterator[None]:
    """Only one process writes to a directory; others wait ``max_wait`` seconds, then ``RunError``."""
    path = directory / ".lock"
    with open_to_append(path) as file:
        tries, has_lock = 0, False
        while not has_lock:
            with suppress(BlockingIOError, PermissionError):
                lock_file(file)
                has_lock = True
                continue
            if tries * _SECONDS_BETWEEN_TRIES >= max_wait:
                raise RunError(
                    f"{path}: another process has held this lock for {max_wait:.0f} seconds, expected the end of an "
                    "export. End that process, or use engine torch."
                )
            if not tries:
                warn(f"{path}: another process exports the model; waiting for it.")
            tries += 1
            time.sleep(_SECONDS_BETWEEN_TRIES)
        yield
