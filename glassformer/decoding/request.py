"""A request: one text to translate, and in words what its translation must begin with, hold and not hold.

From words to ids: a demanded word is spelled as it is spelled behind another word. Knows nothing of search.

The options that were asked for, over those of a run. Knows no search.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.config import DecodeConfig
from glassformer.decoding.constraints import Demands
from glassformer.errors import ConfigError, InputError
from glassformer.text.tokenizer import UNK_ID, Tokenizer

# Kinds whose tokens carry the space before a word: the same word has other ids at the start of a text.
_KINDS_WITH_SPACES = ("bpe", "unigram")
# Scripts that do not write spaces between words, by the names of their characters in Unicode.
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "IDEOGRAPHIC")


@dataclass(frozen=True)
class Request:
    """One text, and what is demanded of its translation; by default nothing."""

    text: str
    prefix: str = ""
    """What the translation begins with."""
    must: tuple[str, ...] = ()
    """Phrases that must occur."""
    ban: tuple[str, ...] = ()
    """Phrases that must not occur, in the spelling that the tokenizer gives them."""

    def __post_init__(self) -> None:
        given: dict[str, Any] = {"must": self.must, "ban": self.ban}
        for name, phrases in given.items():
            if isinstance(phrases, str):
                raise _one_str(name, phrases)
            if not all(isinstance(phrase, str) for phrase in phrases):
                raise InputError(f"{name}: found {list(phrases)!r}, expected phrases, each of them a str.")
        if not isinstance(self.prefix, str):
            raise InputError(f"prefix: found {type(self.prefix).__name__}, expected str, empty where there is none.")


def requests_of(
    texts: Sequence[str],
    prefixes: Sequence[str] | None,
    constraints: Sequence[Sequence[str]] | None,
    banned: Sequence[str],
) -> list[Request]:
    """A request for each text; raises ``InputError`` when there is not one prefix, or list of phrases, for each."""
    if isinstance(banned, str):
        raise _one_str("banned", banned)
    for name, given in (("prefixes", prefixes), ("constraints", constraints)):
        if isinstance(given, str):
            raise _one_str(name, given)
        if given is not None and len(given) != len(texts):
            raise InputError(
                f"{name}: found {len(given)} for {len(texts)} texts, expected one for each. "
                f"Give {'an empty str' if name == 'prefixes' else 'an empty list'} where there is none."
            )
    for place, phrases in enumerate(constraints or ()):
        if isinstance(phrases, str):
            raise _one_str(f"constraints[{place}]", phrases)
    return [
        Request(
            text,
            prefix="" if prefixes is None else prefixes[place],
            must=() if constraints is None else tuple(constraints[place]),
            ban=tuple(banned),
        )
        for place, text in enumerate(texts)
    ]


def _one_str(name: str, found: str) -> InputError:
    return InputError(f"{name}: found one str {found[:40]!r}, expected a list. Put it in a list.")


def demands_of(request: Request, tokenizer: Tokenizer, name: str) -> Demands:
    """The same in ids; raises ``InputError``, with the request's ``name``, for what the tokenizer cannot spell."""
    if not all(word.strip() for word in request.must):
        raise InputError(f"{name}: must: found an empty phrase, expected words. Leave it out.")
    banned = [ids for phrase in request.ban for ids in _spellings(phrase, tokenizer) if ids and UNK_ID not in ids]
    return Demands(
        prefix=_spelled(request.prefix, request.prefix, tokenizer, f"{name}: prefix"),
        required=tuple(_spelled(_behind(word, tokenizer), word, tokenizer, f"{name}: must") for word in request.must),
        banned=tuple(dict.fromkeys(banned)),
    )


def _spelled(text: str, shown: str, tokenizer: Tokenizer, name: str) -> tuple[int, ...]:
    ids = tuple(tokenizer.to_ids(text))
    if UNK_ID in ids:
        raise InputError(
            f"{name} {shown!r}: holds what the target tokenizer cannot spell, expected words of its vocabulary. "
            "Ask for other words, or train with tokenizer bpe, which spells everything."
        )
    if not ids and text.strip():
        raise InputError(f"{name} {shown!r}: has no token, expected words. Leave it out.")
    return ids


def _spellings(phrase: str, tokenizer: Tokenizer) -> tuple[tuple[int, ...], ...]:
    """The ids of a phrase at the start of a text and behind a word."""
    return tuple(tokenizer.to_ids(phrase)), tuple(tokenizer.to_ids(_behind(phrase, tokenizer)))


def _behind(phrase: str, tokenizer: Tokenizer) -> str:
    """The phrase with the space that stands before it within a text, where its script and the tokenizer have one."""
    if tokenizer.kind not in _KINDS_WITH_SPACES or not phrase or phrase[0].isspace():
        return phrase
    unspaced = unicodedata.name(phrase[0], "").startswith(_UNSPACED)
    return phrase if unspaced or not phrase[0].isalnum() else f" {phrase}"


_ONLY_SEARCHING = {"beam": 1, "beam_groups": 1, "diversity": 0.0, "coverage_penalty": 0.0}  # with what does nothing


def changed_by(default: DecodeConfig, asked: Mapping[str, Any]) -> DecodeConfig:
    """The run's own options, changed by those that were asked for; what only a search has makes a sampler search.

    Raises ``ConfigError`` for one that would do nothing beside the others, or whose value cannot be.
    """
    if "sample" not in asked and asked.keys() & _ONLY_SEARCHING.keys():
        asked = {**asked, "sample": False}
    idle = [_option(key) for key, neutral in _ONLY_SEARCHING.items() if asked.get(key, neutral) > neutral]
    if asked.get("sample") and idle:
        raise ConfigError(
            f"{', '.join(idle)}: found with sampling, which draws and does not search. Drop one of both."
        )
    chosen = default.changed(asked)
    if "diversity" in asked and chosen.beam_groups == 1:
        raise ConfigError("--diversity: found without --beam-groups, between which it makes a difference. Add them.")
    return chosen


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"
