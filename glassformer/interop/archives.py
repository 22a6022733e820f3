"""Zip files of others, .npz included, read under limits; nothing in them is unpickled."""

import io
import tokenize
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from glassformer.errors import CheckpointError
from glassformer.text.lines import max_inflated

MAX_MEMBERS = 10_000
LARGEST_TOTAL = 8 * 2**30  # bytes of all members together


def open_archive(path: Path) -> zipfile.ZipFile:
    """A zip file whose members stay inside it and are of bounded size; else ``CheckpointError``."""
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise CheckpointError(f"{path}: cannot be read as a zip file: {error}. It may be cut short.") from error
    try:
        _check_members(archive, path)
    except CheckpointError:
        archive.close()
        raise
    return archive


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise CheckpointError(f"{path}: has {len(members):,} members, expected at most {MAX_MEMBERS:,}.")
    for member in members:
        name = member.filename
        if name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts:
            raise CheckpointError(f"{path}: holds {name!r}, which leads out of it. Expected plain names.")
    total = sum(member.file_size for member in members)
    limit = min(LARGEST_TOTAL, max_inflated(path.stat().st_size))
    if total > limit:
        raise CheckpointError(f"{path}: would inflate to {total:,} bytes, expected at most {limit:,}.")


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a member; ``CheckpointError`` if it is damaged."""
    try:
        return archive.read(name)
    except (OSError, zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError, zipfile.zlib.error) as error:  # type: ignore[attr-defined]  # zlib, as it has it
        raise CheckpointError(f"{archive.filename}: {name}: is damaged: {error!s:.200}.") from error


def read_arrays(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of an .npz file by name."""
    arrays = {}
    with open_archive(path) as archive:
        for name in archive.namelist():
            if not name.endswith(".npy"):
                continue
            try:
                arrays[name.removesuffix(".npy")] = _array(read_member(archive, name))
            except (ValueError, TypeError, SyntaxError, tokenize.TokenError, MemoryError, RecursionError) as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise CheckpointError(
                    f"{path}: {name}: cannot be read as an array: {reason:.200}. Expected an .npy file."
                ) from error
    return arrays


def _array(data: bytes) -> npt.NDArray[np.generic]:
    """The array of an .npy file; ``ValueError`` if it holds objects or its header is wrong."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("holds Python objects, which would be unpickled, expected numbers")
    count = 1
    for length in shape:
        count *= length
    if count * dtype.itemsize != len(data) - stream.tell():
        raise ValueError(f"is of shape {shape}, which is not what it holds")
    values = np.frombuffer(data, dtype, count, stream.tell())
    return values.reshape(shape, order="F" if is_fortran else "C")
