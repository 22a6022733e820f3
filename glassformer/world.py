"""The processes that work together, as one of them sees it: how many there are, which one it is, what they tell.

``torchrun`` starts them, one on each GPU or on each share of a machine's cores; a process that it did not start is
alone, and nothing is sent. Numbers and text go over gloo, tensors of a GPU over NCCL. Knows nothing of models.
"""

import itertools
import math
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import torch
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from glassformer.errors import ConfigError, PeerError, WorkerError

T = TypeVar("T")

# The first process may prepare text, and another one translate its share, for hours; torchrun ends those that wait if
# one fails. The steps of a training wait no longer than PyTorch's own limit, so that a frozen process is noticed.
_LONGEST_WAIT = timedelta(days=7)
_LONGEST_START = timedelta(minutes=15)
# What PyTorch's errors hold when the connection to another process is lost.
_LOST = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "TCPStore")


class World:
    """One process by itself: all that there is to share, it has."""

    rank, size, local_rank = 0, 1, 0

    @property
    def is_first(self) -> bool:
        """Whether this is the process that prepares, writes and shows."""
        return self.rank == 0

    def numbers(self, *values: float) -> list[list[float]]:
        """The values of each process, by rank, to all."""
        return [list(values)]

    def sum(self, *values: float) -> list[float]:
        """Each value summed over the processes, to all, exactly rounded."""
        return [math.fsum(column) for column in zip(*self.numbers(*values), strict=True)]

    def from_first(self, make: Callable[[], T]) -> T:
        """What ``make`` gives in the first process, which alone calls it, to all."""
        return make()

    def scatter(self, make: Callable[[], Sequence[T] | None]) -> T | None:
        """To each process its own of the values, one a process, that the first one makes; None when it makes None."""
        values = make()
        return None if values is None else values[0]

    def gather(self, value: T) -> list[T]:
        """The value of each process, by rank, to the first; to the others nothing."""
        return [value]

    @contextmanager
    def first_ahead(self) -> Iterator[None]:
        """The first process goes through the block before the others, however long that takes it."""
        yield

    def device(self, name: str) -> str:
        """The device that ``name`` means for this process."""
        return name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None


ALONE = World()


