"""What each tap means, in words: one table per part of the model. Knows no tensors and no text."""

from glassformer.explain.stories.attention import ATTENTION, ATTENTION_VARIANTS
from glassformer.explain.stories.ends import ENDS, ENDS_VARIANTS
from glassformer.explain.stories.entry import Story, Table, Variant
from glassformer.explain.stories.layers import LAYERS, LAYERS_VARIANTS
from glassformer.explain.stories.process import PROCESS

__all__ = ["STORIES", "VARIANTS", "Story", "Table", "Variant"]

STORIES: dict[str, Table] = {**ENDS, **ATTENTION, **LAYERS, **PROCESS}
VARIANTS: tuple[Variant, ...] = (*ENDS_VARIANTS, *ATTENTION_VARIANTS, *LAYERS_VARIANTS)
