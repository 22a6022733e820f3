"""Whether systems that were given the same weights wrote the same tokens, and where not, how near the choice was."""

from typing import Any

import torch

from glassformer.decoding.teacher_forcing import forced_token_log_probs
from glassformer.model import Transformer

NEAR = 1e-3  # nats


def agreement(model: Transformer, ids: list[list[int]], outputs: dict[str, list[list[int]]]) -> dict[str, Any]:
    """For each other arm: outputs equal to those of plain glassformer, or else of the first arm, token by token.

    Where two differ, the model's own log-probabilities of both (eos included where it was written) say whether they
    are as good as each other: ``near`` of the differing ones differ by less than 0.001 nats.
    """
    arms = [*outputs]
    reference = "glassformer" if "glassformer" in outputs else arms[0]
    found = {}
    for arm in arms:
        if arm == reference:
            continue
        places = [i for i in range(len(ids)) if outputs[arm][i] != outputs[reference][i]]
        gaps = [_gap(model, ids[i], outputs[reference][i], outputs[arm][i]) for i in places]
        row = found[f"{arm} = {reference}"] = {
            "equal": len(ids) - len(places), "of": len(ids), "near": sum(abs(gap) < NEAR for gap in gaps),
            "largest_gap": max(map(abs, gaps), default=0.0), "mean_gap": sum(gaps) / len(gaps) if gaps else 0.0,
        }  # fmt: skip
        print(f"  {arm} = {reference}: {row['equal']} of {row['of']} outputs are the same; of the others "
              f"{row['near']} are within {NEAR} nats, the widest {row['largest_gap']:.4f} apart")  # fmt: skip
    return found


@torch.no_grad()
def _gap(model: Transformer, source: list[int], ours: list[int], theirs: list[int]) -> float:
    """By how much the log-probability of ``ours`` is above that of ``theirs``."""
    config = model.config
    ends = [] if bool(_bans_eos(model)) else [config.eos_id]
    both = [[*output, *ends] for output in (ours, theirs)]
    first, second = (sum(forced_token_log_probs([model], torch.tensor([source]), [output])[0]) for output in both)
    return first - second


def _bans_eos(model: Transformer) -> bool:
    bias = model.output_projection.linear.bias
    return bias is not None and float(bias[model.config.eos_id]) < -1000
