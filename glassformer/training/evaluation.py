"""How good a model is at one moment: validation loss, and translations scored against references."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.config import DecodeConfig, RunConfig
from glassformer.decoding.request import Request
from glassformer.decoding.together import translate_together
from glassformer.decoding.translator import Translator
from glassformer.errors import DivergedError
from glassformer.model.evaluating import evaluating
from glassformer.model.transformer import Transformer
from glassformer.text.batches import collate, plan_batches
from glassformer.text.corpus import Pair
from glassformer.text.encoded import EncodedPairs
from glassformer.text.prepare import PreparedText
from glassformer.training.precision import autocast
from glassformer.training.projected_loss import Objective
from glassformer.training.sameness import position_similarity
from glassformer.training.scores import Scores, score
from glassformer.world import ALONE, World


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
