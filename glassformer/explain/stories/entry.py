"""One story, and how a configuration may change it. Knows neither addresses nor tensors."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Story:
    """What one named tensor is.

    ``equation`` is plain Unicode in the paper's symbols; ``section`` is the paper's, or names another source.
    """

    title: str
    sentence: str
    equation: str
    section: str


@dataclass(frozen=True)
class Variant:
    """What a story says instead when the configuration's ``field`` has ``value``; an empty ``sentence`` keeps it."""

    kinds: tuple[str, ...]
    name: str
    field: str
    value: object
    equation: str
    sentence: str = ""


Table = dict[str, Story]
