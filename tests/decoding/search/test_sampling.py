import math

import numpy as np
import pytest
import torch
from filter_values import FILTER_VALUES
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.decoding import DecoderSteps, Output, SearchJob
from glassformer.decoding.search.filters import (
    PROCESSORS,
    SAMPLING_FILTERS,
    filter_log_probs,
    keep_top_k,
    keep_top_p,
    keep_typical_p,
)
from glassformer.decoding.search.sampling import draw_ids
from glassformer.decoding.search.search import search
from glassformer.errors import DivergedError
from glassformer.explain.entries.rule_entries import PROCESSOR_EQUATIONS
from glassformer.explain.entries.sampling_entries import FILTER_EQUATIONS
from glassformer.settings import DecodeConfig

PAD, BOS, EOS = 0, 1, 2
SENTENCES = [[7, 4, 9, 5, EOS], [3, EOS], [10, 10, 6, EOS], [8, 3, 5, 4, 6, 9, 7, EOS]]

shares = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=20)


def sample(model, src_ids: Tensor, limits: list[int], options: DecodeConfig, positions) -> list[list[Output]]:
    return search(DecoderSteps(model, src_ids, options), SearchJob(src_ids.tolist(), limits, options, positions))


def padded(sentences: list[list[int]]) -> Tensor:
    longest = max(map(len, sentences))
    return torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in sentences])


def log_of(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities).log()


def assert_frequencies(ids: list[int], log_probs: Tensor) -> None:
    """Each id as often as it is probable, within five standard deviations; an impossible one never."""
    expected = log_probs.double().exp().numpy()
    share = np.bincount(ids, minlength=len(expected)) / len(ids)
    deviation = np.sqrt(expected * (1 - expected) / len(ids))
    assert (np.abs(share - expected) <= 5 * deviation).all()


def test_top_k_by_hand():
    kept = keep_top_k(log_of(0.1, 0.4, 0.2, 0.3), 2).exp()
    torch.testing.assert_close(kept, torch.tensor([0.0, 4 / 7, 0.0, 3 / 7]))
    assert (keep_top_k(log_of(0.25, 0.25, 0.25, 0.25), 2) > -math.inf).sum() == 2


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.0, [0.0, 1.0, 0.0, 0.0]),
        (0.49, [0.0, 1.0, 0.0, 0.0]),
        (0.51, [0.0, 2 / 3, 0.0, 1 / 3]),
        (0.74, [0.0, 2 / 3, 0.0, 1 / 3]),
        (0.76, [1 / 7, 4 / 7, 0.0, 2 / 7]),
        (1.0, [0.125, 0.5, 0.125, 0.25]),
    ],
)
def test_top_p_by_hand(p, expected):
    # Of two equal tokens the first is taken.
    found = keep_top_p(log_of(0.125, 0.5, 0.125, 0.25), p).exp()
    torch.testing.assert_close(found, torch.tensor(expected))


@given(
    shares=shares,
    top_k=st.integers(0, 5),
    top_p=st.floats(0.0, 1.0),
    min_p=st.floats(0.0, 1.0),
    temperature=st.floats(1e-4, 100.0),
)
def test_what_remains_is_a_distribution_and_holds_the_best(shares, top_k, top_p, min_p, temperature):
    # As it comes from the model: padding is left out, so that the sum is below 1.
    log_probs = torch.cat([log_of(*shares).log_softmax(-1) - 0.1, torch.tensor([-math.inf])])
    options = DecodeConfig(sample=True, top_k=top_k, top_p=top_p, min_p=min_p, temperature=temperature)
    probabilities = filter_log_probs(log_probs, options).exp()
    assert probabilities.sum().item() == pytest.approx(1.0, abs=1e-5)
    assert probabilities[-1] == 0
    # Not exactly: a high temperature can round neighbours to equals.
    assert log_probs[probabilities.argmax()] >= log_probs.max() - 1e-3
    assert top_k == 0 or (probabilities > 0).sum() <= top_k


