"""The most multiply-adds a second that matrix products reach on this machine, all cores at once, in this very run.

One process of one thread on each core multiplies 640 rows by a matrix of the model's feed-forward size, in float32
and with each int8 kernel that this torch has; the weights are packed beforehand and the activations quantised, so
nothing but the product is timed. The ceiling of a precision is its fastest kernel's.
"""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable

import torch
from processes import Answerer
from torch import Tensor

ROWS, SECONDS = 640, 0.4
SIZES = {"small": (256, 1024), "base": (512, 2048)}
Product = Callable[[], Tensor]


def products(width: int, wide: int) -> dict[str, Product]:
    """The products of each kernel that there is: "float32 ..." and "int8 ..."."""
    weight, x, bias = torch.randn(wide, width) / 16, torch.randn(ROWS, width), torch.zeros(wide)
    scale = weight.abs().amax(1) / 127
    transposed = weight.t().contiguous()
    made: dict[str, Product] = {
        "float32 linear": lambda: torch.nn.functional.linear(x, weight, bias),
        "float32 addmm": lambda: torch.addmm(bias, x, transposed),
    }
    quantised = torch.quantize_per_channel(
        weight, scale.double(), torch.zeros(wide, dtype=torch.long), 0, torch.qint8
    )
    for engine in {"fbgemm", "onednn"} & {*torch.backends.quantized.supported_engines}:
        torch.backends.quantized.engine = engine
        packed = torch.ops.quantized.linear_prepack(quantised, bias)
        made[f"int8 linear_dynamic {engine}"] = lambda packed=packed: torch.ops.quantized.linear_dynamic(x, packed)
    if hasattr(torch.ops.onednn, "qlinear_pointwise"):
        packed = torch.ops.onednn.qlinear_prepack((weight / scale[:, None]).round().to(torch.int8), [ROWS, width])
        read, zeros = (x * 30 + 128).clamp(0, 255).to(torch.uint8), torch.zeros(wide, dtype=torch.int32)
        made["int8 qlinear_pointwise"] = lambda: torch.ops.onednn.qlinear_pointwise(
            read, 0.02, 128, packed, scale, zeros, bias, 1.0, 0, torch.float32, "none", [], ""
        )
    return made


def rate(product: Product) -> float:
    """Products a second."""
    product()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        product()
        count += 1
    return count / (time.perf_counter() - start)


def serve(size: str) -> None:
    """For each line of standard input, one line with the multiply-adds a second of each kernel."""
    warnings.filterwarnings("ignore", message=".*quantized tensor creation functions.*")
    torch.set_num_threads(1)
    width, wide = SIZES[size]
    with torch.inference_mode():
        made = products(width, wide)
        for _ in sys.stdin:
            rates = {name: ROWS * width * wide * rate(product) for name, product in made.items()}
            print(json.dumps(rates), flush=True)


class Ceiling:
    """A process on each core that waits to be asked."""

    def __init__(self, size: str) -> None:
        self.processes = [Answerer(__file__, size, OMP_NUM_THREADS="1") for _ in range(os.cpu_count() or 1)]

    def __call__(self) -> dict[str, float]:
        """Multiply-adds a second of each kernel, all cores together."""
        for process in self.processes:
            process.send("go")
        rates = [process.receive() for process in self.processes]
        return {name: sum(each[name] for each in rates) for name in rates[0]}

    def close(self) -> None:
        """End the processes, which end with their standard input."""
        for process in self.processes:
            process.close()


if __name__ == "__main__":
    serve(sys.argv[1])
