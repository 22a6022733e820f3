"""From a source to its translation: beam search, sampling, and the translator that joins them to text."""

from glassformer.decoding.candidate import Candidate, length_penalty
from glassformer.decoding.demands import Demands
from glassformer.decoding.request import Request
from glassformer.decoding.sampling import sample
from glassformer.decoding.scored import Scored
from glassformer.decoding.search import beam_search
from glassformer.decoding.steps import DecoderSteps, Steps
from glassformer.decoding.together import translate_together
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.decoding.translator import Translator

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
