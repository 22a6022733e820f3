"""The settings of text."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from glassformer.errors import ConfigError
from glassformer.settings.section import Section, knob

_LANGUAGES = re.compile(r"([a-z]{2,3}(?:_[a-z0-9]+)*)-([a-z]{2,3}(?:_[a-z0-9]+)*)", re.IGNORECASE)
Kind = Literal["bpe", "wordpiece", "unigram", "words", "whitespace", "symbols", "characters"]
_COPY = "probability of a noisy copy of a training pair:"


def default_vocab_size(pairs: int) -> int:
    """The entries of a vocabulary trained on so many pairs."""
    return min(8000, max(512, pairs))


@dataclass(frozen=True, kw_only=True)
class TextConfig(Section):
    """From raw text to ids."""

    languages: str = knob(
        "", "the source and the target language, such as en-de or zh_Hant-en; empty: the files' own"
    )
    tokenizer: Literal[Kind] = knob(
        "bpe",
        "byte-level BPE, WordPiece, unigram, words on spaces and punctuation, on white space, symbols on single "
        "spaces, or characters",
    )
    src_tokenizer: Literal["", Kind] = knob("", "the source's kind, if it has its own")
    tgt_tokenizer: Literal["", Kind] = knob("", "the target's kind; sides of two kinds are not joint")
    marked: bool = knob(False, "a symbol in parentheses, such as (PL), is one of characters")
    decompose: bool = knob(
        False, "characters are parts of letters: Hangul's letters, accents (Unicode's form NFD); outputs are whole"
    )
    vocab_size: int = knob(
        0, "entries of a vocabulary, control tokens included; 0: one a pair, from 512 to 8,000", high=1_000_000
    )
    joint: bool = knob(True, "one tokenizer for both sides, or one for each, so that only the target is tied")
    tokenizer_pairs: int = knob(1_000_000, "most pairs, drawn at random, that train a tokenizer; 0: all", high=10**9)
    lowercase: bool = knob(False, "lower-case all text before it is split")
    max_tokens: int = knob(256, "most tokens of a side of a pair, if the model takes as many", low=1, high=1_000_000)
    max_ratio: float = knob(
        9.0, "most tokens of the longer side: this times the shorter's, plus 10", low=1.0, high=1e6
    )
    valid_pairs: int = knob(
        0, "pairs split off for validation if none are given; 0: a twentieth, 1 to 1000", high=10**8
    )
    bpe_dropout: float = knob(
        0.0, "probability of leaving out a merge of BPE (Provilkov et al. 2020; there 0.1)", symbol="p", high=1.0
    )
    joined: int = knob(
        0, "copies of each training pair joined with another: from few words a model learns more", high=100
    )
    noise_case: float = knob(0.0, f"{_COPY} the source in lower case", high=1.0)
    noise_marks: float = knob(0.0, f"{_COPY} without the mark that ends both sides", high=1.0)
    noise_typos: float = knob(0.0, f"{_COPY} the source with typing mistakes", high=1.0)
    noise_names: float = knob(0.0, f"{_COPY} other given names where one is on both sides", high=1.0)
    noise_numbers: float = knob(0.0, f"{_COPY} other numbers where one is on both sides", high=1.0)
    workers: int = knob(0, "processes that prepare a large corpus; 0: one for each core", high=1024)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.languages and _LANGUAGES.fullmatch(self.languages) is None:
            raise ConfigError(f"text.languages: found {self.languages!r}, expected two codes. Write --langs en-de.")
        if self.bpe_dropout and set(self.kinds) != {"bpe"}:
            found = " and ".join(map(repr, dict.fromkeys(self.kinds)))
            raise ConfigError(f"text.bpe_dropout: found {self.bpe_dropout} with tokenizer {found}, expected 'bpe'.")
        if len(set(self.kinds)) > 1:
            object.__setattr__(self, "joint", False)

    @property
    def kinds(self) -> tuple[str, str]:
        """The kinds of the source's and the target's tokenizer."""
        return self.src_tokenizer or self.tokenizer, self.tgt_tokenizer or self.tokenizer

    @property
    def language_pair(self) -> tuple[str, str] | None:
        """The codes of the two languages, such as ("zh-Hant", "en"), if known."""
        found = _LANGUAGES.fullmatch(self.languages)
        return None if found is None else (found[1].replace("_", "-"), found[2].replace("_", "-"))


def name_languages(src: str, tgt: str) -> str:
    """``text.languages`` for two codes; empty unless both are known."""
    found = f"{src.replace('-', '_')}-{tgt.replace('-', '_')}"
    return found if _LANGUAGES.fullmatch(found) else ""


@cache
def language_name(code: str) -> str:
    """The English name of a language; the code itself for one that nobody has named."""
    from babel import Locale, UnknownLocaleError

    try:
        return Locale.parse(code, sep="-").get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code
