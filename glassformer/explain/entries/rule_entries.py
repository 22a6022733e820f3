"""The taps of rules and constraints. Keskar et al. 2019 (arXiv 1909.05858); Post, Vilar 2018 (arXiv 1804.06609)."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from glassformer.explain.entries.entry import NOT_IN_PAPER, add, entry
from glassformer.explain.entries.scope import Scope, source_of_rows, written_ids
from glassformer.settings import ModelConfig
from glassformer.text.tokenizer.kinds import UNK_ID

Form = tuple[list[int], list[int]]
"""A required sequence, and the same as an output begins with it."""


def _repetition_penalty(processed: Tensor, written: list[int], penalty: float, _config: ModelConfig) -> None:
    for number in set(written):
        processed[number] *= penalty


def _no_repeat_ngram(processed: Tensor, written: list[int], n: int, _config: ModelConfig) -> None:
    """Forbid the ids that would repeat a sequence of ``n`` ids."""
    for end in range(n, len(written) + 1) if n else ():
        if written[end - n : end - 1] == written[len(written) - n + 1 :]:
            processed[written[end - 1]] = -math.inf


def _min_length(processed: Tensor, written: list[int], least: int, config: ModelConfig) -> None:
    if len(written) < least:
        processed[config.eos_id] = -math.inf


def _allow_unk(processed: Tensor, _written: list[int], allowed: bool, _config: ModelConfig) -> None:
    if not allowed:
        processed[UNK_ID] = -math.inf


# What each processor does to the log-probabilities of one row, by its setting and in the same order.
PROCESSOR_EQUATIONS: dict[str, Callable[[Tensor, list[int], Any, ModelConfig], None]] = {
    "repetition_penalty": _repetition_penalty,
    "no_repeat_ngram": _no_repeat_ngram,
    "min_length": _min_length,
    "allow_unk": _allow_unk,
}


def _apply_constraints(scope: Scope, source: int, written: list[int], own: Tensor, processed: Tensor) -> None:
    """Apply the constraints to one row: required phrases, banned ones, the prefix."""
    if not scope.has("search.required_ids"):
        return
    if not all(occurs(phrase, start, written) for phrase, start in required_forms(scope, source)):
        processed[scope.config.eos_id] = -math.inf
    for *past, last in phrases(scope, "banned_ids", source):
        if written[max(0, len(written) - len(past)) :] == past:
            processed[last] = -math.inf
    prefix = scope.at_call("search.prefix_ids", 0)[source]
    if len(written) < len(prefix) and prefix[len(written)] != scope.config.pad_id:
        number = int(prefix[len(written)])
        processed.fill_(-math.inf)
        processed[number] = own[number]


def phrases(scope: Scope, name: str, source: int) -> list[list[int]]:
    """The sequences of one source, without padding."""
    padded = scope.at_call(f"search.{name}", 0)[source].tolist()
    found = [[number for number in phrase if number != scope.config.pad_id] for phrase in padded]
    return [phrase for phrase in found if phrase]


def required_forms(scope: Scope, source: int) -> list[Form]:
    """The required sequences of one source, each with the one that an output begins with."""
    return list(zip(phrases(scope, "required_ids", source), phrases(scope, "start_ids", source), strict=True))


def occurs(phrase: list[int], start: list[int], ids: list[int]) -> bool:
    """Whether the ids of ``phrase`` stand in ``ids`` one after another, or those of ``start`` at its beginning."""
    return ids[: len(start)] == start or any(ids[at : at + len(phrase)] == phrase for at in range(len(ids)))


@entry("search.processed_log_probs", "After the rules", "θ log P, or −∞", "Keskar et al. 2019")
def _processed_log_probs(scope: Scope) -> Tensor:
    """A token that was written before costs more; one that repeats an n-gram, ends too early or breaks a
    constraint gets −∞.
    """
    own, step = scope.at("search.next_log_probs"), scope.step.call
    processed = own.clone()
    sources = source_of_rows(scope, step)
    for row, (written, source) in enumerate(zip(written_ids(scope, step).tolist(), sources, strict=True)):
        for setting, apply in PROCESSOR_EQUATIONS.items():
            apply(processed[row], written, getattr(scope.context.decode, setting), scope.config)
        _apply_constraints(scope, source, written, own[row], processed[row])
    return processed


_PREFIX = "What each output has to begin with, padded."
add("search.prefix_ids", "Required beginnings", _PREFIX, "given", NOT_IN_PAPER)
_REQUIRED = "What each output has to contain, padded; until it does, it may not end, and the beam is divided."
add("search.required_ids", "Required sequences", _REQUIRED, "given", "Post and Vilar 2018")
_START = (
    "The required sequences as an output begins with them, padded: there a word has another token than after a space."
)
add("search.start_ids", "Required sequences at the beginning", _START, "given", NOT_IN_PAPER)
add("search.banned_ids", "Banned sequences", "What no output may contain, padded.", "given", NOT_IN_PAPER)
