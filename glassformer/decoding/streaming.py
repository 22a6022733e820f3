"""Streaming: the text of a translation in pieces, each as soon as its ids are certain and its characters whole."""

from collections.abc import Sequence

from glassformer.text.tokenizer.tokenizer import Tokenizer

_BROKEN = "\ufffd"


class StreamingDetokenizer:
    """Returns the text of growing ids in pieces; joined, they are ``tokenizer.to_text`` of all ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._returned = ""

    def put(self, ids: Sequence[int]) -> str:
        """The text that ``ids`` add to the previous pieces; they begin with the ids of the previous call."""
        # A broken character at the end may still be completed; the text before it cannot change any more.
        return self._rest(self._tokenizer.to_text(ids).rstrip(_BROKEN))

    def end(self, ids: Sequence[int]) -> str:
        """The rest of the text, once ``ids`` are complete."""
        return self._rest(self._tokenizer.to_text(ids))

    def _rest(self, text: str) -> str:
        piece = text[len(self._returned) :]
        self._returned += piece
        return piece
