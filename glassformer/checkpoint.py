"""Sealed directories: safetensors and JSON, written aside, synced, sealed by SHA-256 sums, then renamed.

A series is a directory of checkpoints named by their update; the newest valid one counts, and an older one goes
only after a newer one has been proven good. Nothing is ever unpickled. Knows nothing of training.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from glassformer.errors import CheckpointError, StorageError
from glassformer.files import refuse_endless
from glassformer.version import __version__

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT = 1
MANIFEST = "manifest.json"
STATE = "state.json"

Tensors = Mapping[str, "Tensor"]


def save_checkpoint(series: Path, update: int, tensors: Mapping[str, Tensors], state: Mapping[str, Any]) -> Path:
    """Write one checkpoint: a ``<name>.safetensors`` for each entry of ``tensors``, and ``state`` as JSON."""
    from safetensors.torch import save_file

    final = at_update(series, update)
    aside = series / f".{final.name}.{os.getpid()}.tmp"
    try:
        for leftover in series.glob(".update-*.tmp"):  # of a process that was killed while it saved
            shutil.rmtree(leftover)
        aside.mkdir(parents=True)
        for name, group in tensors.items():
            save_file({key: tensor.contiguous() for key, tensor in group.items()}, aside / f"{name}.safetensors")
        (aside / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
        _seal(aside)
        if final.exists():
            shutil.rmtree(final)
        aside.rename(final)
        _sync(series)
    except (OSError, SafetensorError, RuntimeError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise StorageError(
            f"{final}: the checkpoint cannot be written: {error}. Earlier checkpoints are unharmed. "
            "Free some space or correct the permissions, then run the same command again to go on."
        ) from error
    return final


def _seal(directory: Path) -> None:
    """Sync every file, then write the manifest that vouches for them."""
    files = {}
    for path in sorted(directory.iterdir()):
        _sync(path)
        files[path.name] = {"sha256": _sha256(path), "size": path.stat().st_size}
    manifest = {"format": FORMAT, "glassformer": __version__, "files": files}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    _sync(directory / MANIFEST)
    _sync(directory)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file, or a CheckpointError that names the file."""
    try:
        refuse_endless(path)
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: found {type(value).__name__}, expected a JSON object.")
    return value


def verify(checkpoint: Path) -> None:
    """Raise a CheckpointError that names the first file which is not what was sealed."""
    manifest = read_json(checkpoint / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{checkpoint}: format {manifest.get('format')!r}, this version reads {FORMAT}. "
            "Use the version of glassformer that wrote it."
        )
    try:
        sums = {name: (sealed["size"], sealed["sha256"]) for name, sealed in manifest["files"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{checkpoint / MANIFEST}: is damaged: {error!r} is missing or odd.") from error
    for name, (size, sha256) in sums.items():
        path = checkpoint / name
        try:
            refuse_endless(path)
            same = path.stat().st_size == size and _sha256(path) == sha256
        except (OSError, ValueError) as error:  # a name may hold what no name can
            reason = error.strerror if isinstance(error, OSError) else None
            raise CheckpointError(f"{str(path)!r}: is missing or damaged: {reason or error}.") from error
        if not same:
            raise CheckpointError(f"{path}: is damaged: it is not what its manifest sealed.")


def at_update(series: Path, update: int) -> Path:
    """Where the checkpoint of an update stands in a series, if there is one."""
    return series / f"update-{update:08d}"


def update_of(checkpoint: Path) -> int:
    """The update that a checkpoint of a series is named by."""
    return int(checkpoint.name.removeprefix("update-"))


def checkpoints(series: Path) -> list[Path]:
    """The checkpoints of a series, oldest first, valid or not."""
    return sorted(found for found in series.glob("update-*") if found.name.removeprefix("update-").isdecimal())


def whole(checkpoint: Path, warn: Callable[[str], None]) -> bool:
    """Whether a checkpoint verifies; if not, what is wrong goes to ``warn``."""
    try:
        verify(checkpoint)
    except CheckpointError as error:
        warn(f"{error} It is passed over.")
        return False
    return True


def newest_valid(series: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that verifies; damaged ones are named through ``warn`` and passed over."""
    return next((found for found in reversed(checkpoints(series)) if whole(found, warn)), None)


def prune(newest: Path, keep: int) -> None:
    """Delete all of its series but ``newest``, once proven good, and the ``keep`` - 1 before it.

    Later ones go, too: they were damaged, or are of a training that has since gone on from before them.
    """
    found = checkpoints(newest.parent)
    kept = [checkpoint for checkpoint in found if checkpoint <= newest][-keep:]
    if kept != found:
        verify(newest)
        for other in set(found) - set(kept):
            shutil.rmtree(other)


def read_tensors(checkpoint: Path, name: str) -> "dict[str, Tensor]":
    """The tensors of ``<name>.safetensors``, on the CPU."""
    from safetensors.torch import load_file

    path = checkpoint / f"{name}.safetensors"
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.") from error


def weights_of(model: "nn.Module") -> "dict[str, Tensor]":
    """Every parameter once, under its first name: a tied matrix is not written twice."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: "nn.Module", weights: Tensors, where: Path) -> None:
    """Copy weights into a model of the same configuration; names and shapes must agree exactly.

    Whatever precision they are stored in, such as float16, the model computes in the one that it has.
    """
    parameters = dict(model.named_parameters())
    if parameters.keys() != weights.keys():
        odd = sorted(parameters.keys() ^ weights.keys())
        raise CheckpointError(
            f"{where}: does not fit the configuration: {len(odd)} weights differ, first {odd[0]}. "
            "Load it with the config.json beside it."
        )
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise CheckpointError(
                f"{where}: {name} is {tuple(weights[name].shape)}, the configuration says {tuple(parameter.shape)}. "
                "Load it with the config.json beside it."
            )
        parameter.data.copy_(weights[name])
