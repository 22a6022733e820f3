"""Encoded pairs on disk, memory-mapped: any corpus opens at once.

A directory holds ``encoded.json`` and, for each side, ``ids`` (of 16 or 32 bits), ``offsets`` (where each text
starts, and the end), ``lengths`` (with </s>) and, for BPE-dropout, ``starts`` (1 where a word begins).
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from glassformer.errors import TextError
from glassformer.files import read_json_file, remove, write_durably

Ids = npt.NDArray[np.integer[Any]]
Lengths = npt.NDArray[np.int32]


class EncodedTexts(NamedTuple):
    """Texts' ids end to end with </s>, their lengths, and 1 where a word starts."""

    ids: Ids
    lengths: Lengths
    starts: npt.NDArray[np.uint8] | None = None

    @classmethod
    def from_lists(cls, texts: Sequence[Sequence[int]], vocab: int) -> Self:
        """Lists of ids below ``vocab`` in the smallest type."""
        lengths = np.fromiter(map(len, texts), "<i4", len(texts))
        return cls(np.fromiter(chain.from_iterable(texts), _dtype(vocab), int(lengths.sum())), lengths)


def join_texts(parts: Sequence[EncodedTexts]) -> EncodedTexts:
    """The texts of all parts; word starts are not kept."""
    ids, lengths = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
    return EncodedTexts(ids, lengths)


class EncodedSide:
    """The ids of all or some sources or targets."""

    def __init__(self, texts: EncodedTexts, offsets: npt.NDArray[np.int64] | None = None) -> None:
        """``offsets``: starts of ``texts`` and the end; by default computed."""
        self._ids, self.lengths, self._starts = texts  # with </s>
        self._offsets = np.append(0, np.cumsum(texts.lengths, dtype=np.int64)) if offsets is None else offsets

    @classmethod
    def read(cls, directory: Path, side: str, dtype: str, count: int, *, words: bool) -> Self:
        """Map the files of ``count`` texts into memory."""
        offsets = _map_file(directory / f"{side}.offsets", "<i8", count + 1)
        lengths = _map_file(directory / f"{side}.lengths", "<i4", count)
        ids = _map_file(directory / f"{side}.ids", dtype, int(offsets[-1]))
        starts = _map_file(directory / f"{side}.starts", "u1", int(offsets[-1])) if words else None
        if offsets[0] != 0 or not np.array_equal(np.diff(offsets), lengths):
            raise ValueError(f"{side}.offsets does not fit {side}.lengths")
        return cls(EncodedTexts(ids, lengths, starts), offsets)

    @property
    def highest_id(self) -> int:
        """The highest id; -1 without texts."""
        return int(self._ids.max(initial=0)) if len(self._ids) else -1

    def ids(self, index: int) -> Ids:
        """The ids of one text, with </s>."""
        return self._ids[self._offsets[index] : self._offsets[index + 1]]

    def take(self, indices: npt.NDArray[np.int64]) -> EncodedTexts:
        """A copy of the texts at ``indices``, in that order."""
        lengths = self.lengths[indices]
        ends = np.cumsum(lengths, dtype=np.int64)
        moves = self._offsets[indices] - (ends - lengths)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(moves, lengths)
        return EncodedTexts(self._ids[places], lengths, None if self._starts is None else self._starts[places])

    def pad(self, indices: npt.NDArray[np.int64], pad_id: int) -> npt.NDArray[np.int64]:
        """(batch length) of the texts at ``indices``, padded on the right."""
        lengths = self.lengths[indices]
        steps = np.arange(lengths.max(initial=0))
        inside = steps < lengths[:, None]
        batch = np.full(inside.shape, pad_id, dtype=np.int64)
        batch[inside] = self._ids[(self._offsets[indices][:, None] + steps)[inside]]
        return batch


class Sides(NamedTuple):
    """Sources and their targets, from which batches are made."""

    src_side: EncodedSide
    tgt_side: EncodedSide