def test_draws_come_as_often_as_they_are_probable_up_to_the_ends_of_the_interval():
    log_probs = log_of(0.0, 0.5, 0.1, 0.0, 0.3, 0.1, 0.0)
    uniforms = torch.from_numpy(np.random.default_rng(5).random(20_000))
    assert_frequencies(draw_ids(log_probs.expand(20_000, -1), uniforms).tolist(), log_probs)
    log_probs = log_of(0.0, 0.3, 0.7, 0.0).expand(2, -1)
    assert draw_ids(log_probs, torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)).tolist() == [1, 2]


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.6}, {"top_k": 3}, {"top_p": 0.7}, {"min_p": 0.4, "temperature": 1.7}]
)
def test_first_ids_of_samples_follow_the_filtered_distribution(make_model, options):
    model = make_model()
    settings = DecodeConfig(sample=True, n_best=1000, seed=3, **options)
    found = sample(model, padded(SENTENCES), [1] * len(SENTENCES), settings, range(len(SENTENCES)))
    for src, candidates in zip(SENTENCES, found, strict=True):
        log_probs = model(torch.tensor([src]), torch.tensor([[BOS]]))[0, 0].log_softmax(-1)
        log_probs[[PAD, BOS]] = -math.inf
        assert_frequencies([one.ids[0] for one in candidates], filter_log_probs(log_probs, settings))
        for one in candidates[:5]:
            # By the model's own distribution, whatever the filters made of it.
            assert one.log_prob == pytest.approx(log_probs[one.ids[0]].item(), abs=1e-5)


def test_neighbours_and_order_change_nothing(make_model, positions):
    model = make_model(positions=positions, bias={EOS: 0.5})
    options = DecodeConfig(sample=True, n_best=3, seed=8, top_p=0.95)
    limits, places = [9, 4, 14, 1], [100, 7, 0, 31]
    together = sample(model, padded(SENTENCES), limits, options, places)
    for src, limit, place, found in zip(SENTENCES, limits, places, together, strict=True):
        alone = sample(model, padded([src]), [limit], options, [place])[0]
        assert [one.ids for one in found] == [one.ids for one in alone]
        assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in alone], abs=1e-5)


def test_seed_position_and_number_each_give_other_draws(make_model):
    model = make_model(bias={EOS: -30.0})

    def ids(seed: int, place: int) -> list[list[int]]:
        options = DecodeConfig(sample=True, n_best=2, seed=seed)
        return [one.ids for one in sample(model, padded([[5, EOS]]), [15], options, [place])[0]]

    first = ids(1, 0)
    assert first == ids(1, 0)
    assert first[0] != first[1]
    assert not {tuple(one) for one in first} & {tuple(one) for one in ids(2, 0) + ids(1, 1)}


def test_samples_are_sorted_cut_at_the_limit_and_add_up(make_model):
    model = make_model(bias={EOS: 0.5})
    options = DecodeConfig(sample=True, n_best=20, beam=1)
    (found,) = sample(model, padded(SENTENCES[:1]), [5], options, [0])
    assert {one.truncated for one in found} == {True, False}
    ranks = [(one.truncated, -one.score) for one in found]
    assert ranks == sorted(ranks)
    for one in found:
        assert (EOS in one.ids) != one.truncated
        assert one.ids.index(EOS) == len(one.ids) - 1 if EOS in one.ids else len(one.ids) == 5
        logits = model(torch.tensor(SENTENCES[:1]), torch.tensor([[BOS, *one.ids[:-1]]]))[0]
        log_probs = logits.log_softmax(-1)[range(len(one.ids)), one.ids]
        assert one.log_prob == pytest.approx(log_probs.sum().item(), abs=1e-4)


def test_logits_that_are_no_numbers_are_told(make_model):
    model = make_model()
    model.output_projection.linear.weight.fill_(math.nan)
    with pytest.raises(DivergedError, match="not finite"):
        sample(model, padded(SENTENCES), [4] * 4, DecodeConfig(sample=True), range(4))


