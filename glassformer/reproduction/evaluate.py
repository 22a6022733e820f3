"""The ways in which the same translations are scored, each by sacrebleu and under its signature.

Papers differ by these ways as much as by their models. A text has up to three forms: ``tokenised`` words in lower
case, ``raw`` as people write, and the tokenizer's ``pieces``. Knows nothing of models, runs or files.

The same text in its forms: ``tokenised`` words in lower case, ``raw`` as people write, the tokenizer's ``pieces``.

Between the first two stand Moses's rules, by the library ``sacremoses``. Knows nothing of scores.

How far scores would move with other sentences of the same kind: sacrebleu's paired bootstrap over seeds.

Koehn 2004. Knows nothing of how the translations came about.
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
from glassformer.text.tokenizer import Tokenizer

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


INSTALL = "pip install 'glassformer[moses]'"
OTHER = {"tokenised": "raw", "raw": "tokenised"}


class Moses:
    """The rules of one language."""

    def __init__(self, language: str) -> None:
        from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

        self._normalizer = MosesPunctNormalizer(lang=language)
        self._tokenizer = MosesTokenizer(lang=language)
        self._detokenizer = MosesDetokenizer(lang=language)

    def tokenised(self, text: str) -> str:
        """Lower-cased, punctuation normalised, cut into words between single spaces, ``&`` and quotes escaped.

        In this order it gives Multi30k's .lc.norm.tok files from its raw ones.
        """
        return str(self._tokenizer.tokenize(self._normalizer.normalize(text.lower()), return_str=True))

    def raw(self, text: str) -> str:
        """Words joined as they are written, escapes undone. Lower case stays lower case."""
        return str(self._detokenizer.detokenize(text.split()))


def moses_of(language: str) -> Moses | None:
    """The rules of ``language``, or None without the library."""
    return Moses(language) if find_spec("sacremoses") is not None else None


@dataclass(frozen=True)
class Forms:
    """What turns texts in the form ``own``, which a model writes, into the others; without ``moses`` into pieces."""

    own: str
    moses: Moses | None
    tokenizer: Tokenizer

    def of(self, texts: Sequence[str]) -> dict[str, list[str]]:
        """The texts in every form that can be had."""
        forms = {self.own: list(texts), "pieces": self.pieces(texts)}
        return forms if self.moses is None else {**forms, **turned_over(self.own, texts, self.moses)}

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Each text as the tokenizer's pieces, between spaces."""
        return [" ".join(self.tokenizer.to_tokens(ids)) for ids in self.tokenizer.to_ids_batch(texts)]


def turned_over(form: str, texts: Sequence[str], moses: Moses) -> dict[str, list[str]]:
    """Tokenised texts as raw ones, or raw texts tokenised, by the name of their new form."""
    turn = moses.raw if form == "tokenised" else moses.tokenised
    return {OTHER[form]: [turn(text) for text in texts]}


RESAMPLES = 1000


def compare(
    way: Way, outputs: Mapping[str, Sequence[str]], references: Sequence[str], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Each system's score over redrawn sentences, and for each two of them how likely chance alone explains them.

    ``interval`` is half the width of what holds 95 of 100 redrawn scores. ``p`` is small where a difference is hardly
    chance. Plain values, ready for JSON.
    """
    signature, results = _tested(way, list(outputs), outputs, references, resamples)
    redrawn = {name: {"mean": _number(one.mean), "interval": _number(one.ci)} for name, one in results.items()}
    pairs = []
    for first, second in combinations(outputs, 2):
        _, both = _tested(way, [first, second], outputs, references, resamples)
        difference = _number(both[first].score - both[second].score)
        pairs.append({"first": first, "second": second, "difference": difference, "p": _number(both[second].p_value)})
    return {"way": way.name, "resamples": resamples, "signature": signature, "redrawn": redrawn, "pairs": pairs}


def _tested(
    way: Way, names: Sequence[str], outputs: Mapping[str, Sequence[str]], references: Sequence[str], resamples: int
) -> tuple[str, dict[str, Result]]:
    """sacrebleu's results by name; the first is what the others are held against."""
    systems: list[tuple[str, Sequence[str]]] = [(name, outputs[name]) for name in names]
    test = PairedTest(systems, {"": way.metric()}, [list(references)], test_type="bs", n_samples=resamples)
    signatures, columns = test()
    ((metric, signature),) = signatures.items()
    results = [found for found in columns[metric] if isinstance(found, Result)]
    return str(signature), dict(zip(names, results, strict=True))


def _number(found: float | None) -> float:
    """NumPy's as Python's own; a test of two always has them."""
    assert found is not None
    return float(found)
