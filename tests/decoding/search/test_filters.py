"""The filters by hand and as properties, and what is drawn through them, held to a plain statement of each."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from filter_values import FILTER_VALUES
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding import SearchJob, sample
from glassformer.decoding.search.filters import PROCESSORS, SAMPLING_FILTERS, filter_log_probs, keep_typical_p
from glassformer.decoding.search.steps import DecoderSteps
from glassformer.explain.entries.rule_entries import PROCESSOR_EQUATIONS
from glassformer.explain.entries.sampling_entries import FILTER_EQUATIONS
from glassformer.settings import DecodeConfig

PAD, BOS, EOS = 0, 1, 2
SOURCE = [7, 4, 9, 5, EOS]
VALUES = {"temperature": (0.6, 1.6), "top_k": (3,), "top_p": (0.8,), "min_p": (0.5,), "typical_p": (0.5,)}
FILTERS = [{one.setting: value} for one in SAMPLING_FILTERS for value in VALUES[one.setting]]
FILTERS += [{"temperature": 1.3, "top_k": 6, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.8}]

shares = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=20)


def test_typical_p_by_hand():
    # The entropy of (1/2, 1/4, 1/8, 1/8) is 1.75 bits: 1/4, of 2 bits, is the most typical; 1/2, of 1 bit, is 0.75
    # away from what is expected, and the eighths, of 3 bits, are 1.25.
    log_probs = torch.tensor([0.125, 0.5, 0.125, 0.25]).log()
    expected = {0.0: [0, 0, 0, 1], 0.2: [0, 0, 0, 1], 0.3: [0, 2 / 3, 0, 1 / 3], 0.8: [1 / 7, 4 / 7, 0, 2 / 7]}
    for p, kept in expected.items():
        torch.testing.assert_close(keep_typical_p(log_probs, p).exp(), torch.tensor(kept, dtype=torch.float32))


@given(shares=shares, p=st.floats(0.0, 1.0))
def test_typical_p_keeps_the_smallest_typical_set_that_reaches_p(shares, p):
    log_probs = torch.tensor([*shares, 0.0]).log().log_softmax(-1)
    kept = keep_typical_p(log_probs, p) > -math.inf
    probabilities = log_probs.double().exp()
    distance = (log_probs + torch.special.entr(probabilities).sum()).abs()
    inside = probabilities[kept]
    assert not kept[-1]
    assert inside.sum() >= min(p, 1.0) - 1e-6
    furthest = distance[kept].max()
    assert (distance[~kept] >= furthest - 1e-9).all()
    assert inside.sum() - probabilities[kept & (distance == furthest)].sum() < p or len(inside) == 1


@given(shares=shares, options=st.sampled_from(FILTERS))
def test_every_filter_leaves_what_its_plain_statement_leaves(shares, options):
    log_probs = torch.tensor(shares, dtype=torch.float64).log().log_softmax(-1)
    expected = plainly_filtered(log_probs.exp().numpy(), DecodeConfig(**options))
    found = filter_log_probs(log_probs, DecodeConfig(**options)).exp()
    assert found.sum().item() == pytest.approx(1.0)
    if len(set(shares)) == len(shares) and found.count_nonzero() == np.count_nonzero(expected):  # no rounding decided
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)


def test_the_default_of_every_filter_changes_nothing_and_another_value_something():
    log_probs = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().log_softmax(-1)
    for setting, value in FILTER_VALUES.items():
        assert not torch.allclose(filter_log_probs(log_probs, DecodeConfig(**{setting: value})), log_probs), setting
    torch.testing.assert_close(filter_log_probs(log_probs, DecodeConfig()), log_probs)


def test_each_filter_is_restated_for_the_proof_of_a_trace():
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


def outcomes_of_two_steps(model, options: DecodeConfig) -> dict[tuple[int, ...], float]:
    """The probability of every output of at most two ids, each step filtered plainly."""

    def step(prefix: list[int]) -> np.ndarray:
        logits = model(torch.tensor([SOURCE]), torch.tensor([[BOS, *prefix]]))[0, -1]
        probabilities = logits.double().softmax(-1).numpy()
        probabilities[[PAD, BOS]] = 0
        return plainly_filtered(probabilities, options)

    found: dict[tuple[int, ...], float] = {}
    for first, share in enumerate(step([])):
        if first == EOS:
            found[first,] = share
        elif share:
            found |= {(first, second): share * other for second, other in enumerate(step([first]))}
    return {ids: share for ids, share in found.items() if share}


def chi_square_p_value(counts: Counter, expected: dict[tuple[int, ...], float]) -> float:
    """How probable it is to be as far from ``expected`` as ``counts`` are; outcomes seen less than 5 times join."""
    draws = counts.total()
    if set(counts) - set(expected):
        return 0.0
    common = [ids for ids, share in expected.items() if share * draws >= 5]
    observed = [*(counts[ids] for ids in common), draws - sum(counts[ids] for ids in common)]
    wanted = [*(expected[ids] * draws for ids in common), draws * (1 - sum(expected[ids] for ids in common))]
    cells = [(seen, want) for seen, want in zip(observed, wanted, strict=True) if want >= 1]
    statistic = sum((seen - want) ** 2 / want for seen, want in cells)
    freedom = torch.tensor((len(cells) - 1) / 2, dtype=torch.float64)
    return torch.special.gammaincc(freedom, torch.tensor(statistic / 2, dtype=torch.float64)).item()


def drawn_counts(model, options: DecodeConfig) -> Counter:
    """Outputs of at most two ids, as often as the real sampler draws each, 6,000 times."""
    steps = DecoderSteps.from_sources(model, torch.tensor([SOURCE] * 6), options)
    found = sample(steps, SearchJob([SOURCE] * 6, [2] * 6, options))
    return Counter(tuple(one.ids) for candidates in found for one in candidates)


@pytest.mark.slow
def test_samples_are_as_frequent_as_the_filters_say_and_no_other_filter_says(make_model):
    model = make_model(bias={EOS: 0.5})
    model.output_projection.linear.weight *= 0.15  # so that each filter leaves several
    settings = [DecodeConfig(sample=True, n_best=1000, seed=11, **options) for options in FILTERS]
    expected = [outcomes_of_two_steps(model, options) for options in settings]
    assert min(map(len, expected)) > 5
    for number, options in enumerate(settings):
        counts = drawn_counts(model, options)
        values = [chi_square_p_value(counts, one) for one in expected]
        assert values.pop(number) > 1e-3, FILTERS[number]
        assert max(values) < 1e-9, FILTERS[number]
