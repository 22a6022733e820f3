"""Microseconds of one linear map, laid out or rounded, for one row, a few and many; one thread.

    python benchmarks/linears.py [--rounds 100] [--json FILE]

The kinds go by turns. What ``for_inference`` takes for small in int8 follows from this table.
"""

import time

import torch
from machine import machine, spread
from smoke import new_parser, parse_options, write_json
from torch import nn

from glassformer.model.linears import LINEARS, Precision

SHAPES = [(256, 256), (256, 768), (256, 1024), (1024, 256), (256, 10_000), (512, 512), (512, 1536), (512, 2048),
          (2048, 512), (512, 10_000)]  # fmt: skip
ROWS = (1, 5, 128)


@torch.no_grad()
def measure(into: int, out: int, rows: int, rounds: int) -> dict[str, dict[str, float]]:
    plain = nn.Linear(into, out, bias=False)
    kinds = {"nn.Linear": plain, "float32": LINEARS[Precision.FLOAT32](plain.weight, None)}
    kinds["int8"] = LINEARS[Precision.INT8](plain.weight, None)
    x = torch.randn(rows, into)
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(rounds + 1):
        for name, linear in kinds.items():
            started = time.perf_counter()
            linear(x)
            if turn:  # the first only warms up
                times[name].append(1e6 * (time.perf_counter() - started))
    return {name: spread(found) for name, found in times.items()}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    given = parse_options(parser, "--rounds 2")
    torch.set_num_threads(1)
    results = {}
    print(f"{'weights':>14} {'rows':>5}  nn.Linear    float32       int8   (median microseconds)")
    for into, out in SHAPES:
        for rows in ROWS:
            found = measure(into, out, rows, given.rounds)
            results[f"{into} x {out}, {rows} rows"] = found
            medians = "  ".join(f"{one['median']:9.1f}" for one in found.values())
            print(f"{into:>6} x {out:<6} {rows:>4}  {medians}")
    write_json(given.json, {"machine": machine(), **results})


if __name__ == "__main__":
    main()
