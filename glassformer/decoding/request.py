"""One text to translate, with constraints on its translation.

``Constraints`` (``job``) are the same in ids, tokenized as after another word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.decoding.batching import refuse_one_str
from glassformer.decoding.search.job import Constraints, occurs
from glassformer.errors import InputError, check_type
from glassformer.text.codes.code import Parts, join_parts
from glassformer.text.scripts import is_unspaced
from glassformer.text.tokenizer.tokenizer import UNK_ID, Tokenizer

# Kinds whose tokens carry a leading space.
_KINDS_WITH_SPACES = ("bpe", "unigram")


@dataclass(frozen=True)
class Request:
    """A text, perhaps with marked codes, and constraints on its translation."""

    text: str | Parts
    prefix: str = ""
    """What the translation begins with."""
    must: tuple[str, ...] = ()
    """Phrases that must occur."""
    ban: tuple[str, ...] = ()
    """Phrases that must not occur, in this spelling."""

    @property
    def parts(self) -> Parts:
        """The text and its codes."""
        return (self.text,) if isinstance(self.text, str) else self.text

    @property
    def source(self) -> str:
        """The text as typed, with its codes."""
        return join_parts(self.parts)

    @property
    def is_constrained(self) -> bool:
        """Whether anything is required of its translation."""
        return bool(self.prefix.strip() or self.must)

    def __post_init__(self) -> None:
        for name, phrases in (("must", self.must), ("ban", self.ban)):
            _check_list(name, phrases)
            if not all(isinstance(phrase, str) for phrase in phrases):
                raise InputError(f"{name}: found {list(phrases)!r}, expected phrases, each of them a str.")
        check_type("prefix", self.prefix, str, "str, empty where there is none")


def make_requests(
    texts: Sequence[str],
    prefixes: Sequence[str] | None,
    constraints: Sequence[Sequence[str]] | None,
    banned: Sequence[str],
) -> list[Request]:
    """A request for each text; ``InputError`` unless each has its constraints."""
    _check_list("banned", banned)
    for name, given in (("prefixes", prefixes), ("constraints", constraints)):
        if given is None:
            continue
        _check_list(name, given)
        if len(given) != len(texts):
            raise InputError(
                f"{name}: found {len(given)} for {len(texts)} texts, expected one for each. "
                f"Give {'an empty str' if name == 'prefixes' else 'an empty list'} where there is none."
            )
    for number, phrases in enumerate(constraints or ()):
        _check_list(f"constraints[{number}]", phrases)
    prefixes = [""] * len(texts) if prefixes is None else prefixes
    constraints = [()] * len(texts) if constraints is None else constraints
    every = zip(texts, prefixes, map(tuple, constraints), strict=True)
    return [Request(text, prefix, must, tuple(banned)) for text, prefix, must in every]


def _check_list(name: str, found: object) -> None:
    refuse_one_str(name, found)
    check_type(name, found, Sequence, "a list")


def tokenize_constraints(request: Request, tokenizer: Tokenizer, name: str) -> Constraints:
    """The request's constraints in ids; a prefix is stripped.

    ``InputError``, with ``name``, for words that the tokenizer cannot represent, and for a required phrase with a
    banned one in it.
    """
    for kind, phrases in (("must", request.must), ("ban", request.ban)):
        if not all(phrase.strip() for phrase in phrases):
            raise InputError(f"{name}: {kind}: found an empty phrase, expected words. Leave it out.")
    if len(set(request.must)) < len(request.must):
        raise InputError(f"{name}: must: found a phrase twice, expected each once. Leave one out.")
    banned: dict[tuple[int, ...], str] = {}
    for phrase in request.ban:
        for form in (phrase, _after_a_word(phrase, tokenizer)):
            ids = tuple(tokenizer.to_ids(form))
            if ids and UNK_ID not in ids:
                banned[ids] = phrase
    required = []
    for word in request.must:
        required.append(_to_ids(_after_a_word(word, tokenizer), word, tokenizer, f"{name}: must"))
        for ids, phrase in banned.items():
            if occurs(ids, required[-1]):
                raise InputError(
                    f"{name}: must {word!r}: found with ban {phrase!r}, expected one of them: no output can have "
                    "the one without the other. Leave one out."
                )
    prefix = request.prefix.strip()
    return Constraints(
        prefix=_to_ids(prefix, prefix, tokenizer, f"{name}: prefix"),
        required=tuple(required),
        starts=tuple(_to_ids(word.strip(), word, tokenizer, f"{name}: must") for word in request.must),
        banned=tuple(banned),
    )


def _to_ids(text: str, original: str, tokenizer: Tokenizer, name: str) -> tuple[int, ...]:
    ids = tuple(tokenizer.to_ids(text))
    if UNK_ID in ids:
        raise InputError(
            f"{name} {original!r}: contains characters or words that the target tokenizer does not know, expected "
            "words of its vocabulary. Use other words, or train with tokenizer bpe, which represents every text."
        )
    if not ids and text.strip():
        raise InputError(f"{name} {original!r}: has no token, expected words. Leave it out.")
    return ids


def keeps_capital(word: str, tokenizer: Tokenizer) -> bool:
    """Whether a word keeps its capital: without it, it takes more tokens."""
    with_capital, without = (
        tokenizer.to_ids(_after_a_word(one, tokenizer)) for one in (word, word[:1].lower() + word[1:])
    )
    return UNK_ID in without or len(without) > len(with_capital)


def _after_a_word(phrase: str, tokenizer: Tokenizer) -> str:
    """The phrase after a space, if script and tokenizer use one."""
    if tokenizer.kind not in _KINDS_WITH_SPACES or not phrase or phrase[0].isspace():
        return phrase
    return phrase if is_unspaced(phrase[0]) or not phrase[0].isalnum() else f" {phrase}"
