"""One input translated by all processes of a world: the first deals texts out, and has what comes of them in order.

Some texts for each process are held at a time, so that a file may be of any size. Knows nothing of models.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from glassformer.config import DecodeConfig
from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.world import World

_Share = tuple[int, list[Request]]  # the number of its first text in the whole input, and the texts


def translate_together(
    translator: Translator,
    requests: Iterable[Request],
    options: DecodeConfig,
    world: World,
    *,
    attention: bool = False,
    chunk: int = 1000,
) -> Iterator[Translation]:
    """``Translator.translate_stream`` by all processes, each ``chunk`` texts in turn.

    All call it together. The first one alone reads ``requests`` and is handed every translation, in their order;
    the others are handed none.
    """
    rounds = _dealt(requests, chunk, world.size)
    while (share := world.scatter(lambda: next(rounds, None))) is not None:
        start, texts = share
        done = list(translator.translate_stream(texts, options, attention=attention, chunk=chunk, start=start))
        for translations in world.gather(done):
            yield from translations


def _dealt(requests: Iterable[Request], chunk: int, processes: int) -> Iterator[list[_Share]]:
    """Round after round, a share for each process."""
    remaining, start = iter(requests), 0
    while taken := list(islice(remaining, chunk * processes)):
        yield [(start + first, taken[first : first + chunk]) for first in range(0, chunk * processes, chunk)]
        start += len(taken)
