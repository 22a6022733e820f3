"""The files of a CTranslate2 directory; arrays are read on demand."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from glassformer.checkpoint import read_json
from glassformer.errors import CheckpointError
from glassformer.files import open_to_read, read_json_file
from glassformer.interop.ctranslate2 import MODEL, TOKENIZER_FILES
from glassformer.interop.transformers import load_tokenizer
from glassformer.model.layers import ACTIVATIONS
from glassformer.text.tokenizer.tokenizer import BOS_ID, CONTROL_TOKENS, EOS_ID, Tokenizer

Floats = NDArray[np.float32]

_VERSION = 6  # of model.bin
_NUMBERS = {"int8": "b", "int16": "h", "int32": "i", "float32": "f"}  # as ``struct`` calls those that may stand alone
# The types by their numbers in the file, in this order.
_DTYPES = {"float32": "<f4", "int8": "i1", "int16": "<i2", "int32": "<i4", "float16": "<f2", "bfloat16": "<u2"}
# How far a type rounds a number, as a share of it; an integer by half a step.
_ROUNDING = {"float32": 1e-5, "float16": 2**-10, "bfloat16": 2**-8, "int32": 0.0}
_HALF, _MIN_ROUNDING = 0.501, 1e-6
_ACTIVATIONS = {1: "gelu (tanh)", 4: "gelu (sigmoid)", 5: "tanh", 6: "sigmoid"} | {
    entry.ctranslate2_number: name for name, entry in ACTIVATIONS.items() if entry.ctranslate2_number is not None
}
_EPSILON = 1e-5  # CTranslate2's, where the file names none
_ADVICE = "Export the run again: glassformer export RUN --to ctranslate2 --out NEW"


@dataclass(frozen=True)
class Array:
    """An array of ``model.bin``; ``number`` is its value if it is a single one."""

    name: str
    shape: tuple[int, ...]
    kind: str
    offset: int
    number: float | None = None


@dataclass(frozen=True)
class CTranslate2Directory:
    """A directory with readable files, which CTranslate2 may still refuse."""

    place: Path
    tokenizers: tuple[Tokenizer, Tokenizer]
    vocabularies: tuple[tuple[Path, list[str]], tuple[Path, list[str]]]
    """For source and target the file with the tokens of the model's ids, and these."""
    settings: Mapping[str, Any]
    """The settings of the model by our names, as far as its files tell."""
    quantization: str
    start: str
    """The token that a target starts with, then the one that ends it."""
    end: str
    arrays: Mapping[str, Array]
    """Of ``model.bin``; none if its version is not known."""

    @classmethod
    def read(cls, place: Path) -> "CTranslate2Directory":
        """Raises ``CheckpointError`` or ``TokenizerError`` with the file's name."""
        src, tgt = (load_tokenizer(place / name) for name in TOKENIZER_FILES)
        config, arrays = read_json(place / "config.json"), read_arrays(place / MODEL)
        start = config.get("decoder_start_token", config.get("bos_token", CONTROL_TOKENS[BOS_ID]))
        end = config.get("eos_token", CONTROL_TOKENS[EOS_ID])
        for name, token in (("decoder_start_token", start), ("eos_token", end)):
            if not isinstance(token, str):
                raise CheckpointError(
                    f"{place}/config.json: {name}: found {token!r}, expected a token of the vocabulary. {_ADVICE}"
                )
        kinds = [one.kind for name, one in arrays.items() if name.endswith("/weight") and len(one.shape) > 1]
        quantization = next((kind for kind in kinds if kind != "float32"), "float32")
        return cls(
            place, (src, tgt), (_read_vocabulary(place, "source"), _read_vocabulary(place, "target")),
            _settings(config, arrays), quantization, start, end, arrays,
        )  # fmt: skip

    def values(self, name: str) -> tuple[Floats, Floats]:
        """The numbers of an array, and how far its type may have rounded each."""
        array = self.arrays[name]
        stored = self._read(array)
        if array.kind in ("int8", "int16"):
            scale = self.arrays[f"{array.name}_scale"]
            one_or_rows = self._read(scale)[:, None] if scale.shape else np.array([[scale.number]], np.float32)
            steps = np.broadcast_to(_HALF / one_or_rows, array.shape)
            return stored / one_or_rows, (_MIN_ROUNDING + steps).astype(np.float32)
        return stored, (_MIN_ROUNDING + _ROUNDING[array.kind] * np.abs(stored)).astype(np.float32)

    def _read(self, array: Array) -> Floats:
        stored: NDArray[Any] = np.memmap(self.place / MODEL, _DTYPES[array.kind], "r", array.offset, array.shape)
        if array.kind == "bfloat16":  # the upper half of a float32
            return (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.astype(np.float32)


@contextmanager
def name_failures(place: Path) -> Iterator[None]:
    """Turn CTranslate2's exceptions into ``CheckpointError`` with the place."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, IndexError, MemoryError) as error:
        raise CheckpointError(
            f"{place}: CTranslate2 cannot use it: {error}. Expected a directory as export writes it. {_ADVICE}"
        ) from error


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a ``model.bin``, none of an unknown version."""
    try:
        with open_to_read(path) as file:
            if _read(file, "I") != _VERSION:
                return {}
            _read_name(file)
            _read(file, "I")  # the revision of the model's kind
            found = dict(_read_array(file) for _ in range(_read(file, "I")))
            for _ in range(_read(file, "I")):
                alias, name = _read_name(file), _read_name(file)
                found[alias] = found[name]
            return found
    except struct.error as error:
        raise CheckpointError(f"{path}: ends too early, expected the whole model. {_ADVICE}") from error
    except (OSError, UnicodeDecodeError, IndexError, KeyError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error!r}. {_ADVICE}") from error


def _read(file: BinaryIO, kind: str) -> int:
    number: int = struct.unpack(f"<{kind}", file.read(struct.calcsize(f"<{kind}")))[0]
    return number


def _read_name(file: BinaryIO) -> str:
    return file.read(_read(file, "H")).removesuffix(b"\0").decode()


def _read_array(file: BinaryIO) -> tuple[str, Array]:
    name = _read_name(file)
    shape = tuple(_read(file, "I") for _ in range(_read(file, "B")))
    kind, size, offset = list(_DTYPES)[_read(file, "B")], _read(file, "I"), file.tell()
    if shape or kind not in _NUMBERS:
        file.seek(size, 1)
        return name, Array(name, shape, kind, offset)
    return name, Array(name, shape, kind, offset, struct.unpack(f"<{_NUMBERS[kind]}", file.read(size))[0])


def _read_vocabulary(place: Path, side: str) -> tuple[Path, list[str]]:
    """The file with the tokens of one side's ids, and these."""
    names = ("shared_vocabulary.json", f"{side}_vocabulary.json")
    path = next((place / name for name in names if (place / name).is_file()), None)
    if path is None:
        raise CheckpointError(f"{place}: has no {' and no '.join(names)}, expected one of both. {_ADVICE}")
    try:
        tokens = read_json_file(path)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}. {_ADVICE}") from error
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise CheckpointError(f"{path}: found no list of tokens, expected that of each id. {_ADVICE}")
    return path, tokens


