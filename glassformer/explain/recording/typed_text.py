"""The way of a typed text: what the steps make of it, and of the answers to its sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from glassformer.text.codes.code import Code, Parts, join_parts
from glassformer.text.codes.draft import make_draft, mark_numbers
from glassformer.text.lines import is_blank, normalize_source
from glassformer.text.steps.passage import STEPS, Passage
from glassformer.text.steps.signs import WRITTEN, plain_signs, read_signs
from glassformer.text.steps.step import TextOptions
from glassformer.text.steps.target_language import TargetLanguage

_ALL_SIGNS = TextOptions(plain_signs=plain_signs("-.'\""))
_ATTEMPTS = (None, 0, 1)  # without words for its codes, and with some


@dataclass(frozen=True, eq=False)
class TypedText:
    """A text, its ``passage`` through the steps and, once it is translated, the answers to its sentences.

    ``printed`` is what ``translate`` makes of the answers.
    """

    typed: str
    passage: Passage
    answers: tuple[Parts, ...] | None = None
    printed: str = ""

    def history(self) -> Iterator[str]:
        """What each step that changes the text makes of it."""
        before: list[Parts] = [(self.typed,)]
        for count, step in enumerate(STEPS, 1):
            texts = Passage((self.typed,), self.passage.options, STEPS[:count]).texts
            if texts != before:
                yield f"{step.__name__.removeprefix('read_')}: {' | '.join(map(join_parts, texts))}"
            before = texts

    def _undo(self) -> str:
        """The sentences that are read, in the place of their answers: the typed text, unless something is lost.

        The kind of white space and what no model reads (``signs``, the name of a language) do not count.
        """
        named = [change.texts[0] for change in self.passage.changes if isinstance(change, TargetLanguage)]
        text, restored = join_parts(named[0]) if named else self.typed, self._restore(self.passage.texts)
        signs = all(restored.count(sign) == text.count(sign) or plain in text for sign, plain in WRITTEN.items())
        return self.typed if signs and _simplify(restored) == _simplify(text) else restored

    def check_read(self, number: int | None, source: str) -> str:
        """``source``, if it is what a model reads of sentence ``number`` and nothing of the text is lost.

        Else what it must be, or what else comes out. None: all sentences on one line.
        """
        ways, restored = self._drafts(number), self._undo()
        if restored != self.typed:
            return restored
        return source if any(source.endswith(way) for way in ways) else ways[0]

    def sentence(self, number: int | None) -> str:
        """The answer to sentence ``number``, with its codes; empty without one."""
        return join_parts(self.answers[number or 0]) if self.answers else ""

    def check_sentence(self, number: int | None, source: str, target: str) -> str:
        """What the answer must be if the model writes ``target``; with codes, whose places it does not say, any."""
        parts = self.passage.texts[number] if number is not None else ()
        has_codes = any(isinstance(part, Code) for part in parts) or not source.endswith(self._drafts(number)[0])
        return self.sentence(number) if has_codes else target

    def _drafts(self, number: int | None) -> list[str]:
        """What a model reads of a sentence; there are several ways for one with codes or numbers."""
        if number is None:
            drafts = (make_draft(parts) for parts in self.passage.texts)
            return [" ".join([draft.text for draft in drafts if draft]) or normalize_source(self.typed)]
        parts = self.passage.texts[number]
        tries = (make_draft(each, attempt) for each in (parts, mark_numbers(parts)) for attempt in _ATTEMPTS)
        return [draft.text for draft in tries if draft]

    def answer(self, text: str) -> Self:
        """With the answer to a text that is read as one sentence."""
        if len(self.passage.texts) != 1:
            return self
        answered = replace(self, answers=((text,),))
        return replace(answered, printed=answered.restore())

    def restore(self) -> str:
        """What the steps make of the answers on the way back; empty without answers."""
        return "" if self.answers is None or is_blank(self.typed) else self._restore(self.answers)

    def _restore(self, answers: Sequence[Parts]) -> str:
        return join_parts(self.passage.restore(answers)[0])


def _simplify(text: str) -> str:
    (read,) = Passage((text,), _ALL_SIGNS, (read_signs,)).texts
    return " ".join(normalize_source(join_parts(read)).split())


def characters(texts: Sequence[str]) -> Tensor:
    """The Unicode numbers of each text's characters, (batch character), with zeros at the end."""
    rows = [torch.tensor([*map(ord, text)], dtype=torch.int64) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
