"""Damage to any file of a run, and disks that are full: each command gives the right answer or says what is wrong."""

import itertools
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from laboratory import Clock, Ended, Laboratory, Tally, evenly, limit_file_size

from glassformer.errors import GlassformerError
from glassformer.settings import RunConfig

Damage = Callable[[Laboratory, Path], None]


def flip(laboratory: Laboratory, file: Path) -> None:
    content = bytearray(file.read_bytes())
    if content:
        content[laboratory.random.randrange(len(content))] ^= 1 << laboratory.random.randrange(8)
    file.write_bytes(content)


def cut(laboratory: Laboratory, file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: laboratory.random.randrange(max(1, len(content)))])


def zero(laboratory: Laboratory, file: Path) -> None:
    """As some file systems leave a block after a crash."""
    content = bytearray(file.read_bytes())
    start = laboratory.random.randrange(max(1, len(content)))
    length = len(content[start : start + 512])
    file.write_bytes(content[:start] + bytes(length) + content[start + length :])


def empty(laboratory: Laboratory, file: Path) -> None:
    file.write_bytes(b"")


def delete(laboratory: Laboratory, file: Path) -> None:
    file.unlink()


def swap(laboratory: Laboratory, file: Path) -> None:
    """Exchange it for another file of the run, of the same ending if there is one."""
    files = sorted(path for path in file.parents[0].rglob("*") if path.is_file() and path != file)
    alike = [path for path in files if path.suffix == file.suffix] or files
    if alike:
        other = laboratory.random.choice(alike)
        content = other.read_bytes()
        shutil.copy(file, other)
        file.write_bytes(content)


