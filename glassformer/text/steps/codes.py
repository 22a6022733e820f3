"""Codes: placeholders are found, and a message of ICU is a code whose branches are texts of their own."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.text.codes.code import Code, Part, Parts, join_parts
from glassformer.text.codes.find import find_codes, mark_messages
from glassformer.text.steps.step import Change, TextOptions


@dataclass(frozen=True)
class Messages(Change):
    """A text with its messages as codes, and then each message."""

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The first answer with the others in the places of their messages."""
        if not is_whole:
            return ()
        texts = (join_parts(text) for text in self.texts[1:])
        of = dict(zip(texts, answers[1:], strict=True))
        found = list[Part]()
        for part in answers[0]:
            found += of.get(part.raw, (part,)) if isinstance(part, Code) else (part,)
        return tuple(found)


def read_messages(parts: Parts, options: TextOptions) -> Change | None:
    """Each ICU message becomes a text of its own, so that the text round it stays whole."""
    if not options.keeps_codes or options.is_constrained:
        return None
    whole, messages = mark_messages(parts)
    return Messages((whole, *messages.values())) if messages else None


def read_codes(parts: Parts, options: TextOptions) -> Change | None:
    """Placeholders become codes, unless what the answer must have contains some, which then stand where they do."""
    given = (options.prefix, *options.phrases)
    if not options.keeps_codes or any(find_codes((one,)) != (one,) for one in given if one):
        return None
    found = find_codes(parts)
    return None if found == parts else Change((found,))
