"""From a source to its translation: beam search, greedy search, sampling, and the translator that joins them to text.

The names below are loaded when first used, so that importing this package does not load PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.decoding.candidates import Candidate
    from glassformer.decoding.job import Constraints, SearchJob
    from glassformer.decoding.request import Request
    from glassformer.decoding.sampling import sample
    from glassformer.decoding.scoring import Scored
    from glassformer.decoding.steps import DecoderSteps, Steps
    from glassformer.decoding.translation import Hypothesis, Translation
    from glassformer.decoding.translator import Translator
    from glassformer.decoding.worker_pool import translate_together

_HOMES = {
    "Candidate": "candidates",
    "Constraints": "job",
    "DecoderSteps": "steps",
    "Hypothesis": "translation",
    "Request": "request",
    "Scored": "scoring",
    "SearchJob": "job",
    "Steps": "steps",
    "Translation": "translation",
    "Translator": "translator",
    "sample": "sampling",
    "translate_together": "worker_pool",
}

__all__ = [
    "Candidate",
    "Constraints",
    "DecoderSteps",
    "Hypothesis",
    "Request",
    "Scored",
    "SearchJob",
    "Steps",
    "Translation",
    "Translator",
    "sample",
    "translate_together",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer.decoding' has no attribute {name!r}")
    return getattr(import_module(f"glassformer.decoding.{_HOMES[name]}"), name)
