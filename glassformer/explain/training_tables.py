"""A training step at a glance: the loss of each token, and what the update did to each weight."""

import math
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from glassformer.explain.plain import number_text, shape_text
from glassformer.explain.story import kind_of
from glassformer.explain.tables import Cell, Table
from glassformer.explain.text_tables import MOST_SENTENCES, left_out
from glassformer.explain.walk import Walk, WalkStep

_MOST_TOKENS = 12
_LOSSES = ("loss.nll_per_token", "loss.per_token", "loss.mean")
_UPDATE = ("update.gradient_norm", "update.rate", "update.count")
_OF_WEIGHT = {"gradient", "first_moment", "second_moment", "value_before", "value"}


def loss_tables(walk: Walk, steps: Sequence[WalkStep]) -> Iterator[Table]:
    """For each sentence the probability and the loss of each token that it was to say; then the mean."""
    found = {step.address: step.value for step in steps if step.address in _LOSSES}
    if len(found) < len(_LOSSES):
        return
    sentences = walk.sentences
    for row in range(min(len(sentences.sources), MOST_SENTENCES)):
        yield _losses_of(walk, row, found)
    mean = f"mean over {sentences.batch.target_tokens} tokens: {float(found['loss.mean']):.4f}"
    hidden = left_out(MOST_SENTENCES, len(sentences.sources), "sentences")
    yield Table(caption="; ".join(filter(None, [mean, hidden])))


def _losses_of(walk: Walk, row: int, found: Mapping[str, Tensor]) -> Table:
    sentences = walk.sentences
    count = int((sentences.batch.tgt_out_ids[row] != sentences.pad_id).sum())
    shown = min(count, _MOST_TOKENS)
    nll, loss = (found[name][row, :shown].tolist() for name in _LOSSES[:2])
    rows = tuple(
        (token, math.exp(-one), one, smoothed)
        for token, one, smoothed in zip(sentences.tgt_out_tokens[row][:shown], nll, loss, strict=True)
    )
    title = f"{row + 1}  {sentences.sources[row]} → {sentences.targets[row]}"
    return Table(("token", "P", "−log P", "loss"), rows, title, left_out(shown, count, "tokens"))


def weight_tables(walk: Walk, steps: Sequence[WalkStep]) -> Iterator[Table]:
    """One table with a line for each weight: norms of its gradient, of both moments, of how far it moved."""
    weights: dict[str, dict[str, Tensor]] = {}
    for step in steps:
        if kind_of(step.address) == "weight":
            weights.setdefault(step.address.rpartition(".")[0], {})[step.name] = step.value
    rows = tuple(_norms(name, parts) for name, parts in weights.items() if parts.keys() >= _OF_WEIGHT)
    if rows:
        headers = ("weight", "shape", "‖g‖", "‖m‖", "‖v‖", "‖Δw‖")
        yield Table(headers, rows, caption=_about_update(walk, steps))


def _norms(name: str, parts: Mapping[str, Tensor]) -> tuple[Cell, ...]:
    moved = parts["value"] - parts["value_before"]
    gradient, first, second, change = (
        float(tensor.norm()) for tensor in (parts["gradient"], parts["first_moment"], parts["second_moment"], moved)
    )
    return name, shape_text(tuple(moved.shape)), gradient, f"{first:.1e}", f"{second:.1e}", change


def _about_update(walk: Walk, steps: Sequence[WalkStep]) -> str:
    """Norm of the whole gradient, rate and number of the update, as far as they are among the steps."""
    found = {step.address: step.value.item() for step in steps if step.address in _UPDATE}
    if len(found) < len(_UPDATE):
        return ""
    norm, rate, count = (found[address] for address in _UPDATE)
    clip = walk.train.clip_norm if walk.train is not None else 0.0
    clipped = f", shortened to {number_text(clip)}" if clip and norm > clip else ""
    return f"gradient of all weights: norm {number_text(norm)}{clipped}; learning rate {rate:.2e}; update {count}"
