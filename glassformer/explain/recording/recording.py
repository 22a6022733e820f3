"""One recorded pass or search, in evaluation mode and without gradients."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output
from glassformer.decoding.search.search import search
from glassformer.decoding.search.steps import DecoderSteps, pad_ids
from glassformer.errors import InputError, check_type
from glassformer.model import Transformer
from glassformer.model.checks import check_id_shape
from glassformer.model.inference import evaluating
from glassformer.settings import ModelConfig
from glassformer.trace import Trace, tracing
from glassformer.trace.taps import Edit

MAX_ATTENTION = 32_000_000
"""Attention scores of all heads in a pass; each is recorded about six times, 0.8 GB."""

MAX_NUMBERS = 6 * MAX_ATTENTION
"""That are recorded of a search."""


def check_recording(config: ModelConfig, sentences: int, src: int, tgt: int) -> None:
    """Raise ``InputError`` for sentences whose steps would fill the memory."""
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
    """The steps of one pass with teacher forcing whose addresses match ``only``."""
    check_type("model", model, nn.Module, "a model, such as a Translator's")
    check_id_shape("src_ids", src_ids)
    check_id_shape("tgt_in_ids", tgt_in_ids)
    device = next(model.parameters()).device
    with torch.no_grad(), evaluating(model), tracing(model, edits, only) as trace:
        model(src_ids.to(device), tgt_in_ids.to(device))
    return trace


def record_search(model: Transformer, job: SearchJob, only: str = "*") -> tuple[Trace, list[list[Output]]]:
    """The steps of a search and its outputs; ``InputError`` before they fill the memory."""
    device = next(model.parameters()).device
    check_recording(model.config, len(job.sources), max(map(len, job.sources)), 1)
    with torch.no_grad(), evaluating(model), tracing(model, only=only) as trace:
        src_ids = pad_ids(job.sources, model.config.pad_id, device)
        steps = _LimitedSteps(model, src_ids, job.options)
        steps.trace = trace
        return trace, search(steps, job)


class _LimitedSteps(DecoderSteps):
    """Steps that stop before their record fills the memory."""

    trace: Trace
    _read, _numbers, _next = 0, 0, 0  # how many steps were counted, their numbers, and those of the next one at least

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """The same, if there is room; else ``InputError``."""
        added = sum(step.value.numel() for step in self.trace.steps[self._read :])
        self._read, self._numbers = len(self.trace.steps), self._numbers + added
        self._next = max(self._next, len(ids) * self.config.tgt_vocab)
        if self._numbers + self._next > MAX_NUMBERS:
            raise InputError(
                f"{len(ids):,} hypotheses: found {self._numbers:,} numbers recorded so far, expected at most "
                f"{MAX_NUMBERS:,} of a whole search, which fit into memory: every step is kept. Give fewer or "
                "shorter sentences, a narrower beam, or a lower max_length_b."
            )
        log_probs = super().next_log_probs(ids)
        self._next = sum(step.value.numel() for step in self.trace.steps[self._read :])
        return log_probs
