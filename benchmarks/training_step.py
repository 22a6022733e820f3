"""What a training step of ``tiny`` costs as it is, and with torch's dropout in place of ours.

    python benchmarks/training_step.py [--rounds N] [--json FILE]

Batches are of random ids, 128 pairs of 16 tokens, vocabulary 5,000; forward, loss, backward and Adam. Each arm runs
in a process of its own; the arms take turns, and the ratio is that of medians over all rounds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import torch
from machine import machine, spread
from smoke import new_parser, parse_options, write_json
from torch import nn

from glassformer.model import Transformer
from glassformer.model.dropout import Dropout
from glassformer.settings import ModelConfig
from glassformer.training.objective.loss import smoothed_loss

PAIRS, LENGTH, VOCAB = 128, 16, 5_000
ARMS = ("as it is", "torch's dropout")
STEPS, WARM_UP = 12, 4


def with_torchs_dropout(model: Transformer) -> None:
    """Put ``nn.Dropout`` wherever the model has its own."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, Dropout):
                setattr(module, name, nn.Dropout(child.p))


def steps_of(arm: str) -> list[float]:
    """Seconds of each step, the first ones left out."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig.tiny(src_vocab=VOCAB, tgt_vocab=VOCAB)).train()
    if arm == "torch's dropout":
        with_torchs_dropout(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    seconds = []
    for _ in range(WARM_UP + STEPS):
        src, tgt = (torch.randint(4, VOCAB, (PAIRS, LENGTH)) for _ in range(2))
        start = time.perf_counter()
        loss, _, tokens = smoothed_loss(model(src, tgt), tgt, 0, 0.1)
        (loss / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    return seconds[WARM_UP:]


def measure(rounds: int) -> dict[str, list[float]]:
    """Steps of each arm, over all rounds."""
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for _ in range(rounds):
        for arm in ARMS:
            command = [sys.executable, __file__, "--arm", arm]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            seconds[arm] += json.loads(printed)
    return seconds


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    options = parse_options(parser, "--rounds 1")
    if options.arm:
        print(json.dumps(steps_of(options.arm)))
        return
    seconds = measure(options.rounds)
    base = statistics.median(seconds["as it is"])
    result: dict[str, Any] = {"machine": machine(), "arms": {}}
    for arm, values in seconds.items():
        speed = spread([PAIRS * LENGTH / value for value in values])
        ratio = statistics.median(values) / base
        result["arms"][arm] = {"target_tokens_per_s": speed, "time / as it is": ratio}
    print(json.dumps(result, indent=1))
    write_json(options.json, result)


if __name__ == "__main__":
    main()
