"""Translations: the source as the model read it, and its hypotheses, best first."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Self

from glassformer.errors import InputError
from glassformer.text.codes.code import Parts
from glassformer.text.lines import is_blank
from glassformer.text.tokenizer.tokenizer import BOS_ID, CONTROL_TOKENS, EOS_ID

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

_END = CONTROL_TOKENS[EOS_ID]  # no other token has this label


@dataclass(frozen=True)
class Hypothesis:
    """One output. ``ids`` and ``tokens`` end with eos, unless ``truncated`` says that it reached the length limit."""

    text: str
    tokens: list[str]
    ids: list[int]
    log_prob: float
    """Natural logarithm of the model's probability of ``ids``."""
    score: float
    """``log_prob`` divided by the length penalty; it ranks the hypotheses."""
    truncated: bool
    attention: "Float[Tensor, 'layers heads tgt src'] | None" = field(default=None, compare=False, repr=False)
    """Cross-attention weights, on the CPU: row i has those with which the decoder wrote ``tokens[i]``."""
    mean_attention: bool = field(default=False, compare=False, repr=False)
    """Whether ``attention`` has only the mean of the last layer's heads, as of engine ctranslate2."""
    utility: float | None = None
    """Mean chrF against all samples, by which minimum Bayes risk ranks; None otherwise."""
    received: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """The attention that each token of the source gets at least; empty where the search does not tell it."""
    unmet: tuple[str, ...] = ()
    """The required phrases that do not occur."""
    longer_was_cut: bool = False
    """Whether it is complete, but the length limit cut a longer one that was better: it may be too short."""
    confidence: float | None = None
    """The estimated chance that the text is good: chrF >= 50 by a reference; of several sentences that of the worst.
    None for a run without estimate."""
    parts: Parts = field(default=(), compare=False, repr=False)
    """The text with its codes apart."""

    def __repr__(self) -> str:
        cut = ", truncated" if self.truncated else ""
        return f"Hypothesis({self.text!r}, score={self.score:.4f}, {len(self.tokens)} tokens{cut})"

    def alignment(self, layer: int | None = None, head: int | None = None) -> "Float[Tensor, 'tgt src'] | None":
        """The cross-attention of a layer (else the last) and a head (else the mean of all).

        None without attention. ``InputError`` for one that the model, or the engine, does not have.
        """
        if self.attention is None:
            return None
        if self.mean_attention and (layer, head) != (None, None):
            raise InputError(
                "layer, head: found with engine ctranslate2, which gives the mean of the last layer's heads only. "
                "Leave them out, or use engine torch."
            )
        layers, heads = self.attention.shape[:2]
        of_layer = self.attention[layers - 1 if layer is None else _check_index("layer", layer, layers)]
        if head is None:
            return of_layer.mean(0) if heads > 1 else of_layer[0]
        return of_layer[_check_index("head", head, heads)]

    def hard_alignment(self, layer: int | None = None, head: int | None = None) -> list[int] | None:
        """For each token the index of the source token with the greatest weight in ``alignment``."""
        soft = self.alignment(layer, head)
        if soft is None:
            return None
        return soft.argmax(1).tolist() if soft.shape[1] else []

    def to_mapping(self, *, attention: bool = True) -> dict[str, Any]:
        """Plain values, ready for JSON; what follows ``truncated`` only where there is something."""
        values: dict[str, Any] = {
            "text": self.text, "tokens": self.tokens, "ids": self.ids, "log_prob": self.log_prob,
            "score": self.score, "truncated": self.truncated,
        }  # fmt: skip
        some = {
            "utility": self.utility, "unmet": list(self.unmet) or None,
            "longer_was_cut": self.longer_was_cut or None, "confidence": self.confidence,
            "attention": self.attention.tolist() if attention and self.attention is not None else None,
        }  # fmt: skip
        return values | {name: value for name, value in some.items() if value is not None}


