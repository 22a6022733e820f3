"""Whether the encoder tells the positions of a sentence apart; if not, the decoder sees a bag of words."""

import numpy as np
import torch
from torch.nn.functional import normalize

from glassformer.model.evaluating import evaluating
from glassformer.model.transformer import Transformer
from glassformer.text.batches import collate
from glassformer.text.encoded import EncodedPairs

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
