"""The model: figure 1 of the paper, from torch primitives. Can be copied out and read alone."""

from glassformer.model.cache import DecoderCache
from glassformer.model.transformer import Transformer

__all__ = ["DecoderCache", "Transformer"]
