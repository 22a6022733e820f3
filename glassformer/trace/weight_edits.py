"""Edits of parameters and buffers: a replacement is used wherever the model reads the original.

A ``TorchFunctionMode`` replaces them in the current thread, so the model does not change for others.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.errors import TraceError

Edit = Callable[[Tensor], Tensor]


def apply_edit(address: str, value: Tensor, edit: Edit) -> Tensor:
    """The result of ``edit`` on a copy of ``value``; its shape and type must stay."""
    try:
        result = edit(value.clone())  # an edit in place must not change parameters, buffers or caches
    except IndexError as error:
        found = f"{address}: the edit selects a cell that is not there, this tensor is {tuple(value.shape)}: {error}."
        advice = "A search passes the target position by position: edit a pass with a forced target."
        raise TraceError(f"{found} {advice}") from error
    if not isinstance(result, Tensor):
        raise TraceError(f"{address}: the edit returned {type(result).__name__}, expected a tensor. Return one.")
    if result.shape != value.shape or result.dtype != value.dtype:
        raise TraceError(
            f"{address}: the edit returned {tuple(result.shape)} {result.dtype}, "
            f"expected {tuple(value.shape)} {value.dtype}. Return a tensor of that shape and type."
        )
    return result


class EditedWeights(TorchFunctionMode):
    """Replaces edited tensors, tied ones together; ``used`` holds the globs that matched."""

    def __init__(self, model: nn.Module, edits: Mapping[str, Edit]) -> None:
        super().__init__()
        self.used: set[str] = set()
        self._replacements: dict[int, Tensor] = {}
        if not edits:
            return
        tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        for pattern, edit in edits.items():
            matching = {id(tensor): (name, tensor) for name, tensor in tensors if fnmatchcase(name, pattern)}
            for key, (name, tensor) in matching.items():
                with torch.no_grad():
                    current = self._replacements.get(key, tensor).detach()
                    self._replacements[key] = apply_edit(name, current, edit)
                self.used.add(pattern)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call ``func`` with the edited tensors."""
        keywords = {name: self._replace(value) for name, value in (kwargs or {}).items()}
        return func(*map(self._replace, args), **keywords)

    def _replace(self, value: Any) -> Any:
        return self._replacements.get(id(value), value) if isinstance(value, Tensor) else value
