"""Training on one GPU: the passes of a batch as one CUDA graph for each shape of batch.

A GPU computes the passes of small models faster than a CPU can launch their kernels one by one.
"""

import os
import shutil
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from glassformer.errors import ConfigError
from glassformer.model.transformer import Transformer
from glassformer.settings import TrainConfig
from glassformer.text.corpus.batches import Batch
from glassformer.text.tokenizer.tokenizer import PAD_ID
from glassformer.training.loop.strategy import ParallelStrategy
from glassformer.training.objective.objective import autocast

MOST_GRAPHS = 128
_ROW_BITS = 4  # rows are padded to four significant bits
LENGTHS = 4  # both sides are padded to a multiple of it
_WARM_UP = 3  # passes before a graph is captured: the first compile


class GraphStrategy(ParallelStrategy):
    """One process on a GPU, its layers compiled."""

    def __init__(self, model: Transformer, config: TrainConfig, *, compiled: bool = True) -> None:
        super().__init__(model, config, compiled=compiled)
        model.use_fused_attention()
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        self._gradients = [torch.zeros_like(weight) for weight in self._weights]
        self._device = self._weights[0].device
        self._sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        self._tokens = torch.ones((), device=self._device)
        self._graphs: dict[tuple[torch.Size, ...], tuple[list[Tensor], Callable[[], None]]] = {}
        if self._device.type == "cuda":
            self._pool = torch.cuda.graph_pool_handle()  # memory that all graphs share
            self._side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def backward(self, batch: Batch, tokens: float, config: TrainConfig) -> Float[Tensor, "2"]:
        """Add the gradients of a batch's smoothed loss, summed and divided by ``tokens``; returns both losses."""
        self._lend_gradients()
        self._tokens.fill_(tokens)
        ids = pad_batch(batch, self.model.config.max_length)
        shape = tuple(one.shape for one in ids)
        if shape not in self._graphs and len(self._graphs) == MOST_GRAPHS:
            self._compute([one.to(self._device) for one in ids], config)
            return self._sums.clone()
        if shape not in self._graphs:
            self._graphs[shape] = self._capture(ids, config)
        inputs, replay = self._graphs[shape]
        for there, here in zip(inputs, ids, strict=True):
            there.copy_(here, non_blocking=True)
        replay()
        return self._sums.clone()

    def _lend_gradients(self) -> None:
        """Give each weight its kept gradient, cleared."""
        free = [one for weight, one in zip(self._weights, self._gradients, strict=True) if weight.grad is None]
        if free:
            torch._foreach_zero_(free)
            for weight, one in zip(self._weights, self._gradients, strict=True):
                weight.grad = one

    def _compute(self, ids: list[Tensor], config: TrainConfig) -> None:
        """Both losses into ``_sums``, and the gradients added to the kept ones."""
        try:
            with autocast(config.precision, self._device):
                loss, nll = self.objective(*ids)
            gradients = torch.autograd.grad(loss / self._tokens, self._weights)
        except torch._dynamo.exc.TorchDynamoException as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"train.compile: torch.compile failed here: {reason:.300} It needs a C compiler such as gcc. "
                "Set train.compile=off to train without it."
            ) from error
        torch._foreach_add_(self._gradients, gradients)
        self._sums.copy_(torch.stack([loss.detach(), nll]))

    def _capture(self, ids: list[Tensor], config: TrainConfig) -> tuple[list[Tensor], Callable[[], None]]:
        """Where ids of this shape are put, and what computes them."""
        inputs = [one.to(self._device, copy=True) for one in ids]
        compute = partial(self._compute, inputs, config)
        if self._device.type != "cuda":
            return inputs, compute
        before, random_state = [one.clone() for one in self._gradients], torch.cuda.get_rng_state(self._device)
        graph = self._capture_graph(compute)
        torch.cuda.set_rng_state(random_state, self._device)
        torch._foreach_copy_(self._gradients, before)
        return inputs, graph.replay

    def _capture_graph(self, compute: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """A graph of what ``compute`` does."""
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._device)
        with torch.cuda.device(self._device):
            self._side.wait_stream(current)
            with torch.cuda.stream(self._side):
                for _ in range(_WARM_UP):
                    compute()
            current.wait_stream(self._side)
            with torch.cuda.graph(graph, pool=self._pool, stream=self._side, capture_error_mode="thread_local"):
                compute()
        return graph


def can_compile(device: torch.device) -> bool:
    """Whether Triton and its C compiler can compile for this GPU."""
    compilers = (os.environ.get("CC", ""), "gcc", "clang", "cc")
    return device.type == "cuda" and find_spec("triton") is not None and any(map(shutil.which, compilers))


def pad_batch(batch: Batch, max_length: int) -> list[Tensor]:
    """Ids padded to lengths of multiples of 4 and rows of four significant bits."""
    rows, padded = round_up(len(batch.src_ids), _ROW_BITS), []
    for ids in (batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids):
        more = min(-ids.shape[1] % LENGTHS, max_length - ids.shape[1])
        padded.append(pad(ids, (0, more, 0, rows - len(ids)), value=PAD_ID))
    return padded


def round_up(count: int, bits: int) -> int:
    """The next number with at most so many significant bits."""
    step = 1 << max(0, count.bit_length() - bits)
    return -(-count // step) * step
