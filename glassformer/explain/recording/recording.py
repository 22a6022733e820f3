"""One recorded pass or search of the model, in evaluation mode and without gradients."""

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output
from glassformer.decoding.search.search import search
from glassformer.decoding.search.steps import DecoderSteps, pad_ids
from glassformer.errors import InputError
from glassformer.model import Transformer
from glassformer.model.inference import evaluating
from glassformer.settings import ModelConfig
from glassformer.trace import Trace, tracing
from glassformer.trace.taps import Edit

MAX_ATTENTION = 32_000_000
"""Scores of attention, of all heads, in a pass of several sentences: each is recorded some six times, 0.8 GB."""


def check_recording(config: ModelConfig, sentences: int, src: int, tgt: int) -> None:
    """Raise ``InputError`` for sentences whose steps fill the memory: each is padded to the length of the longest.

    One sentence is always recorded: the model's length bounds it.
    """
    pairs = config.n_encoder_layers * src**2 + config.n_decoder_layers * tgt * (tgt + src)
    if sentences > 1 and sentences * config.n_heads * pairs > MAX_ATTENTION:
        raise InputError(
            f"{sentences:,} sentences: found up to {src:,} tokens, and {tgt:,} of an output, expected a batch whose "
            "attention fits into memory: every step of it is kept. Give fewer or shorter sentences at a time."
        )


def record_pass(
    model: Transformer,
    src_ids: Int[Tensor, "batch src"],
    tgt_in_ids: Int[Tensor, "batch tgt"],
    only: str = "*",
    *,
    edits: Mapping[str, Edit] | None = None,
) -> Trace:
    """The steps of one pass with teacher forcing whose addresses match ``only``.

    The pass runs on the model's device; the model's mode is the same afterwards.
    """
    device = next(model.parameters()).device
    with torch.no_grad(), evaluating(model), tracing(model, edits, only) as trace:
        model(src_ids.to(device), tgt_in_ids.to(device))
    return trace


def record_search(model: Transformer, job: SearchJob, only: str = "*") -> tuple[Trace, list[list[Output]]]:
    """The steps of a search that match ``only``, a row of the decoder for each hypothesis, and its ranked outputs."""
    device = next(model.parameters()).device
    with torch.no_grad(), evaluating(model), tracing(model, only=only) as trace:
        src_ids = pad_ids(job.sources, model.config.pad_id, device)
        return trace, search(DecoderSteps.from_sources(model, src_ids, job.options), job)
