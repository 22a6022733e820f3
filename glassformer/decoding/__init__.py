"""From a source to its translation: beam search, sampling, and the translator that joins them to text."""

from glassformer.decoding.beam_search import beam_search
from glassformer.decoding.candidates import Candidate, length_penalty
from glassformer.decoding.constraints import Demands
from glassformer.decoding.request import Request
from glassformer.decoding.sampling import sample
from glassformer.decoding.scoring import Scored
from glassformer.decoding.steps import DecoderSteps, Steps
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.decoding.translator import Translator
from glassformer.decoding.worker_pool import translate_together

__all__ = [
    "Candidate",
    "DecoderSteps",
    "Demands",
    "Hypothesis",
    "Request",
    "Scored",
    "Steps",
    "Translation",
    "Translator",
    "beam_search",
    "length_penalty",
    "sample",
    "translate_together",
]
