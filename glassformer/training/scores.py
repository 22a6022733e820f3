"""BLEU, chrF and exact match of translations, with the signatures that say how they were counted."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from glassformer.errors import TextError


@dataclass(frozen=True)
class Scores:
    """Corpus scores in percent; ``signatures`` are sacrebleu's."""

    bleu: float
    chrf: float
    exact_match: float
    signatures: dict[str, str]
    sentences: int

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def score(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a") -> Scores:
    """Compare translations with one reference each: cased, detokenised text.

    ``tokenize`` is how BLEU cuts words: sacrebleu's 13a, or char for languages without spaces.
    """
    if len(hypotheses) != len(references) or not references:
        raise TextError(
            f"score: found {len(hypotheses)} translations and {len(references)} references, expected as many, "
            "and at least one."
        )
    bleu, chrf = BLEU(tokenize=tokenize, force=True), CHRF()  # what force silences, tokenised_remark says
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)]).score
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)]).score
    exact = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    return Scores(bleu_score, chrf_score, 100.0 * exact / len(references), signatures, len(references))


def tokenised_remark(references: Iterable[str]) -> str:
    """What to know of BLEU where most references look tokenised; nothing where they do not."""
    found = [reference.endswith(" .") for reference in references]
    if 2 * sum(found) <= len(found):
        return ""
    return (
        "The references look tokenised: most end in ' .'. BLEU counts them like raw text: compare it with that of "
        "other models on this text, and with no published figure."
    )
