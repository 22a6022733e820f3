"""Texts and pairs as files, each there when it is whole."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from glassformer.errors import StorageError
from glassformer.text.corpus import Pair


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """A text on each line, a line break in it as a space. Raises ``StorageError`` where it cannot be written."""
    _write(path, (text.replace("\n", " ") for text in texts))


def write_pairs(path: Path, tgt_path: Path | None, pairs: Sequence[Pair]) -> None:
    """Two aligned files or, without ``tgt_path``, one of JSON lines, which keeps line breaks, for ``read_pairs``.

    Raises ``StorageError`` where they cannot be written.
    """
    if tgt_path is None:
        _write(path, (json.dumps(pair._asdict(), ensure_ascii=False) for pair in pairs))
        return
    write_texts(path, (pair.src for pair in pairs))
    write_texts(tgt_path, (pair.tgt for pair in pairs))


def _write(path: Path, lines: Iterable[str]) -> None:
    aside = path.with_name(f"{path.name}.writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)
        aside.replace(path)
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror or error}. Free some space or name another --run."
        ) from error
