"""The filters by hand and as properties, held to a plain statement of each."""

import math

import numpy as np
import pytest
import torch
from filter_values import FILTER_VALUES
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding.search.filters import PROCESSORS, SAMPLING_FILTERS, filter_log_probs, keep_typical_p
from glassformer.explain.entries.rule_entries import PROCESSOR_EQUATIONS
from glassformer.explain.entries.sampling_entries import FILTER_EQUATIONS
from glassformer.settings import DecodeConfig

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
