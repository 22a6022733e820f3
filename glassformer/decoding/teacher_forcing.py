"""Teacher forcing: one pass over given outputs gives each id's log-probability or attention. Section 3.1."""

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.decoding.search.steps import mean_log_probs, pad_ids, token_log_probs
from glassformer.model import Transformer
from glassformer.trace.taps import capture


def forced_token_log_probs(
    models: Sequence[Transformer], src_ids: Int[Tensor, "batch src"], outputs: Sequence[Sequence[int]]
) -> list[list[float]]:
    """The log-probability of each id of each source's output; of an ensemble that of the mean probability."""
    out_ids, found = pad_ids(outputs, models[0].config.pad_id, src_ids.device), []
    for model in models:
        log_probs = token_log_probs(model(src_ids, _shift_right(out_ids, model)), model.config)
        found.append(log_probs.gather(2, out_ids[:, :, None]).squeeze(2))
    rows = mean_log_probs(torch.stack(found)).tolist()
    return [row[: len(output)] for row, output in zip(rows, outputs, strict=True)]


def forced_attention(
    model: Transformer, src_ids: Int[Tensor, "batch src"], outputs: Sequence[Sequence[int]]
) -> list[Float[Tensor, "layers heads tgt src"]]:
    """The cross-attention weights of each source's output, without the padding of either, on the CPU."""
    out_ids = pad_ids(outputs, model.config.pad_id, src_ids.device)
    with ExitStack() as stack:
        attentions = [layer.get_submodule("cross_attention") for layer in model.decoder.layers]
        captured = [stack.enter_context(capture(attention, "weights")) for attention in attentions]
        model.hidden(src_ids, _shift_right(out_ids, model))
    weights = torch.stack([layer for (layer,) in captured], dim=1).detach().cpu()
    src_lengths = (src_ids != model.config.pad_id).sum(dim=1).tolist()
    # Clones, because a view would keep the whole batch in memory.
    return [
        row[:, :, : len(output), :src_length].clone()
        for row, output, src_length in zip(weights, outputs, src_lengths, strict=True)
    ]


def _shift_right(out_ids: Int[Tensor, "batch tgt"], model: Transformer) -> Int[Tensor, "batch tgt"]:
    """The decoder's input for ``out_ids``: bos, then all but the last id."""
    first = out_ids.new_full((len(out_ids), 1), model.config.bos_id)
    return torch.cat([first, out_ids[:, :-1]], dim=1)