VALUES = {"temperature": (0.6, 1.6), "top_k": (3,), "top_p": (0.8,), "min_p": (0.5,), "typical_p": (0.5,)}
FILTERS = [{one.setting: value} for one in SAMPLING_FILTERS for value in VALUES[one.setting]]
FILTERS += [{"temperature": 1.3, "top_k": 6, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.8}]


def test_typical_p_by_hand():
    # The entropy of (1/2, 1/4, 1/8, 1/8) is 1.75 bits: 1/4, of 2 bits, is the most typical; 1/2, of 1 bit, is 0.75
    # away from what is expected, and the eighths, of 3 bits, are 1.25.
    log_probs = torch.tensor([0.125, 0.5, 0.125, 0.25]).log()
    expected = {0.0: [0, 0, 0, 1], 0.2: [0, 0, 0, 1], 0.3: [0, 2 / 3, 0, 1 / 3], 0.8: [1 / 7, 4 / 7, 0, 2 / 7]}
    for p, kept in expected.items():
        torch.testing.assert_close(keep_typical_p(log_probs, p).exp(), torch.tensor(kept, dtype=torch.float32))


@given(shares=shares, options=st.sampled_from(FILTERS))
def test_every_filter_leaves_what_its_plain_statement_leaves(shares, options):
    log_probs = torch.tensor(shares, dtype=torch.float64).log().log_softmax(-1)
    expected = plainly_filtered(log_probs.exp().numpy(), DecodeConfig(**options))
    found = filter_log_probs(log_probs, DecodeConfig(**options)).exp()
    assert found.sum().item() == pytest.approx(1.0)
    if len(set(shares)) == len(shares) and found.count_nonzero() == np.count_nonzero(expected):  # no rounding decided
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)


def test_the_default_of_every_filter_changes_nothing_another_value_does_and_each_is_restated():
    log_probs = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().log_softmax(-1)
    for setting, value in FILTER_VALUES.items():
        assert not torch.allclose(filter_log_probs(log_probs, DecodeConfig(**{setting: value})), log_probs), setting
    torch.testing.assert_close(filter_log_probs(log_probs, DecodeConfig()), log_probs)
    assert list(FILTER_EQUATIONS) == [one.setting for one in SAMPLING_FILTERS]
    assert list(PROCESSOR_EQUATIONS) == [one.setting for one in PROCESSORS]


def plainly_filtered(probabilities: np.ndarray, options: DecodeConfig) -> np.ndarray:
    """What ``filtered`` should come to, said again with loops over ids."""

    def only(ids) -> np.ndarray:
        kept = np.zeros_like(probabilities)
        kept[ids] = probabilities[ids]
        return kept / kept.sum()

    def best_first() -> list[int]:
        return sorted(range(len(probabilities)), key=lambda one: -probabilities[one])

    def until(ids, p: float) -> list[int]:
        kept: list[int] = []
        while not kept or probabilities[kept].sum() < p:
            kept.append(ids[len(kept)])
        return kept

    def softened(temperature: float) -> np.ndarray:
        powers = probabilities ** (1 / temperature)
        return powers / powers.sum()

    def typical(p: float) -> np.ndarray:
        information = [-math.log(value) if value else math.inf for value in probabilities]
        entropy = sum(value * bits for value, bits in zip(probabilities, information, strict=True) if value)
        return only(until(sorted(range(len(probabilities)), key=lambda one: abs(information[one] - entropy)), p))

    plainly = {
        "temperature": softened,
        "top_k": lambda k: only(best_first()[:k]),
        "top_p": lambda p: only(until(best_first(), p)),
        "min_p": lambda share: only(
            [one for one, value in enumerate(probabilities) if value >= share * max(probabilities)]
        ),
        "typical_p": typical,
    }
    for one in SAMPLING_FILTERS:
        if one.is_active(options):
            probabilities = plainly[one.setting](getattr(options, one.setting))
    return probabilities
