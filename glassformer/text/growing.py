"""Text that grows token by token: what of it is certain, whatever comes next.

A byte-level token may end in the midst of a character. What is there of it is held back until the character is
whole, or until nothing more comes. Knows nothing of models.
"""

from collections.abc import Sequence

from glassformer.text.tokenizer import Tokenizer

_BROKEN = "\ufffd"


class GrowingText:
    """Gives the text of growing ids in pieces; joined they are ``tokenizer.to_text`` of all ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._given = ""

    def upto(self, ids: Sequence[int]) -> str:
        """What ``ids`` add to the text that was given so far; they begin with the ids of the call before."""
        # What looks broken at the end may be the beginning of a character; no text before it can change any more.
        return self._beyond(self._tokenizer.to_text(ids).rstrip(_BROKEN))

    def end(self, ids: Sequence[int]) -> str:
        """What is left, once ``ids`` are all."""
        return self._beyond(self._tokenizer.to_text(ids))

    def _beyond(self, text: str) -> str:
        piece = text[len(self._given) :]
        self._given += piece
        return piece
