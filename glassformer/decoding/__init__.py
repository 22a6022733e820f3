"""From a source to its translation: beam search, sampling, and the translator that joins them to text."""

from glassformer.decoding.candidate import Candidate, length_penalty
from glassformer.decoding.sampling import sample
from glassformer.decoding.search import beam_search
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.decoding.translator import Translator

__all__ = ["Candidate", "Hypothesis", "Translation", "Translator", "beam_search", "length_penalty", "sample"]
