"""The register of taps: what each tensor is, and the function that recomputes it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

from glassformer.explain.entries.scope import Scope
from glassformer.settings import ModelConfig

Compute = Callable[[Scope], Tensor | None]
"""What a step must be, from earlier steps and the weights; None for an input."""
NOT_IN_PAPER = "not in the paper"
_Own = TypeVar("_Own", bound=Compute)


@dataclass(frozen=True)
class Story:
    """What a tensor is; ``section`` is the paper's, or names another source."""

    title: str
    sentence: str
    equation: str
    section: str


@dataclass(frozen=True)
class Variant:
    """What a story says instead if the configuration's ``field`` has ``value``."""

    field: str
    value: object
    equation: str
    sentence: str = ""

    def applies(self, config: ModelConfig) -> bool:
        """Whether the configuration has this value."""
        return bool(getattr(config, self.field) == self.value)


@dataclass(frozen=True)
class TapEntry(Story):
    """The story of a tap, and how a recorded value of it is checked.

    ``compute`` states the equation anew; without it, or if it returns None, the step is an input. Errors are relative
    to the number or ``error_scale``, at least to ``floor``: 1 for a pass, tiny for rates and moments.
    """

    compute: Compute | None = None
    variants: tuple[Variant, ...] = ()
    error_scale: Callable[[Scope], Tensor] | None = None
    floor: float = 1.0

    def story(self, config: ModelConfig | None = None) -> Story:
        """The story for a configuration, or the paper's."""
        story = Story(self.title, self.sentence, self.equation, self.section)
        for variant in self.variants:
            if config is not None and variant.applies(config):
                story = replace(story, equation=variant.equation, sentence=variant.sentence or story.sentence)
        return story

    def recompute(self, scope: Scope) -> Tensor | None:
        """What the step must be; None where it is an input."""
        return None if self.compute is None else self.compute(scope)


ENTRIES: dict[str, dict[str, TapEntry]] = {}
"""Entries by kind of module and name; the modules of this folder add them."""


def add(address: str, title: str, sentence: str, equation: str, section: str, **more: Any) -> None:
    """Add an entry under ``cross_attention.q`` or, for several kinds, ``encoder|decoder.q``."""
    for kind, name in _places(address):
        ENTRIES.setdefault(kind, {})[name] = TapEntry(title, sentence, equation, section, **more)


def entry(address: str, title: str, equation: str, section: str, **more: Any) -> Callable[[_Own], _Own]:
    """Add an entry whose ``compute`` is the decorated function, and its docstring the sentence."""

    def decorate(compute: _Own) -> _Own:
        add(address, title, " ".join((compute.__doc__ or "").split()), equation, section, compute=compute, **more)
        return compute

    return decorate


def change(address: str, **changes: Any) -> None:
    """Change fields of an entry for some of the kinds that share it."""
    for kind, name in _places(address):
        ENTRIES[kind][name] = replace(ENTRIES[kind][name], **changes)


def vary(address: str, field: str, value: object, equation: str, sentence: str = "") -> None:
    """Add a ``Variant`` to an entry."""
    for kind, name in _places(address):
        known = ENTRIES[kind][name].variants
        change(f"{kind}.{name}", variants=(*known, Variant(field, value, equation, sentence)))


def _places(address: str) -> Iterator[tuple[str, str]]:
    kinds, name = address.split(".")
    return ((kind, name) for kind in kinds.split("|"))


def all_entries() -> Iterator[tuple[str, str, TapEntry]]:
    """Each entry with its kind and name."""
    for kind, named in ENTRIES.items():
        for name, entry in named.items():
            yield kind, name, entry
