"""The model module by module: outputs, parameters, and the cost of a pass.

Shapes and costs come from a pass on torch's meta device. A shared matrix is counted once.
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
from torch.utils.flop_counter import FlopCounterMode

from glassformer.errors import InputError, check_type
from glassformer.explain.addresses import layer_of, symbols
from glassformer.explain.plain import symbols_text
from glassformer.explain.recording.recording import record_pass
from glassformer.model import Transformer
from glassformer.settings import ModelConfig
from glassformer.trace import Step

# Modules without taps, by the tap of the enclosing module with their output's shape.
_UNTAPPED = {
    "embedded": "tokens", "position_vectors": "positions", "scaled": "dropout", "with_positions": "dropout",
    "residual": "dropout",
}  # fmt: skip
_HEADINGS = ("module", "kind", "output", "shape", "parameters")


@dataclass(frozen=True)
class SummaryRow:
    """One module; ``shared``: it also uses a matrix that another row counts."""

    path: str
    kind: str
    symbols: tuple[str, ...]
    shape: tuple[int, ...]
    parameters: int
    shared: bool


@dataclass(frozen=True)
class SummaryTotals:
    """Parameters, mult-adds of a forward pass, and sizes in MB, with gradients."""

    parameters: int
    trainable: int
    mult_adds: int
    input_mb: float
    pass_mb: float
    parameters_mb: float

    @property
    def total_mb(self) -> float:
        """Input, pass and parameters."""
        return self.input_mb + self.pass_mb + self.parameters_mb


def summary_totals(model: Transformer, n_src: int | None = None, n_tgt: int | None = None) -> SummaryTotals:
    """The totals for a source of ``n_src`` tokens and a target of ``n_tgt``."""
    parameters = list(model.parameters())
    twin = Transformer.without_values(model.config).eval()
    src_ids, tgt_in_ids = _pair_of_ids(model.config, n_src, n_tgt)
    made: list[int] = []
    for module in twin.modules():
        if next(module.parameters(recurse=False), None) is not None:
            module.register_forward_hook(lambda _module, _inputs, output: made.append(output.nbytes))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        twin(src_ids.to("meta"), tgt_in_ids.to("meta"))
    return SummaryTotals(
        parameters=sum(parameter.numel() for parameter in parameters),
        trainable=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        mult_adds=counter.get_total_flops() // 2,  # it counts multiplication and addition apart
        input_mb=(src_ids.nbytes + tgt_in_ids.nbytes) / 1e6,
        pass_mb=2 * sum(made) / 1e6,
        parameters_mb=sum(parameter.nbytes for parameter in parameters) / 1e6,
    )


def summary_rows(model: Transformer, n_src: int | None = None, n_tgt: int | None = None) -> list[SummaryRow]:
    """A row for each module with an output, in order; by default for the full length."""
    check_type("model", model, Transformer, "a Transformer, such as a Translator's model")
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
    """The last step of each module, in order; the model has the last of all."""
    outputs: dict[str, Step] = {}
    for step in record_pass(Transformer.without_values(config).eval(), *_pair_of_ids(config, n_src, n_tgt)):
        path, _, name = step.address.rpartition(".")
        ended = [f"{path}.{_UNTAPPED[name]}", path] if name in _UNTAPPED else [path]
        for module in ended:
            outputs.pop(module, None)
            outputs[module] = step
    return {**outputs, "": outputs["output_projection"]}


def _in_order(model: Transformer, outputs: dict[str, Step]) -> list[tuple[str, nn.Module]]:
    """The modules with an output, outer ones first, in order of computation."""
    places = {path: place for place, path in enumerate(outputs)}

    def place(path: str) -> list[int]:
        parts = path.split(".") if path else []
        around = (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        return [places[outer] for outer in around if outer in places]

    named = [(path, module) for path, module in model.named_modules() if path in outputs]
    return sorted(named, key=lambda entry: place(entry[0]))


def _pair_of_ids(config: ModelConfig, n_src: int | None, n_tgt: int | None) -> tuple[Tensor, Tensor]:
    """Some ids, without the random generator; the shapes do not depend on them."""
    for name, length in (("n_src", n_src), ("n_tgt", n_tgt)):
        if length is not None and (not isinstance(length, int) or length < 1):
            raise InputError(f"{name}: found {length!r:.40}, expected a number of tokens, from 1.")
    src, tgt = (min(length or config.max_length, config.max_length) for length in (n_src, n_tgt))
    return (torch.arange(src) % config.src_vocab)[None], (torch.arange(tgt) % config.tgt_vocab)[None]


def _own_parameters(module: nn.Module, path: str, outputs: dict[str, Step]) -> list[nn.Parameter]:
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
    """Print a row a module and the totals; without ``all_layers``, later layers are folded."""
    check_type("console", console, Console, "a Console of rich")
    rows = summary_rows(model, n_src, n_tgt)
    lines = list(_lines(rows, all_layers=all_layers))
    wide = sum(max(map(len, column)) for column in zip(_HEADINGS, *lines, strict=True)) + len(_HEADINGS) - 1
    shown = [place for place, name in enumerate(_HEADINGS) if wide <= console.width or name != "output"]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for place in shown:
        last = place == len(_HEADINGS) - 1
        table.add_column(_HEADINGS[place], overflow="fold", no_wrap=last, justify="right" if last else "left")
    for cells in lines:
        table.add_row(*(Text(cells[place]) for place in shown))
    console.print(table)
    if len(shown) < len(_HEADINGS):
        console.print(Text(_symbols_below(rows), style="dim"))
    totals = summary_totals(model, n_src, n_tgt)
    fixed = totals.parameters - totals.trainable
    for line in (
        f"mult-adds of one pass: {totals.mult_adds / 1e6:,.2f} million",
        f"input: {totals.input_mb:,.2f} MB, forward and backward pass: {totals.pass_mb:,.2f} MB",
        f"parameters: {totals.parameters_mb:,.2f} MB, all together: {totals.total_mb:,.2f} MB",
        f"trainable: {totals.trainable:,}, not trainable: {fixed:,}",
    ):
        console.print(Text(line))
    console.print(Text(f"total parameters: {totals.parameters:,}", style="bold"))


def _symbols_below(rows: list[SummaryRow]) -> str:
    """``src_embedding, encoder (nbatches, n_seq_src, d_model); ...``."""
    owners: dict[str, list[str]] = {}
    for row in rows:
        if "." not in row.path:
            owners.setdefault(symbols_text(row.symbols), []).append(row.path or "model")
    return "shapes: " + "; ".join(f"{', '.join(names)} {symbols}" for symbols, names in owners.items())


def _lines(rows: list[SummaryRow], *, all_layers: bool) -> Iterator[tuple[str, ...]]:
    paths = [row.path for row in rows]
    for stack, group in groupby(rows, key=lambda row: "" if all_layers else _folded_stack(row)):
        members = list(group)
        if stack:
            yield _folded_line(members)
        else:
            yield from (_cells(row, paths) for row in members)


def _folded_stack(row: SummaryRow) -> str:
    layer = layer_of(row.path)
    return layer[0] if layer is not None and layer[1] > 0 else ""


def _folded_line(rows: list[SummaryRow]) -> tuple[str, ...]:
    paths = [row.path for row in rows if row.kind.endswith("Layer")]
    first, last = (path.partition(".")[2] for path in (paths[0], paths[-1]))
    name = first if first == last else f"{first} to {last.rpartition('.')[2]}"
    return (f" {name}", "as layers.0", "", "", f"{sum(row.parameters for row in rows):,}")


def _cells(row: SummaryRow, paths: list[str]) -> tuple[str, ...]:
    outer = [path for path in paths if path and row.path.startswith(f"{path}.")]
    name = row.path.removeprefix(f"{outer[-1]}.") if outer else row.path or "model"
    count = f"{row.parameters:,}" if row.parameters else ""
    if row.shared:
        count = f"{count} + shared" if count else "shared"
    return (" " * len(outer) + name, row.kind, symbols_text(row.symbols), "×".join(map(str, row.shape)), count)
