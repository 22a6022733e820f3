"""SSRU: the decoder reads its past by a recurrence, not by attention. Kim et al. 2019 (ACL D19-5632), section 3.

The simpler simple recurrent unit: that of Lei et al. 2018 (arXiv 1709.02755) without reset gate and highway.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.model.cache import StateCache
from glassformer.model.packing import PackedRows
from glassformer.settings import ModelConfig
from glassformer.trace import tap


class SSRU(nn.Module):
    """c_t = f_t · c_{t-1} + (1 - f_t) · x_t W with f_t = σ(x_t W_f + b_f) and c_0 = 0; the output is max(0, c_t).

    It takes the place of the decoder's self-attention and needs no mask: no position sees a later one.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.w = nn.Linear(config.d_model, config.d_model, bias=False)
        self.w_f = nn.Linear(config.d_model, config.d_model)

    def forward(
        self,
        x: Float[Tensor, "batch tgt d_model"],
        rows: PackedRows | None = None,
        cache: StateCache | None = None,
    ) -> Float[Tensor, "batch tgt d_model"]:
        """What each position keeps of itself and of those before it; ``rows`` tell that ``x`` is packed.

        With a cache the first cell follows the last one of the call before.
        """
        before = None
        if cache is not None:
            before = cache.state(x)
            before = tap(self, "cell_cached", before, "batch tgt d_model")
        candidate = self.w(x)
        candidate = tap(self, "candidate", candidate, "batch tgt d_model")
        gate_scores = self.w_f(x)
        gate_scores = tap(self, "gate_scores", gate_scores, "batch tgt d_model")
        forget_gate = gate_scores.sigmoid()
        forget_gate = tap(self, "forget_gate", forget_gate, "batch tgt d_model")
        added = (1 - forget_gate) * candidate
        if rows is not None:
            forget_gate, added = _pad(forget_gate, rows), _pad(added, rows)
        cell = recur(forget_gate, added, before, 1 if cache is None else cache.columns(x))
        if cache is not None:
            cache.append(cell)
        if rows is not None:
            cell = rows.pack_heads(cell[:, None]).squeeze(2)
        cell = tap(self, "cell", cell, "batch tgt d_model")
        output = cell.relu()
        return tap(self, "output", output, "batch tgt d_model")


def recur(
    forget_gate: Float[Tensor, "batch tgt d_model"],
    added: Float[Tensor, "batch tgt d_model"],
    before: Float[Tensor, "batch columns d_model"] | None,
    columns: int,
) -> Float[Tensor, "batch tgt d_model"]:
    """c = f · c_before + added at each position, one after the other; a position has so many ``columns``.

    On a CPU this loop takes a quarter of the time, or less, of log2(tgt) steps over all positions at once.
    """
    # In float32 under bf16, too: each sum takes the type of the first state.
    cell = added.new_zeros(len(added), 1, added.shape[2], dtype=torch.float32) if before is None else before
    cells = []
    for forget, new in zip(forget_gate.split(columns, 1), added.split(columns, 1), strict=True):
        cell = forget * cell + new
        cells.append(cell)
    return torch.cat(cells, dim=1)


def _pad(x: Float[Tensor, "one row d_model"], rows: PackedRows) -> Float[Tensor, "batch tgt d_model"]:
    """Each sentence in a row of its own, so that its state starts anew."""
    return rows.pad_heads(x[:, :, None]).squeeze(1)
