"""The model module by module: the output of each, and how many parameters it has.

Output shapes come from a recorded pass of the same configuration on torch's meta device, which holds no numbers. A
matrix that several modules share is counted once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor, nn

from glassformer.explain.addresses import layer_of, symbols
from glassformer.explain.plain import symbols_text
from glassformer.explain.recording.recording import record_pass
from glassformer.model import Transformer
from glassformer.settings import ModelConfig
from glassformer.trace import Step

# Modules without taps of their own, by the tap of the enclosing module that has their output's shape.
_UNTAPPED = {
    "embedded": "tokens",
    "position_vectors": "positions",
    "scaled": "dropout",
    "with_positions": "dropout",
    "residual": "dropout",
}


@dataclass(frozen=True)
class SummaryRow:
    """One module. ``parameters`` are counted in no other row; ``shared``: it also uses a matrix counted above."""

    path: str
    kind: str
    symbols: tuple[str, ...]
    shape: tuple[int, ...]
    parameters: int
    shared: bool


def summary_rows(model: Transformer, n_src: int | None = None, n_tgt: int | None = None) -> list[SummaryRow]:
    """A row for each module that names its output, the whole model first, in the order of computation.

    The shapes are those of one source of ``n_src`` tokens and one target of ``n_tgt``; by default, and at most, the
    longest that the model takes. The parameters of the rows add up to those of the model.
    """
    outputs = _outputs(model.config, n_src, n_tgt)
    counted: set[int] = set()
    rows = []
    for path, module in _in_order(model, outputs):
        step = outputs[path]
        own = _own_parameters(module, path, outputs)
        new = [parameter for parameter in own if id(parameter) not in counted]
        counted.update(map(id, new))
        count = sum(parameter.numel() for parameter in new)
        kind = type(module).__name__
        rows.append(SummaryRow(path, kind, symbols(step), step.shape, count, shared=len(new) < len(own)))
    return rows


def _outputs(config: ModelConfig, n_src: int | None, n_tgt: int | None) -> dict[str, Step]:
    """The last step of each module, in the order of these steps; the model's own is that of its last module."""
    with torch.device("meta"):
        twin = Transformer(config)
    src_ids = _some_ids(min(n_src or config.max_length, config.max_length), config.src_vocab)
    tgt_in_ids = _some_ids(min(n_tgt or config.max_length, config.max_length), config.tgt_vocab)
    outputs: dict[str, Step] = {}
    for step in record_pass(twin, src_ids, tgt_in_ids):
        path, _, name = step.address.rpartition(".")
        ended = [f"{path}.{_UNTAPPED[name]}", path] if name in _UNTAPPED else [path]
        for module in ended:
            outputs.pop(module, None)
            outputs[module] = step
    return {**outputs, "": outputs["output_projection"]}


def _in_order(model: Transformer, outputs: dict[str, Step]) -> list[tuple[str, nn.Module]]:
    """The modules with an output, each before those inside it, and siblings in the order of their last steps."""
    places = {path: place for place, path in enumerate(outputs)}

    def place(path: str) -> list[int]:
        parts = path.split(".") if path else []
        around = (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        return [places[outer] for outer in around if outer in places]

    named = [(path, module) for path, module in model.named_modules() if path in outputs]
    return sorted(named, key=lambda entry: place(entry[0]))


def _some_ids(length: int, vocab: int) -> Tensor:
    """Some ids, without the random generator; the shapes do not depend on them."""
    return (torch.arange(length) % vocab)[None]


def _own_parameters(module: nn.Module, path: str, outputs: dict[str, Step]) -> list[nn.Parameter]:
    """The parameters of a module and of the modules inside it that have no row."""
    own = list(module.parameters(recurse=False))
    for name, child in module.named_children():
        inner = f"{path}.{name}".lstrip(".")
        if inner not in outputs:
            own += _own_parameters(child, inner, outputs)
    return own


def print_summary(
    model: Transformer,
    console: Console,
    *,
    n_src: int | None = None,
    n_tgt: int | None = None,
    all_layers: bool = False,
) -> None:
    """Print a row for each module and the totals; later layers of a stack are folded unless ``all_layers``."""
    rows = summary_rows(model, n_src, n_tgt)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for heading in ("module", "kind", "output", "shape"):
        table.add_column(heading, overflow="fold")
    table.add_column("parameters", justify="right", no_wrap=True)
    for cells in _lines(rows, all_layers=all_layers):
        table.add_row(*map(Text, cells))
    console.print(table)
    _print_totals(model, console)


def _print_totals(model: Transformer, console: Console) -> None:
    parameters = list(model.parameters())
    total = sum(parameter.numel() for parameter in parameters)
    trainable = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    size_mb = sum(parameter.nbytes for parameter in parameters) / 1e6
    split = f"trainable: {trainable:,}, not trainable: {total - trainable:,}, in memory: {size_mb:,.2f} MB"
    console.print(Text(split))
    console.print(Text(f"total parameters: {total:,}", style="bold"))


def _lines(rows: list[SummaryRow], *, all_layers: bool) -> Iterator[tuple[str, ...]]:
    """The cells of each line of the table."""
    paths = [row.path for row in rows]
    for stack, group in groupby(rows, key=lambda row: "" if all_layers else _folded_stack(row)):
        members = list(group)
        if stack:
            yield _folded_line(members)
        else:
            yield from (_cells(row, paths) for row in members)


def _folded_stack(row: SummaryRow) -> str:
    """The stack of a layer after its first; empty for all other modules."""
    layer = layer_of(row.path)
    return layer[0] if layer is not None and layer[1] > 0 else ""


def _folded_line(rows: list[SummaryRow]) -> tuple[str, ...]:
    paths = [row.path for row in rows if row.kind.endswith("Layer")]
    first, last = (path.partition(".")[2] for path in (paths[0], paths[-1]))
    name = first if first == last else f"{first} to {last.rpartition('.')[2]}"
    return (f" {name}", "as layers.0", "", "", f"{sum(row.parameters for row in rows):,}")


def _cells(row: SummaryRow, paths: list[str]) -> tuple[str, ...]:
    """The module, indented below those that contain it, and the rest of its row."""
    outer = [path for path in paths if path and row.path.startswith(f"{path}.")]
    name = row.path.removeprefix(f"{outer[-1]}.") if outer else row.path or "model"
    count = f"{row.parameters:,}" if row.parameters else ""
    if row.shared:
        count = f"{count} + shared" if count else "shared"
    return (" " * len(outer) + name, row.kind, symbols_text(row.symbols), "×".join(map(str, row.shape)), count)
