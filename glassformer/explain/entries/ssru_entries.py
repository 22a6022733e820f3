"""The taps of an SSRU, which takes the place of the decoder's self-attention. Kim et al. 2019."""

import torch
from torch import Tensor

from glassformer.explain.entries.derivatives import linear, relu, sigmoid
from glassformer.explain.entries.entry import NOT_IN_PAPER, entry
from glassformer.explain.entries.scope import Scope, sublayer_input

_KIM = "Kim et al. 2019, 3"


def _input(scope: Scope) -> Tensor:
    return scope.at(sublayer_input(scope, scope.module.removesuffix(".ssru"), "ssru"))


@entry("ssru.candidate", "What each position offers", "z = x W", _KIM)
def _candidate(scope: Scope) -> Tensor:
    """What the cell would become if it forgot everything before this position."""
    return linear(_input(scope), scope.weight("w.weight"), None)


@entry("ssru.gate_scores", "Scores of the forget gate", "s = x W_f + b_f", _KIM)
def _gate_scores(scope: Scope) -> Tensor:
    """One number for each number of the cell: above zero it is rather kept, below it is rather replaced."""
    return linear(_input(scope), scope.weight("w_f.weight"), scope.bias("w_f"))


@entry("ssru.forget_gate", "Forget gate", "f = σ(s)", _KIM)
def _forget_gate(scope: Scope) -> Tensor:
    """The share of the cell before that is kept, from 0 to 1; the rest comes from this position."""
    return sigmoid(scope.here("gate_scores"))


@entry("ssru.cell_cached", "The cell before", "c_past", NOT_IN_PAPER)
def _cell_cached(scope: Scope) -> Tensor:
    """All that decoding keeps of the earlier positions: one vector, however long the target is."""
    return scope.at_rows(f"{scope.module}.cell")[:, -1:]


@entry("ssru.cell", "Cell", "c = f · c_past + (1 − f) · z", _KIM)
def _cell(scope: Scope) -> Tensor:
    """A running mean of what the positions so far offer, number by number. Before the first position it is 0."""
    gate, cached = scope.here("forget_gate"), scope.has_here("cell_cached")
    added = (1 - gate) * scope.here("candidate")
    cells = [scope.here("cell_cached") if cached else gate.new_zeros(len(gate), 1, gate.shape[2])]
    for position in range(gate.shape[1]):
        cells.append(gate[:, position, None] * cells[-1] + added[:, position, None])
    return torch.cat(cells[1:], dim=1)


@entry("ssru.output", "SSRU's output", "max(0, c)", _KIM)
def _output(scope: Scope) -> Tensor:
    """Negative numbers of the cell become zero; the cell itself keeps them."""
    return relu(scope.here("cell"))
