"""The recommendation of a number of threads."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from recorded import Lines

from glassformer.settings import RunConfig
from glassformer.training.loop import cpu
from glassformer.training.loop.cpu import ThreadAdvice, recommend_threads, use_threads
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

MakeConfig = Callable[..., RunConfig]
WIDTHS = (8, 16)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, float]], None]:
    """Let the measured work take, for each number of cpu, these seconds."""

    def takes(seconds: dict[int, float]) -> None:
        monkeypatch.setattr(cpu, "_feed_forward", lambda *_: time.sleep(seconds[torch.get_num_threads()]))
        monkeypatch.setattr(cpu, "_SECONDS", 0.0)

    return takes


@pytest.mark.slow
def test_the_fastest_number_of_threads_is_recommended(
    work: Callable[[dict[int, float]], None],
) -> None:
    work({4: 0.03, 3: 0.001, 2: 0.03, 1: 0.03})
    with use_threads(4):
        advice = recommend_threads(*WIDTHS)
        assert torch.get_num_threads() == 4
    assert advice is not None
    assert advice.threads == 3
    assert advice.speedup > 2


@pytest.mark.slow
def test_nothing_is_recommended_if_more_threads_are_faster(work: Callable[[dict[int, float]], None]) -> None:
    work({4: 0.001, 3: 0.03, 2: 0.03, 1: 0.03})
    with use_threads(4):
        assert recommend_threads(*WIDTHS) is None


def test_a_single_thread_is_not_measured(work: Callable[[dict[int, float]], None]) -> None:
    work({})
    assert recommend_threads(*WIDTHS) is None


def test_the_real_work_draws_no_random_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SECONDS", 0.0)
    before = torch.get_rng_state()
    with use_threads(2):
        recommend_threads(*WIDTHS)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("advice", [ThreadAdvice(1, 3.4), None])
def test_training_recommends_fewer_threads_on_a_busy_machine(
    corpus: tuple[Path, Path],
    small_config: MakeConfig,
    lines: Lines,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    advice: ThreadAdvice | None,
) -> None:
    monkeypatch.setattr("glassformer.training.train.recommend_threads", lambda *_: advice)
    train(TrainRequest(tmp_path / "run", FileSource(*corpus), small_config(max_updates=1)), lines)
    said = [line for line in lines.lines if "OMP_NUM_THREADS=1" in line and "3.4 times as fast" in line]
    assert len(said) == (1 if advice else 0)