class EncodedPairs:
    """Encoded pairs from an ``EncodedWriter``'s directory."""

    def __init__(self, directory: Path) -> None:
        """``TextError`` for missing, odd or contradictory files."""
        try:
            form = read_json_file(directory / "encoded.json")
            self._count = int(form["pairs"])
            self.src_side, self.tgt_side = (
                EncodedSide.read(directory, side, form["dtype"], self._count, words=form.get("words", False))
                for side in ("src", "tgt")
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TextError(
                f"{directory}: the encoded pairs are incomplete ({error}). Delete the directory and prepare again."
            ) from error

    def __len__(self) -> int:
        return self._count

    def check_ids(self, src_vocab: int, tgt_vocab: int) -> None:
        """Raise ``TextError`` for an id outside its vocabulary."""
        for name, side, vocab in (("source", self.src_side, src_vocab), ("target", self.tgt_side, tgt_vocab)):
            if side.highest_id >= vocab:
                raise TextError(
                    f"the {name} texts hold the id {side.highest_id}, expected ids below {vocab}: they belong to "
                    "another tokenizer. Delete the directory and prepare again."
                )


class EncodedWriter:
    """A context manager that writes pairs to new files."""

    def __init__(self, directory: Path, vocab: int) -> None:
        """``vocab``: the size of the larger vocabulary."""
        self._directory, self._vocab = directory, vocab
        self._count, self._ends, self._words = 0, {"src": 0, "tgt": 0}, False
        self._streams: dict[str, BinaryIO] = {}
        directory.mkdir(parents=True, exist_ok=True)
        for path in (directory / "encoded.json", *(directory / f"{side}.starts" for side in self._ends)):
            remove(path)
        for side in self._ends:
            for name in ("ids", "lengths", "offsets"):
                self._stream(f"{side}.{name}")
            self._stream(f"{side}.offsets").write(np.zeros(1, "<i8").tobytes())

    def append(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> None:
        """Add ids of sources and targets, with </s>."""
        self.append_encoded(EncodedTexts.from_lists(src, self._vocab), EncodedTexts.from_lists(tgt, self._vocab))

    def append_encoded(self, src: EncodedTexts, tgt: EncodedTexts) -> None:
        """Add sources and targets encoded for the same vocabulary."""
        for side, texts in (("src", src), ("tgt", tgt)):
            ends = self._ends[side] + np.cumsum(texts.lengths, dtype="<i8")
            self._ends[side] += len(texts.ids)
            values = {"ids": texts.ids, "offsets": ends, "lengths": texts.lengths, "starts": texts.starts}
            for name, array in values.items():
                if array is not None:
                    self._stream(f"{side}.{name}").write(array.tobytes())
        self._count += len(src.lengths)
        self._words = src.starts is not None

    def close(self) -> None:
        """Finish the files and force them to disk."""
        for stream in self._streams.values():
            stream.flush()
            os.fsync(stream.fileno())
            stream.close()
        form = {"pairs": self._count, "dtype": _dtype(self._vocab), "words": self._words}
        with write_durably(self._directory / "encoded.json") as file:
            file.write(json.dumps(form) + "\n")

    def _stream(self, name: str) -> BinaryIO:
        if name not in self._streams:
            remove(self._directory / name)
            self._streams[name] = (self._directory / name).open("xb")
        return self._streams[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self.close()
        finally:
            for stream in self._streams.values():
                with suppress(OSError):  # report the block's error, or that of ``close``
                    stream.close()


def _dtype(vocab: int) -> str:
    return "<u2" if vocab < 2**16 else "<u4"


def _map_file(path: Path, dtype: str, count: int) -> npt.NDArray[Any]:
    """``count`` mapped values of a file; ``ValueError`` for another size."""
    expected = count * np.dtype(dtype).itemsize
    if path.stat().st_size != expected:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes, expected {expected}")
    if count == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    # A plain view: slices of np.memmap cost several times more.
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)
