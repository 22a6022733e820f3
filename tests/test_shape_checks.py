"""The tests check the shapes that the model's signatures promise, also where like calls are not checked again."""

import re
from functools import partial
from itertools import combinations, product
from pathlib import Path

import covering
import pytest
import torch
from beartype import beartype
from covering import covering_cells, sample
from jaxtyping import Float, TypeCheckError
from shape_checks import check_once
from torch import Tensor

from glassformer import model
from glassformer.model.masks import padding_mask


@partial(check_once, typechecker=beartype)
def row_sums(x: Float[Tensor, "row column"]) -> Float[Tensor, "row"]:
    return x.sum(dim=1)[x[:, 0] > 0]  # which rows are lost depends on the values, not on the form


@partial(check_once, typechecker=beartype)
def products(x: Float[Tensor, "row inner"], y: Float[Tensor, "inner column"]) -> Float[Tensor, "row column"]:
    return x @ y if x[0, 0] > 0 else y


def test_a_call_of_a_form_that_has_not_passed_and_every_result_is_checked():
    for _ in range(2):
        assert torch.equal(row_sums(torch.ones(3, 2)), torch.full((3,), 2.0))
        for odd in (torch.ones(3), torch.ones(3, 2, 1), torch.ones(3, 2, dtype=torch.int64), [1.0]):
            with pytest.raises(TypeCheckError, match="parameters"):
                row_sums(odd)
    for _ in range(2):
        assert len(row_sums(torch.ones(3, 2))) == 3
        with pytest.raises(TypeCheckError, match="return value"):
            row_sums(torch.tensor([[1.0, 2.0], [-1.0, 0.0], [3.0, 4.0]]))


def test_other_sizes_are_checked_if_others_of_them_are_equal() -> None:
    for rows, inner, columns in [(2, 3, 4), (5, 6, 7), (2, 3, 2), (5, 5, 5), (1, 3, 4), (3, 1, 1)]:
        assert products(torch.ones(rows, inner), torch.ones(inner, columns)).shape == (rows, columns)
        with pytest.raises(TypeCheckError, match="parameters"):
            products(torch.ones(rows, inner), torch.ones(inner + 6, columns))
        if rows != inner:
            with pytest.raises(TypeCheckError, match="return value"):
                products(-torch.ones(rows, inner), torch.ones(inner, columns))


def test_annotations_of_the_model_are_names_or_1() -> None:
    """A sum of names, or another number, would need the sizes themselves."""
    for path in Path(model.__file__).parent.glob("*.py"):
        for shape in re.findall(r'Tensor, "([^"]*)"', path.read_text()):
            assert all(re.fullmatch(r"[*#]?[a-z_]+|1", axis) for axis in shape.split()), (path, shape)


def test_the_model_is_checked() -> None:
    assert padding_mask(torch.tensor([[5, 0]]), 0).tolist() == [[[[True, False]]]]
    with pytest.raises(TypeCheckError, match="parameters"):
        padding_mask(torch.tensor([5, 0]), 0)


SIZES = [2, 5, 3, 4]


@pytest.mark.parametrize(("strength", "most"), [(1, 5), (2, 25), (3, 75), (4, 120)])
def test_values_of_any_axes_meet_in_one_of_a_few_cells(strength, most):
    cells = covering_cells(SIZES, strength)
    for axes in combinations(range(len(SIZES)), strength):
        met = {tuple(cell[axis] for axis in axes) for cell in cells}
        assert met == set(product(*(range(SIZES[axis]) for axis in axes)))
    assert len(cells) == len(set(cells)) <= most
    assert cells == covering_cells(SIZES, strength), "the same cells each time"


def test_a_sample_is_the_same_each_time_and_whole_where_all_is_asked_for(monkeypatch):
    monkeypatch.setattr(covering, "FULL", False)
    assert len(set(sample(range(50), 6))) == 6
    assert sample(range(50), 6) == sorted(sample(range(50), 6))
    assert sample("abc", 9) == [*"abc"]
    monkeypatch.setattr(covering, "FULL", True)
    assert sample(range(50), 6) == [*range(50)]
