"""Groups of a diverse search: by hand, from a model whose next word never depends on anything."""

import math
from itertools import product

import pytest
import torch
from slow_ways import EOS, SENTENCES, assert_same, beam_search, padded

from glassformer import decoding
from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding.candidates import Candidate, merge_groups

LIMITS = [9, 3, 6, 14, 4]
A, B, C = 3, 4, 5


class SameEachTime:
    """Steps of a model that gives one distribution after whatever was read."""

    device, fills_gaps = torch.device("cpu"), False

    def __init__(self, probabilities: dict[int, float]) -> None:
        self.config = ModelConfig(src_vocab=6, tgt_vocab=6)
        self.log_probs = torch.full((6,), -math.inf)
        for token, probability in probabilities.items():
            self.log_probs[token] = math.log(probability)

    def next_log_probs(self, ids):
        return self.log_probs.expand(len(ids), -1)

    def select(self, rows) -> None:
        pass

    def exchange(self, rows) -> None:
        pass


def found(groups: int, diversity: float, limit: int, beam: int | None = None) -> list[list[int]]:
    steps = SameEachTime({EOS: 0.05, A: 0.5, B: 0.3, C: 0.15})
    beam = beam or groups
    options = DecodeConfig(beam=beam, n_best=beam, beam_groups=groups, diversity=diversity, length_penalty=0.0)
    (candidates,) = decoding.beam_search.beam_search(steps, [limit], options)
    for one in candidates:
        own = sum(steps.log_probs[token].item() for token in one.ids)
        assert one.log_prob == pytest.approx(own, abs=1e-6)
        assert one.score == pytest.approx(own, abs=1e-6), "what is subtracted decides the choice and no score"
    return [one.ids for one in candidates]


def test_two_groups_by_hand():
    # log(0.5 / 0.3) = 0.51: a λ above it sends the second group elsewhere, one below does not.
    assert found(2, 0.52, 1) == [[A], [B]]
    assert found(2, 0.50, 1) == [[A]], "both found the same, which is named once"
    assert found(2, 0.52, 2) == [[A, A], [B, B]]


def test_three_groups_count_how_often_a_token_was_chosen():
    # Third group, λ = 0.6: A costs 0.69 + 0.6, B 1.20 + 0.6, C 1.90. A again, then; with λ = 1.3 it is C's turn.
    assert found(3, 0.6, 1) == [[A], [B]]
    assert found(3, 1.3, 1) == [[A], [B], [C]]


def test_groups_wider_than_one_by_hand():
    # The first keeps A and B. For the second C is best at λ = 9, then the end, which was not chosen either and so
    # ends; A, which fills its beam, is there already.
    assert found(2, 9.0, 1, beam=4) == [[EOS], [A], [B], [C]]


def test_without_diversity_all_groups_find_what_one_finds(make_model):
    model = make_model(bias={EOS: 0.7})
    alone = beam_search(model, padded(SENTENCES), LIMITS, DecodeConfig(beam=2, n_best=2))
    groups = DecodeConfig(beam=6, n_best=2, beam_groups=3, diversity=0.0)
    for one, other in zip(beam_search(model, padded(SENTENCES), LIMITS, groups), alone, strict=True):
        assert_same(one, other)


def test_the_first_group_is_a_plain_search_and_n_best_changes_no_choice(make_model):
    model = make_model(bias={EOS: 0.7})
    alone = beam_search(model, padded(SENTENCES), LIMITS, DecodeConfig(beam=2, n_best=2))
    everything, one_each = (
        beam_search(model, padded(SENTENCES), LIMITS, DecodeConfig(beam=6, n_best=n, beam_groups=3, diversity=0.9))
        for n in (6, 3)
    )
    for plain, all_six, three in zip(alone, everything, one_each, strict=True):
        ids = [one.ids for one in all_six]
        assert len({tuple(one) for one in ids}) == len(ids)
        assert plain[0].ids in ids
        assert plain[0].ids in [one.ids for one in three]
        assert all(one.ids in ids for one in three)


def test_outputs_differ_more_than_those_of_one_beam(make_model):
    model = make_model(bias={EOS: -3.0})

    def unlike(options: DecodeConfig) -> int:
        results = beam_search(model, padded(SENTENCES), [8] * len(SENTENCES), options)
        return sum(
            a != b
            for row in results
            for one, other in product(row, row)
            for a, b in zip(one.ids, other.ids, strict=False)
        )

    assert unlike(DecodeConfig(beam=4, n_best=4, beam_groups=4, diversity=2.0)) > unlike(
        DecodeConfig(beam=4, n_best=4)
    )


@pytest.mark.parametrize("more", [{}, {"coverage_penalty": 0.4, "no_repeat_ngram": 2, "min_length": 2}])
def test_a_batch_is_its_sentences_alone(make_model, more):
    model = make_model(bias={EOS: 0.7})
    options = DecodeConfig(beam=6, n_best=4, beam_groups=3, diversity=0.9, **more)
    together = beam_search(model, padded(SENTENCES, 1), LIMITS, options)
    for src, limit, candidates in zip(SENTENCES, LIMITS, together, strict=True):
        assert_same(candidates, beam_search(model, padded([src]), [limit], options)[0])


def test_the_best_of_each_group_comes_before_the_second_of_any():
    def made(ids: list[int], score: float, truncated: bool = False) -> Candidate:
        return Candidate(ids, score, score, truncated)

    groups = [[made([3], -1.0), made([4], -2.0)], [made([3], -1.0), made([5], -9.0)], [made([6], -8.0, True)]]
    assert [one.ids for one in merge_groups(groups, 2)] == [[3], [6]]
    assert [one.ids for one in merge_groups(groups, 3)] == [[3], [4], [6]]
    assert [one.ids for one in merge_groups(groups, 9)] == [[3], [4], [5], [6]]
