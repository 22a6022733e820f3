"""How many threads PyTorch uses: what is measured, and in which processes it is used."""

import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from glassformer import threads
from glassformer.cli import main
from glassformer.decoding import Translator
from glassformer.threads import fit_threads, keep_threads, may_choose, time_threads

OWN = {"OMP_NUM_THREADS": "4", "GLASSFORMER_THREADS": "4"}
Environment = Callable[[dict[str, str]], None]


@pytest.fixture(autouse=True)
def _kept_threads():
    with keep_threads():
        yield


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Make the variables that decide the number of threads these ones."""

    def become(values: dict[str, str]) -> None:
        for name in ("OMP_NUM_THREADS", "GLASSFORMER_THREADS", "TORCHELASTIC_RUN_ID", "LOCAL_WORLD_SIZE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return become


@pytest.fixture
def layer_takes(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, float]], None]:
    """Let the layer take so many seconds with each number of threads, on a clock that only it moves."""
    now = [0.0]

    def takes(seconds: dict[int, float]) -> None:
        def work() -> None:
            now[0] += seconds[torch.get_num_threads()]

        monkeypatch.setattr(threads, "_encoder_layer", lambda *_: work)
        monkeypatch.setattr(threads, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    return takes


def test_all_one_less_and_halves_are_measured_but_no_single_thread(small_config, layer_takes):
    layer_takes({})
    assert list(time_threads(small_config(), 1, 64, 1.0)) == [1]
    seconds = {8: 0.5, 7: 0.125, 4: 0.25, 3: 0.75, 2: 2.0, 1: 4.0}
    layer_takes(seconds)
    torch.set_num_threads(3)
    assert time_threads(small_config(), 8, 64, 1.0) == seconds
    assert torch.get_num_threads() == 3


def test_the_layer_can_be_timed_for_every_choice_of_the_config(options, small_config):
    for choice in options:
        threads._encoder_layer(small_config(**choice, dropout=0.3), 32)()


def test_measuring_draws_no_random_number(small_config, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)  # two threads are slow where others use the cores
    before = torch.get_rng_state()
    seconds = time_threads(small_config(dropout=0.3), 2, 32, 0.0)
    assert min(seconds.values()) > 0
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(("variables", "expected"), [(OWN, 2), ({"OMP_NUM_THREADS": "4"}, 4), ({}, 4)])
def test_only_a_command_takes_the_fastest_number_and_only_where_nobody_has_named_one(
    variables, expected, environment, small_model, layer_takes
):
    environment(variables)
    layer_takes({4: 0.25, 3: 0.25, 2: 0.125, 1: 0.25})
    torch.set_num_threads(4)
    fit_threads(small_model())
    assert torch.get_num_threads() == expected


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_opening_a_model_of_pytorch_lets_a_command_choose(engine, environment, layer_takes):
    environment(OWN)
    layer_takes({4: 0.25, 3: 0.125, 2: 0.25, 1: 0.25})
    torch.set_num_threads(4)
    assert Translator.load(engine=engine).models
    assert torch.get_num_threads() == 3


TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "3", "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    ("variables", "number", "ours"),
    [
        ({}, "8", True),
        ({"OMP_NUM_THREADS": "5"}, "5", False),
        ({"OMP_NUM_THREADS": "1"}, "1", False),
        (TORCHRUN, "2", True),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "16"}, "1", True),
        (TORCHRUN | {"OMP_NUM_THREADS": "5"}, "5", False),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "1"}, "1", False),
        (OWN, "4", True),
        (OWN | {"OMP_NUM_THREADS": "2"}, "2", False),
    ],
)
def test_a_command_takes_its_share_of_the_cores_unless_a_person_has_named_a_number(
    variables, number, ours, environment, monkeypatch
):
    """torchrun names 1 by itself when it starts several processes on a machine."""
    monkeypatch.setattr("glassformer.text.corpus.workers.available_cores", lambda: 8)
    monkeypatch.setenv("GOMP_SPINCOUNT", "10000")
    environment(variables)
    assert not may_choose() or variables == OWN
    main._share_the_machine()
    assert os.environ["OMP_NUM_THREADS"] == number
    assert may_choose() == ours
