"""Attention on numbers worked out elsewhere, and on rows that may attend to nothing."""

import math

import pytest
import torch

from glassformer.model.attention import MultiHeadAttention, mask_scores, merge_heads, softmax, split_heads
from glassformer.model.masks import Mask
from glassformer.model.positions import Positions
from glassformer.settings import ModelConfig

# Sentence 0, head 0 of a published walk through multi-head attention (d_model 8, 2 heads, d_k 4): the scaled
# scores of four tokens of which the last is padding, and the weights printed after masking and softmax.
PRINTED_SCORES = [
    [0.0837, -0.6469, 0.5353, 0.0846],
    [-0.3182, 0.1519, 0.0024, 0.0136],
    [0.0844, 0.2953, -0.4188, 0.0746],
    [0.1109, -0.1928, 0.1204, -0.0145],
]
PRINTED_WEIGHTS = [
    [0.3276, 0.1578, 0.5146, 0.0000],
    [0.2514, 0.4022, 0.3464, 0.0000],
    [0.3522, 0.4349, 0.2129, 0.0000],
    [0.3640, 0.2686, 0.3674, 0.0000],
]
LAST_IS_PADDING = torch.tensor([True, True, True, False]).view(1, 1, 1, 4)


@pytest.fixture
def golden_attention(small_config) -> MultiHeadAttention:
    """Attention with one head of d_k 4 and d_v 2, as both worked examples have."""
    return MultiHeadAttention(small_config(n_heads=1, d_k=4, d_v=2), uses_positions=False)


def test_the_printed_scores_lead_to_the_printed_weights():
    scores = torch.tensor(PRINTED_SCORES).view(1, 1, 4, 4).masked_fill(~LAST_IS_PADDING, -math.inf)
    weights = softmax(mask_scores(scores, Mask.from_visible(LAST_IS_PADDING)), Mask.from_visible(LAST_IS_PADDING))
    torch.testing.assert_close(weights[0, 0], torch.tensor(PRINTED_WEIGHTS), rtol=0, atol=1e-4)
    assert torch.count_nonzero(weights[..., 3]) == 0, "padding has no weight at all, not a small one"


def test_the_printed_weights_come_out_of_equation_1_as_a_whole(golden_attention):
    """With the identity as keys and 2 x the printed scores as queries, q kT / sqrt(4) is what was printed."""
    q, k = 2 * torch.tensor(PRINTED_SCORES).view(1, 1, 4, 4), torch.eye(4).view(1, 1, 4, 4)
    v = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [99.0, 99.0]]).view(1, 1, 4, 2)
    heads = golden_attention.attend(q, k, v, Mask.from_visible(LAST_IS_PADDING))
    torch.testing.assert_close(heads[0, 0], torch.tensor(PRINTED_WEIGHTS)[:, :2], rtol=0, atol=1e-4)


def test_four_rows_of_weights_mix_four_values_as_worked_by_hand(golden_attention):
    """The 4 x 4 by 4 x 2 example: softmax undoes the logarithm, so these weights are reached by equation 1."""
    weights = torch.tensor(
        [[0.7, 0.1, 0.1, 0.1], [0.2, 0.5, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25], [0.4, 0.1, 0.4, 0.1]]
    )
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    q, k = (2 * weights.log()).view(1, 1, 4, 4), torch.eye(4).view(1, 1, 4, 4)
    heads = golden_attention.attend(
        q, k, values.view(1, 1, 4, 2), Mask.from_visible(torch.ones(1, 1, 1, 4, dtype=torch.bool))
    )
    by_hand = [[0.8, 0.4], [0.4, 0.9], [0.5, 1.0], [0.8, 0.7]]
    torch.testing.assert_close(heads[0, 0], torch.tensor(by_hand))


def test_splitting_and_merging_heads_undo_each_other_and_keep_columns_together():
    x = torch.arange(2 * 5 * 21.0).view(2, 5, 21)
    heads = split_heads(x, 3)
    assert heads.shape == (2, 5, 3, 7)
    assert torch.equal(heads[:, :, 1], x[:, :, 7:14])
    assert torch.equal(merge_heads(heads), x)


@pytest.mark.parametrize("positions", ModelConfig.choices("positions"))
def test_a_query_that_may_attend_to_nothing_gets_zeros_forward_and_backward(positions, small_config):
    attention = MultiHeadAttention(small_config(positions=positions, d_v=7), uses_positions=True)
    q, k, v = (torch.randn(2, 3, 5, width, requires_grad=True) for width in (10, 10, 7))
    mask = torch.rand(2, 1, 5, 5) < 0.5
    mask[..., 0] = True
    mask[0, :, 3] = False
    heads = attention.attend(q, k, v, Mask.from_visible(mask), Positions.from_length(5, q.device))
    assert torch.count_nonzero(heads[0, :, 3]) == 0
    heads.square().sum().backward()
    for gradient in (q.grad, k.grad, v.grad):
        assert gradient.isfinite().all()
        assert torch.count_nonzero(gradient) > 0
    assert torch.count_nonzero(q.grad[0, :, 3]) == 0


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_an_empty_row_survives_a_search_for_nan_gradients(small_config):
    """Someone hunting NaN with detect_anomaly must not be sent to the softmax of a padded source."""
    attention = MultiHeadAttention(small_config(), uses_positions=False)
    q, k, v = (torch.randn(1, 3, 2, 10, requires_grad=True) for _ in range(3))
    with torch.autograd.detect_anomaly():
        attention.attend(q, k, v, Mask.from_visible(torch.zeros(1, 1, 1, 2, dtype=torch.bool))).sum().backward()


def test_values_that_are_masked_out_cannot_leak_however_large(small_config):
    attention = MultiHeadAttention(small_config(), uses_positions=False)
    q, k, v = (torch.randn(1, 3, 5, 10) for _ in range(3))
    mask = torch.tensor([True, True, True, False, False]).view(1, 1, 1, 5)
    before = attention.attend(q, k, v, Mask.from_visible(mask))
    k[:, :, 3:], v[:, :, 3:] = 1e30, 1e30
    assert torch.equal(attention.attend(q, k, v, Mask.from_visible(mask)), before)