def append(laboratory: Laboratory, file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(laboratory.random.randbytes(laboratory.random.choice((1, 100))))


DAMAGES: dict[str, Damage] = {
    "flip": flip, "cut": cut, "zero": zero, "empty": empty, "delete": delete, "swap": swap, "append": append,
}  # fmt: skip


def damage_files(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """One file of the run, one kind of damage, one command; all of them by turns, as far as time allows."""
    commands = [*laboratory.reading, "train"]
    tallies = {name: Tally(f"damaged files: {'resume' if name == 'train' else name}") for name in commands}
    files = sorted(path.relative_to(laboratory.run) for path in laboratory.run.rglob("*") if path.is_file())
    cases = list(itertools.product(files, DAMAGES))
    for number in clock.while_time(itertools.chain.from_iterable(evenly(len(cases)) for _ in itertools.count())):
        file, damage = cases[number]
        run = laboratory.copy()
        DAMAGES[damage](laboratory, run / file)
        if (run / file).name == "config.json" and _is_an_edit(run, laboratory.run):
            continue
        for name in laboratory.reading:
            ended = laboratory.read(name, run)
            wrong = None if ended.remarks or ended.out == laboratory.printed[name] else f"prints {ended.out[:200]!r}"
            tallies[name].count(f"{damage} of {file}", ended, silent=wrong)
        ended = laboratory.command(*laboratory.train(run))
        wrong = None if ended.remarks else laboratory.differs(run)
        tallies["train"].count(f"{damage} of {file}", ended, silent=wrong)
    return list(tallies.values())


def _is_an_edit(run: Path, before: Path) -> bool:
    """Whether config.json can be read and says what a person may change by hand: other options of decoding."""
    try:
        found, expected = (json.loads((each / "config.json").read_bytes())["config"] for each in (run, before))
        RunConfig.from_mapping(found)
    except (OSError, ValueError, RecursionError, KeyError, TypeError, GlassformerError):
        return False
    return found.pop("decode") != expected.pop("decode") and found == expected


class SmallDisk:
    """A tmpfs of a size that can grow; ``OSError`` where none can be mounted."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self._mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place))

    def empty(self, kilobytes: int) -> None:
        """Delete everything and have this size."""
        for path in self.place.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.resize(kilobytes)

    def resize(self, kilobytes: int) -> None:
        """Have this size from now on."""
        self._mount("-o", f"remount,size={kilobytes}k", str(self.place))

    def unmount(self) -> None:
        """Give it back."""
        subprocess.run(["umount", str(self.place)], check=False, capture_output=True)

    @staticmethod
    def _mount(*words: str) -> None:
        done = subprocess.run(["mount", *words], check=False, capture_output=True, text=True)
        if done.returncode:
            raise OSError(done.stderr.strip())


def fill_disks(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """Trainings on disks of any size, from too small for a lock to nearly enough; then there is room, and they resume."""
    tally = Tally("full disks (tmpfs)")
    try:
        disk = SmallDisk(laboratory.place / "small-disk")
    except (OSError, FileNotFoundError) as error:
        tally.skipped = f"no tmpfs can be mounted here: {error}"
        return [tally]
    whole_kb = 2 + sum(path.stat().st_size // 1024 + 4 for path in laboratory.whole.rglob("*"))
    try:
        for number in clock.while_time(itertools.chain.from_iterable(evenly(40) for _ in itertools.count())):
            disk.empty(max(4, whole_kb * number // 40))
            filled = laboratory.command(*laboratory.train(disk.place / "run"))
            wrong = None if filled.status in {0, 5} else f"status {filled.status}"
            disk.resize(64 * 1024)
            ended, other = laboratory.finish(disk.place / "run")
            told = filled if filled.has_traceback or filled.hung else ended._replace(err=filled.err + ended.err)
            tally.count(f"training on {whole_kb * number // 40} kB", told, silent=wrong or other)
            for what, ended, wrong in _write_to_full(laboratory, disk):
                tally.count(what, ended, silent=wrong)
    finally:
        disk.unmount()
    return [tally]


def _write_to_full(laboratory: Laboratory, disk: SmallDisk) -> Iterator[tuple[str, Ended, str | None]]:
    """Commands that write to a disk that is full to the last byte: what stood there stays, and it is said."""
    disk.empty(256)
    run, mine = disk.place / "run", disk.place / "mine.txt"
    shutil.copytree(laboratory.run / "history", run / "history")
    for name in ("config.json", "tokenizer.src.json", "tokenizer.tgt.json"):
        shutil.copy(laboratory.run / name, run / name)
    mine.write_text("dear to me\n")
    with suppress(OSError), (disk.place / "filler").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
    text = laboratory.place / "long.txt"
    text.write_text("bad cafe\n" * 2000)
    commands = {
        "translate --out": ("translate", "--input", str(text), "--out", str(mine)),
        "trace --save": ("trace", "abc", "--save", str(disk.place / "saved")),
        "trace --json": ("trace", "abc", "--json", str(disk.place / "trace.json")),
        "trace --markdown": ("trace", "abc", "--markdown", str(disk.place / "trace.md")),
        "average": ("average",),
    }
    for what, words in commands.items():
        ended = laboratory.command(*words, "--run", str(run))
        kept = mine.read_text() == "dear to me\n"
        wrong = None if ended.status != 0 and kept else f"status {ended.status}, kept: {kept}"
        yield f"{what} on a full disk", ended, wrong
    ended = laboratory.command("translate", "--input", str(text), "--run", str(run), stdout=disk.place / "out.txt")
    yield "translate > out.txt on a full disk", ended, None if ended.status else "status 0"


def limit_files(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """Trainings whose files may not be larger than so much; then they may, and they resume."""
    tally, run = Tally("full disks (RLIMIT_FSIZE)"), laboratory.place / "limited"
    largest = max(path.stat().st_size for path in laboratory.whole.rglob("*") if path.is_file())
    for number in clock.while_time(itertools.chain.from_iterable(evenly(60) for _ in itertools.count())):
        shutil.rmtree(run, ignore_errors=True)
        size = 1 + largest * number // 60
        limited = laboratory.command(*laboratory.train(run), prepare=limit_file_size(size))
        wrong = None if limited.status in {0, 5} else f"status {limited.status}"
        ended, other = laboratory.finish(run)
        told = limited if limited.has_traceback or limited.hung else ended._replace(err=limited.err + ended.err)
        tally.count(f"files of at most {size} bytes", told, silent=wrong or other)
    return [tally]
