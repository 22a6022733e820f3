"""The register of metrics; a new one is an entry here and its name among the choices of ``train.metric``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from glassformer.text.scripts import is_mostly_unspaced

Texts = Sequence[str]


@dataclass(frozen=True)
class Metric:
    """A metric of a text; ``compute`` gives the value for outputs and references, and sacrebleu's signature, if any.

    ``resampled`` is sacrebleu's metric for paired bootstrap resampling.
    """

    name: str
    title: str
    meaning: str
    compute: Callable[[Texts, Texts], tuple[float, str]]
    resampled: Callable[[Texts], BLEU | CHRF] | None = None
    unit: str = ""
    higher_is_better: bool = True

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


METRICS = {
    metric.name: metric
    for metric in (
        _sacrebleu("bleu", "BLEU", "words in common with the right translation", _bleu),
        _sacrebleu("chrf", "chrF", "letters in common", lambda _: CHRF()),
        Metric("exact_match", "exact", "sentences exactly right", _exact_match, unit=" %"),
    )
}
