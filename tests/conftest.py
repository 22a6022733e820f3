"""Seeds, and the small models that many tests share. Sizes differ from one another, so that exchanged axes show."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import jaxtyping
import pytest
import shape_checks
import torch

shape_checks.install()  # before the model is imported, which is when its functions are decorated

from covering import covering_cells  # noqa: E402
from small_models import AXES, options_of, shake, small_config  # noqa: E402

from glassformer.model import Transformer  # noqa: E402
from glassformer.settings import ModelConfig  # noqa: E402

SEED = 7919


def pytest_collection_finish() -> None:
    """What is imported by now is never garbage; looking through it after each 700 objects takes a sixth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Small tensors gain nothing from threads, and threads that wait for one another stall on a busy machine.

    Nor do they in the processes that tests start.
    """
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True)
def seed() -> int:
    """Every test starts from the same random state; the number seeds further generators.

    Of the CPU alone where there is no GPU: else ``torch.manual_seed`` notes where it was called, which takes longer
    than many a test.
    """
    (torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed)(SEED)
    return SEED


@pytest.fixture(scope="session")
def options() -> list[dict[str, Any]]:
    """Of ``every_option`` so many that any two choices meet."""
    return [options_of(cell) for cell in covering_cells([len(axis) for axis in AXES])]


@pytest.fixture(scope="session")
def every_option() -> list[dict[str, Any]]:
    """The grid: norm x positions x activation x three bundles of the other choices."""
    return [options_of(cell) for cell in product(*(range(len(axis)) for axis in AXES))]


@pytest.fixture(name="small_config")
def _small_config() -> Callable[..., ModelConfig]:
    return small_config


@pytest.fixture
def small_model() -> Callable[..., Transformer]:
    """``small_model(**changes)``: a small Transformer in eval mode, no parameter at its starting value."""

    def build(**changes: Any) -> Transformer:
        model = Transformer(small_config(**changes)).eval()
        shake(model)
        return model

    return build


@pytest.fixture
def src_ids() -> torch.Tensor:
    """Three sources, two of them padded on the right."""
    return torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0], [11, 2, 0, 0, 0]])


@pytest.fixture
def tgt_ids() -> torch.Tensor:
    """Three targets of seven positions."""
    return torch.tensor([[1, 3, 4, 5, 6, 7, 8], [1, 9, 10, 11, 2, 0, 0], [1, 12, 13, 14, 15, 16, 17]])


@pytest.fixture
def unchecked() -> Iterator[None]:
    """The model as users run it: without the shape checks of the test suite, which also hinder torch.compile."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
