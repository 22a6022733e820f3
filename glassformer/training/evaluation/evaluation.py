"""How good a model is: loss, metrics, and whether the encoder has collapsed."""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import normalize

from glassformer.decoding.batching import check_texts
from glassformer.decoding.translator import Translator
from glassformer.errors import DivergedError, TextError
from glassformer.model.inference import evaluating
from glassformer.model.transformer import Transformer
from glassformer.settings import DecodeConfig, RunConfig
from glassformer.text.corpus.batches import collate, plan_batches
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.dataset import EncodedPairs
from glassformer.text.corpus.prepare import PreparedText
from glassformer.text.corpus.units import find_units
from glassformer.training.evaluation.metrics import METRICS, is_same_text
from glassformer.training.evaluation.results import Example, Scores, Validation, merge_answers
from glassformer.training.objective.objective import Objective, autocast
from glassformer.world import ALONE, World

COLLAPSE_SENTENCES = 100  # encoder_collapse is measured on the first ones
COLLAPSE_THRESHOLD = 0.9
SAMPLES = 4


def validate(
    model: Transformer,
    text: PreparedText,
    config: RunConfig,
    update: int,
    device: torch.device,
    *,
    sentences: int,
    world: World = ALONE,
) -> Validation:
    """Measure the loss, and translate the first ``sentences`` greedily."""
    with evaluating(model):
        loss = validation_loss(model, text.valid, config, device, world)
    if not math.isfinite(loss):
        raise DivergedError(
            f"update {update}: the validation loss is {loss}, expected a finite number. Nothing was saved after it. "
            "Lengthen train.warmup, lower train.peak_rate or set train.clip_norm, and train again in a new directory."
        )
    collapse = encoder_collapse(model, text.valid, device)
    pairs = text.valid_text[: max(1, sentences)]
    own = config.decode
    translator = Translator(model, text.src_tokenizer, text.tgt_tokenizer, own)
    greedy = DecodeConfig(
        beam=1, max_length_a=own.max_length_a, max_length_b=own.max_length_b, copy_wordless=own.copy_wordless
    )
    scores, outputs = translate_and_score(translator, pairs, greedy, world)
    samples = world.broadcast(
        lambda: tuple((pair.src, output, pair.tgt) for pair, output in zip(pairs[:SAMPLES], outputs, strict=False))
    )
    examples = make_examples(pairs, outputs) if world.is_first else []
    return Validation(update, loss, scores, samples, collapse, tuple(examples))


def validation_loss(
    model: Transformer, pairs: EncodedPairs, config: RunConfig, device: torch.device, world: World = ALONE
) -> float:
    """Mean negative log-likelihood in nats per target token."""
    objective = Objective(model, smoothing=0.0)
    total, tokens = 0.0, 0
    plan = plan_batches(pairs.src_side.lengths, pairs.tgt_side.lengths, config.train.batch_tokens, seed=0, epoch=0)
    for indices in plan[world.rank :: world.size]:
        batch = collate(pairs, indices).to(device)
        with torch.no_grad(), autocast(config.train.precision, device):
            _, nll = objective(batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids)
        total, tokens = total + float(nll), tokens + batch.target_tokens
    total, all_tokens = world.sum(total, tokens)
    return total / all_tokens


def encoder_collapse(model: Transformer, pairs: EncodedPairs, device: torch.device) -> float:
    """The mean cosine of encoder outputs: near 1 the decoder sees a bag of words."""
    batch = collate(pairs, np.arange(min(COLLAPSE_SENTENCES, len(pairs)))).to(device)
    with evaluating(model), torch.no_grad():
        memory, mask = model.encode(batch.src_ids)
    real = mask[:, 0, 0]
    directions = normalize(memory.double(), dim=-1) * real[..., None]
    lengths = real.sum(-1).double()
    cosines = directions.sum(-2).square().sum(-1) - lengths  # all pairs of positions, without each with itself
    return float(cosines.sum() / (lengths * (lengths - 1)).sum().clamp(min=1.0))


