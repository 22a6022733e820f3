"""How translations are evaluated: several metrics over several forms of the same text, and a test of significance.

Published figures differ by metric and text form as much as by model. A text has up to three forms: ``tokenised``
(lower-cased words between spaces), ``raw`` (as people write) and ``pieces`` (of the model's tokenizer). The rules of
Moses, from the library sacremoses, convert between the first two. All metrics are sacrebleu's, with its signatures;
significance is its paired bootstrap (Koehn 2004).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from statistics import fmean
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from glassformer.errors import TextError
from glassformer.text.tokenizer.tokenizer import Tokenizer

INSTALL = "pip install sacremoses"
OTHER_FORM = {"tokenised": "raw", "raw": "tokenised"}
RESAMPLES = 1000

# As multi-bleu.perl and fairseq-score compute it: no smoothing, no tokeniser.
_tokenised_bleu = partial(BLEU, tokenize="none", smooth_method="none", force=True)
# As nltk's sentence_bleu with SmoothingFunction().method1, for outputs of four words or more.
_sentence_bleu = partial(BLEU, tokenize="none", smooth_method="floor", smooth_value=0.1, force=True)
_cased_bleu = partial(BLEU, tokenize="13a", force=True)
_caseless_bleu = partial(BLEU, tokenize="13a", lowercase=True, force=True)


@dataclass(frozen=True)
class Score:
    """A score in percent with its signature; BLEU also has n-gram precisions, brevity penalty, lengths in words."""

    score: float
    signature: str
    precisions: tuple[float, ...] = ()
    brevity_penalty: float | None = None
    words: int | None = None
    reference_words: int | None = None

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON, without those that the metric does not have."""
        values = {**asdict(self), "precisions": list(self.precisions)}
        return {key: value for key, value in values.items() if value not in (None, [])}


@dataclass(frozen=True)
class Scoring:
    """A metric over the texts of one ``form``: of the corpus, or the mean over single sentences."""

    name: str
    meaning: str
    form: str
    metric: Any
    per_sentence: bool = False

    def score(self, outputs: Sequence[str], references: Sequence[str]) -> Score:
        """Score ``outputs`` against one reference each; ``TextError`` if their numbers differ or are 0."""
        if len(outputs) != len(references) or not references:
            raise TextError(
                f"score: found {len(outputs)} translations and {len(references)} references, expected equal numbers "
                "of both, and at least one."
            )
        metric = self.metric()
        if self.per_sentence:
            pairs = zip(outputs, references, strict=True)
            mean = fmean(metric.corpus_score([output], [[reference]]).score for output, reference in pairs)
            return Score(mean, f"{metric.get_signature()}|mean of sentences")
        found = metric.corpus_score(list(outputs), [list(references)])
        signature = str(metric.get_signature())
        if not isinstance(metric, BLEU):
            return Score(found.score, signature)
        return Score(found.score, signature, tuple(found.precisions), found.bp, found.sys_len, found.ref_len)


SCORINGS = (
    Scoring("tokenised", "BLEU of lower-cased, tokenised words", "tokenised", _tokenised_bleu),
    Scoring("pieces", "BLEU of the tokenizer's pieces, not joined to words", "pieces", _tokenised_bleu),
    Scoring("caseless", "BLEU of the detokenised text, ignoring case", "raw", _caseless_bleu),
    Scoring("cased", "BLEU of the detokenised text, case-sensitive: sacrebleu's default", "raw", _cased_bleu),
    Scoring("sentences", "mean of the sentences' smoothed BLEU over tokenised words: nltk's sentence_bleu, method1",
            "tokenised", _sentence_bleu, per_sentence=True),
    Scoring("chrF", "F score of character n-grams over tokenised text; spaces do not count", "tokenised", CHRF),
)  # fmt: skip
MAIN_SCORING = {"tokenised": "tokenised", "raw": "cased"}  # by the form of the recipe's text


def find_scoring(name: str) -> Scoring:
    """The scoring of that name."""
    return next(scoring for scoring in SCORINGS if scoring.name == name)


