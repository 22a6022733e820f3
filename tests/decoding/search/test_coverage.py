"""Coverage as Wu et al. write it, from attention that forced decoding confirms, in traces and out of them."""

import math

import pytest
import torch
from reference_search import EOS, SENTENCES, assert_same, beam_search, everything, padded

from glassformer.decoding import DecoderSteps, Output, SearchJob
from glassformer.decoding.search.beam_search import beam_search as run_beam_search
from glassformer.decoding.search.beam_search import coverage_penalty
from glassformer.decoding.teacher_forcing import forced_attention
from glassformer.errors import ConfigError
from glassformer.settings import DecodeConfig
from glassformer.trace import tracing

LIMITS = [9, 1, 6, 14, 2]


def formula(model, src: list[int], ids: list[int], beta: float) -> float:
    """Equation 14 of the paper that it is from, with loops."""
    (attention,) = forced_attention(model, padded([src]), [ids])
    p = attention[-1].mean(dim=0).tolist()
    return beta * sum(math.log(min(sum(row[position] for row in p), 1.0)) for position in range(len(src)))


def test_the_formula_by_hand():
    covered = torch.tensor([[0.5, 1.0, 2.5], [1.0, 1.0, 1.0]])
    assert coverage_penalty(covered, 0.4).tolist() == pytest.approx([0.4 * math.log(0.5), 0.0])
    assert math.isfinite(coverage_penalty(torch.zeros(3), 0.4)), "never looked at is a number still"


@pytest.mark.parametrize("cache", [True, False])
def test_scores_hold_the_coverage_that_forced_attention_gives(make_model, positions, cache):
    model = make_model(positions=positions, bias={EOS: 0.7})
    options = DecodeConfig(beam=3, n_best=3, coverage_penalty=0.8, length_penalty=0.9, cache=cache)
    kinds = set()
    for src, found in zip(SENTENCES, beam_search(model, padded(SENTENCES, 2), LIMITS, options), strict=True):
        for one in found:
            expected = one.log_prob / DecodeConfig(length_penalty=0.9).penalty(len(one.ids)) + formula(
                model, src, one.ids, 0.8
            )
            assert one.score == pytest.approx(expected, abs=1e-4)
            kinds.add(one.truncated)
    assert kinds == {True, False}


@pytest.mark.parametrize("alpha", [0.0, 1.2])
def test_a_beam_as_wide_as_the_space_finds_the_best_by_score(make_model, alpha):
    # An early end that loses something would show here: n_best 1 may stop as soon as nothing can win.
    model = make_model(vocab=6, bias={EOS: 1.0})
    moved = 0
    for src in ([4, 5, EOS], [3, 3, 5, 4, EOS]):
        ended, _ = everything(model, src, 4)
        made = [
            Output(
                list(ids),
                log_prob,
                log_prob / DecodeConfig(length_penalty=alpha).penalty(len(ids)) + formula(model, src, list(ids), 2.0),
                truncated=False,
            )
            for ids, log_prob in ended
        ]
        for n_best in (1, 5):
            options = DecodeConfig(beam=100, n_best=n_best, length_penalty=alpha, coverage_penalty=2.0)
            found = beam_search(model, padded([src]), [4], options)[0]
            assert_same(found, sorted(made, key=lambda one: -one.score)[:n_best])
        plain = beam_search(model, padded([src]), [4], DecodeConfig(beam=100, length_penalty=alpha))[0]
        moved += plain[0].ids != found[0].ids
    assert moved, "coverage decided something"


def test_a_batch_is_its_sentences_alone(make_model):
    model = make_model(bias={EOS: 0.7})
    options = DecodeConfig(beam=3, n_best=2, coverage_penalty=0.5)
    for src, limit, found in zip(SENTENCES, LIMITS, beam_search(model, padded(SENTENCES, 1), LIMITS, options), strict=True):  # fmt: skip
        assert_same(found, beam_search(model, padded([src]), [limit], options)[0])


def test_a_trace_outside_is_whole_and_its_edits_are_heard(make_model):
    model = make_model(bias={EOS: 0.7})
    plain, with_coverage = (DecodeConfig(beam=3, coverage_penalty=beta) for beta in (0.0, 0.5))
    untraced = beam_search(model, padded(SENTENCES), LIMITS, with_coverage)
    with tracing(model) as trace:
        traced = beam_search(model, padded(SENTENCES), LIMITS, with_coverage)
    assert traced == untraced
    with tracing(model, only="decoder.*") as reference:
        beam_search(model, padded(SENTENCES[:1]), LIMITS[:1], plain)
    with tracing(model, only="decoder.*") as again:
        beam_search(model, padded(SENTENCES[:1]), LIMITS[:1], DecodeConfig(beam=3, coverage_penalty=1e-30))
    assert [step.address for step in again] == [step.address for step in reference]
    assert all(torch.equal(one.value, other.value) for one, other in zip(again, reference, strict=True))
    heard = [step.value for step in trace if step.address == "search.attention"]
    weights = [step.value for step in trace if step.address == "decoder.layers.1.cross_attention.weights"]
    assert len(heard) == len(weights) > 2
    assert all(torch.equal(one, other[:, :, -1].mean(1)) for one, other in zip(heard, weights, strict=True))
    with tracing(model, {"decoder.layers.1.cross_attention.weights": lambda value: torch.full_like(value, 0.25)}):
        edited = beam_search(model, padded(SENTENCES[:1]), [2], DecodeConfig(beam=1, coverage_penalty=1.0))[0][0]
    penalty = edited.score - edited.log_prob / DecodeConfig(length_penalty=0.6).penalty(len(edited.ids))
    assert penalty == pytest.approx(5 * math.log(0.25 * len(edited.ids)), abs=1e-5)


def test_a_kernel_steps_aside_and_steps_that_keep_no_attention_are_refused(make_model):
    model = make_model()
    options = DecodeConfig(coverage_penalty=0.2)
    with pytest.raises(ConfigError, match="Make the steps with these options"):
        run_beam_search(DecoderSteps(model, padded(SENTENCES)), SearchJob(SENTENCES, LIMITS, options))
    model = make_model(bias={EOS: 0.7})
    options = DecodeConfig(beam=3, coverage_penalty=0.5)
    expected = beam_search(model, padded(SENTENCES), LIMITS, options)
    model.use_fused_attention()
    for one, other in zip(beam_search(model, padded(SENTENCES), LIMITS, options), expected, strict=True):
        assert_same(one, other)