def collapse_warning(update: int, collapse: float) -> str:
    """What to do if the encoder does not distinguish positions after warm-up."""
    return (
        f"Warning: at update {update}, after warm-up, the encoder's outputs at different positions of a sentence are "
        f"nearly the same: their mean cosine is {collapse:.2f}, expected below {COLLAPSE_THRESHOLD}. The decoder "
        "sees no order of words. Lower train.peak_rate, lengthen train.warmup or set model.norm=pre, and train again "
        "in a new directory."
    )


def translate_and_score(
    translator: Translator, pairs: Sequence[Pair], options: DecodeConfig, world: World = ALONE
) -> tuple[Scores, list[str]]:
    """Translate and score ``pairs``; the first process gets the translations."""
    share = max(1, math.ceil(len(pairs) / world.size))
    start = world.rank * share
    sources = [pair.src for pair in pairs[start : start + share]]
    own = list(translator.translate_stream(sources, options, chunk=share, start=start))
    written = world.gather([[hypothesis.text for hypothesis in one.hypotheses] for one in own])
    candidates = [texts for of_process in written for texts in of_process]
    outputs = [texts[0] for texts in candidates]
    limited = sum(world.gather(sum(one.limit_warning is not None for one in own)))
    nearest = _nearest(pairs, candidates) if options.n_best > 1 else None
    return world.broadcast(lambda: _score_pairs(pairs, outputs, nearest, limited)), outputs


def _nearest(pairs: Sequence[Pair], candidates: Sequence[Sequence[str]]) -> list[str]:
    """Of each pair's outputs the first that is a right answer of its source, or else the best one."""
    right = defaultdict[str, list[str]](list)
    for pair in pairs:
        right[pair.src].append(to_nfc(pair.tgt))
    return [
        next((one for one in texts if any(is_same_text(to_nfc(one), answer) for answer in right[pair.src])), texts[0])
        for pair, texts in zip(pairs, candidates, strict=True)
    ]


def _score_pairs(
    pairs: Sequence[Pair], outputs: Sequence[str], nearest: Sequence[str] | None, limited: int
) -> Scores:
    examples = make_examples(pairs, outputs)
    found = score([one.output for one in examples], [one.reference for one in examples])
    if nearest is not None:
        exact = [one.is_exact for one in make_examples(pairs, nearest)]
        found = replace(found, values={**found.values, "n_best_accuracy": 100.0 * sum(exact) / len(exact)})
    return replace(found, limited=limited, unit=examples[0].unit)


def make_examples(pairs: Sequence[Pair], outputs: Sequence[str]) -> list[Example]:
    """Each pair with its output; of words, those of one source are one, which has several right answers."""
    _, unit = find_units(pairs)
    both = zip(pairs, outputs, strict=True)
    examples = [Example(pair.src, to_nfc(output), to_nfc(pair.tgt), unit) for pair, output in both]
    return examples if unit == "sentences" else merge_answers(examples)


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """Compare translations with one reference each, cased, detokenised."""
    check_texts("hypotheses", hypotheses)
    check_texts("references", references)
    if len(hypotheses) != len(references) or not references:
        raise TextError(
            f"score: found {len(hypotheses)} translations and {len(references)} references, expected one reference "
            "for each translation, and at least one."
        )
    hypotheses, references = (list(map(to_nfc, texts)) for texts in (hypotheses, references))
    found = {
        name: metric.compute(hypotheses, references) for name, metric in METRICS.items() if metric.compute is not None
    }
    values = {name: value for name, (value, _) in found.items()}
    signatures = {name: signature for name, (_, signature) in found.items() if signature}
    return Scores(values, signatures, len(references))


def to_nfc(text: str) -> str:
    """The text in NFC: two ways to write ü are one."""
    return unicodedata.normalize("NFC", text)


def tokenised_warning(references: Iterable[str]) -> str:
    """A warning about BLEU if most references look tokenised; empty if they do not."""
    ends = [reference.endswith(" .") for reference in references]
    if 2 * sum(ends) <= len(ends):
        return ""
    return (
        "The references look tokenised: most end in ' .'. BLEU treats them as raw text: do not compare it with "
        "published figures."
    )
