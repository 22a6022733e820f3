"""The settings of text: its languages, the tokenizer, which pairs are kept, what is held out."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from glassformer.errors import ConfigError
from glassformer.settings.section import Section, knob

_LANGUAGES = re.compile(r"([a-z]{2,3}(?:_[a-z0-9]+)*)-([a-z]{2,3}(?:_[a-z0-9]+)*)", re.IGNORECASE)
_COPY = "probability of a noisy copy of a training pair:"


def default_vocab_size(pairs: int) -> int:
    """The entries of a vocabulary that is trained on so many pairs, if ``text.vocab_size`` does not say."""
    return min(8000, max(512, pairs))


@dataclass(frozen=True, kw_only=True)
class TextConfig(Section):
    """From raw text to ids: languages, the tokenizer, which pairs are kept, and what is set aside for validation."""

    languages: str = knob(
        "",
        "the source and the target language, such as en-de or zh_Hant-en; empty: as the files name them, if they do",
    )
    tokenizer: Literal["bpe", "wordpiece", "unigram", "words", "whitespace", "characters"] = knob(
        "bpe", "byte-level BPE, WordPiece, unigram, words on spaces and punctuation, on spaces alone, or characters"
    )
    vocab_size: int = knob(
        0,
        "entries of a trained vocabulary, control tokens included; 0: one a pair, from 512 to 8,000",
        high=1_000_000,
    )
    joint: bool = knob(True, "one tokenizer for both sides, or one for each, so that only the target is tied")
    tokenizer_pairs: int = knob(
        1_000_000, "most pairs that train a tokenizer, drawn at random from a larger corpus; 0: all", high=10**9
    )
    lowercase: bool = knob(False, "lower-case all text before it is split")
    max_tokens: int = knob(
        256, "pairs with more tokens on a side, or more than the model takes, are left out", low=1, high=1_000_000
    )
    max_ratio: float = knob(
        9.0, "pairs whose longer side has more than this times the shorter's tokens, plus 10, are left out",
        low=1.0, high=1e6,
    )  # fmt: skip
    valid_pairs: int = knob(
        0, "pairs split off for validation if none are given; 0: a twentieth, from 1 to 1000", high=10**8
    )
    bpe_dropout: float = knob(
        0.0, "probability of leaving out a merge of BPE, anew in each epoch (Provilkov et al. 2020; there 0.1)",
        symbol="p", high=1.0,
    )  # fmt: skip
    noise_case: float = knob(0.0, f"{_COPY} the source in lower case", high=1.0)
    noise_marks: float = knob(0.0, f"{_COPY} without the mark that ends both sides", high=1.0)
    noise_typos: float = knob(0.0, f"{_COPY} the source with typing mistakes", high=1.0)
    noise_names: float = knob(0.0, f"{_COPY} other given names where one is on both sides", high=1.0)
    noise_numbers: float = knob(0.0, f"{_COPY} other numbers where one is on both sides", high=1.0)
    workers: int = knob(0, "processes that prepare a large corpus; 0: one for each core", high=1024)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.languages and _LANGUAGES.fullmatch(self.languages) is None:
            raise ConfigError(
                f"text.languages: found {self.languages!r}, expected the codes of two languages, such as en-de or "
                "zh_Hant-en. Write --langs en-de."
            )
        if self.bpe_dropout and self.tokenizer != "bpe":
            raise ConfigError(
                f"text.bpe_dropout: found {self.bpe_dropout} with tokenizer {self.tokenizer!r}, expected 'bpe', "
                "which alone has merges. Set text.tokenizer to bpe, or text.bpe_dropout to 0."
            )

    @property
    def language_pair(self) -> tuple[str, str] | None:
        """The codes of the source and the target language, such as ("zh-Hant", "en"); None if not known."""
        found = _LANGUAGES.fullmatch(self.languages)
        return None if found is None else (found[1].replace("_", "-"), found[2].replace("_", "-"))


def name_languages(src: str, tgt: str) -> str:
    """``text.languages`` for two codes such as zh-Hant and en; empty unless both are known."""
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
