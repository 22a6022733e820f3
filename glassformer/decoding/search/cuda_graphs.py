"""Decoding with CUDA graphs: the passes of a search have few shapes and fixed places in memory, and are replayed.

A shape gets a graph when it comes a second time, up to ``MOST_GRAPHS`` for each ``StaticDecoder``; other passes are
computed kernel by kernel, as all are on a CPU, with the same result. The first pass of a batch, which also reads the
memory, is one of them. Logits and the choice of ids stay outside of graphs, for the rows that are left alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glassformer.decoding.search.job import SearchJob, check_wanted
from glassformer.decoding.search.steps import BeamSteps
from glassformer.model import Transformer
from glassformer.model.cache import MIN_KEYS, StaticCache
from glassformer.model.cuda_graphs import CudaGraphs, round_up
from glassformer.model.masks import Mask
from glassformer.settings import ModelConfig
from glassformer.trace import is_tracing

MOST_GRAPHS, MOST_DECODERS = 64, 8
MOST_BYTES = 2**32  # of all keys and values that are kept
_BITS = 2  # rows and source positions are rounded up to 1, 2, 3, 4, 6, 8, 12, 16 ...
_MIN_SRC = 16


@dataclass(frozen=True)
class Room:
    """The sizes of a ``StaticDecoder``."""

    rows: int  # sources of a beam search, samples of a sampling
    slots: int  # hypotheses of each row
    keys: int  # target positions of all hypotheses of a row
    src: int  # source positions, padding included

    @classmethod
    def for_job(cls, job: SearchJob, max_length: int) -> "Room":
        """Room for the job, rounded up, so that jobs of similar sizes share it."""
        rows, slots = len(job.sources), job.options.rows_per_source
        if job.options.sample:
            rows, slots = rows * slots, 1
        src = round_up(max(_MIN_SRC, *map(len, job.sources)), _BITS)
        keys = max(MIN_KEYS, 1 << (slots * max(job.limits) - 1).bit_length())
        return cls(round_up(rows, _BITS), slots, keys, min(src, max_length))

    def bytes_of(self, config: ModelConfig) -> int:
        """The size of the keys and values in float32."""
        widths = config.n_decoder_layers * (config.heads_d_k + config.heads_d_v)
        return 4 * self.rows * widths * (self.keys + self.src)


class StaticDecoder:
    """The decoder of a model at fixed places in memory, for one search at a time."""

    def __init__(self, model: Transformer, room: Room) -> None:
        self._model, self.room, self.weights = model, room, addresses(model)
        device = model.tgt_embedding.tokens.weight.device
        self.cache = StaticCache(model.config.n_decoder_layers, room.rows, room.slots, room.keys, device)
        self._ids = torch.zeros(room.rows, room.slots, dtype=torch.int64, device=device)
        self._src_mask = torch.ones(room.rows, 1, 1, room.src, dtype=torch.bool, device=device)
        nothing = torch.zeros((), device=device)
        self._memory = nothing.expand(room.rows, room.src, model.config.d_model)  # never read: its keys are cached
        self._passes: dict[tuple[int, int, int], Callable[[], Tensor] | None] = {}
        self._graphs = CudaGraphs(device)

    def hidden(
        self, ids: Int[Tensor, "rows slots"], memory: Float[Tensor, "rows src d_model"], memory_mask: Mask
    ) -> Float[Tensor, "rows slots d_model"]:
        """The decoder's output for the next ids of all hypotheses; it stays as it is until the next call.

        The memory is read at the first call alone.
        """
        rows, slots = ids.shape
        if self.cache.length == 0:
            output = self._model.decode_hidden(ids, memory, memory_mask, self.cache)
        else:
            self._ids[:rows, :slots] = ids
            self._src_mask[:rows] = memory_mask.visible
            output = self._run(round_up(rows, _BITS), slots)[:rows]
        self.cache.advance()
        return output

    def _run(self, rows: int, slots: int) -> Float[Tensor, "rows slots d_model"]:
        compute = partial(self._compute, rows, slots)
        shape = rows, slots, self.cache.keys_with(slots)
        if shape not in self._passes:
            if len(self._passes) < MOST_GRAPHS:
                self._passes[shape] = None  # it came once
            return compute()
        run = self._passes[shape] = self._passes[shape] or self._graphs.capture(compute, warm_up=1)
        return run()

    def _compute(self, rows: int, slots: int) -> Float[Tensor, "rows slots d_model"]:
        mask = Mask(self._src_mask[:rows])
        return self._model.decode_hidden(self._ids[:rows, :slots], self._memory[:rows], mask, self.cache)


def addresses(model: Transformer) -> list[int]:
    """Where the weights are, from where a graph reads them; a program may give a model others."""
    return [weight.data_ptr() for weight in (*model.parameters(), *model.buffers())]


class StaticDecoders:
    """Those of one model: a search borrows one, and the last ones are kept with their graphs for later searches."""

    def __init__(self, model: Transformer) -> None:
        self._model, self._lock = model, Lock()
        self._free: list[StaticDecoder] = []  # the one used last is the last

    def __reduce__(self) -> tuple[type["StaticDecoders"], tuple[Transformer]]:
        """A copy keeps nothing for later searches yet."""
        return StaticDecoders, (self._model,)

    def can_lend(self, job: SearchJob) -> bool:
        """Whether a search wants static passes and can have them: with a cache, of at most ``MOST_BYTES``.

        Neither in a trace nor with a coverage penalty, which reads attention weights.
        """
        options, device = job.options, self._model.tgt_embedding.tokens.weight.device
        if options.cuda_graphs == "off" or (options.cuda_graphs == "auto" and device.type != "cuda"):
            return False
        if not options.cache or options.coverage_penalty > 0.0 or is_tracing():
            return False
        return self._room(job).bytes_of(self._model.config) <= MOST_BYTES

    @contextmanager
    def lend(self, job: SearchJob) -> Iterator[StaticDecoder]:
        """A decoder with an empty cache, which no other search uses until the block ends."""
        room, weights = self._room(job), addresses(self._model)
        with self._lock:
            free = (one for one in self._free if one.room == room and one.weights == weights)
            decoder = next(free, None)
            if decoder is not None:
                self._free.remove(decoder)
                decoder.cache.reset()
        decoder = decoder or StaticDecoder(self._model, room)
        try:
            yield decoder
        finally:
            with self._lock:
                self._free.append(decoder)
                while len(self._free) > MOST_DECODERS or self._bytes() > MOST_BYTES:
                    del self._free[0]

    def _room(self, job: SearchJob) -> Room:
        return Room.for_job(job, self._model.config.max_length)

    def _bytes(self) -> int:
        return sum(one.room.bytes_of(self._model.config) for one in self._free)


class GraphSteps(BeamSteps):
    """``BeamSteps`` over a ``StaticDecoder``. Each sample of a sampling is a row with one slot."""

    def __init__(self, model: Transformer, src_ids: Int[Tensor, "rows src"], decoder: StaticDecoder) -> None:
        self._decoder = decoder
        more = decoder.room.src - src_ids.shape[1]
        super().__init__(model, pad(src_ids, (0, more), value=model.config.pad_id))

    def _new_cache(self) -> StaticCache:
        return self._decoder.cache

    def _decode(self, read: Int[Tensor, "batch tgt"]) -> Float[Tensor, "batch tgt vocab"]:
        check_wanted()
        hidden = self._decoder.hidden(read, self._memory, self._memory_mask)
        return self._model.output_projection(hidden)  # type: ignore[no-any-return]  # nn.Module.__call__ is untyped

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was; before the first step, rows may be repeated."""
        if self._decoder.cache.length:
            super().select(rows)
        else:
            self._memory = self._memory.index_select(0, rows)
            self._memory_mask = self._memory_mask.reorder(rows)
