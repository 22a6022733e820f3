"""The number of threads of a training: chosen at its start, kept in its checkpoints."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest
import torch
from recorded import Lines

from glassformer.checkpoint import checkpoints, read_tensors
from glassformer.settings import RunConfig
from glassformer.threads import keep_threads
from glassformer.training.loop import cpu
from glassformer.training.loop.cpu import choose_threads
from glassformer.training.reporting.run_log import TrainProgress
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train
from glassformer.world import ALONE, World

MakeConfig = Callable[..., RunConfig]
Measure = Callable[[dict[int, float]], None]


@pytest.fixture(autouse=True)
def _four_threads() -> Iterator[None]:
    with keep_threads():
        torch.set_num_threads(4)
        yield


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Nobody has named a number, and a layer takes so many seconds with each."""
    monkeypatch.setattr(cpu, "_are_given", lambda: False)

    def become(seconds: dict[int, float]) -> None:
        monkeypatch.setattr(cpu, "time_threads", lambda *_: seconds)

    return become


class TestAtTheStart:
    @pytest.fixture
    def chosen(self, small_config: MakeConfig, lines: Lines) -> Callable[..., tuple[int, list[str]]]:
        """The number that is chosen, and what is said of it."""

        def choose(saved: int | None = None, world: World = ALONE, **settings: object) -> tuple[int, list[str]]:
            choose_threads(small_config(**settings), world, lines, saved)
            return torch.get_num_threads(), lines.lines

        return choose

    def test_the_fastest_number_is_taken(self, measured, chosen):
        measured({4: 0.4, 3: 0.2, 2: 0.1, 1: 0.3})
        assert chosen() == (2, ["Threads: 2, the fastest number up to 4 now."])

    def test_a_single_core_has_one_thread(self, chosen, monkeypatch):
        monkeypatch.setattr(cpu, "_are_given", lambda: False)
        torch.set_num_threads(1)
        assert chosen() == (1, ["Threads: 1, the fastest number up to 1 now."])

    def test_the_number_of_the_checkpoint_is_taken(self, measured, chosen):
        measured({})
        assert chosen(saved=3) == (3, ["Threads: 3, as in the checkpoint."])

    def test_a_number_that_the_machine_does_not_have_is_not_taken(self, measured, chosen):
        measured({4: 0.1, 3: 0.2, 2: 0.3, 1: 0.4})
        number, said = chosen(saved=64)
        assert number == 4
        assert said[1] == "Saved with 64 threads, now 4: results may differ in the last bits."

    def test_a_number_in_the_settings_comes_first(self, measured, chosen):
        measured({})
        number, said = chosen(saved=3, threads=2)
        assert number == 2
        assert said[0] == "Threads: 2, as train.threads says."
        assert "Saved with 3 threads, now 2" in said[1]

    @pytest.mark.parametrize("variable", ["5", None])
    def test_the_number_of_a_person_is_left_as_it_is(self, chosen, variable, monkeypatch):
        """By OMP_NUM_THREADS, or by set_num_threads after the import."""
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(cpu, "_AT_IMPORT", 9)
        if variable:
            monkeypatch.setenv("OMP_NUM_THREADS", variable)
            monkeypatch.setattr(cpu, "_AT_IMPORT", 4)
        number, said = chosen()
        assert number == 4
        assert said == ["Threads: 4, as OMP_NUM_THREADS or torch.set_num_threads says."]

    def test_nobody_has_named_the_number_that_pytorch_had_at_the_import(self, monkeypatch):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(cpu, "_AT_IMPORT", 4)
        assert not cpu._are_given()

    def test_of_several_processes_all_take_what_is_fastest_for_the_slowest(self, measured, chosen):
        class Two(World):
            def all_gather(self, *values: float) -> list[list[float]]:
                other = [2, False] if len(values) == 2 and values[1] is False else [0.9, 0.3]
                return [list(values), other]

        measured({1: 0.2, 2: 0.4})
        number, said = chosen(world=Two())
        assert number == 2
        assert said == ["Threads: 2, the fastest number up to 2 now."]


class Recorder(Lines):
    """The number of threads of each update; a signal after one of them."""

    def __init__(self, *, stop_after: int = 0) -> None:
        super().__init__()
        self.threads: dict[int, int] = {}
        self._stop = stop_after

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        self.threads[progress.update] = torch.get_num_threads()
        if progress.update == self._stop:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow
def test_after_a_stop_each_update_has_the_threads_that_it_had(corpus, small_config, tmp_path, measured):
    """It begins with one thread; when it goes on two would be faster. The weights are the same, bit for bit."""
    torch.set_num_threads(2)
    config, source = small_config(max_updates=12, validate_every=6), FileSource(*corpus)

    def start(run: str, recorder: Recorder) -> dict[int, int]:
        train(TrainRequest(tmp_path / run, source, config), recorder)
        assert torch.get_num_threads() == 2  # as before the training
        return recorder.threads

    measured({2: 0.5, 1: 0.1})
    assert start("whole", Recorder()) == dict.fromkeys(range(1, 13), 1)
    assert start("cut", Recorder(stop_after=8)) == dict.fromkeys(range(1, 9), 1)
    measured({2: 0.1, 1: 0.5})
    assert start("cut", Recorder()) == dict.fromkeys(range(9, 13), 1)
    one, other = (read_tensors(checkpoints(tmp_path / run / "latest")[-1], "model") for run in ("whole", "cut"))
    assert all(torch.equal(one[name], other[name]) for name in one)
