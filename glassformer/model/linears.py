"""Linear maps for translating: x Wᵀ + b with weights laid out or quantized for speed.

``Int8Linear`` scales each row of x by its own maximum, so that a result does not depend on the other rows of the
batch, as it would with PyTorch's own dynamic quantisation, and sums products as integers, which is exact.
"""

import warnings
from enum import StrEnum
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.errors import ConfigError


class Precision(StrEnum):
    """The number format in which translating computes products."""

    FLOAT32 = "float32"
    BF16 = "bf16"
    INT8 = "int8"


def read_precision(name: str | None) -> Precision | None:
    """The precision of that name, None for no conversion; raises ``ConfigError`` for an unknown name."""
    try:
        return None if name is None else Precision(name)
    except ValueError:
        known = ", ".join(Precision)
        raise ConfigError(f"precision: found {name!r}, expected one of {known}. Choose one.") from None


class Float32Linear(nn.Module):
    """With the weight transposed, which reads it in order: for few rows about twice as fast on a CPU."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Float[Tensor, "out into"], bias: Float[Tensor, "out"] | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.t().contiguous())
        self.register_buffer("bias", bias)

    def forward(self, x: Float[Tensor, "*axes into"]) -> Float[Tensor, "*axes out"]:
        """x Wᵀ + b."""
        # self.weight takes longer, and a step of a search needs some twenty weights.
        weight, bias = cast(tuple[Tensor, Tensor | None], self._buffers.values())
        product = x @ weight
        return product if bias is None else product.add_(bias)


class Bf16Linear(nn.Module):
    """With bfloat16 factors; sums and what goes in and out stay float32."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Float[Tensor, "out into"], bias: Float[Tensor, "out"] | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.bfloat16())
        self.register_buffer("bias", bias)

    def forward(self, x: Float[Tensor, "*axes into"]) -> Float[Tensor, "*axes out"]:
        """x Wᵀ + b."""
        product = nn.functional.linear(x.bfloat16(), self.weight).float()
        return product if self.bias is None else product.add_(self.bias)


class Int8Linear(nn.Module):
    """With whole numbers for factors: a byte for each of x, 7 bits for each weight, and a scale for each row of both.

    With 8 bits for both, the 16-bit sums of two products, which CPUs without VNNI make, would overflow. One that
    ``applies_relu`` computes max(0, x) Wᵀ + b: its bytes begin at 0, so that what is negative is rounded to that.
    Raises ``ConfigError`` where PyTorch has no such kernel.
    """

    applies_relu = False
    bias: Tensor | None

    def __init__(self, weight: Float[Tensor, "out into"], bias: Float[Tensor, "out"] | None) -> None:
        super().__init__()
        if "fbgemm" not in torch.backends.quantized.supported_engines:
            raise ConfigError(
                "precision: found int8, which PyTorch has no kernel for on this machine, expected one of "
                "float32, bf16. int8 needs an x86 processor."
            )
        scales = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / _WEIGHT_LIMIT
        whole = (weight / scales[:, None]).round().to(torch.int8).cpu()
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        with warnings.catch_warnings():
            # These tensors are to go from PyTorch one day; up to the versions that we ask for they are there.
            warnings.simplefilter("ignore", UserWarning)
            quantised = torch._make_per_channel_quantized_tensor(whole, scales.double().cpu(), zeros, 0)
            self._packed = torch.ops.quantized.linear_prepack(quantised, None)
        self.register_buffer("bias", bias)

    def forward(self, x: Float[Tensor, "*axes into"]) -> Float[Tensor, "*axes out"]:
        """x Wᵀ + b, or max(0, x) Wᵀ + b."""
        if self.applies_relu:
            greatest = x.amax(dim=-1, keepdim=True).clamp_min_(torch.finfo(torch.float32).tiny)
            return self._product(x, greatest, 255, zero=0)
        return self._product(x, x.abs().amax(dim=-1, keepdim=True), 127, zero=128)

    def _product(
        self, x: Float[Tensor, "*axes into"], greatest: Float[Tensor, "*axes 1"], steps: int, zero: int
    ) -> Float[Tensor, "*axes out"]:
        """x Wᵀ + b with each row of x rounded to ``steps`` of its greatest number; ``zero`` is the byte that 0 is.

        A row of zeros becomes 0 / 0, which is rounded to any byte: its product is a finite number, times 0.
        """
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x / greatest, 1 / steps, zero, self._packed
        )
        bias = self._buffers["bias"]
        if bias is None:
            return product.mul_(greatest)
        return torch.addcmul(bias, product, greatest, out=product)


def min_int8_weights() -> int:
    """From how many weights on int8 pays on this processor, for batches and for single sentences.

    With VNNI it pays for smaller matrices, so that int8 results differ between processors.
    ``benchmarks/linears.py`` measures it.
    """
    try:
        has_vnni = bool(torch.cpu._is_vnni_supported())
    except (AttributeError, RuntimeError):  # the function is not public: where it cannot say, the answer is no
        has_vnni = False
    return _MIN_WITH_VNNI if has_vnni else _MIN_WITHOUT_VNNI


_MIN_WITH_VNNI, _MIN_WITHOUT_VNNI = 2**16, 2**18
_WEIGHT_LIMIT = 63  # two products of a byte and such a weight are at most 2 · 255 · 63 < 2^15
LINEARS: dict[Precision, type[Float32Linear | Bf16Linear | Int8Linear]] = {
    Precision.FLOAT32: Float32Linear, Precision.BF16: Bf16Linear, Precision.INT8: Int8Linear,
}  # fmt: skip
