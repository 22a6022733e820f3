"""``translate --input 'shards/*.txt' --out DIR``: many files, by any number of processes that share a file system.

A process locks a shard, translates it into a hidden file, and gives that its name when it is complete and on disk.
What has its name is finished and is skipped. So each line is translated exactly once, however often processes are
killed and started again.
"""

import glob
import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import typer

from glassformer.cli.documents import STRUCTURED
from glassformer.errors import ConfigError, StorageError
from glassformer.files import lock_file, make_directory, open_to_append, sync


def translate_shards(pattern: Path, out: Path, translate: Callable[[Path], Iterator[str]]) -> None:
    """Write the lines that ``translate`` yields of each file to a file of the same name in ``out``.

    Raises ``ConfigError`` if there are no such files, or two of one name; ``StorageError`` if ``out`` cannot be
    written. Says on standard error what was done.
    """
    shards = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True)) if os.path.isfile(name)]
    _check(pattern, out, shards)
    done, busy = 0, 0
    try:
        make_directory(out)
        for shard in shards:
            lines = _translate_shard(shard, out / shard.name, translate)
            done, busy = done + (lines is not None and lines >= 0), busy + (lines == -1)
            if lines is not None and lines >= 0:
                typer.echo(f"{out / shard.name}: {lines:,} lines", err=True)
    except OSError as error:
        raise StorageError(
            f"{error.filename or out}: cannot be written: {error.strerror}. Finished shards are complete. Free some "
            "space or correct the permissions, then run the same command again."
        ) from error
    others = f", {busy:,} in the hands of other processes" if busy else ""
    typer.echo(
        f"{out}: {done:,} of {len(shards):,} shards translated now, {len(shards) - done - busy:,} before{others}.",
        err=True,
    )


def _check(pattern: Path, out: Path, shards: list[Path]) -> None:
    if not shards:
        raise ConfigError(f"--input {str(pattern)!r}: matches no file, expected at least one. Correct the pattern.")
    for shard in shards:
        if shard.suffix.lower() in STRUCTURED:
            raise ConfigError(
                f"--input {shard}: is a {shard.suffix} file, whose lines are no texts, expected files of lines. "
                "Translate it alone: --input F --out G."
            )
    names = [shard.name for shard in shards]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"--input {str(pattern)!r}: matches two files named {twice[0]}, expected different names, because the "
            "translations get them too. Rename one."
        )
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out}: is a file, expected a directory for the translations of several files.")
    if any(shard.parent.resolve() == out.resolve() for shard in shards):
        raise ConfigError(f"--out {out}: is where the shards are, expected another directory. Name another --out.")


def _translate_shard(shard: Path, target: Path, translate: Callable[[Path], Iterator[str]]) -> int | None:
    """The number of lines written; None if the shard is finished, -1 if another process has it."""
    lock, unfinished = (target.with_name(f".{target.name}.{kind}") for kind in ("lock", "writing"))
    if target.exists():
        lock.unlink(missing_ok=True)  # of a process that was killed between the two
        return None
    with open_to_append(lock) as held:
        try:
            lock_file(held)
        except OSError:
            return -1
        if target.exists():  # finished by another process between the two
            lock.unlink(missing_ok=True)
            return None
        lines = 0
        with _open_output(unfinished, target.suffix) as stream:
            for line in translate(shard):
                stream.write(line.encode() + b"\n")
                lines += 1
        sync(unfinished)
        unfinished.replace(target)
        sync(target.parent)
        lock.unlink(missing_ok=True)
        return lines


@contextmanager
def _open_output(path: Path, suffix: str) -> Iterator[IO[bytes]]:
    """A new file, in gzip where the shard is, whatever a killed process left in its place."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        if suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as stream:
            yield stream  # type: ignore[misc]  # it is a stream of bytes, though not of the type
