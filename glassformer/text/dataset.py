"""Encoded pairs on disk, mapped into memory: a corpus of any size opens at once and takes no memory of its own.

A directory holds ``encoded.json`` and, for each side, ``ids`` (16 bits each while the vocabulary allows,
otherwise 32), ``offsets`` (where each text starts, and the end of the last) and ``lengths``; where words are to be
cut anew in training also ``starts``, 1 for each id that begins a word. Both sides are stored with </s> at their end
and without <s>, and lengths count that </s>. Knows nothing of text.
"""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from glassformer.errors import TextError

Ids = npt.NDArray[np.integer[Any]]
Lengths = npt.NDArray[np.int32]


class Rows(NamedTuple):
    """The ids of some texts one after the other, each with its </s>, and how many each has.

    ``starts``, if known, is 1 for each id that begins a word, or is a </s>, and 0 for the others.
    """

    ids: Ids
    lengths: Lengths
    starts: npt.NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], vocab: int) -> Self:
        """``rows`` of ids below ``vocab``, in as few bits as that takes."""
        lengths = np.fromiter(map(len, rows), "<i4", len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), _dtype(vocab), int(lengths.sum())), lengths)


class EncodedSide:
    """The ids of all sources, or of all targets, or of some."""

    def __init__(self, rows: Rows, offsets: npt.NDArray[np.int64] | None = None) -> None:
        """``offsets``: where each text starts in ``rows``, and the end of the last, if that is known already."""
        self._ids, self.lengths, self._starts = rows
        self._offsets = np.append(0, np.cumsum(rows.lengths, dtype=np.int64)) if offsets is None else offsets

    @classmethod
    def read(cls, directory: Path, side: str, dtype: str, count: int, *, words: bool) -> Self:
        """Map the files of ``count`` texts into memory."""
        offsets = _mapped(directory / f"{side}.offsets", "<i8", count + 1)
        lengths = _mapped(directory / f"{side}.lengths", "<i4", count)
        ids = _mapped(directory / f"{side}.ids", dtype, int(offsets[-1]))
        starts = _mapped(directory / f"{side}.starts", "u1", int(offsets[-1])) if words else None
        return cls(Rows(ids, lengths, starts), offsets)

    def row(self, index: int) -> Ids:
        """The ids of one text, </s> at the end."""
        return self._ids[self._offsets[index] : self._offsets[index + 1]]

    def rows(self, indices: npt.NDArray[np.int64]) -> Rows:
        """Some texts, copied one after the other."""
        lengths = self.lengths[indices]
        ends = np.cumsum(lengths, dtype=np.int64)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(
            self._offsets[indices] - (ends - lengths), lengths
        )
        return Rows(self._ids[places], lengths, None if self._starts is None else self._starts[places])

    def padded(self, indices: npt.NDArray[np.int64], pad_id: int) -> npt.NDArray[np.int64]:
        """The ids of some texts as one array (batch length), ``pad_id`` to the right of the shorter ones."""
        lengths = self.lengths[indices]
        steps = np.arange(lengths.max(initial=0))
        inside = steps < lengths[:, None]
        rows = np.full(inside.shape, pad_id, dtype=np.int64)
        rows[inside] = self._ids[(self._offsets[indices][:, None] + steps)[inside]]
        return rows


class Sides(NamedTuple):
    """As many sources and targets: what a batch is made of."""

    src_side: EncodedSide
    tgt_side: EncodedSide


class EncodedPairs:
    """Pairs of encoded sources and targets, read from the directory that an ``EncodedWriter`` filled."""

    def __init__(self, directory: Path) -> None:
        """Raises ``TextError`` when files are missing or their sizes do not agree."""
        try:
            form = json.loads((directory / "encoded.json").read_text(encoding="utf-8"))
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

    def src(self, index: int) -> Ids:
        """The ids of a source, </s> at the end."""
        return self.src_side.row(index)

    def tgt(self, index: int) -> Ids:
        """The ids of a target, </s> at the end: what the model is to produce."""
        return self.tgt_side.row(index)

    @property
    def src_lengths(self) -> Lengths:
        """Tokens of each source, </s> included."""
        return self.src_side.lengths

    @property
    def tgt_lengths(self) -> Lengths:
        """Tokens of each target, </s> included."""
        return self.tgt_side.lengths


class EncodedWriter:
    """Appends pairs to new files in ``directory``; a context manager. ``vocab`` is the larger vocabulary's size."""

    def __init__(self, directory: Path, vocab: int) -> None:
        self._directory = directory
        self._vocab = vocab
        self._count = 0
        self._words = False
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "encoded.json").unlink(missing_ok=True)
        self._src = _SideWriter(directory, "src")
        self._tgt = _SideWriter(directory, "tgt")

    def append(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> None:
        """Add pairs: the ids of some sources and of their targets, each with its </s>."""
        self.append_rows(Rows.of(src, self._vocab), Rows.of(tgt, self._vocab))

    def append_rows(self, src: Rows, tgt: Rows) -> None:
        """Add pairs whose ids are rows already, made for the same vocabulary."""
        self._src.append(src)
        self._tgt.append(tgt)
        self._count += len(src.lengths)
        self._words = src.starts is not None

    def close(self) -> None:
        """Finish the files; only now can they be read."""
        self._src.close()
        self._tgt.close()
        form = {"pairs": self._count, "dtype": _dtype(self._vocab), "words": self._words}
        (self._directory / "encoded.json").write_text(json.dumps(form) + "\n", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._src.close()
            self._tgt.close()


class _SideWriter:
    def __init__(self, directory: Path, side: str) -> None:
        self._end = 0
        self._ids, self._offsets, self._lengths = (
            (directory / f"{side}.{part}").open("wb") for part in ("ids", "offsets", "lengths")
        )
        self._starts = directory / f"{side}.starts"
        self._starts.unlink(missing_ok=True)
        self._offsets.write(np.zeros(1, "<i8").tobytes())

    def append(self, rows: Rows) -> None:
        ends = self._end + np.cumsum(rows.lengths, dtype="<i8")
        self._end += len(rows.ids)
        for stream, values in ((self._ids, rows.ids), (self._offsets, ends), (self._lengths, rows.lengths)):
            stream.write(values.tobytes())
        if rows.starts is not None:
            with self._starts.open("ab") as stream:
                stream.write(rows.starts.tobytes())

    def close(self) -> None:
        for stream in (self._ids, self._offsets, self._lengths):
            stream.close()


def _dtype(vocab: int) -> str:
    return "<u2" if vocab < 2**16 else "<u4"


def _mapped(path: Path, dtype: str, count: int) -> npt.NDArray[Any]:
    """``count`` values of a file, read when touched; ``ValueError`` when the file does not hold just that."""
    expected = count * np.dtype(dtype).itemsize
    if path.stat().st_size != expected:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes, expected {expected}")
    if count == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    # A plain view: slices of np.memmap itself cost several times more.
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)
