"""Texts and pairs as files, which are there when they are whole."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from glassformer.errors import StorageError
from glassformer.text.corpus import Pair


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """A text on each line, a line break in it as a space. Raises ``StorageError`` where it cannot be written."""
    _write({path: map(on_a_line, texts)})


def write_pairs(path: Path, tgt_path: Path | None, pairs: Sequence[Pair]) -> None:
    """Two aligned files or, without ``tgt_path``, one of JSON lines, which keeps line breaks, for ``read_pairs``.

    Raises ``StorageError`` where they cannot be written; what stood there before then stands there still.
    """
    if tgt_path is None:
        _write({path: (json.dumps(pair._asdict(), ensure_ascii=False) for pair in pairs)})
    else:
        _write({path: (on_a_line(pair.src) for pair in pairs), tgt_path: (on_a_line(pair.tgt) for pair in pairs)})


def on_a_line(text: str) -> str:
    """The text as it comes back from a line of a file."""
    return text.replace("\n", " ").removesuffix("\r")


def _write(files: Mapping[Path, Iterable[str]]) -> None:
    """All of them aside first."""
    aside = {path: path.with_name(f"{path.name}.writing") for path in files}
    try:
        for path, lines in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with aside[path].open("w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(f"{line}\n" for line in lines)
        for path in files:
            aside[path].replace(path)
    except OSError as error:
        places = " and ".join(map(str, files))
        raise StorageError(
            f"{places}: cannot be written: {error.strerror or error}. Free some space or name another --run."
        ) from error
