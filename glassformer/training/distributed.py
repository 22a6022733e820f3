"""A model in training, and how it is spread over the processes of a world: whole in each, or in shards.

Every process has its share of an update's batches. Of whole models, ``DistributedDataParallel`` averages the
gradients; of shards, FSDP2 (Zhao et al. 2023, arXiv 2304.11277) gathers a layer's weights while it computes, and
hands each process the gradient and the moments of its own shard. What is saved is the same in all cases.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.checkpoint import Tensors, load_weights
from glassformer.config import TrainConfig
from glassformer.model.transformer import Transformer
from glassformer.training.fused_loss import Objective
from glassformer.world import ALONE, World

# The option's name in PyTorch 2.13, and before.
_SYNC_BUFFERS = next(
    name
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in signature(DistributedDataParallel).parameters
)


class Spread:
    """A model that learns whole, in a process alone."""

    def __init__(self, model: Transformer, config: TrainConfig, world: World = ALONE) -> None:
        self.model, self.world = model, world
        self.objective: nn.Module = Objective(model, config.label_smoothing, config.r_drop)

    def adding(self, *, last: bool) -> AbstractContextManager[object]:
        """The context of one batch's forward and backward; with the ``last`` one the processes' gradients join."""
        return nullcontext()

    def gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors whole, in the first process; nothing in the others. All processes call it together."""
        return dict(tensors) if self.world.is_first else {}

    def placed(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        """A whole tensor, spread as ``parameter`` is, on its device. All processes call it together."""
        return tensor.to(parameter.device)

    def load(self, weights: Tensors, where: Path) -> None:
        """Copy whole weights into the model; names and shapes must agree exactly."""
        own = dict(self.model.named_parameters())
        load_weights(
            self.model, {name: self._as_own(weight, own.get(name)) for name, weight in weights.items()}, where
        )

    def _as_own(self, weight: Tensor, parameter: Tensor | None) -> Tensor:
        fits = parameter is not None and parameter.shape == weight.shape
        return self.placed(weight, parameter) if fits and parameter is not None else weight

    @contextmanager
    def whole_model(self) -> Iterator[Transformer]:
        """The model with all its weights in this process, to validate; not to be changed."""
        yield self.model


class Replicated(Spread):
    """A model that stands whole in each process; the gradients are averaged while backward goes on."""

    def __init__(self, model: Transformer, config: TrainConfig, world: World, device: torch.device) -> None:
        super().__init__(model, config, world)
        options: dict[str, Any] = {_SYNC_BUFFERS: False}  # they are tables of positions, which never change
        if device.type != "cpu":
            options["device_ids"] = [device]
        self._replica = DistributedDataParallel(self.objective, gradient_as_bucket_view=True, **options)
        self.objective = self._replica

    def adding(self, *, last: bool) -> AbstractContextManager[object]:
        """The context of one batch's forward and backward; with the ``last`` one the processes' gradients join."""
        return nullcontext() if last else self._replica.no_sync()


class Sharded(Spread):
    """A model of which each process holds a shard: of every weight, its gradient and its moments."""

    def __init__(self, model: Transformer, config: TrainConfig, world: World, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, fully_shard

        super().__init__(model, config, world)
        self._device, self._mesh = device, init_device_mesh(device.type, (world.size,))
        for layer in (*model.encoder.layers, *model.decoder.layers):
            fully_shard(layer, mesh=self._mesh)
        root = fully_shard(self.objective, mesh=self._mesh)  # the embeddings, however tied, and what else is left
        assert isinstance(root, FSDPModule)
        self._root = root

    def adding(self, *, last: bool) -> AbstractContextManager[object]:
        """The context of one batch's forward and backward; with the ``last`` one the processes' gradients join."""
        self._root.set_requires_gradient_sync(last)
        return nullcontext()

    def gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors whole, in the first process, in its machine's memory; nothing in the others."""
        found = {}
        for name, tensor in tensors.items():
            gathered = whole(tensor)
            if self.world.is_first:
                found[name] = gathered.cpu()
        return found

    def placed(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        """A whole tensor, spread as ``parameter`` is, on its device. All processes call it together."""
        from torch.distributed.tensor import DTensor, distribute_tensor

        assert isinstance(parameter, DTensor)
        return distribute_tensor(tensor.to(self._device), self._mesh, parameter.placements)

    @contextmanager
    def whole_model(self) -> Iterator[Transformer]:
        """A copy with all weights in this process: a quarter of what Adam's training takes unsharded."""
        gpus = [] if self._device.type == "cpu" else [self._device]
        with torch.random.fork_rng(gpus), self._device:  # its first weights are drawn in vain
            copy = Transformer(self.model.config)
        own, buffers = dict(self.model.named_parameters()), dict(self.model.named_buffers())
        with torch.no_grad():
            for name, parameter in copy.named_parameters():
                parameter.copy_(whole(own[name].detach()))
            for name, buffer in copy.named_buffers():
                buffer.copy_(buffers[name])
        yield copy.eval()


def spread_over(world: World, model: Transformer, config: TrainConfig, device: torch.device) -> Spread:
    """``model``, made on the CPU and equal in all processes, on ``device`` and spread as ``config.sharding`` says."""
    if world.size > 1 and config.sharding == "full":  # layer by layer on its way to the device
        return Sharded(model, config, world, device)
    model = model.to(device)
    if world.size > 1:
        return Replicated(model, config, world, device)
    return Spread(model, config, world)


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself, or all shards of one that is spread; then all processes call it together."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()
