"""The story of each tap: title, one sentence, equation and section, found by address.

Tap names are unique in their module, not in the model, so a story is kept under the kind of module and the
name; the kind follows from the address. Knows no values.
"""

from dataclasses import replace

from glassformer.config import ModelConfig
from glassformer.errors import TraceError, nearest
from glassformer.explain.addresses import kind_of
from glassformer.explain.stories import STORIES, VARIANTS, Story

__all__ = ["Story", "kind_of", "story_of"]


def story_of(address: str, config: ModelConfig | None = None) -> Story:
    """What the tensor at ``address`` is; with a ``config``, the equation is the one that this model computes.

    Without one it is the paper's. Raises ``TraceError`` for an address that no story is told of.
    """
    kind, name = kind_of(address), address.rpartition(".")[2]
    if kind not in STORIES:
        raise TraceError(f"{address}: no story is told of modules of kind {kind!r}.{nearest(kind, STORIES)}")
    stories = STORIES[kind]
    if name not in stories:
        raise TraceError(f"{address}: no story is told of {name!r} in {kind}.{nearest(name, stories)}")
    return stories[name] if config is None else _as_configured(stories[name], kind, name, config)


def _as_configured(story: Story, kind: str, name: str, config: ModelConfig) -> Story:
    for variant in VARIANTS:
        if variant.name == name and kind in variant.kinds and getattr(config, variant.field) == variant.value:
            story = replace(story, equation=variant.equation, sentence=variant.sentence or story.sentence)
    return story
