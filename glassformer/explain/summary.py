"""The model module by module: what comes out of each, and how many parameters it holds. Knows no renderer.

Output shapes are those of a recorded pass, and a matrix that several modules share is counted once.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.explain.notation import symbols
from glassformer.explain.recording import recorded_pass
from glassformer.model import Transformer
from glassformer.trace import Step


@dataclass(frozen=True)
class SummaryRow:
    """One module. ``parameters`` are those of no other row; ``shared`` says that it uses a matrix counted above."""

    path: str
    kind: str
    symbols: tuple[str, ...]
    shape: tuple[int, ...]
    parameters: int
    shared: bool


def summary_rows(model: Transformer, n_src: int = 7, n_tgt: int = 6) -> list[SummaryRow]:
    """A row for each module that names its output, the whole model first, in the order of construction.

    The shapes are those of one source of ``n_src`` tokens and one target of ``n_tgt``. The rows' parameters add
    up to the model's.
    """
    outputs = _outputs(model, n_src, n_tgt)
    counted: set[int] = set()
    rows = []
    for path, module in model.named_modules():
        if path not in outputs:
            continue
        step = outputs[path]
        own = _own_parameters(module, path, outputs)
        new = [parameter for parameter in own if id(parameter) not in counted]
        counted.update(map(id, new))
        count = sum(parameter.numel() for parameter in new)
        kind = type(module).__name__
        rows.append(SummaryRow(path, kind, symbols(step), step.shape, count, shared=len(new) < len(own)))
    return rows


def _outputs(model: Transformer, n_src: int, n_tgt: int) -> dict[str, Step]:
    """The last step of each module; the whole model's is that of its last module."""
    trace = recorded_pass(model, _some_ids(n_src, model.config.src_vocab), _some_ids(n_tgt, model.config.tgt_vocab))
    outputs = {step.address.rpartition(".")[0]: step for step in trace if step.name != "probabilities"}
    return {**outputs, "": outputs["output_projection"]}


def _some_ids(length: int, vocab: int) -> Tensor:
    """Ids that differ, without touching the random generator; the shapes do not depend on them."""
    return (torch.arange(length) % vocab)[None]


def _own_parameters(module: nn.Module, path: str, outputs: dict[str, Step]) -> list[nn.Parameter]:
    """The parameters of a module and of those inside it that have no row of their own."""
    own = list(module.parameters(recurse=False))
    for name, child in module.named_children():
        inner = f"{path}.{name}".lstrip(".")
        if inner not in outputs:
            own += _own_parameters(child, inner, outputs)
    return own
