"""A few cells of a large grid that stand for all of it: a sample, or those in which any two values meet, or any three.

``make slow FULL=1`` runs the whole grids.
"""

import os
from collections.abc import Iterable
from itertools import combinations, product
from random import Random
from typing import TypeVar

import pytest

FULL = os.environ.get("FULL") == "1"
only_full = pytest.mark.skipif(not FULL, reason="make slow FULL=1")

Case = TypeVar("Case")

Cell = tuple[int, ...]
Meeting = tuple[tuple[int, int], ...]  # an axis and a value of it, for each of some axes


def meetings(cell: Cell, strength: int) -> set[Meeting]:
    """Which values of ``strength`` axes meet in a cell."""
    return set(combinations(enumerate(cell), strength))


def sample(cases: Iterable[Case], count: int) -> list[Case]:
    """So many cases of a grid, each time the same and in their order; with FULL=1 all of them."""
    every = list(cases)
    if FULL or count >= len(every):
        return every
    return [every[place] for place in sorted(Random(7919).sample(range(len(every)), count))]


def covering_cells(sizes: list[int], strength: int = 2) -> list[Cell]:
    """Cells of a grid, each chosen because it holds the most meetings of ``strength`` values that are still missing."""
    cells: dict[Cell, set[Meeting]] = {cell: meetings(cell, strength) for cell in product(*map(range, sizes))}
    missing, chosen = set().union(*cells.values()), []
    while missing:
        chosen.append(max(cells, key=lambda cell: len(cells[cell] & missing)))
        missing -= cells[chosen[-1]]
    return chosen
