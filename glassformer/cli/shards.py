"""``translate --input 'shards/*.txt' --out DIR``: many files, by processes that share a file system.

Each locks a shard, translates it into a hidden file, and renames that when it is complete and on disk.
"""

import glob
import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import typer

from glassformer.errors import ConfigError, StorageError, TextError
from glassformer.files import (
    FREE_SPACE,
    check_output,
    hidden_names,
    lock_file,
    make_directory,
    open_to_append,
    storage_errors,
    sync,
)
from glassformer.text.formats import find_format


def translate_shards(
    pattern: Path, out: Path, translate: Callable[[Path], Iterator[str]], engines: Callable[[], str] = str
) -> None:
    """Write the lines that ``translate`` yields of each file to a file of the same name in ``out``.

    Raises ``TextError`` for files that cannot be read when all others are translated.
    """
    shards = _find_shards(pattern, out)
    counts, failed = Counter[str](), list[Path]()
    try:
        make_directory(out)
        for shard in shards:
            try:
                outcome = _translate_shard(shard, out / shard.name, translate)
            except TextError as error:
                typer.echo(f"error: {error}", err=True)
                failed.append(shard)
            else:
                counts[outcome] += 1
    except OSError as error:
        raise StorageError(
            f"{error.filename or out}: cannot be written: {error.strerror}. Finished shards are kept. {FREE_SPACE}"
        ) from error
    others = f", {counts['busy']:,} in the hands of other processes" if counts["busy"] else ""
    typer.echo(
        f"{out}: {counts['done']:,} of {len(shards):,} shards translated now{engines()}, {counts['before']:,} before"
        f"{others}.",
        err=True,
    )
    if failed:
        raise TextError(
            f"{', '.join(map(str, failed[:5]))}{' and more' if len(failed) > 5 else ''}: {len(failed):,} of "
            f"{len(shards):,} shards cannot be read. Correct them and run the same command again."
        )


def prepare_directory(pattern: Path, out: Path) -> None:
    """Make ``out``, and raise what ``translate_shards`` would raise of both."""
    shards = _find_shards(pattern, out)
    with storage_errors(out, "Correct the permissions, or name another --out."):
        make_directory(out)
        check_output(out / shards[0].name)


def _find_shards(pattern: Path, out: Path) -> list[Path]:
    """The files that match, without those in ``out``; raises ``ConfigError``."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out}: is a file, expected a directory for the translations of several files.")
    found = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True)) if not os.path.isdir(name)]
    shards = [path for path in found if not path.resolve().is_relative_to(out.resolve())]
    if found and not shards:
        raise ConfigError(f"--out {out}: is where the shards are, expected another directory. Name another --out.")
    if not shards:
        raise ConfigError(f"--input {str(pattern)!r}: matches no file, expected at least one. Correct the pattern.")
    for shard in shards:
        if find_format(shard).lines is None:
            raise ConfigError(
                f"--input {shard}: is a {shard.suffix} file, whose lines are no texts. Translate it alone."
            )
    counts = Counter(shard.name for shard in shards)
    for name, count in sorted(counts.items()):
        if count > 1:
            raise ConfigError(f"--input {str(pattern)!r}: matches two files named {name}. Rename one.")
        if (out / name).exists() and not (out / name).is_file():
            raise ConfigError(f"--out {out}: holds {name}, which is no file, but a translation gets it. Rename it.")
    return shards


def _translate_shard(shard: Path, target: Path, translate: Callable[[Path], Iterator[str]]) -> str:
    """Returns done; before, if it was finished; busy, if another process has it."""
    lock, unfinished = (target.with_name(name) for name in hidden_names(target.name))
    if target.exists():
        lock.unlink(missing_ok=True)  # of a process that was killed between the two
        return "before"
    with open_to_append(lock) as held:
        try:
            lock_file(held)
        except OSError:
            return "busy"
        if target.exists():  # finished by another process between the two
            lock.unlink(missing_ok=True)
            return "before"
        lines = 0
        try:
            with _open_output(unfinished, target.suffix) as stream:
                for lines, line in enumerate(translate(shard), 1):  # noqa: B007  # counts them
                    stream.write(line.encode() + b"\n")
        except TextError:
            unfinished.unlink(missing_ok=True)  # before the lock: another process may begin when that is free
            lock.unlink(missing_ok=True)
            raise
        sync(unfinished)
        unfinished.replace(target)
        sync(target.parent)
        lock.unlink(missing_ok=True)
    typer.echo(f"{target}: {lines:,} lines", err=True)
    return "done"


@contextmanager
def _open_output(path: Path, suffix: str) -> Iterator[IO[bytes]]:
    """A new file, in gzip where the shard is."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        if suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as stream:
            yield stream  # type: ignore[misc]  # a stream of bytes, though not by its type
