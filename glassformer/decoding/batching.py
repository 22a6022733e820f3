"""Sources as ids with eos, in batches of similar length."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from glassformer.decoding.search.job import Constraints
from glassformer.errors import InputError, check_type
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text.lines import is_blank
from glassformer.text.tokenizer.tokenizer import Tokenizer

_BATCHES_PER_WORKER = 2
_MIN_BATCH = 256  # tokens that are worth sending to a worker


@dataclass(frozen=True)
class EncodedSource:
    """A text as the model reads it; ``truncated`` if its end was cut."""

    text: str
    ids: list[int]
    truncated: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to translate: only spaces, or no token."""
        return len(self.ids) <= 1 or is_blank(self.text)


@dataclass(frozen=True)
class ModelInput:
    """A source and its constraints."""

    source: EncodedSource
    constraints: Constraints
    sample_key: int
    """Seeds the random numbers of sampling, with the seed."""
    number: int | None = None
    """Its sentence's number; None for a piece of one."""


def read_sources(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    config: ModelConfig,
    name: str = "texts",
    tokens: Sequence[str] = (),
) -> list[EncodedSource]:
    """Each text as ids; ``InputError`` with ``name`` unless a list of str.

    ``tokens`` of target languages are read before the texts.
    """
    check_texts(name, texts)
    room = config.max_length - 1  # eos needs a position
    read = [f"{token} {text}" for token, text in zip(tokens, texts, strict=True)] if any(tokens) else texts
    return [
        EncodedSource(text, [*ids[:room], config.eos_id], truncated=len(ids) > room)
        for text, ids in zip(texts, tokenizer.to_ids_batch(read), strict=True)
    ]


def output_limit(src_ids: Sequence[int], config: ModelConfig, options: DecodeConfig, n_prefix: int = 0) -> int:
    """The longest output in ids with eos, plus the ``n_prefix`` ids of a prefix.

    ``max_length_a`` multiplies the source's tokens without eos.
    """
    wanted = int(options.max_length_a * (len(src_ids) - 1)) + options.max_length_b
    return min(n_prefix + wanted, config.max_length)


def plan_decoding(
    lengths: Sequence[int],
    numbers: Sequence[int],
    rows_per_source: int,
    batch_tokens: int,
    workers: int = 1,
    *,
    max_efficient_sources: int | None = None,
) -> list[list[int]]:
    """``numbers`` in batches of ``batch_tokens`` = sources · rows · longest, longest first.

    ``lengths``: of all texts; too long ones are alone. At most ``max_efficient_sources``, fewer to share evenly.
    """
    if workers > 1:
        tokens = rows_per_source * sum(lengths[number] for number in numbers)
        batch_tokens = min(batch_tokens, max(_MIN_BATCH, tokens // (_BATCHES_PER_WORKER * workers)))
    batches, room = list[list[int]](), 0
    for number in sorted(numbers, key=lengths.__getitem__, reverse=True):
        if room == 0:
            batches.append([])
            room = max(1, batch_tokens // (rows_per_source * lengths[number]))
            room = min(room, max_efficient_sources or room)
        batches[-1].append(number)
        room -= 1
    return batches


def refuse_one_str(name: str, texts: object) -> None:
    """Raise ``InputError`` for a str, which would be read as letters."""
    if isinstance(texts, str):
        raise InputError(f"{name}: found one str {texts[:40]!r}, expected a list of texts. Put it in a list.")


def check_texts(name: str, texts: Sequence[str]) -> None:
    """Raise ``InputError`` unless ``texts`` is a list of str."""
    refuse_one_str(name, texts)
    if not isinstance(texts, Iterable) or isinstance(texts, Iterator):
        raise InputError(
            f"{name}: found {type(texts).__name__}, expected a list of texts. "
            f"Make list({name}) of an iterator, or give it to translate_stream."
        )
    for index, text in enumerate(texts):
        check_type(f"{name}[{index}]", text, str, "str. Give plain text; the translator tokenizes it")


def check_pairs(
    sources: Sequence[EncodedSource], targets: Sequence[EncodedSource], config: ModelConfig, start: int = 0
) -> None:
    """Raise ``InputError`` unless each source has a target that fits the model."""
    if len(sources) != len(targets):
        raise InputError(
            f"targets: found {len(sources)} sources and {len(targets)} targets, expected one for each source. "
            "To compare several targets, repeat their source."
        )
    for index, target in enumerate(targets, start):
        if target.truncated:
            most = config.max_length - 1
            raise InputError(f"targets[{index}]: has more than the {most} tokens that the model takes. Shorten it.")


def check_start(start: object) -> None:
    """Raise ``InputError`` unless ``start`` can be a text's number."""
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise InputError(f"start: found {start!r:.40}, expected the number of the first text, from 0.")
