"""How a model is trained in several processes: whole in each of them, or with its weights in shards.

``DistributedDataParallel`` averages the gradients of whole models. FSDP2 (Zhao et al. 2023, arXiv 2304.11277)
gathers the weights of a layer while it computes. Checkpoints are the same.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from glassformer.model.transformer import Transformer
from glassformer.settings import TrainConfig
from glassformer.training.loop.cuda_graphs import GraphStrategy, can_compile
from glassformer.training.loop.strategy import ParallelStrategy
from glassformer.world import World

# The option's name in PyTorch 2.13, and before.
_SYNC_BUFFERS = next(
    name
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in signature(DistributedDataParallel).parameters
)


class ReplicateStrategy(ParallelStrategy):
    """Each process holds the whole model; gradients are averaged during backward."""

    def __init__(self, model: Transformer, config: TrainConfig, world: World, device: torch.device) -> None:
        super().__init__(model, config, world)
        options: dict[str, Any] = {_SYNC_BUFFERS: False}  # the buffers are position tables, which never change
        if device.type != "cpu":
            options["device_ids"] = [device]
        self._replica = DistributedDataParallel(self.objective, gradient_as_bucket_view=True, **options)
        self.objective = self._replica

    def gradient_sync(self, *, enabled: bool) -> AbstractContextManager[object]:
        """The context of one batch's forward and backward; ``enabled`` averages the gradients over the processes."""
        return nullcontext() if enabled else self._replica.no_sync()


class ShardStrategy(ParallelStrategy):
    """Each process holds one shard of every weight, of its gradient and of its moments."""

    def __init__(self, model: Transformer, config: TrainConfig, world: World, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, fully_shard

        super().__init__(model, config, world)
        self._device, self._mesh = device, init_device_mesh(device.type, (world.size,))
        for layer in (*model.encoder.layers, *model.decoder.layers):
            fully_shard(layer, mesh=self._mesh)
        root = fully_shard(self.objective, mesh=self._mesh)
        assert isinstance(root, FSDPModule)
        self._root = root

    def gradient_sync(self, *, enabled: bool) -> AbstractContextManager[object]:
        """The context of one batch's forward and backward; ``enabled`` averages the gradients over the processes."""
        self._root.set_requires_gradient_sync(enabled)
        return nullcontext()

    def gather_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The full tensors, in the CPU memory of the first process."""
        gathered = {}
        for name, tensor in tensors.items():
            full = full_tensor(tensor)
            if self.world.is_first:
                gathered[name] = full.cpu()
        return gathered

    def distribute_like(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        """A full tensor on the device of ``parameter``, in the same shards."""
        from torch.distributed.tensor import DTensor, distribute_tensor

        assert isinstance(parameter, DTensor)
        return distribute_tensor(tensor.to(self._device), self._mesh, parameter.placements)

    @contextmanager
    def full_model(self) -> Iterator[Transformer]:
        """A copy with all weights: a quarter of the memory of an unsharded training with Adam."""
        copy = Transformer.without_values(self.model.config, self._device)
        parameters, buffers = dict(self.model.named_parameters()), dict(self.model.named_buffers())
        with torch.no_grad():
            for name, parameter in copy.named_parameters():
                parameter.copy_(full_tensor(parameters[name].detach()))
            for name, buffer in copy.named_buffers():
                buffer.copy_(buffers[name])
        yield copy.eval()


def make_strategy(world: World, model: Transformer, config: TrainConfig, device: torch.device) -> ParallelStrategy:
    """Move ``model`` to ``device``, as ``config.sharding`` says."""
    if world.size > 1 and config.sharding == "full":  # moves to the device layer by layer
        return ShardStrategy(model, config, world, device)
    model = model.to(device)
    if world.size > 1:
        return ReplicateStrategy(model, config, world, device)
    if config.compile == "on" or (config.compile == "auto" and can_compile(device)):
        return GraphStrategy(model, config)
    return ParallelStrategy(model, config, world)


def full_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself, or all its shards; a call of all processes."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()
