"""The ways in which the same translations are scored, each by sacrebleu and under its signature.

Papers differ by these ways as much as by their models. A text has up to three forms: ``tokenised`` words in lower
case, ``raw`` as people write, and the tokenizer's ``pieces``. Knows nothing of models, runs or files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from glassformer.errors import TextError

# Plain arithmetic, which is that of multi-bleu.perl and fairseq-score: no smoothing, no tokeniser.
_words = partial(BLEU, tokenize="none", smooth_method="none", force=True)
# What sentence_bleu of nltk gives with its SmoothingFunction().method1, for outputs of four words and more.
_sentence = partial(BLEU, tokenize="none", smooth_method="floor", smooth_value=0.1, force=True)
_cased = partial(BLEU, tokenize="13a", force=True)
_caseless = partial(BLEU, tokenize="13a", lowercase=True, force=True)


@dataclass(frozen=True)
class Way:
    """A metric over the texts of one ``form``; of sentences alone and then their mean, or of the corpus."""

    name: str
    meaning: str
    form: str
    metric: Any
    of_sentences: bool = False


WAYS = (
    Way("tokenised", "BLEU of lower-cased, tokenised words", "tokenised", _words),
    Way("pieces", "BLEU of the tokenizer's pieces, not joined to words again", "pieces", _words),
    Way("caseless", "BLEU of the detokenised text, upper and lower case alike", "raw", _caseless),
    Way("cased", "BLEU of the detokenised text, upper and lower case apart: sacrebleu's default", "raw", _cased),
    Way("sentences", "mean of the sentences' smoothed BLEU, tokenised words: nltk's sentence_bleu, method1",
        "tokenised", _sentence, of_sentences=True),
    Way("chrF", "F score of character sequences, tokenised text; spaces do not count", "tokenised", CHRF),
)  # fmt: skip
WAY_OF_FORM = {"tokenised": "tokenised", "raw": "cased"}


@dataclass(frozen=True)
class Scored:
    """A score in percent with its signature; of BLEU also n-gram precisions, brevity penalty and lengths in words."""

    score: float
    signature: str
    precisions: tuple[float, ...] = ()
    brevity_penalty: float | None = None
    words: int | None = None
    reference_words: int | None = None

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON; what a metric does not have is left out."""
        values = {**asdict(self), "precisions": list(self.precisions)}
        return {key: value for key, value in values.items() if value not in (None, [])}


def way_named(name: str) -> Way:
    """The way of that name."""
    return next(way for way in WAYS if way.name == name)


def scored_in_all_ways(
    outputs: Mapping[str, Sequence[str]], references: Mapping[str, Sequence[str]]
) -> dict[str, Scored]:
    """Each way whose form both have, by its name."""
    both = outputs.keys() & references.keys()
    return {way.name: scored(way, outputs[way.form], references[way.form]) for way in WAYS if way.form in both}


def scored(way: Way, outputs: Sequence[str], references: Sequence[str]) -> Scored:
    """``outputs`` against one reference each; ``TextError`` when they are not as many, or none."""
    if len(outputs) != len(references) or not references:
        raise TextError(
            f"score: found {len(outputs)} translations and {len(references)} references, expected as many, "
            "and at least one."
        )
    metric = way.metric()
    if way.of_sentences:
        pairs = zip(outputs, references, strict=True)
        score = fmean(metric.corpus_score([output], [[reference]]).score for output, reference in pairs)
        return Scored(score, f"{metric.get_signature()}|mean of sentences")
    found = metric.corpus_score(list(outputs), [list(references)])
    signature = str(metric.get_signature())
    if not isinstance(metric, BLEU):
        return Scored(found.score, signature)
    return Scored(found.score, signature, tuple(found.precisions), found.bp, found.sys_len, found.ref_len)
