"""A step: it reads a text and gives the texts that the next step reads, and the way back from their answers.

A text is a row of parts, strings and codes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from glassformer.text.codes.code import Parts


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How a text is read; ``prefix`` and ``phrases`` are what its answer must begin with and contain."""

    language: str = ""
    """Of the text, such as "de", for its abbreviations."""
    splits_sentences: bool = True
    """Else its lines are read, each as one."""
    keeps_codes: bool = True
    matches_style: bool = True
    copies_wordless: bool = True
    plain_signs: Mapping[str, str] = field(default_factory=dict)
    """How typographic signs that the model does not know are read."""
    keeps_capital: Callable[[str], bool] | None = None
    """Whether an answer of one word, such as a German noun, has a capital wherever it stands."""
    targets: tuple[str, ...] = ()
    """The target languages that a model of several has."""
    target: str = ""
    """The one of them for texts that name none."""
    prefix: str = ""
    phrases: tuple[str, ...] = ()

    @property
    def is_constrained(self) -> bool:
        """Whether there is something that the answer must have."""
        return bool(self.prefix.strip() or self.phrases)


@dataclass(frozen=True)
class Change:
    """What a step made of a text: the ``texts`` that the next step reads."""

    texts: tuple[Parts, ...]

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The answer to the text, from those to ``texts``.

        If it is not ``is_whole``, the last of ``answers`` is the start of one and others are missing: what is given
        back is the part of the answer that is certain.
        """
        return answers[0]

    def check(self, answer: Parts) -> list[str]:
        """In words, what is wrong with a restored answer."""
        return []


Step = Callable[[Parts, TextOptions], Change | None]
"""Gives None where it changes nothing."""
