"""A walk in sections for every renderer, with folded steps and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from glassformer.explain.addresses import kind_of, layer_of
from glassformer.explain.plain import number_text, shape_text, symbols_text
from glassformer.explain.recording.walk_data import WalkData, WalkStep
from glassformer.explain.render.search_tables import Searched, index_search_steps, search_tables
from glassformer.explain.render.walk_tables import Table, loss_tables, text_tables, weight_tables


@dataclass(frozen=True, eq=False)
class WalkSection:
    """Steps to show, a line about folded ones, and summary tables."""

    title: str
    steps: tuple[WalkStep, ...]
    folded: str
    tables: tuple[Table, ...]


def outline(walk: WalkData, *, folds_layers: bool, folds_repeats: bool) -> Iterator[WalkSection]:
    """The sections in order; chosen addresses are never folded.

    ``folds_layers``: later layers; ``folds_repeats``: later tokens, each weight's steps.
    """
    searched = index_search_steps(walk)

    def fold(step: WalkStep) -> str:
        """A folded step's section; else empty."""
        if walk.only != "*" or step.stage == "Answer":
            return ""
        if folds_repeats and step.token:
            return f"Token {step.token}"
        if folds_repeats and step.stage == "Update":
            return "Update"
        layer = layer_of(step.address) if folds_layers else None
        is_repeated = layer is not None and layer[1] > 0 and kind_of(step.address) != "weight"
        return step.stage.rpartition(" ")[0] if is_repeated else ""

    for (folded, _), group in groupby(walk.steps, key=lambda step: (fold(step), "" if fold(step) else step.stage)):
        yield _section(walk, folded, list(group), searched)


def shape_line(step: WalkStep) -> str:
    """``(nbatches, n_seq_src) = (3, 7)``; a single number itself."""
    if step.shape:
        return f"{symbols_text(step.symbols)} = {shape_text(step.shape)}"
    return f"one number: {number_text(step.value.item())}"


def source_line(step: WalkStep) -> str:
    """``section 3.2.1`` of the paper, or another source."""
    section = step.story.section
    return f"section {section}" if section[0].isdigit() else section


def gradient_line(step: WalkStep) -> str:
    """``‖∂‖ 0.043``: the gradient's norm, if any."""
    return "" if step.gradient is None else f"‖∂‖ {number_text(float(step.gradient.norm()))}"


def _section(walk: WalkData, folded: str, steps: list[WalkStep], searched: Searched) -> WalkSection:
    tables = tuple(
        chain(
            text_tables(walk, steps), search_tables(walk, steps, searched), loss_tables(walk, steps),
            weight_tables(walk, steps),
        )
    )  # fmt: skip
    first, last = steps[0], steps[-1]
    if not folded:
        return WalkSection(first.stage, tuple(steps), "", tables)
    if folded == "Update":
        shown = tuple(step for step in steps if kind_of(step.address) != "weight")
        about = "of each weight the gradient, the moments and the value, before and after"
        return WalkSection(folded, shown, f"{_numbers(steps)}: {about}", tables)
    if first.token:
        return WalkSection(folded, (), _parts(steps), tables)
    several = f"{folded}s {first.stage.split()[-1]} to {last.stage.split()[-1]}"
    title = first.stage if first.stage == last.stage else several
    return WalkSection(title, (), f"the same steps again, {_numbers(steps)}", tables)


def _parts(steps: Sequence[WalkStep]) -> str:
    """``decoder, numbers 120 to 250; search, numbers 251 to 263``."""
    decoder = [step for step in steps if not step.address.startswith("search.")]
    search = [step for step in steps if decoder and step.number > decoder[-1].number]
    return "; ".join(f"{name}, {_numbers(own)}" for name, own in (("decoder", decoder), ("search", search)) if own)


def _numbers(steps: Sequence[WalkStep]) -> str:
    return f"numbers {steps[0].number} to {steps[-1].number}"
