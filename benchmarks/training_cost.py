"""The cost of training the paper's models: operations, then hours and money on several processors.

    python benchmarks/training_cost.py [--utilisation 0.3] [--price 2.5] [--json FILE]

The operations are those of the matrix products of forward and backward (three times the forward) of glassformer's own
model for WMT14 English-German as in the paper: 100,000 updates for base, 300,000 for big, each of some 25,000 source
and as many target tokens, in sentences of 27 tokens, with a vocabulary of 37,000. PyTorch counts them for one
sentence pair on its meta device. The paper's own figures, 3.3e18 and 2.3e19, are a different measure: hours times
GPUs times the sustained float32 speed of a P100, 9.5 TFLOP/s (its footnote 5).

Hours follow from a processor's peak (its data sheet) and the share of it that is reached, --utilisation, which is an
assumption, like the --price of a GPU-hour in USD. Each update also exchanges gradients: 2 (n - 1) / n times 4 bytes
for each weight over the link, 300 GB/s inside a machine of eight GPUs, 25 GB/s between machines.
"""

from typing import Any

import torch
from smoke import new_parser, parse_options, write_json
from torch.utils.flop_counter import FlopCounterMode

from glassformer.model import Transformer
from glassformer.settings import ModelConfig

VOCAB, SENTENCE, BATCH = 37_000, 27, 25_000
UPDATES = {"base": 100_000, "big": 300_000}
PAPERS = {"base": 3.3e18, "big": 2.3e19}
PEAKS = {"P100, float32": 9.5e12, "A100, bf16": 312e12, "H100 or H200, bf16": 989e12}  # operations a second
COUNTS, IN_MACHINE, INSIDE, BETWEEN = (1, 8, 64), 8, 300e9, 25e9  # GPUs, GPUs, bytes a second


def model_of(size: str) -> Transformer:
    config: ModelConfig = getattr(ModelConfig, size)(src_vocab=VOCAB, tgt_vocab=VOCAB, max_length=256)
    with torch.device("meta"):
        return Transformer(config)


def operations_per_token(model: Transformer) -> float:
    """Floating-point operations of forward and backward per target token; a multiply-add counts as two."""
    ids = torch.ones(1, SENTENCE, dtype=torch.int64, device="meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(ids, ids)
    return 3 * counter.get_total_flops() / SENTENCE


def hours(size: str, weights: int, operations: float, count: int, sustained: float) -> float:
    """Hours of all updates: products split evenly among the GPUs, then the exchange of gradients."""
    products = operations * BATCH / (count * sustained)
    link = INSIDE if count <= IN_MACHINE else BETWEEN
    exchange = 2 * (count - 1) / count * 4 * weights / link
    return UPDATES[size] * (products + exchange) / 3600


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--utilisation", type=float, default=0.3, help="share of the peak, from 0 to 1")
    parser.add_argument("--price", type=float, default=2.5, help="USD per GPU-hour")
    options = parse_options(parser, "")
    results: dict[str, Any] = {"utilisation": options.utilisation, "price_usd": options.price, "models": {}}
    for size, updates in UPDATES.items():
        model = model_of(size)
        weights = sum(weight.numel() for weight in model.parameters())
        operations = operations_per_token(model)
        total = operations * BATCH * updates
        print(f"{size}: {weights / 1e6:.1f} million weights, {operations / 1e6:.0f} million operations a target "
              f"token, {total:.2g} in all; the paper: {PAPERS[size]:.2g}")  # fmt: skip
        rows: dict[str, Any] = {}
        for name, peak in PEAKS.items():
            for count in COUNTS:
                spent = hours(size, weights, operations, count, peak * options.utilisation)
                rows[f"{count} x {name}"] = {"hours": spent, "usd": spent * count * options.price}
                print(f"  {count:2} x {name:20} {spent:9.1f} hours   {spent * count * options.price:9,.0f} USD")
        results["models"][size] = {
            "weights": weights, "operations_per_token": operations, "operations": total, "papers": PAPERS[size],
            "rows": rows,
        }  # fmt: skip
    write_json(options.json, results)


if __name__ == "__main__":
    main()
