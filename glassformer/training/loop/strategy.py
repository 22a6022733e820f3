"""How an update computes its gradients: here in one process."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.checkpoint import Tensors, load_weights
from glassformer.model.transformer import Transformer
from glassformer.settings import TrainConfig
from glassformer.text.corpus.batches import Batch
from glassformer.trace import note
from glassformer.training.objective.objective import Objective, autocast
from glassformer.world import ALONE, World


class ParallelStrategy:
    """A model and its objective in one process."""

    def __init__(
        self, model: Transformer, config: TrainConfig, world: World = ALONE, *, compiled: bool = False
    ) -> None:
        self.model, self.world, self._compiled = model, world, compiled
        objective = Objective(model, config.label_smoothing, config.r_drop)
        if compiled:
            objective.compile_layers()
        self.objective: nn.Module = objective

    def backward(self, batch: Batch, tokens: float, config: TrainConfig) -> Float[Tensor, "2"]:
        """Add the gradients of a batch's smoothed loss / ``tokens``; returns both losses."""
        batch = batch.to(next(self.model.parameters()).device)
        with autocast(config.precision, batch.src_ids.device):
            loss, nll = self.objective(batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids)
        mean = loss / tokens
        note("loss.mean", mean, "")
        mean.backward()
        return torch.stack([loss.detach(), nll]).double()

    def gradient_sync(self, *, enabled: bool) -> AbstractContextManager[object]:
        """The context of one batch's forward and backward; ``enabled`` averages the gradients over the processes."""
        return nullcontext()

    def gather_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The full tensors, in the first process; nothing in the others."""
        return dict(tensors) if self.world.is_first else {}

    def distribute_like(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        """A full tensor on the device of ``parameter``, in the same shards."""
        return tensor.to(parameter.device)

    def load(self, weights: Tensors, where: Path) -> None:
        """Copy full weights into the model; names and shapes must agree exactly."""
        load_weights(self.model, weights, where, self.distribute_like)

    @contextmanager
    def full_model(self) -> Iterator[Transformer]:
        """The model with all its weights, for validation."""
        with torch.compiler.set_stance("force_eager") if self._compiled else nullcontext():
            yield self.model
