"""A few cells of a large grid that stand for all of it: any two values, or any three, meet in one of them."""

from itertools import combinations, product

Cell = tuple[int, ...]
Meeting = tuple[tuple[int, int], ...]  # an axis and a value of it, for each of some axes


def meetings(cell: Cell, strength: int) -> set[Meeting]:
    """Which values of ``strength`` axes meet in a cell."""
    return set(combinations(enumerate(cell), strength))


def covering_cells(sizes: list[int], strength: int = 2) -> list[Cell]:
    """Cells of a grid, each chosen because it holds the most meetings of ``strength`` values that are still missing."""
    cells: dict[Cell, set[Meeting]] = {cell: meetings(cell, strength) for cell in product(*map(range, sizes))}
    missing, chosen = set().union(*cells.values()), []
    while missing:
        chosen.append(max(cells, key=lambda cell: len(cells[cell] & missing)))
        missing -= cells[chosen[-1]]
    return chosen
