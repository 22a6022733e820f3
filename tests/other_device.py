"""A device that stands in for a GPU where there is none: tensors that say they are elsewhere and compute on the CPU.

Inside ``other_device()`` a tensor on ``DEVICE`` holds its values in a CPU tensor. An operation on tensors of both
places fails, as on a GPU, unless that of the CPU is a number (0 axes). What would make the CPU wait for a GPU is
counted, by the line of the package that asked for it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import glassformer

DEVICE = torch.device("meta")  # which is not "cpu", and for which autograd needs no driver
PACKAGE = Path(glassformer.__file__).parent
aten = torch.ops.aten
READS = {aten.item.default, aten._local_scalar_dense.default, aten.is_nonzero.default, aten.equal.default}
SIZES = {
    aten.nonzero.default, aten.masked_select.default, aten._unique2.default, aten.unique_consecutive.default,
    aten.unique_dim.default,
}  # fmt: skip  # the CPU waits for the size of the result
COPIES = {aten.copy_, aten.to, aten._to_copy, aten.lift_fresh}


class DeviceTensor(Tensor):
    """A tensor that is on ``DEVICE``; ``held`` is on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> "DeviceTensor":
        made = Tensor._make_wrapper_subclass(
            cls, values.shape, strides=values.stride(), storage_offset=values.storage_offset(), dtype=values.dtype,
            device=DEVICE,
        )  # fmt: skip
        made.held = values
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.tolist:
            return args[0].detach().to("cpu").tolist()
        with torch._C.DisableTorchFunctionSubclass():  # which would make DeviceTensors of all results
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func}: outside of other_device()")


class OtherDevice(TorchDispatchMode):
    """Runs each operation on the CPU's values, and gives its results the place that they would have."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given: list[Tensor] = []
        map_tensors(given.append, (args, kwargs))
        here = [one for one in given if not isinstance(one, DeviceTensor)]
        elsewhere = len(here) < len(given)
        target = kwargs.get("device")
        goes_there = elsewhere if target is None else torch.device(target) == DEVICE
        if elsewhere and any(one.ndim for one in here) and func.overloadpacket not in COPIES:
            raise RuntimeError(f"{func}: tensors on the device and on the CPU, at {where()}")
        if target is not None and goes_there:
            kwargs["device"] = torch.device("cpu")
        self._count(func, args, given, elsewhere=elsewhere, goes_there=goes_there)
        args, kwargs = map_tensors(lambda one: one.held if isinstance(one, DeviceTensor) else one, (args, kwargs))
        # A lazy conjugate is resolved above this level, and so never.
        found = (aten._conj_physical if func is aten._conj.default else func)(*args, **kwargs)
        return self._place(found, given) if goes_there else found

    def _count(self, func: Any, args: Any, given: list[Tensor], *, elsewhere: bool, goes_there: bool) -> None:
        """Numbers and sizes that are read, copies between the two places, and masks as indices."""
        masks = func in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default) and any(
            isinstance(one, Tensor) and one.dtype == torch.bool for one in args[1]
        )
        crosses = func.overloadpacket in COPIES and any(isinstance(one, DeviceTensor) != goes_there for one in given)
        if crosses or (elsewhere and (func in READS or func in SIZES or masks)):
            self.waits[f"{where()}  {func}"] += 1

    @staticmethod
    def _place(found: Any, given: list[Tensor]) -> Any:
        """The results as tensors of the device; one that was written to stays the very same."""
        held = {id(one.held): one for one in given if isinstance(one, DeviceTensor)}
        return map_tensors(lambda one: held[id(one)] if id(one) in held else DeviceTensor(one), found)


def map_tensors(change: Callable[[Tensor], Any], value: Any) -> Any:
    """``value`` with each tensor changed; what an operation takes and gives are tuples, lists and dicts of them."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)([map_tensors(change, one) for one in value])
    if isinstance(value, dict):
        return {name: map_tensors(change, one) for name, one in value.items()}
    return value


def where() -> str:
    """File and line of the innermost frame in the package, or else "outside"."""
    frame = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            return f"{path.relative_to(PACKAGE.parent)}:{frame.f_lineno}"
        frame = frame.f_back
    return "outside"


@contextmanager
def other_device() -> Iterator[OtherDevice]:
    """A block in which there is ``DEVICE``, of which autocast and fused Adam would know nothing."""
    asks, makes = torch.is_autocast_enabled, torch.tensor

    def tensor(data: Any, *, device: Any = None, **kwargs: Any) -> Tensor:  # torch's own makes no values on meta
        made = makes(data, **kwargs)
        return made if device is None else made.to(device)

    with (
        patch.object(torch, "tensor", tensor),
        patch.object(nn.Module, "to", lambda model, device: move(model) if torch.device(device) == DEVICE else model),
        patch.object(torch, "is_autocast_enabled", lambda kind: kind != DEVICE.type and asks(kind)),
        patch.object(torch, "inference_mode", lambda *_: torch.no_grad()),  # which wrappers do not bear everywhere
        patch("torch.optim.adam._device_dtype_check_for_fused"),
        OtherDevice() as mode,
    ):
        yield mode


def move(model: nn.Module) -> nn.Module:
    """The model itself, its weights and buffers on ``DEVICE``, shared ones shared as before."""
    moved: dict[int, Tensor] = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                moved.setdefault(id(weight), nn.Parameter(DeviceTensor(weight.detach()), weight.requires_grad))
                module._parameters[name] = moved[id(weight)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = moved.setdefault(id(buffer), DeviceTensor(buffer))
    return model
