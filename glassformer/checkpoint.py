"""Checkpoints: directories of safetensors and JSON, with a manifest of SHA-256 sums.

A checkpoint is written to a temporary directory, synced and renamed. A series is a directory of checkpoints named by
their update: the newest valid one is used, and an older one is deleted only after a newer one has been verified.
Nothing is ever unpickled.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from glassformer.errors import CheckpointError, StorageError
from glassformer.files import require_regular_file, sha256, sync
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

    final = checkpoint_path(series, update)
    temporary = series / f".{final.name}.{os.getpid()}.tmp"
    try:
        for leftover in series.glob(".update-*.tmp"):  # from a process that was killed while saving
            shutil.rmtree(leftover)
        temporary.mkdir(parents=True)
        for name, group in tensors.items():
            save_file({key: tensor.contiguous() for key, tensor in group.items()}, temporary / f"{name}.safetensors")
        (temporary / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
        _write_manifest(temporary)
        if final.exists():
            shutil.rmtree(final)
        temporary.rename(final)
        sync(series)
    except (OSError, SafetensorError, RuntimeError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise StorageError(
            f"{final}: the checkpoint cannot be written: {error}. Earlier checkpoints are intact. "
            "Free some space or correct the permissions, then run the same command again to continue."
        ) from error
    return final


def _write_manifest(directory: Path) -> None:
    """Sync every file, then write the manifest of their sums."""
    files = {}
    for path in sorted(directory.iterdir()):
        sync(path)
        files[path.name] = {"sha256": sha256(path), "size": path.stat().st_size}
    manifest = {"format": FORMAT, "glassformer": __version__, "files": files}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    sync(directory / MANIFEST)
    sync(directory)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; ``CheckpointError`` that names the file if there is none."""
    try:
        require_regular_file(path)
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: found {type(value).__name__}, expected a JSON object.")
    return value


def verify_checkpoint(checkpoint: Path) -> None:
    """Raise a ``CheckpointError`` that names the first file that does not match the manifest."""
    manifest = read_json(checkpoint / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{checkpoint}: found format {manifest.get('format')!r}, but this version reads {FORMAT}. "
            "Use the version of glassformer that wrote it."
        )
    try:
        sums = {name: (entry["size"], entry["sha256"]) for name, entry in manifest["files"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{checkpoint / MANIFEST}: is damaged: {error!r} is missing or invalid.") from error
    for name, (size, expected) in sums.items():
        path = checkpoint / name
        try:
            require_regular_file(path)
            same = path.stat().st_size == size and sha256(path) == expected
        except (OSError, ValueError) as error:  # ValueError: the name in the manifest is not a possible file name
            reason = error.strerror if isinstance(error, OSError) else None
            raise CheckpointError(f"{str(path)!r}: is missing or damaged: {reason or error}.") from error
        if not same:
            raise CheckpointError(f"{path}: is damaged: it does not match its manifest.")


def checkpoint_path(series: Path, update: int) -> Path:
    """The path of an update's checkpoint in a series, whether it exists or not."""
    return series / f"update-{update:08d}"


def update_number(checkpoint: Path) -> int:
    """The update in the name of a checkpoint of a series."""
    return int(checkpoint.name.removeprefix("update-"))


def checkpoints(series: Path) -> list[Path]:
    """The checkpoints of a series, oldest first, valid or not."""
    return sorted(found for found in series.glob("update-*") if found.name.removeprefix("update-").isdecimal())


def is_valid(checkpoint: Path, warn: Callable[[str], None]) -> bool:
    """Whether a checkpoint can be verified; if not, ``warn`` is called with the reason."""
    try:
        verify_checkpoint(checkpoint)
    except CheckpointError as error:
        warn(f"{error} It is skipped.")
        return False
    return True


def newest_valid(series: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest valid checkpoint of a series; ``warn`` is called for each damaged one that is skipped."""
    return next((found for found in reversed(checkpoints(series)) if is_valid(found, warn)), None)


def prune(newest: Path, keep: int) -> None:
    """Verify ``newest``, then delete all of its series except it and the ``keep`` - 1 before it.

    Later ones are deleted too: they are damaged, or the training has since resumed from an earlier one.
    """
    found = checkpoints(newest.parent)
    to_keep = [checkpoint for checkpoint in found if checkpoint <= newest][-keep:]
    if to_keep != found:
        verify_checkpoint(newest)
        for other in set(found) - set(to_keep):
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
    """Every parameter once, under its first name: a tied matrix is not repeated."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: "nn.Module", weights: Tensors, where: Path) -> None:
    """Copy weights into a model of the same configuration; names and shapes must match exactly.


    The model keeps its own precision, whatever precision the weights are stored in, such as float16.
    """
    parameters = dict(model.named_parameters())
    if parameters.keys() != weights.keys():
        odd = sorted(parameters.keys() ^ weights.keys())
        raise CheckpointError(
            f"{where}: does not fit the configuration: {len(odd)} weights differ, the first is {odd[0]}. "
            "Load it with its own config.json."
        )
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise CheckpointError(
                f"{where}: {name} is {tuple(weights[name].shape)}, the configuration says {tuple(parameter.shape)}. "
                "Load it with its own config.json."
            )
        parameter.data.copy_(weights[name])
