"""The processes that ``torchrun`` started, one a GPU or share of the cores, and what they exchange."""

import itertools
import math
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NoReturn, Self, TypeVar

import torch
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from glassformer.errors import ConfigError, PeerError, WorkerError, torchrun_number

T = TypeVar("T")

_LONGEST_WAIT = timedelta(days=7)  # while the first process prepares text; an update waits as long as PyTorch lets it
_LONGEST_START = timedelta(minutes=15)
# Words in PyTorch's errors when the connection to another process is lost.
_CONNECTION_LOST = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "TCPStore")


class World:
    """The processes that work together, connected inside the ``with`` block; one alone waits for nobody.

    If one fails, all end: the first raises its own error, the others ``PeerError``. If one is killed, the first to
    notice raises ``WorkerError``.
    """

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0) -> None:
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self._turns = itertools.count()
        self._slow_group: dist.ProcessGroup | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the process that prepares, writes and shows."""
        return self.rank == 0

    def all_gather(self, *values: float) -> list[list[float]]:
        """The values of every process, by rank; every process receives them."""
        if self.size == 1:
            return [list(values)]
        mine = torch.tensor(values, dtype=torch.float64)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(found, mine)
        return [row.tolist() for row in found]

    def sum(self, *values: float) -> list[float]:
        """Each value summed over the processes, correctly rounded."""
        return [math.fsum(column) for column in zip(*self.all_gather(*values), strict=True)]

    def broadcast(self, make: Callable[[], T]) -> T:
        """The result of ``make``, which only the first process calls."""
        held: list[Any] = [make() if self.is_first else None]
        if self.size > 1:
            dist.broadcast_object_list(held, src=0, group=self._slow_group)
        return held[0]  # type: ignore[no-any-return]  # a list of what pickle carried has no types

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank, in the first process."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size if self.is_first else []
        dist.gather_object(value, found if self.is_first else None, dst=0, group=self._slow_group)
        return found

    @contextmanager
    def first_process_first(self) -> Iterator[None]:
        """The first process runs the block before the others, however long it takes."""
        done = f"first_process_first/{next(self._turns)}"
        if not self.is_first:
            self._store.wait([done], _LONGEST_WAIT)
        yield
        if self.is_first and self.size > 1:
            self._store.set(done, "")

    def device(self, name: str) -> str:
        """The device for this process: of several, each has its own GPU."""
        if self.size == 1:
            return name
        if name.startswith("cuda:"):
            raise ConfigError(
                f"device: found {name!r} for {self.size} processes, and each takes its own GPU, expected auto, "
                "cuda or cpu. To choose among GPUs, set CUDA_VISIBLE_DEVICES before torchrun."
            )
        if name == "cpu" or not torch.cuda.is_available():
            return name
        if self.local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"device: found {torch.cuda.device_count()} GPUs for more processes, expected one each. "
                "Lower torchrun's --nproc-per-node, or choose the device cpu."
            )
        return f"cuda:{self.local_rank}"

    def __enter__(self) -> Self:
        if self.size == 1:
            return self
        has_gpus = torch.cuda.is_available() and dist.is_nccl_available()
        if has_gpus and self.local_rank < torch.cuda.device_count():
            torch.cuda.set_device(self.local_rank)
        store, _, _ = next(rendezvous("env://"))
        self._store = _store_of_this_start(store, self.rank, self.size)
        backend = "cpu:gloo,cuda:nccl" if has_gpus else "gloo"
        dist.init_process_group(backend, store=self._store, rank=self.rank, world_size=self.size)
        self._slow_group = dist.new_group(backend="gloo", timeout=_LONGEST_WAIT)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.size == 1:
            return
        if error is not None:
            self._raise_for_peers(error)
            return
        try:
            self.all_gather(0.0)  # every process gets here before any connection closes
        except RuntimeError as lost:
            self._raise_for_peers(lost)
            raise
        dist.destroy_process_group()

    def _raise_for_peers(self, error: BaseException) -> None:
        """Raise ``PeerError`` or ``WorkerError`` if another process caused ``error``."""
        try:
            is_first_to_fail = int(self._store.add("failed", 1)) == 1
        except RuntimeError:  # the store is gone too
            is_first_to_fail = True
        if not is_first_to_fail:
            raise PeerError(f"process {self.rank} of {self.size}: ended because another process failed.") from error
        if isinstance(error, RuntimeError) and any(sign in str(error) for sign in _CONNECTION_LOST):
            raise WorkerError(
                f"process {self.rank} of {self.size}: another process ended before its work was done: killed, "
                "out of memory, or disconnected. Run the same command again; torchrun --max-restarts does so itself."
            ) from error


ALONE = World()


def _store_of_this_start(store: Store, rank: int, size: int) -> Store:
    """The store without the entries of earlier starts, which ``torchrun`` keeps."""
    own = uuid.uuid4().hex
    if rank:
        store.set(f"greeting/{rank}", own)  # the first process answers under this key
        store.wait([own], _LONGEST_START)
        common = store.get(own).decode()
        store.set(f"{common}/answered/{rank}", "")
        return PrefixStore(common, store)
    ends = time.monotonic() + _LONGEST_START.total_seconds()
    while not store.check([f"{own}/answered/{other}" for other in range(1, size)]):
        if time.monotonic() > ends:
            raise WorkerError(
                f"found fewer processes than {size} after {_LONGEST_START}, expected all. Run it again."
            )
        for other in range(1, size):
            if store.check([f"greeting/{other}"]):
                store.set(store.get(f"greeting/{other}").decode(), own)
        time.sleep(0.02)
    return PrefixStore(own, store)


def join_world() -> World:
    """The world of this process, to be entered; ``ALONE`` without ``torchrun``."""
    launched = dist.is_available() and dist.is_torchelastic_launched()
    if not launched or os.environ.get("WORLD_SIZE") == "1":
        return ALONE
    return World(*map(torchrun_number, ("RANK", "WORLD_SIZE", "LOCAL_RANK")))


def exit_process(code: str | int | None) -> NoReturn:
    """End this process without Python's shutdown, in which threads of gloo abort."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the reader is gone
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
