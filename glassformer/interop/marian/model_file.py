"""The arrays of a Marian model file by name: an ``.npz``, or a ``.bin`` as the decoder maps it into memory.

A ``.bin`` is little-endian: version and number of items; a header for each; all names; all shapes; padding; the data.
A matrix of ``intgemm8`` is transposed int8 and then the number by which the weights were multiplied.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import read_bounded
from glassformer.interop.archives import read_arrays

SETTINGS = "special:model.yml"
ENDINGS = (".npz", ".bin")
LARGEST_BIN = 4 * 2**30  # bytes
_MAX_ITEMS, _MAX_AXES = 100_000, 8
_INTGEMM8, _BYTES = 0x10001, 0x101
_DTYPES = {0x402: "<f2", 0x404: "<f4", 0x408: "<f8", _BYTES: "i1", _INTGEMM8: "i1"}
_PACKED = {
    0x10002: "intgemm16", 0x802: "packed16", 0x1801: "packed8avx2", 0x2801: "packed8avx512",
    0x18001: "intgemm8ssse3", 0x11001: "intgemm8avx2", 0x12001: "intgemm8avx512", 0x13001: "intgemm8avx512vnni",
    0x14002: "intgemm16sse2", 0x11002: "intgemm16avx2", 0x12002: "intgemm16avx512",
}  # fmt: skip
_MULTIPLIER = "_QuantMultA"  # of activations, which stay float32 here


def read_model_file(path: Path) -> dict[str, Any]:
    """The arrays by Marian's names; ``CheckpointError`` for a damaged file, ``ConfigError`` for a packed one."""
    if path.suffix != ".bin":
        return read_arrays(path)
    try:
        return dict(_read_bin(read_bounded(path, LARGEST_BIN)))
    except (OSError, ValueError, struct.error, MemoryError, OverflowError) as error:
        raise CheckpointError(
            f"{path}: cannot be read as a .bin of Marian: {error!s:.200}. Copy it again."
        ) from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read_bin(data: bytes) -> Iterator[tuple[str, Any]]:
    version, count = struct.unpack_from("<2Q", data)
    if version != 1 or not 0 < count <= _MAX_ITEMS:
        raise ValueError(f"found version {version} and {count} items, expected version 1")
    headers = list(struct.iter_unpack("<4Q", data[16 : 16 + 32 * count]))
    at = 16 + 32 * count
    names, shapes = [], []
    for length, *_ in headers:
        names.append(_take(data, at, length).rstrip(b"\0").decode())
        at += length
    for _, _, axes, _ in headers:
        if axes > _MAX_AXES:
            raise ValueError(f"an array has {axes} axes")
        shapes.append(struct.unpack_from(f"<{axes}i", data, at))
        at += 4 * axes
    (padding,) = struct.unpack_from("<Q", data, at)
    at += 8 + padding
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        value = _take(data, at, size)
        at += size
        if not name.endswith(_MULTIPLIER):
            yield name, _array(name, kind, shape, value)


def _take(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("it is cut short")
    return data[at : at + size]


def _array(name: str, kind: int, shape: tuple[int, ...], data: bytes) -> Any:
    if kind not in _DTYPES:
        found = _PACKED.get(kind, hex(kind))
        raise ConfigError(
            f"{name}: found the type {found}, expected float32 or intgemm8, whose order does not depend on a "
            "processor. Convert the model it was made of."
        )
    if min(shape, default=0) < 0:
        raise ValueError(f"{name} has the shape {shape}")
    values = np.frombuffer(data[: math.prod(shape) * np.dtype(_DTYPES[kind]).itemsize], _DTYPES[kind])
    if kind != _INTGEMM8:
        return values.reshape(shape)
    if len(shape) != 2:
        raise ValueError(f"{name} has the shape {shape}, expected a matrix")
    (multiplier,) = struct.unpack_from("<f", data, values.size)
    if not 0 < multiplier < math.inf:
        raise ValueError(f"{name} has the multiplier {multiplier}")
    rows, columns = shape
    return values.reshape(columns, rows).T.astype(np.float32) / np.float32(multiplier)


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write an ``.npz`` as Marian reads it, which knows no compression."""
    with path.open("wb") as stream:
        np.savez(stream, **arrays)
