"""Rules hold in every output, rank by what they leave, and change nothing where they forbid nothing."""

import math

import pytest
import torch
from filter_values import PROCESSOR_VALUES
from hypothesis import given
from hypothesis import strategies as st
from reference_search import EOS, SENTENCES, assert_same, beam_search, everything, next_log_probs, padded

from glassformer.decoding import Constraints, DecoderSteps, Output, SearchJob
from glassformer.decoding.search.filters import apply_repetition_penalty, block_repeated_ngrams, process_log_probs
from glassformer.decoding.search.search import search
from glassformer.errors import ConfigError, InputError
from glassformer.settings import DecodeConfig, ModelConfig

LIMITS = [9, 3, 6, 14, 4]

rows = st.integers(1, 6).flatmap(lambda step: st.lists(st.lists(st.integers(0, 4), min_size=step, max_size=step), min_size=1, max_size=4))  # fmt: skip


def sampled(model, options, constraints=None) -> list[list[Output]]:
    steps = DecoderSteps(model, padded(SENTENCES), options)
    return search(steps, SearchJob(SENTENCES, LIMITS, options, constraints=constraints))


def ngrams(ids: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(ids[at : at + n]) for at in range(len(ids) - n + 1)]


def test_what_was_written_costs_more_by_hand():
    log_probs = torch.tensor([[-1.0, -2.0, -math.inf, -3.0]])
    found = apply_repetition_penalty(log_probs, torch.tensor([[1, 3, 1]]), 1.5, ModelConfig())
    assert found.tolist() == [[-1.0, -3.0, -math.inf, -4.5]], "once, however often it was written"


@given(rows=rows, n=st.integers(1, 4))
def test_no_ngram_comes_twice_whatever_was_written(rows, n):
    prefixes = torch.tensor(rows)
    found = block_repeated_ngrams(torch.zeros(len(rows), 5), prefixes, n, ModelConfig())
    for ids, log_probs in zip(rows, found.tolist(), strict=True):
        for token, log_prob in enumerate(log_probs):
            repeats = tuple([*ids, token][-n:]) in ngrams(ids, n) and len(ids) >= n
            assert (log_prob == -math.inf) == repeats


@pytest.mark.parametrize("setting", PROCESSOR_VALUES)
def test_a_processor_forbids_or_lowers_and_never_raises(setting):
    log_probs = torch.randn(40, 5).log_softmax(dim=-1)
    prefixes = torch.randint(3, 5, (40, 1 if setting == "min_length" else 9))
    options = DecodeConfig(**{setting: PROCESSOR_VALUES[setting]})
    found = process_log_probs(log_probs, prefixes, options, None, ModelConfig())
    assert (found <= log_probs).all(), "the early end of a beam search rests on that"
    assert (found < log_probs).any()
    assert process_log_probs(log_probs, prefixes, DecodeConfig(), None, ModelConfig()) is log_probs


def test_no_output_ends_before_its_least_length(make_model):
    model = make_model(bias={EOS: 8.0})
    held = beam_search(model, padded(SENTENCES), LIMITS, DecodeConfig(beam=3, n_best=3, min_length=4))
    for found in (held, sampled(model, DecodeConfig(sample=True, n_best=3, min_length=4))):
        for limit, candidates in zip(LIMITS, found, strict=True):
            for one in candidates:
                assert len(one.ids) == limit if one.truncated else len(one.ids) > 4
    assert any(not one.truncated and len(one.ids) == 5 for row in held for one in row)


def test_repetitions_become_rare_and_log_prob_stays_the_models(make_model):
    model = make_model(bias={5: 3.0, EOS: -2.0})
    options = DecodeConfig(beam=3, n_best=3, repetition_penalty=4.0, length_penalty=0.7)
    free = beam_search(model, padded(SENTENCES), LIMITS, DecodeConfig(beam=3))
    for src, (unruled, *_), candidates in zip(
        SENTENCES, free, beam_search(model, padded(SENTENCES), LIMITS, options), strict=True
    ):
        assert len(set(candidates[0].ids)) >= len(set(unruled.ids))
        for one in candidates:
            own = [next_log_probs(model, src, [tuple(one.ids[:at])])[0][token] for at, token in enumerate(one.ids)]
            ruled = [4.0 * more if token in one.ids[:at] else more for at, (token, more) in enumerate(zip(one.ids, own, strict=True))]  # fmt: skip
            assert one.log_prob == pytest.approx(sum(own), abs=1e-4)
            assert one.score == pytest.approx(
                sum(ruled) / DecodeConfig(length_penalty=0.7).penalty(len(one.ids)), abs=1e-4
            )


def test_a_beam_as_wide_as_the_space_finds_the_best_that_the_rules_leave(make_model):
    model = make_model(vocab=6, bias={EOS: 0.5})
    src = [4, 5, EOS]
    ended, _ = everything(model, src, 4)
    options = DecodeConfig(beam=100, n_best=9, no_repeat_ngram=2, min_length=2, repetition_penalty=1.7)
    made = []
    for ids, log_prob in ended:
        if len(ids) <= 2 or len(set(ngrams(ids, 2))) < len(ngrams(ids, 2)):
            continue
        ruled = 0.0
        for at, token in enumerate(ids):
            more = next_log_probs(model, src, [ids[:at]])[0][token]
            ruled += 1.7 * more if token in ids[:at] else more
        made.append(
            Output(list(ids), log_prob, ruled / DecodeConfig(length_penalty=0.6).penalty(len(ids)), truncated=False)
        )
    expected = sorted(made, key=lambda one: -one.score)[:9]
    assert_same(beam_search(model, padded([src]), [4], options)[0], expected)


@pytest.mark.parametrize("cache", [True, False])
def test_rules_that_forbid_nothing_change_no_bit(make_model, positions, cache):
    model = make_model(positions=positions, bias={EOS: 0.7})
    off = DecodeConfig(beam=4, n_best=4, cache=cache)
    plain = beam_search(model, padded(SENTENCES), LIMITS, off)
    idle = DecodeConfig(beam=4, n_best=4, cache=cache, no_repeat_ngram=20)
    assert beam_search(model, padded(SENTENCES), LIMITS, idle) == plain
    constraints = [Constraints(banned=((9, 9, 9, 9, 9, 9, 9),))] * len(SENTENCES)
    assert beam_search(model, padded(SENTENCES), LIMITS, off, constraints) == plain
    assert beam_search(model, padded(SENTENCES), LIMITS, off, [Constraints()] * len(SENTENCES)) == plain
    draw = DecodeConfig(sample=True, n_best=2)
    assert sampled(model, DecodeConfig(sample=True, n_best=2, no_repeat_ngram=20)) == sampled(model, draw)


@pytest.mark.parametrize("sample", [False, True])
def test_rules_that_leave_nothing_are_told(make_model, sample):
    model = make_model(vocab=4)
    options = DecodeConfig(beam=1, sample=sample, no_repeat_ngram=1, min_length=3)
    steps = DecoderSteps(model, torch.tensor([[3, EOS]]), options)
    with pytest.raises(InputError, match="allow no token"):
        search(steps, SearchJob([[3, EOS]], [4], options))


def test_limits_of_the_knobs_are_told():
    with pytest.raises(
        ConfigError, match=r"decode.repetition_penalty: found 0.5, expected a value from 1.0 to 100.0"
    ):
        DecodeConfig(repetition_penalty=0.5)
    assert DecodeConfig().with_changes({"n_best": 7}).beam == 7
