"""A lexical shortlist of Marian, by its ids: lines of "target source probability", or what Marian makes of them.

Little-endian: six uint64, then where each source's targets begin, uint64, then all targets, uint32.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import CheckpointError, TextError
from glassformer.files import open_to_read, read_bounded
from glassformer.interop.imported_model import Vocabulary
from glassformer.interop.shortlist import Shortlist
from glassformer.text.lines import read_lines
from glassformer.text.tokenizer.tokenizer import Tokenizers

_MAGIC, _HEADER = 0xF11A48D5013417F5, 48  # the first number, and bytes before the offsets
_LARGEST = 2**30  # bytes
_FIRST, _BEST, _THRESHOLD = 100, 100, 0.0  # Marian's defaults
Candidates = Mapping[int, Sequence[int]]


def read_lexicon(
    path: Path, limits: Sequence[Any], sides: tuple[Vocabulary, Vocabulary], tokenizers: Tokenizers, *, shared: bool
) -> Shortlist:
    """The shortlist in a file; ``limits`` are first, best and threshold, which a binary file has itself.

    The first entries of the target may always be written, and a source's own token if the vocabulary is ``shared``.
    """
    tgt = sides[1].entries
    try:
        first, best, threshold = [*map(float, limits), *(_FIRST, _BEST, _THRESHOLD)[len(limits) :]]
        with open_to_read(path) as stream:
            is_binary = stream.read(8) == _MAGIC.to_bytes(8, "little")
        if is_binary:
            first, found = _read_binary(read_bounded(path, _LARGEST), len(tgt))
        else:
            found = _read_text(path, sides, int(best), threshold)
        frequent = range(min(int(first), len(tgt)))
    except (OSError, ValueError, TypeError, OverflowError, TextError) as error:
        raise CheckpointError(f"{path}: cannot be read as a shortlist: {error!s:.200}. Copy it again.") from error
    # Padding, which theirs lacks, is both <pad> and <s>, so that there is a row more than entries.
    ours = [{theirs: number for number, theirs in enumerate(side.rows()[: len(side.entries) + 1])} for side in sides]
    written = {number for number, entry in enumerate(tokenizers[1].entries()) if not any(map(str.isspace, entry))}

    def targets(ids: Iterable[int]) -> tuple[int, ...]:
        return tuple(ours[1][each] for each in ids if ours[1].get(each) in written)

    candidates = {
        number: targets(dict.fromkeys([*found.get(source, ()), *([source] if shared else ())]))
        for source, number in ours[0].items()
        if shared or source in found
    }
    return Shortlist(targets(frequent), candidates, (tokenizers[0].digest, tokenizers[1].digest))


def _read_text(path: Path, sides: tuple[Vocabulary, Vocabulary], best: int, threshold: float) -> Candidates:
    src, tgt = ({entry: number for number, entry in enumerate(side.entries)} for side in sides)
    found: dict[int, list[tuple[float, int]]] = {}
    for number, line in enumerate(read_lines(path), 1):
        words = line.split()
        if len(words) != 3:
            raise ValueError(f'line {number}: found {line[:40]!r}, expected "target source probability"')
        target, source, probability = tgt.get(words[0]), src.get(words[1], sides[0].unk), float(words[2])
        if target is not None and words[1] != "NULL" and probability > threshold:
            found.setdefault(source, []).append((-probability, -target))
    return {source: [-target for _, target in sorted(row)[:best]] for source, row in found.items()}


def _read_binary(data: bytes, size: int) -> tuple[int, Candidates]:
    _, _, first, _, sources, links = (int(number) for number in np.frombuffer(data, "<u8", 6))
    if len(data) != _HEADER + 8 * sources + 4 * links or not sources:
        raise ValueError(f"it is cut short: {sources} sources and {links} targets do not fill {len(data)} bytes")
    starts = np.frombuffer(data, "<u8", sources, _HEADER).astype(np.int64)
    targets = np.frombuffer(data, "<u4", links, _HEADER + 8 * sources)
    ends = np.append(starts[1:], links)
    if (starts > ends).any() or (starts < 0).any() or (targets >= size).any():
        raise ValueError("its ids or offsets are out of bounds")
    rows = enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
    return first, {source: targets[start:end].tolist() for source, (start, end) in rows if end > start}
