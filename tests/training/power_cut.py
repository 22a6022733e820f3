"""An ext4 file system that can lose its power, and a training on it that runs in a process of its own.

After a cut the file system holds what had reached the disk, and nothing that was only in memory.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from multiprocessing import get_context
from pathlib import Path

from recorded import Lines

from glassformer.errors import GlassformerError
from glassformer.settings import RunConfig
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

_SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125  # EXT4_IOC_SHUTDOWN, as linux/fs.h makes its number
_WITHOUT_FLUSHING_THE_LOG = 2


class Disk:
    """A file system in a file, mounted at ``place``; ``OSError`` where that is not allowed or not possible."""

    def __init__(self, home: Path) -> None:
        self.place, self._image = home / "disk", home / "image"
        self.place.mkdir()
        if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
            raise OSError("it takes root and mkfs.ext4")

    def format(self) -> None:
        """Begin with an empty file system."""
        self._image.unlink(missing_ok=True)
        with self._image.open("wb") as file:
            file.truncate(64 << 20)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self.mount()

    def mount(self) -> None:
        """Mount what is on the disk; the file system repairs itself from its journal."""
        _run("mount", "-o", "loop", str(self._image), str(self.place))

    def cut(self) -> None:
        """Stop every write at once: what is only in memory is lost."""
        handle = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSHING_THE_LOG))
        finally:
            os.close(handle)

    def unmount(self) -> None:
        """Unmount, if it is mounted."""
        if os.path.ismount(self.place):
            _run("umount", str(self.place))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip()}")


def _train(run: Path, corpus: tuple[Path, Path], config: RunConfig, errors: Path) -> None:
    try:
        train(TrainRequest(run, FileSource(*corpus), config), Lines())
    except GlassformerError as error:
        errors.write_text(str(error))
        raise SystemExit(error.exit_code) from error


class Trainer:
    """Starts trainings in processes that have torch loaded already, so that a cut falls into the training."""

    def __init__(self, corpus: tuple[Path, Path], config: RunConfig, errors: Path) -> None:
        self._corpus, self._config, self._errors = corpus, config, errors
        self._processes = get_context("forkserver")
        self._processes.set_forkserver_preload(["glassformer.training.train"])

    def train(self, run: Path) -> float:
        """Train to the end; returns the seconds. Raises ``AssertionError`` with the message of a failed training."""
        process = self._start(run)
        began = time.monotonic()
        process.join()
        assert process.exitcode == 0, self._errors.read_text() if self._errors.exists() else process.exitcode
        return time.monotonic() - began

    def train_until_cut(self, run: Path, disk: Disk, seconds: float) -> None:
        """Train, and cut the power after so many seconds; the file system is unmounted then."""
        process = self._start(run)
        time.sleep(seconds)
        disk.cut()
        process.kill()
        process.join()
        disk.unmount()

    def _start(self, run: Path):
        self._errors.unlink(missing_ok=True)
        process = self._processes.Process(target=_train, args=(run, self._corpus, self._config, self._errors))
        process.start()
        return process
