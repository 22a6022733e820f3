"""Tasks are generated once for all tests that only read them."""

from collections.abc import Callable
from functools import cache

import pytest

from glassformer.tasks import Task, load_task


@cache
def _load_cached(name: str, seed: int) -> Task:
    return load_task(name, seed=seed)


@pytest.fixture(scope="session")
def get_task() -> Callable[..., Task]:
    """``get_task(name, seed=1)``: a task that a test must not change."""

    def load(name: str, seed: int = 1) -> Task:
        return _load_cached(name, seed)

    return load
