"""Checkpoints: directories of safetensors and JSON, with a manifest of SHA-256 sums. Nothing is ever unpickled.

A series is a directory of checkpoints named by their update. A matrix may be stored as int8 rows, each with a float32
scale: format 2.
"""

import json
import secrets
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import SafetensorError

from glassformer.errors import CheckpointError, StorageError
from glassformer.files import (
    FREE_SPACE,
    check_safetensors,
    make_directory,
    read_json_file,
    refuse_link,
    remove,
    sha256,
    sync,
    write_durably,
)
from glassformer.version import __version__

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT, INT8_FORMAT = 1, 2
MANIFEST = "manifest.json"
STATE = "state.json"
_TENSORS = ".safetensors"
SCALE = "scale/"  # before the name of an int8 matrix: its scales
_NAME = "update-"
_UNFINISHED, _OUTDATED = ".tmp", ".old"  # endings of hidden names
_TRIES = 20  # to read a checkpoint of a run that trains

Tensors = Mapping[str, "Tensor"]
Shape = tuple[int, ...]
Result = TypeVar("Result")


def save_checkpoint(series: Path, update: int, tensors: Mapping[str, Tensors], state: Mapping[str, Any]) -> Path:
    """Write ``<name>.safetensors`` for each of ``tensors``, and ``state`` as JSON."""
    from safetensors.torch import save_file

    final = checkpoint_path(series, update)
    temporary = _hidden_name(final, _UNFINISHED)
    try:
        refuse_link(series)
        make_directory(series)
        recover_interrupted(series)
        temporary.mkdir()
        (temporary / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
        for name, group in tensors.items():
            path = temporary / f"{name}.safetensors"
            save_file({key: tensor.contiguous() for key, tensor in group.items()}, path)
            path.chmod((temporary / STATE).stat().st_mode)  # the library lets nobody else read it
        has_scales = any(key.startswith(SCALE) for group in tensors.values() for key in group)
        _write_manifest(temporary, INT8_FORMAT if has_scales else FORMAT)
        _replace(final, temporary)
    except (OSError, SafetensorError, RuntimeError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise StorageError(
            f"{final}: the checkpoint cannot be written: {error}. Earlier checkpoints are intact. {FREE_SPACE}"
        ) from error
    return final


def _hidden_name(checkpoint: Path, ending: str) -> Path:
    return checkpoint.with_name(f".{checkpoint.name}.{secrets.token_hex(8)}{ending}")


def _replace(final: Path, temporary: Path) -> None:
    """Rename a complete checkpoint; after a kill between renames it is adopted."""
    replaced, exists = _hidden_name(final, _OUTDATED), final.exists() or final.is_symlink()
    if exists:
        final.rename(replaced)
    try:
        temporary.rename(final)
    except OSError:
        if exists:
            replaced.rename(final)
        raise
    sync(final.parent)
    remove(replaced)


def recover_interrupted(series: Path) -> None:
    """After a kill: name what is complete, delete the rest."""
    for leftover in sorted(series.glob(f".{_NAME}*{_UNFINISHED}")):
        target = checkpoint_path(series, update_number(leftover))
        if not target.exists() and is_valid(leftover, lambda _: None):
            leftover.rename(target)
            sync(series)
        else:
            remove(leftover)
    for leftover in series.glob(f".{_NAME}*{_OUTDATED}"):
        remove(leftover)


def _write_manifest(directory: Path, form: int) -> None:
    files = {}
    for path in sorted(directory.iterdir()):
        sync(path)
        files[path.name] = {"sha256": sha256(path), "size": path.stat().st_size}
    manifest = {"format": form, "glassformer": __version__, "files": files}
    with write_durably(directory / MANIFEST) as stream:
        json.dump(manifest, stream, indent=1)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ``CheckpointError``."""
    try:
        value = read_json_file(path)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: found {type(value).__name__}, expected a JSON object.")
    return value


def verify_checkpoint(checkpoint: Path) -> None:
    """Raise ``CheckpointError`` for a file that does not match the manifest."""
    for name, (size, expected) in _read_sums(checkpoint).items():
        _verify_file(checkpoint / name, size, expected)


def tensors_sha256(checkpoint: Path, name: str) -> str:
    """The SHA-256 sum of a file of tensors, by the manifest."""
    return str(read_json(checkpoint / MANIFEST)["files"][f"{name}{_TENSORS}"]["sha256"])


def _read_sums(checkpoint: Path) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 sum of each file."""
    manifest = read_json(checkpoint / MANIFEST)
    if manifest.get("format") not in (FORMAT, INT8_FORMAT):
        raise CheckpointError(
            f"{checkpoint}: found format {manifest.get('format')!r}, expected {FORMAT} or {INT8_FORMAT}. Use the "
            "version of glassformer that wrote it."
        )
    try:
        sums = {name: (entry["size"], entry["sha256"]) for name, entry in manifest["files"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{checkpoint / MANIFEST}: is damaged: {error!r} is missing or invalid.") from error
    if STATE not in sums or not any(name.endswith(_TENSORS) for name in sums):
        raise CheckpointError(f"{checkpoint / MANIFEST}: is damaged: it does not name {STATE} and a file of weights.")
    return sums


def _verify_file(path: Path, size: int, expected: str) -> None:
    try:
        same = path.stat().st_size == size and sha256(path) == expected
    except (OSError, ValueError) as error:  # ValueError: the name in the manifest is not a possible file name
        reason = error.strerror if isinstance(error, OSError) else None
        raise CheckpointError(f"{str(path)!r}: is missing or damaged: {reason or error}.") from error
    if not same:
        raise CheckpointError(f"{path}: is damaged: it does not match its manifest.")


def checkpoint_path(series: Path, update: int) -> Path:
    """The checkpoint of an update."""
    return series / f"{_NAME}{update:08d}"


def update_number(checkpoint: Path) -> int:
    """The update in the name of a checkpoint of a series."""
    return int(checkpoint.name.removeprefix(".").removeprefix(_NAME).split(".")[0])


def checkpoints(series: Path) -> list[Path]:
    """The checkpoints of a series, oldest first, valid or not, named or not yet."""
    found = {update_number(path): path for path in series.glob(f"{_NAME}*") if path.name[len(_NAME) :].isdecimal()}
    for leftover in sorted(series.glob(f".{_NAME}*{_UNFINISHED}/{MANIFEST}")):
        found.setdefault(update_number(leftover.parent), leftover.parent)
    return [found[update] for update in sorted(found)]


def is_valid(checkpoint: Path, warn: Callable[[str], None]) -> bool:
    """Whether a checkpoint matches its manifest; else ``warn`` is called."""
    try:
        verify_checkpoint(checkpoint)
    except CheckpointError as error:
        warn(f"{error} It is skipped.")
        return False
    return True


def newest_valid(series: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest valid checkpoint of a series, which a training may change."""
    warn = cache(warn)  # says each line once
    for _ in range(_TRIES):
        listed = checkpoints(series) or checkpoints(series)  # a listing may miss what is renamed meanwhile
        for found in reversed(listed):
            identity, said = _identity(found), list[str]()
            if is_valid(found, said.append):
                return found
            if identity is None or _identity(found) != identity:
                break  # replaced meanwhile
            warn(*said)
        else:
            return None
    return None


def read_chosen(choose: Callable[[], Path], read: Callable[[Path], Result]) -> Result:
    """What ``read`` returns of the checkpoint that ``choose`` names, unless it is replaced meanwhile."""
    for _ in range(_TRIES):
        chosen = choose()
        identity = _identity(chosen)
        try:
            result = read(chosen)
            if identity is not None and _identity(chosen) == identity:
                return result
        except CheckpointError:
            if identity is not None and _identity(chosen) == identity:
                raise
    raise CheckpointError(
        f"{chosen.parent}: a training replaced its checkpoints {_TRIES} times while they were read. Save less often, "
        "or copy the run and read the copy."
    )


def _identity(checkpoint: Path) -> tuple[int, int] | None:
    """Device and inode; None if it is gone."""
    try:
        found = checkpoint.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def prune(newest: Path, keep: int) -> None:
    """Verify ``newest``, then delete all but it and the ``keep`` - 1 before it."""
    found = checkpoints(newest.parent)
    to_keep = [path for path in found if update_number(path) <= update_number(newest)][-keep:]
    if to_keep == found:
        return
    verify_checkpoint(newest)
    for other in set(found) - set(to_keep):
        try:  # renamed first, so that a reader finds all of it or nothing
            remove(other.rename(_hidden_name(checkpoint_path(other.parent, update_number(other)), _OUTDATED)))
        except OSError as error:
            raise StorageError(
                f"{other}: cannot be deleted: {error.strerror}. Correct the permissions, then run the command again."
            ) from error


def read_tensors(checkpoint: Path, name: str) -> "dict[str, Tensor]":
    """The tensors of a file, on the CPU; int8 rows times their scales."""
    from safetensors.torch import load_file

    path = checkpoint / f"{name}{_TENSORS}"
    try:
        check_safetensors(path)
        return _dequantize(load_file(path), path)
    except ValueError as error:
        if "could not determine the shape" in str(error):  # a signal came while the library asked Python for a tensor
            raise KeyboardInterrupt from error
        raise
    except (OSError, SafetensorError, RuntimeError) as error:
        if path.exists() and isinstance(error, RuntimeError):  # such as too little memory
            raise
        raise CheckpointError(f"{path}: cannot be read: {error}.") from error


def _dequantize(tensors: "dict[str, Tensor]", path: Path) -> "dict[str, Tensor]":
    import torch

    found = {name: tensor for name, tensor in tensors.items() if not name.startswith(SCALE)}
    for key in tensors.keys() - found.keys():
        name, scales = key.removeprefix(SCALE), tensors[key]
        rows = found.get(name, scales)
        if (rows.dtype, scales.dtype, rows.dim()) != (torch.int8, torch.float32, 2) or scales.shape != rows.shape[:1]:
            raise CheckpointError(
                f"{path}: {key} does not fit {name}, expected a matrix of int8 and a float32 for each row."
            )
        found[name] = rows.float().mul_(scales[:, None])
    return found


def check_shapes(checkpoint: Path, name: str, shapes: Mapping[str, Shape]) -> None:
    """Raise ``CheckpointError`` for other names or shapes, by the header."""
    from safetensors import safe_open

    path = checkpoint / f"{name}{_TENSORS}"
    try:
        check_safetensors(path)
        with safe_open(path, framework="pt") as file:
            names = [key for key in file.keys() if not key.startswith(SCALE)]  # noqa: SIM118 - the file is no mapping
            found = {key: tuple(file.get_slice(key).get_shape()) for key in names}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.") from error
    _check_fit(path, found, shapes)


def _check_fit(where: Path, found: Mapping[str, Shape], expected: Mapping[str, Shape]) -> None:
    odd = sorted(expected.keys() ^ found.keys())
    if odd:
        raise CheckpointError(
            f"{where}: does not fit the configuration: {len(odd)} weights differ, the first is {odd[0]}. "
            "Load it with its own config.json."
        )
    for name, shape in expected.items():
        if found[name] != shape:
            raise CheckpointError(
                f"{where}: {name} is {found[name]}, the configuration says {shape}. Load it with its own config.json."
            )


def weights_of(model: "nn.Module") -> "dict[str, Tensor]":
    """Every parameter once: a tied matrix is not repeated."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(
    model: "nn.Module", weights: Tensors, where: Path, place: "Callable[[Tensor, Tensor], Tensor] | None" = None
) -> None:
    """Copy weights into a model; ``place`` puts one where the parameter is."""
    parameters = dict(model.named_parameters())
    found, expected = ({name: tuple(one.shape) for name, one in some.items()} for some in (weights, parameters))
    _check_fit(where, found, expected)
    for name, parameter in parameters.items():
        if not weights[name].is_floating_point():
            raise CheckpointError(f"{where}: {name} holds {weights[name].dtype}, expected floating-point numbers.")
        parameter.data.copy_(weights[name] if place is None else place(weights[name], parameter))
