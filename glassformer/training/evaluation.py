"""How good a model is at one moment: validation loss, and translations scored against references.

BLEU, chrF and exact match of translations, with the signatures that say how they were counted.

Whether the encoder tells the positions of a sentence apart; if not, the decoder sees a bag of words.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch.nn.functional import normalize

from glassformer.config import DecodeConfig, RunConfig
from glassformer.decoding.request import Request
from glassformer.decoding.translator import Translator
from glassformer.decoding.worker_pool import translate_together
from glassformer.errors import DivergedError, TextError
from glassformer.model.inference import evaluating
from glassformer.model.transformer import Transformer
from glassformer.text.batches import collate, plan_batches
from glassformer.text.corpus import Pair
from glassformer.text.dataset import EncodedPairs
from glassformer.text.prepare import PreparedText
from glassformer.training.fused_loss import Objective
from glassformer.training.train_step import autocast
from glassformer.world import ALONE, World


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


SENTENCES = 100
TOO_ALIKE = 0.9


def position_similarity(model: Transformer, pairs: EncodedPairs, device: torch.device) -> float:
    """The mean cosine between the encoder's outputs at two positions of one source, of the first 100 sources.

    1 means that every position says the same. A fresh model has little of it; while a model learns its first words
    it may come near 1, and falls as attention begins to choose.
    """
    batch = collate(pairs, np.arange(min(SENTENCES, len(pairs)))).to(device)
    with evaluating(model), torch.no_grad():
        memory, mask = model.encode(batch.src_ids)
    kept = mask[:, 0, 0]
    directions = normalize(memory.double(), dim=-1) * kept[..., None]
    lengths = kept.sum(-1).double()
    other_positions = directions.sum(-2).square().sum(-1) - lengths
    return float(other_positions.sum() / (lengths * (lengths - 1)).sum().clamp(min=1.0))


def warning(update: int, similarity: float) -> str:
    """What to do about an encoder that has not begun to tell positions apart."""
    return (
        f"Warning: at update {update}, after warm-up, the encoder's outputs at different positions of a sentence are "
        f"nearly the same: their mean cosine is {similarity:.2f}, expected below {TOO_ALIKE}. The decoder sees which "
        "words there are, not where. Lower train.peak_rate, lengthen train.warmup or set model.norm=pre, and train "
        "again in a new --run."
    )


@dataclass(frozen=True)
class Validation:
    """One validation: mean loss per token (nats, not smoothed), and the scores of translated sentences.

    ``position_similarity`` is the mean cosine between the encoder's outputs at two positions of a source.
    """

    update: int
    loss: float
    scores: Scores
    sample: tuple[str, str, str]
    position_similarity: float

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return math.exp(min(self.loss, 700.0))

    def value(self, metric: str) -> float:
        """The number that ``metric`` names, turned so that higher is better."""
        return -self.loss if metric == "loss" else float(getattr(self.scores, metric))


def validation_loss(
    model: Transformer, pairs: EncodedPairs, config: RunConfig, device: torch.device, world: World = ALONE
) -> float:
    """Mean negative log-likelihood per target token, in nats; of the batches each process measures its share."""
    objective = Objective(model, smoothing=0.0)
    total, tokens = 0.0, 0
    plan = plan_batches(pairs.src_lengths, pairs.tgt_lengths, config.train.batch_tokens, seed=0, epoch=0)
    for indices in plan[world.rank :: world.size]:
        batch = collate(pairs, indices).to(device)
        with torch.no_grad(), autocast(config.train.precision, device):
            _, nll = objective(batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids)
        total, tokens = total + float(nll), tokens + batch.target_tokens
    total, all_tokens = world.sum(total, tokens)
    return total / all_tokens


def translate_and_score(
    translator: Translator, pairs: Sequence[Pair], options: DecodeConfig, world: World = ALONE
) -> tuple[Scores, list[str]]:
    """Translate the sources of ``pairs`` and compare with their targets.

    Of several processes each translates its share; all have the scores, the first one alone the translations.
    """
    requests, share = (Request(pair.src) for pair in pairs), -(-len(pairs) // world.size)
    outputs = [one.text for one in translate_together(translator, requests, options, world, chunk=share)]
    references = [pair.tgt for pair in pairs]
    return world.from_first(lambda: score(outputs, references, tokenize=_bleu_tokenizer(pairs))), outputs


def _bleu_tokenizer(pairs: Sequence[Pair]) -> str:
    """13a cuts at spaces; where references hold hardly any, as in Japanese or Chinese, characters are counted."""
    characters = sum(len(pair.tgt) for pair in pairs)
    wide = sum(1 for pair in pairs for character in pair.tgt if "\u3040" <= character <= "\u9fff")
    return "char" if 2 * wide > characters else "13a"


def validate(
    model: Transformer,
    text: PreparedText,
    config: RunConfig,
    update: int,
    device: torch.device,
    *,
    world: World = ALONE,
) -> Validation:
    """Validation loss over all pairs, greedy translations over the first ``train.valid_translations``.

    Several processes share the work and all have the result. Raises ``DivergedError`` when the loss is not a finite
    number.
    """
    with evaluating(model):
        loss = validation_loss(model, text.valid, config, device, world)
    if not math.isfinite(loss):
        raise DivergedError(
            f"update {update}: the validation loss is {loss}, expected a finite number. Nothing was saved after it. "
            "Lengthen train.warmup, lower train.peak_rate or set train.clip_norm, and train again in a new --run."
        )
    similarity = position_similarity(model, text.valid, device)
    pairs = text.valid_text[: config.train.valid_translations or None]
    translator = Translator(model, text.src_tokenizer, text.tgt_tokenizer, config.decode)
    scores, outputs = translate_and_score(translator, pairs, DecodeConfig(beam=1), world)
    shown = update % len(pairs)
    sample = world.from_first(lambda: (pairs[shown].src, outputs[shown], pairs[shown].tgt))
    return Validation(update, loss, scores, sample, similarity)