def _check_index(name: str, number: int, count: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
        raise InputError(f"{name}: found {number!r}, expected 0 to {count - 1}: the model has {count}.")
    return number


EMPTY = Hypothesis(text="", tokens=[], ids=[], log_prob=0.0, score=0.0, truncated=False)

REASONS = {
    "language": "the text seems to be in another language than the model reads",
    "characters": "the text has characters that the model does not know: {}",
    "symbols": "the text has symbols that the model does not know: {}",
    "words": "the text has words that the model has hardly seen: {}",
    "length": "the text is longer than those that the model learned from",
    "unsure": "the model was unsure which words to write",
    "number": "its numbers are not those of the text: {}",
    "missing": "nothing in it seems to stand for {}",
}
"""Why a translation is doubted; the first one that applies is given."""
_MAX_NAMED = 5


@dataclass(frozen=True)
class Doubt:
    """Why a translation is probably wrong: one of ``REASONS``, and the characters or words that it names."""

    reason: str
    named: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The reason in words."""
        quoted = [
            f'"{named}"' if named.isprintable() else " ".join(f"U+{ord(one):04X}" for one in named)
            for named in self.named[:_MAX_NAMED]
        ]
        shown, others = ", ".join(quoted), len(self.named) - _MAX_NAMED
        return REASONS[self.reason].format(f"{shown} and {others} more" if others > 0 else shown)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"reason": self.reason, "named": list(self.named), "text": self.text}


@dataclass(frozen=True)
class Translation:
    """The hypotheses for one source, at least one. For a blank source it is empty."""

    source: str
    source_tokens: list[str]
    """The tokens that the model read, eos included: the last axis of ``attention``. Empty for a blank source."""
    source_truncated: bool
    """Whether tokens at the end were cut off, because the model takes no more."""
    hypotheses: list[Hypothesis]
    engine: str = ""
    """What translated: torch, ctranslate2, or, of several sentences, both; empty if nothing had to be translated."""
    read: str = ""
    """The source as the model read it: with plain spaces, and a text in capitals as a sentence."""
    doubt: Doubt | None = None
    """Why the best hypothesis is probably wrong; None without a doubt, and for a run without estimate."""
    flags: tuple[str, ...] = field(default=(), compare=False)
    """In words, what should be looked at: what is lost, moved, cut, doubtful."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """In words, what else is worth knowing."""
    plain_links: tuple[tuple[int, int], ...] | None = field(default=None, compare=False, repr=False)
    """The ``links`` of a translation whose attention was left out."""

    def __repr__(self) -> str:
        others = f", {len(self.hypotheses)} hypotheses" if len(self.hypotheses) > 1 else ""
        return f"Translation({self.source!r} -> {self.text!r}{others})"

    @property
    def text(self) -> str:
        """The best hypothesis's text."""
        return self.hypotheses[0].text

    @property
    def parts(self) -> Parts:
        """The best hypothesis's text with its codes apart."""
        best = self.hypotheses[0]
        return best.parts or ((best.text,) if best.text else ())

    @property
    def warning(self) -> str | None:
        """Why to doubt the best hypothesis, in words; None without a doubt."""
        if self.doubt is None:
            return None
        chance = self.hypotheses[0].confidence
        sure = "" if chance is None else f" (confidence {chance:.2f})"
        return f"the translation is probably wrong{sure}: {self.doubt.text}"

    @property
    def limit_warning(self) -> str | None:
        """What the length limit did to the best hypothesis, in words; None if nothing."""
        best = self.hypotheses[0]
        if best.truncated:
            return "the length limit cut the translation"
        return "the length limit cut a longer and better one: it may be too short" if best.longer_was_cut else None

    @property
    def warnings(self) -> list[str]:
        """In words, why to look at the best hypothesis: the doubt, what was cut, and that it is empty."""
        found = [] if self.warning is None else [self.warning]
        if self.source_truncated:
            found.append("longer than the model takes; its end was not translated")
        if self.limit_warning is not None:
            found.append(self.limit_warning)
        if is_blank(self.text):
            found.append("the translation is empty")
        return found

    def _repr_html_(self) -> str:
        """In a notebook: source and text, and with attention small maps of all heads of cross-attention."""
        shown = f"<p>{escape(self.source)} → <b>{escape(self.text)}</b></p>"
        best = self.hypotheses[0]
        if best.attention is None:
            return shown
        from glassformer.trace.heat_maps import Heads, heads_html, reads_and_writes  # with PyTorch

        labels = reads_and_writes([CONTROL_TOKENS[BOS_ID], *best.tokens[:-1]], best.tokens)
        layers = [
            Heads(f"cross-attention of decoder layer {number}", heads, labels, self.source_tokens)
            for number, heads in enumerate(best.attention)
        ]
        return shown + heads_html(layers)

    def links(self, layer: int | None = None, head: int | None = None) -> list[tuple[int, int]] | None:
        """Source and target indices by ``hard_alignment``, without </s>; None without attention."""
        best = self.hypotheses[0]
        aligned = best.hard_alignment(layer, head)
        if aligned is None:
            return None if self.plain_links is None else list(self.plain_links)
        return [
            (source, target)
            for target, source in enumerate(aligned)
            if _END not in (self.source_tokens[source], best.tokens[target])
        ]

    def without_attention(self) -> Self:
        """With the links in the place of the attention, which is large."""
        best, *others = self.hypotheses
        if best.attention is None:
            return self
        links = tuple(self.links() or ())
        return replace(self, hypotheses=[replace(best, attention=None), *others], plain_links=links)

    def to_mapping(
        self, *, attention: bool = True, layer: int | None = None, head: int | None = None
    ) -> dict[str, Any]:
        """Plain values, ready for JSON; with the attention if ``attention``, and with the links if there are some."""
        values = {
            "source": self.source,
            "source_tokens": self.source_tokens,
            "source_truncated": self.source_truncated,
            "engine": self.engine,
            **({} if self.doubt is None else {"doubt": self.doubt.to_mapping()}),
            "hypotheses": [hypothesis.to_mapping(attention=attention) for hypothesis in self.hypotheses],
        }
        links = self.links(layer, head)
        return values if links is None else {**values, "links": [list(link) for link in links]}


def pharaoh(links: Sequence[tuple[int, int]]) -> str:
    """Links in the Pharaoh format of word aligners: source-target, separated by spaces."""
    return " ".join(f"{source}-{target}" for source, target in links)
