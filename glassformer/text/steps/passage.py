"""The ordered list of steps, and a text that passes them.

A typed line, a paragraph of a file and a request of the server pass the same steps, in this order. Then their codes
are taken out and the tokenizer reads them (``decoding``). The way back goes through the list from its end.
"""

from collections.abc import Sequence
from dataclasses import replace

from glassformer.text.codes.code import Parts
from glassformer.text.steps.codes import read_codes, read_messages
from glassformer.text.steps.sentences import read_sentences, read_wordless
from glassformer.text.steps.signs import read_signs
from glassformer.text.steps.step import Change, Step, TextOptions
from glassformer.text.steps.style import read_case, read_emoji, read_punctuation
from glassformer.text.steps.target_language import read_target

STEPS: tuple[Step, ...] = (
    read_target, read_messages, read_codes, read_signs, read_sentences, read_wordless, read_punctuation, read_emoji,
    read_case,
)  # fmt: skip
"""Files add steps to these: what a memory has, the marks of menus."""


class Passage:
    """A text on its way through ``steps``: ``texts`` is what comes out of the last one."""

    def __init__(self, parts: Parts, options: TextOptions, steps: Sequence[Step] = STEPS) -> None:
        self.texts: list[Parts] = [parts]
        self.options = options
        self._changes: list[list[Change | None]] = []
        later = replace(options, prefix="", phrases=()) if options.is_constrained else options
        for step in steps:
            changes = [step(text, later if number else options) for number, text in enumerate(self.texts)]
            self._changes.append(changes)
            if any(changes):
                both = zip(self.texts, changes, strict=True)
                self.texts = [one for text, change in both for one in ((text,) if change is None else change.texts)]

    @property
    def changes(self) -> list[Change]:
        """All that the steps have changed, in their order."""
        return [change for changes in self._changes for change in changes if change is not None]

    def restore(self, answers: Sequence[Parts]) -> tuple[Parts, list[str]]:
        """The answer to the text, from those to ``texts``, and in words what is wrong with it."""
        flags = list[str]()
        for changes in reversed(self._changes):
            waiting, restored = iter(answers), list[Parts]()
            for change in changes:
                if change is None:
                    restored.append(next(waiting))
                else:
                    restored.append(change.restore([next(waiting) for _ in change.texts]))
                    flags += change.check(restored[-1])
            answers = restored
        return answers[0], flags

    def restore_start(self, answers: Sequence[Parts]) -> Parts:
        """What is certain of the answer, if the last of ``answers`` is the start of one and others are missing."""
        for changes in reversed(self._changes):
            waiting, restored = list(answers), list[Parts]()
            for change in changes:
                if not waiting:
                    break
                count = 1 if change is None else len(change.texts)
                given, waiting = waiting[:count], waiting[count:]
                restored += given if change is None else [change.restore(given, is_whole=bool(waiting))]
            answers = restored
        return answers[0] if answers else ()
