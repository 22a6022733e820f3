"""The number of threads of a training: chosen at its start, chosen again when it is slow, kept in its checkpoints."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from recorded import Lines

from glassformer.checkpoint import checkpoints, read_tensors
from glassformer.errors import RunError
from glassformer.settings import RunConfig
from glassformer.threads import keep_threads
from glassformer.training.loop import cpu
from glassformer.training.loop.cpu import SpeedWatch, TrainingThreads
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
            TrainingThreads(small_config(**settings), world, lines).choose(saved)
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


class TestTheSpeed:
    """Fed as the training does after each update: here an update is 100 tokens, at a speed that the test chooses."""

    @pytest.fixture
    def run(self) -> Callable[..., list[tuple[int, str]]]:
        watch, now = SpeedWatch(), [0.0, 0]

        def run(minutes: float, speed: float, *, few: bool = False) -> list[tuple[int, str]]:
            """Train on; for each reason to measure, in which second of this stretch it was there."""
            found, start = [], now[0]
            while now[0] < start + 60 * minutes:
                now[0] += 100 / speed
                now[1] += 100
                if reason := watch.reason(now[0], int(now[1]), few=few):
                    found.append((round(now[0] - start), reason))
            return found

        return run

    def test_a_minute_below_0_7_of_the_median_is_a_reason(self, run):
        assert run(10, 1000.0) == []
        assert run(5, 710.0) == []
        ((second, reason),) = run(1.5, 690.0)
        assert reason == "for a minute the speed was below 0.7 of its median"
        assert 50 <= second <= 70

    def test_shorter_pauses_are_none(self, run):
        """A validation, or a laptop that was closed for a night."""
        for _ in range(20):
            assert run(2, 1000.0) == []
            assert run(0.7, 100.0) == []
        assert run(1, 1000.0) == []
        assert run(1 / 60, 100 / (8 * 3600)) == []
        assert run(5, 1000.0) == []

    def test_a_slow_machine_is_measured_once_and_its_speed_is_the_usual_one_from_then_on(self, run):
        run(5, 1000.0)
        assert len(run(300, 500.0)) == 1

    def test_a_machine_that_changes_all_the_time_is_measured_ever_more_rarely(self, run):
        turns = [turn for turn in range(60) if run(9, 1000.0) + run(3, 300.0)]  # of twelve minutes
        assert turns[0] == 0
        assert len(turns) > 10
        gaps = [after - before for before, after in pairwise(turns)]
        assert min(gaps[4:]) == 3

    def test_with_few_threads_it_is_measured_again_after_10_20_and_40_minutes(self, run):
        found = run(200, 1000.0, few=True)
        minutes = [round(second / 60) for second, _ in found]
        assert minutes == pytest.approx([10, 30, 70, 150], abs=1)
        assert {reason for _, reason in found} == {"a core may be free again"}


class TestDuringATraining:
    @pytest.fixture
    def threads(self, measured: Measure, small_config: MakeConfig, lines: Lines) -> TrainingThreads:
        """Those of a training that began with 4."""
        threads = TrainingThreads(small_config(), ALONE, lines)
        threads.choose(4)
        threads._watch.reason = lambda *_, few: "why"
        return threads

    def test_a_number_that_is_much_faster_is_taken_and_said(self, threads, measured, lines):
        measured({4: 0.5, 1: 0.2})
        assert threads.choose_again(60.0, 500, 7)
        assert torch.get_num_threads() == 1
        assert (
            lines.lines[-1]
            == "Threads: 1 instead of 4 from update 8 on, 2.5 times as fast now; measured because why."
        )

    def test_one_that_is_little_faster_is_not(self, threads, measured, lines):
        measured({4: 0.24, 1: 0.2})
        assert not threads.choose_again(60.0, 500, 7)
        assert torch.get_num_threads() == 4
        assert lines.lines[-1] == "Threads: still 4, no other number is much faster now; measured because why."

    @pytest.mark.parametrize("settings", [{"threads": 3}, {}])
    def test_a_number_that_a_person_has_named_is_never_measured(self, settings, small_config, lines, monkeypatch):
        monkeypatch.setattr(cpu, "_are_given", lambda: True)
        threads = TrainingThreads(small_config(**settings), ALONE, lines)
        threads.choose(None)
        threads._watch.reason = lambda *_, few: "why"
        assert not threads.choose_again(60.0, 500, 7)


class Recorder(Lines):
    """The number of threads of each update; a signal after one of them, or a crash before anything is saved."""

    def __init__(self, *, stop_after: int = 0, crash_after: int = 0) -> None:
        super().__init__()
        self.threads: dict[int, int] = {}
        self._stop, self._crash = stop_after, crash_after

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        self.threads[progress.update] = torch.get_num_threads()
        if progress.update == self._stop:
            os.kill(os.getpid(), signal.SIGTERM)
        if progress.update == self._crash:
            raise RunError("crash")


@pytest.mark.slow
def test_after_a_stop_and_after_a_crash_each_update_has_the_threads_that_it_had(
    corpus: tuple[Path, Path], small_config: MakeConfig, tmp_path: Path, measured: Measure, monkeypatch
) -> None:
    """It begins with two threads and from update 8 on has one; the weights at the end are the same, bit for bit."""
    torch.set_num_threads(2)
    config, source = small_config(max_updates=12, validate_every=6), FileSource(*corpus)

    def start(run: str, recorder: Recorder, *, changes: bool) -> dict[int, int]:
        def measure_before_update_8(watch: SpeedWatch, elapsed_s: float, tokens: int, *, few: bool) -> str:
            measured({2: 0.5, 1: 0.1})
            return "why" if changes and len(recorder.threads) == 7 else ""

        monkeypatch.setattr(SpeedWatch, "reason", measure_before_update_8)
        measured({2: 0.1, 1: 0.5})
        with suppress(RunError):  # the crash
            train(TrainRequest(tmp_path / run, source, config), recorder)
        assert torch.get_num_threads() == 2  # as before the training
        return recorder.threads

    whole = start("whole", Recorder(), changes=True)
    assert whole == dict.fromkeys(range(1, 8), 2) | dict.fromkeys(range(8, 13), 1)
    parts = [
        start(
            "cut", Recorder(crash_after=9), changes=True
        ),  # all that is saved is of update 7, where the number changed
        start("cut", Recorder(stop_after=10), changes=False),
        start("cut", Recorder(), changes=False),
    ]
    assert [min(part) for part in parts] == [1, 8, 11]
    for part in parts:
        assert part == {update: whole[update] for update in part}
    one, other = (read_tensors(checkpoints(tmp_path / run / "latest")[-1], "model") for run in ("whole", "cut"))
    assert all(torch.equal(one[name], other[name]) for name in one)
