"""From a source to its translation: beam search, greedy search, sampling, and the translator that joins them to text.

The names below are loaded when first used, so that importing this package does not load PyTorch.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import lazy_names

if TYPE_CHECKING:
    from glassformer.decoding.search.outputs import Output as Output
    from glassformer.decoding.search.job import Constraints as Constraints, SearchJob as SearchJob
    from glassformer.decoding.request import Request as Request
    from glassformer.decoding.scoring import Scored as Scored
    from glassformer.decoding.search.steps import DecoderSteps as DecoderSteps, Steps as Steps
    from glassformer.decoding.translation import Hypothesis as Hypothesis, Translation as Translation
    from glassformer.decoding.translator import Translator as Translator

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
