"""The register of metrics; a new one is an entry here and its name among the choices of ``train.metric``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from glassformer.text.corpus.units import Lines, Unit, split_symbols
from glassformer.text.scripts import is_mostly_unspaced

Texts = Sequence[str]
Compute = Callable[[Texts, Texts], tuple[float, str]]


@dataclass(frozen=True)
class Metric:
    """A metric of a text; ``compute`` gives the value for outputs and references, and sacrebleu's signature, if any.

    A metric without ``compute`` needs several outputs of each source: ``translate_and_score`` gives it.
    ``resampled`` is sacrebleu's metric for paired bootstrap resampling. ``fits`` says of which texts it is shown.
    """

    name: str
    title: str
    meaning: str
    compute: Compute | None
    resampled: Callable[[Texts], BLEU | CHRF] | None = None
    unit: str = ""
    higher_is_better: bool = True
    fits: tuple[Unit, ...] = ("sentences",)

    def rank(self, value: float) -> float:
        """The value with its sign such that higher is better."""
        return value if self.higher_is_better else -value

    def format(self, value: float, digits: str = ".1f") -> str:
        """The value with its unit."""
        return f"{value:{digits}}{self.unit}"


def _sacrebleu(name: str, title: str, meaning: str, make: Callable[[Texts], BLEU | CHRF]) -> Metric:
    def compute(outputs: Texts, references: Texts) -> tuple[float, str]:
        metric = make(references)
        value = metric.corpus_score(outputs, [references]).score
        for tokenizer in (Tokenizer13a, TokenizerRegexp, TokenizerChar):
            tokenizer.__call__.cache_clear()  # they hold each line that they have split, and trainings are long
        return value, str(metric.get_signature())

    return Metric(name, title, meaning, compute, make)


def _bleu(references: Texts) -> BLEU:
    """BLEU of words, or of characters in scripts without spaces."""
    tokenize = "char" if is_mostly_unspaced(references) else "13a"
    return BLEU(tokenize=tokenize, force=True)  # force hides a warning: tokenised_warning has it


def is_same_text(output: str, reference: str) -> bool:
    """Whether an output is the reference; the kind of white space, and that at the ends, does not count."""
    return output.split() == reference.split()


def _exact_match(outputs: Texts, references: Texts) -> tuple[float, str]:
    exact = sum(map(is_same_text, outputs, references))
    return 100.0 * exact / len(references), ""


def _word_error_rate(outputs: Texts, references: Texts) -> tuple[float, str]:
    return 100.0 - _exact_match(outputs, references)[0], ""


def symbol_edits(output: str, reference: str, unit: Unit) -> int:
    """The least number of symbols to replace, insert or delete (Levenshtein's distance)."""
    return Levenshtein.distance(split_symbols(output, unit), split_symbols(reference, unit))


def _edits(outputs: Texts, references: Texts) -> tuple[int, int]:
    """All edits, and the symbols of the references."""
    unit = Lines.count(references).unit
    edits = sum(symbol_edits(*both, unit) for both in zip(outputs, references, strict=True))
    return edits, sum(len(split_symbols(reference, unit)) for reference in references)


def _symbol_error_rate(outputs: Texts, references: Texts) -> tuple[float, str]:
    edits, symbols = _edits(outputs, references)
    return 100.0 * edits / max(1, symbols), ""


def _edit_distance(outputs: Texts, references: Texts) -> tuple[float, str]:
    return _edits(outputs, references)[0] / len(references), ""


def _of_words(name: str, title: str, meaning: str, compute: Compute, unit: str = " %") -> Metric:
    return Metric(name, title, meaning, compute, unit=unit, higher_is_better=False, fits=("words", "symbols"))


ALL: tuple[Unit, ...] = ("sentences", "words", "symbols")
METRICS = {
    metric.name: metric
    for metric in (
        _sacrebleu("bleu", "BLEU", "words in common with the right translation", _bleu),
        _sacrebleu("chrf", "chrF", "letters in common", lambda _: CHRF()),
        Metric("exact_match", "exact", "sentences exactly right", _exact_match, unit=" %", fits=ALL),
        _of_words("word_error_rate", "WER", "words that are not exactly right", _word_error_rate),
        _of_words("symbol_error_rate", "SER", "symbols to change for each of the right ones", _symbol_error_rate),
        _of_words("edit_distance", "edits", "symbols to change in a word", _edit_distance, unit=""),
        Metric("n_best_accuracy", "n-best", "an output of the n best is right", None, unit=" %", fits=ALL),
    )
}
