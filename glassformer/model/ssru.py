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

        With a cache the first cell follows the last one of the call before. An edit of the cell acts on its own
        position, one of the gate or the candidate on later ones, too.
        """
        before = None if cache is None else cache.state
        if before is not None:
            before = tap(self, "cell_cached", before, "batch tgt d_model")
        candidate = self.w(x)
        candidate = tap(self, "candidate", candidate, "batch tgt d_model")
        gate_scores = self.w_f(x)
        gate_scores = tap(self, "gate_scores", gate_scores, "batch tgt d_model")
        forget_gate = gate_scores.sigmoid()
        forget_gate = tap(self, "forget_gate", forget_gate, "batch tgt d_model")
        added = (1 - forget_gate) * candidate
        if rows is not None:  # each sentence in a row of its own, where it starts from zero
            forget_gate, added = (rows.pad_heads(part[:, :, None]).squeeze(1) for part in (forget_gate, added))
        if before is None:  # float32, and so all cells, under bf16, too
            before = added.new_zeros(len(added), 1, added.shape[2], dtype=torch.float32)
        cell = recur(forget_gate, added, before)
        if cache is not None:
            cache.state = cell[:, -before.shape[1] :]
        if rows is not None:
            cell = rows.pack_heads(cell[:, None]).squeeze(2)
        cell = tap(self, "cell", cell, "batch tgt d_model")
        output = cell.relu()
        return tap(self, "output", output, "batch tgt d_model")


def recur(
    forget_gate: Float[Tensor, "batch tgt d_model"],
    added: Float[Tensor, "batch tgt d_model"],
    cell: Float[Tensor, "batch columns d_model"],
) -> Float[Tensor, "batch tgt d_model"]:
    """c = f · c_before + added at each position, one after the other; ``columns`` are as many as beams have slots.

    On a CPU this loop takes a quarter of the time, or less, of log2(tgt) steps over all positions at once.
    """
    cells, columns = [], cell.shape[1]
    for forget, new in zip(torch.split(forget_gate, columns, 1), torch.split(added, columns, 1), strict=True):
        cell = forget * cell + new
        cells.append(cell)
    return torch.cat(cells, dim=1)
