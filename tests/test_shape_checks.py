"""The tests check the shapes that the model's signatures promise, also where like calls are not checked again."""

from functools import partial

import pytest
import torch
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from shape_checks import check_once
from torch import Tensor

from glassformer.model.masks import padding_mask


@partial(check_once, typechecker=beartype)
def row_sums(x: Float[Tensor, "row column"]) -> Float[Tensor, "row"]:
    return x.sum(dim=1)[x[:, 0] > 0]  # which rows are lost depends on the values, not on the form


def test_a_call_of_a_form_that_has_not_passed_is_checked() -> None:
    for _ in range(2):
        assert torch.equal(row_sums(torch.ones(3, 2)), torch.full((3,), 2.0))
        for odd in (torch.ones(3), torch.ones(3, 2, 1), torch.ones(3, 2, dtype=torch.int64), [1.0]):
            with pytest.raises(TypeCheckError, match="parameters"):
                row_sums(odd)


def test_a_result_is_checked_where_the_arguments_have_passed() -> None:
    for _ in range(2):
        assert len(row_sums(torch.ones(3, 2))) == 3
        with pytest.raises(TypeCheckError, match="return value"):
            row_sums(torch.tensor([[1.0, 2.0], [-1.0, 0.0], [3.0, 4.0]]))


def test_the_model_is_checked() -> None:
    assert padding_mask(torch.tensor([[5, 0]]), 0).tolist() == [[[[True, False]]]]
    with pytest.raises(TypeCheckError, match="parameters"):
        padding_mask(torch.tensor([5, 0]), 0)