def score_all(outputs: Mapping[str, Sequence[str]], references: Mapping[str, Sequence[str]]) -> dict[str, Score]:
    """The score of each scoring, by its name, whose form both ``outputs`` and ``references`` have."""
    both = outputs.keys() & references.keys()
    return {
        scoring.name: scoring.score(outputs[scoring.form], references[scoring.form])
        for scoring in SCORINGS
        if scoring.form in both
    }


class Moses:
    """The rules of Moses for one language."""

    def __init__(self, language: str) -> None:
        from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

        self._normalizer = MosesPunctNormalizer(lang=language)
        self._tokenizer = MosesTokenizer(lang=language)
        self._detokenizer = MosesDetokenizer(lang=language)

    def tokenize(self, text: str) -> str:
        """Lower-case, normalise punctuation, separate words by single spaces, escape ``&`` and quotes.

        In this order it makes Multi30k's .lc.norm.tok files from its raw ones.
        """
        return str(self._tokenizer.tokenize(self._normalizer.normalize(text.lower()), return_str=True))

    def detokenize(self, text: str) -> str:
        """Join words as people write them and undo escapes. Lower case stays lower case."""
        return str(self._detokenizer.detokenize(text.split()))


def load_moses(language: str) -> Moses | None:
    """The rules of ``language``, or None if sacremoses is not installed."""
    return Moses(language) if find_spec("sacremoses") is not None else None


def convert_form(form: str, texts: Sequence[str], moses: Moses) -> dict[str, list[str]]:
    """Detokenise ``tokenised`` texts or tokenise ``raw`` ones; the result by the name of its form."""
    convert = moses.detokenize if form == "tokenised" else moses.tokenize
    return {OTHER_FORM[form]: [convert(text) for text in texts]}


@dataclass(frozen=True)
class FormConverter:
    """Converts texts of the form ``own``, which a model writes, to the other forms."""

    own: str
    moses: Moses | None
    tokenizer: Tokenizer

    def convert(self, texts: Sequence[str]) -> dict[str, list[str]]:
        """The texts in every form, by its name; without ``moses`` their own form and pieces only."""
        forms = {self.own: list(texts), "pieces": self.pieces(texts)}
        return forms if self.moses is None else {**forms, **convert_form(self.own, texts, self.moses)}

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Each text as the tokenizer's pieces, separated by spaces."""
        return [" ".join(self.tokenizer.to_tokens(ids)) for ids in self.tokenizer.to_ids_batch(texts)]


def compare(
    scoring: Scoring, outputs: Mapping[str, Sequence[str]], references: Sequence[str], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Each system's score over resampled sentences, and for each pair of systems a p-value of their difference.

    ``interval`` is half the width of the 95 % confidence interval. Plain values, ready for JSON.
    """
    signature, results = _paired_bootstrap(scoring, list(outputs), outputs, references, resamples)
    redrawn = {name: {"mean": _number(one.mean), "interval": _number(one.ci)} for name, one in results.items()}
    pairs = []
    for first, second in combinations(outputs, 2):
        _, both = _paired_bootstrap(scoring, [first, second], outputs, references, resamples)
        difference = _number(both[first].score - both[second].score)
        pairs.append({"first": first, "second": second, "difference": difference, "p": _number(both[second].p_value)})
    return {"way": scoring.name, "resamples": resamples, "signature": signature, "redrawn": redrawn, "pairs": pairs}


def _paired_bootstrap(
    scoring: Scoring,
    names: Sequence[str],
    outputs: Mapping[str, Sequence[str]],
    references: Sequence[str],
    resamples: int,
) -> tuple[str, dict[str, Result]]:
    """sacrebleu's signature, and its results by name; the first system is the baseline."""
    systems: list[tuple[str, Sequence[str]]] = [(name, outputs[name]) for name in names]
    test = PairedTest(systems, {"": scoring.metric()}, [list(references)], test_type="bs", n_samples=resamples)
    signatures, columns = test()
    ((metric, signature),) = signatures.items()
    results = [found for found in columns[metric] if isinstance(found, Result)]
    return str(signature), dict(zip(names, results, strict=True))


def _number(found: float | None) -> float:
    """NumPy's number as a Python float; a test of two systems always has one."""
    assert found is not None
    return float(found)
