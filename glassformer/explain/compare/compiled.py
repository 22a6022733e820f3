"""A compiled pass whose graph returns every tap."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.errors import ConfigError
from glassformer.explain.recording.recording import record_pass
from glassformer.model import Transformer
from glassformer.trace import Step


class _ReadIds(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it without types
    """Lets the model check ids, although a graph has numbers only when it runs."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten._local_scalar_dense.default:
            return func(*args, **(kwargs or {}))
        with disable_proxy_modes_tracing():
            return func(*args, **(kwargs or {}))


def capture_pass(
    model: Transformer, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]
) -> tuple[fx.GraphModule, list[Step]]:
    """The graph from ids to the value of every tap of one pass, and these steps."""
    steps: list[Step] = []

    def values(src_ids: Tensor, tgt_in_ids: Tensor) -> list[Tensor]:
        with _ReadIds():  # type: ignore[no-untyped-call]  # torch leaves it without types
            steps[:] = record_pass(model, src_ids, tgt_in_ids)
        return [step.value for step in steps]

    return make_fx(values)(src_ids, tgt_in_ids), steps


def run_compiled(
    model: Transformer, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]
) -> list[Step]:
    """The steps of one compiled pass; ``ConfigError`` if this machine cannot compile."""
    device = next(model.parameters()).device
    ids = src_ids.to(device), tgt_in_ids.to(device)
    graph, steps = capture_pass(model, *ids)
    try:
        with torch.no_grad():
            values = torch.compile(graph, fullgraph=True)(*ids)
    except RuntimeError as error:  # the base of what dynamo and inductor raise
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"compiled: torch.compile failed here: {reason} It needs a C++ compiler such as g++ "
            "(Debian: apt install g++), named by CXX if it is not on the PATH. Or compare another way."
        ) from error
    return [replace(step, value=value) for step, value in zip(steps, values, strict=True)]