class TorchrunWorld(World):
    """Several processes that ``torchrun`` started; entered, they are connected.

    When one fails, all end: the first to fail leaves the block with its own error, the others with ``PeerError``.
    One that was killed says nothing: the first to notice leaves the block with ``WorkerError``.
    """

    def __init__(self) -> None:
        self.rank, self.size, self.local_rank = (int(os.environ[key]) for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        self._turns = itertools.count()
        self._patient: dist.ProcessGroup | None = None

    def numbers(self, *values: float) -> list[list[float]]:
        """The values of each process, by rank, to all."""
        mine = torch.tensor(values, dtype=torch.float64)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(found, mine)
        return [row.tolist() for row in found]

    def from_first(self, make: Callable[[], T]) -> T:
        """What ``make`` gives in the first process, which alone calls it, to all."""
        held: list[Any] = [make() if self.is_first else None]
        dist.broadcast_object_list(held, src=0, group=self._patient)
        return held[0]  # type: ignore[no-any-return]

    def scatter(self, make: Callable[[], Sequence[T] | None]) -> T | None:
        """To each process its own of the values, one a process, that the first one makes; None when it makes None."""
        held: list[Any] = [None]
        values: Sequence[Any] | None = (make() or [None] * self.size) if self.is_first else None
        dist.scatter_object_list(held, None if values is None else list(values), src=0, group=self._patient)
        return held[0]  # type: ignore[no-any-return]

    def gather(self, value: T) -> list[T]:
        """The value of each process, by rank, to the first; to the others nothing."""
        found: list[Any] = [None] * self.size if self.is_first else []
        dist.gather_object(value, found if self.is_first else None, dst=0, group=self._patient)
        return found

    @contextmanager
    def first_ahead(self) -> Iterator[None]:
        """The first process goes through the block before the others, however long that takes it."""
        done = f"first_ahead/{next(self._turns)}"
        if not self.is_first:
            self._store.wait([done], _LONGEST_WAIT)
        yield
        if self.is_first:
            self._store.set(done, "")

    def device(self, name: str) -> str:
        """``auto`` and ``cuda`` are the GPU with this process's number among those of its machine."""
        if name.startswith("cuda:"):
            raise ConfigError(
                f"device: found {name!r} for {self.size} processes, expected auto, cuda or cpu: each takes a GPU of "
                "its own. To choose among GPUs, set CUDA_VISIBLE_DEVICES before torchrun."
            )
        if name == "cpu" or not torch.cuda.is_available():
            return name
        if self.local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"device: found {torch.cuda.device_count()} GPUs on a machine of more processes, expected a GPU for "
                "each. Lower torchrun's --nproc-per-node, or choose the device cpu."
            )
        return f"cuda:{self.local_rank}"

    def __enter__(self) -> Self:
        has_gpus = torch.cuda.is_available() and dist.is_nccl_available()
        if has_gpus and self.local_rank < torch.cuda.device_count():
            torch.cuda.set_device(self.local_rank)
        store, _, _ = next(rendezvous("env://"))
        self._store = _of_this_start(store, self.rank, self.size)
        backend = "cpu:gloo,cuda:nccl" if has_gpus else "gloo"
        dist.init_process_group(backend, store=self._store, rank=self.rank, world_size=self.size)
        self._patient = dist.new_group(backend="gloo", timeout=_LONGEST_WAIT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self.numbers(0.0)  # no connection ends before the last one has come here
            except RuntimeError as lost:
                self._tell_of(lost)
                raise
            dist.destroy_process_group()
        else:
            self._tell_of(error)

    def _tell_of(self, error: BaseException) -> None:
        """Raise what ``error`` is to this process, if it is not its own."""
        if not self._is_first_to_fail():
            raise PeerError(f"process {self.rank} of {self.size}: ended, because another one failed.") from error
        if isinstance(error, RuntimeError) and any(sign in str(error) for sign in _LOST):
            raise WorkerError(
                f"process {self.rank} of {self.size}: another process ended before its work did: killed, out of "
                "memory, or cut off. Start the same command again; with --max-restarts torchrun does so by itself."
            ) from error

    def _is_first_to_fail(self) -> bool:
        try:
            return int(self._store.add("failed", 1)) == 1
        except RuntimeError:  # the store has ended too
            return True


def _of_this_start(store: Store, rank: int, size: int) -> Store:
    """The store without what stands in it of processes that ``torchrun`` ended and has started anew.

    It keeps one store for all its restarts, and what tells a restart from the one before differs between machines.
    So the first process answers each of the others by a word that this one has just made up.
    """
    own = uuid.uuid4().hex
    if rank:
        store.set(f"greeting/{rank}", own)
        store.wait([own], _LONGEST_START)
        common = store.get(own).decode()
        store.set(f"{common}/answered/{rank}", "")
        return PrefixStore(common, store)
    ends = time.monotonic() + _LONGEST_START.total_seconds()
    while not store.check([f"{own}/answered/{other}" for other in range(1, size)]):
        if time.monotonic() > ends:
            raise WorkerError(f"found fewer processes than {size} after {_LONGEST_START}, expected all. Start again.")
        for other in range(1, size):
            if store.check([f"greeting/{other}"]):
                store.set(store.get(f"greeting/{other}").decode(), own)
        time.sleep(0.02)
    return PrefixStore(own, store)


def join_world() -> World:
    """The world that ``torchrun`` put this process in, to be entered; or that of a process alone."""
    launched = dist.is_available() and dist.is_torchelastic_launched()
    return TorchrunWorld() if launched and os.environ.get("WORLD_SIZE") != "1" else ALONE


def leave(code: str | int | None) -> NoReturn:
    """End this process, one of several, with a ``SystemExit``'s code, and do not clear the interpreter away first.

    A thread of gloo's may only now let go of a tensor, which takes the interpreter: found half gone, it aborts all.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
