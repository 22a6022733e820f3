"""Sources, and what searches promise done the slow way: whole prefixes anew, and every output there is."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

import glassformer.decoding.search.beam_search as search
from glassformer.decoding import Constraints, DecoderSteps, Output, SearchJob
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig

PAD, BOS, EOS = 0, 1, 2
SENTENCES = [[7, 4, 9, 5, EOS], [3, EOS], [10, 10, 6, EOS], [8, 3, 5, 4, 6, 9, 7, EOS], [5, 9, EOS]]


def padded(sentences: list[list[int]], more: int = 0) -> Tensor:
    longest = max(map(len, sentences)) + more
    return torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in sentences])


def beam_search(
    model: Transformer,
    src_ids: Tensor,
    limits: list[int],
    options: DecodeConfig,
    constraints: list[Constraints] | None = None,
) -> list[list[Output]]:
    return search.beam_search(
        DecoderSteps(model, src_ids, options), SearchJob(src_ids.tolist(), limits, options, constraints=constraints)
    )


def next_log_probs(model: Transformer, src: list[int], prefixes: list[tuple[int, ...]]) -> list[list[float]]:
    """The slow way: whole prefixes, of one length, anew and without a cache."""
    tgt_in = torch.tensor([[BOS, *ids] for ids in prefixes])
    log_probs = model(torch.tensor([src] * len(prefixes)), tgt_in)[:, -1].log_softmax(-1)
    log_probs[:, [PAD, BOS]] = -math.inf
    return log_probs.tolist()


def everything(model: Transformer, src: list[int], limit: int) -> tuple[list, list]:
    """All outputs there are: those that end, and those that the limit cuts."""
    known: dict[tuple[int, ...], float] = {(): 0.0}
    ended = []
    words = [token for token in range(model.config.tgt_vocab) if token > EOS]
    for length in range(limit):
        prefixes = list(product(words, repeat=length))
        for ids, log_probs in zip(prefixes, next_log_probs(model, src, prefixes), strict=True):
            ended.append(((*ids, EOS), known[ids] + log_probs[EOS]))
            known.update({(*ids, word): known[ids] + log_probs[word] for word in words})
    cut = [(ids, log_prob) for ids, log_prob in known.items() if len(ids) == limit]
    return ended, cut


def occurs(phrase, ids) -> bool:
    return any(tuple(ids[at : at + len(phrase)]) == tuple(phrase) for at in range(len(ids)))


def assert_same(found: list[Output], expected: list[Output]) -> None:
    assert [(one.ids, one.truncated) for one in found] == [(one.ids, one.truncated) for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.unmet == other.unmet