def _settings(config: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
    epsilon = config.get("layer_norm_epsilon")
    found: dict[str, Any] = {"model.norm_eps": _EPSILON if epsilon is None else epsilon}
    found |= {name: config.get(name, False) for name in ("add_source_bos", "add_source_eos")}
    if not arrays:
        return found
    numbers = {name: array.number for name, array in arrays.items() if array.number is not None}
    sizes = {
        "src_vocab": ("encoder/embeddings_0/weight", 0), "tgt_vocab": ("decoder/embeddings/weight", 0),
        "d_model": ("encoder/embeddings_0/weight", 1), "d_ff": ("encoder/layer_0/ffn/linear_0/weight", 0),
        "max_length": ("encoder/position_encodings/encodings", 0),
    }  # fmt: skip
    found |= {f"model.{ours}": arrays[name].shape[at] for ours, (name, at) in sizes.items() if name in arrays}
    for side in ("encoder", "decoder"):
        layers = {name.split("/")[1] for name in arrays if name.startswith(f"{side}/layer_")} - {"layer_norm"}
        found[f"model.n_{side}_layers"] = len(layers)
    choices: dict[str, tuple[str, Any]] = {
        "n_heads": ("num_heads", int), "norm": ("pre_norm", lambda number: "pre" if number else "post"),
        "activation": ("activation", _ACTIVATIONS.get), "scale_embedding": ("scale_embeddings", bool),
    }  # fmt: skip
    for ours, (theirs, read) in choices.items():
        if f"encoder/{theirs}" in numbers:
            found[f"model.{ours}"] = read(numbers[f"encoder/{theirs}"])
    return found
