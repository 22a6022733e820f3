"""A training whose power is cut, on a real file system: the same command leads to the same weights."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from power_cut import Disk, Trainer

from glassformer.checkpoint import checkpoints
from glassformer.settings import RunConfig

CUTS = int(os.environ.get("POWER_CUTS", "6"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        found = Disk(tmp_path)
        found.format()
    except OSError as error:
        pytest.skip(f"no file system can be mounted from a loop device here: {error}")
    yield found
    found.unmount()


def last_weights(run: Path) -> bytes:
    return (checkpoints(run / "latest")[-1] / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_training_whose_power_is_cut_goes_on_to_the_same_weights(
    disk: Disk, corpus: tuple[Path, Path], small_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    trainer = Trainer(corpus, small_config(max_updates=12, validate_every=4), tmp_path / "errors")
    run, random = disk.place / "runs" / "first", Random(5)
    length_s = trainer.train(run)
    whole = last_weights(run)
    for number in range(CUTS):
        disk.unmount()
        disk.format()
        delay_s = random.uniform(0, length_s)
        trainer.train_until_cut(run, disk, delay_s)
        disk.mount()
        trainer.train(run)
        assert last_weights(run) == whole, f"cut {number}, after {delay_s:.2f} s"
