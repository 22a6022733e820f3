"""Edits of weights and tables: another tensor stands in wherever the model reads the one that is edited.

A ``TorchFunctionMode`` exchanges them in the arguments of each operation of the current thread, so that the model
itself, and every other thread that uses it, stays as it was. Knows nothing of transformers.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.errors import TraceError

Edit = Callable[[Tensor], Tensor]


def edited(address: str, value: Tensor, edit: Edit) -> Tensor:
    """What ``edit`` makes of ``value``; raises ``TraceError`` when that is of another shape or type."""
    result = edit(value.clone())  # an edit in place must not reach weights, tables or caches
    if not isinstance(result, Tensor):
        raise TraceError(f"{address}: the edit returned {type(result).__name__}, expected a tensor. Return one.")
    if result.shape != value.shape or result.dtype != value.dtype:
        raise TraceError(
            f"{address}: the edit returned {tuple(result.shape)} {result.dtype}, "
            f"expected {tuple(value.shape)} {value.dtype}. Return a tensor of that shape and type."
        )
    return result


class EditedWeights(TorchFunctionMode):
    """``used`` holds the globs that matched a parameter or buffer of the model; tied ones are edited together."""

    def __init__(self, model: nn.Module, edits: Mapping[str, Edit]) -> None:
        super().__init__()
        self.used: set[str] = set()
        self._stand_ins: dict[int, Tensor] = {}
        if not edits:
            return
        places = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        for pattern, edit in edits.items():
            matching = {id(tensor): (name, tensor) for name, tensor in places if fnmatchcase(name, pattern)}
            for key, (name, tensor) in matching.items():
                with torch.no_grad():
                    self._stand_ins[key] = edited(name, self._stand_ins.get(key, tensor).detach(), edit)
                self.used.add(pattern)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The operation, with stand-ins for edited weights among its arguments."""
        given = {name: self._stand_in(value) for name, value in (kwargs or {}).items()}
        return func(*map(self._stand_in, args), **given)

    def _stand_in(self, value: Any) -> Any:
        return self._stand_ins.get(id(value), value) if isinstance(value, Tensor) else value
