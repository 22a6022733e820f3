"""Tasks are generated once for all tests that only read them."""

from collections.abc import Callable
from functools import cache

import pytest

from glassformer.tasks import Task, load_task


@cache
def _loaded(name: str, seed: int) -> Task:
    return load_task(name, seed=seed)


@pytest.fixture(scope="session")
def generated() -> Callable[..., Task]:
    """``generated(name, seed=1)``: a task that nobody may change."""

    def load(name: str, seed: int = 1) -> Task:
        return _loaded(name, seed)

    return load
