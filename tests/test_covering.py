"""What stands for a grid holds every meeting of its values."""

from itertools import combinations, product

import covering
import pytest
from covering import covering_cells, sample

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
