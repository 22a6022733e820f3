"""Searches with static caches find what plain ones find, also where their passes are replayed without Python.

What a GPU does with a CUDA graph is imitated: the tensor operations of one pass are recorded, and repeated on the
same tensors. tests/test_gpu.py does it on a card.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from other_device import READS, SIZES, map_tensors
from small_models import BUNDLES, shake, small_config
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.decoding import Constraints, SearchJob
from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.decoding.search import cuda_graphs
from glassformer.decoding.search.cuda_graphs import Room, StaticDecoders
from glassformer.model import Transformer, checks
from glassformer.model.cuda_graphs import CudaGraphs, round_up
from glassformer.model.linears import Precision
from glassformer.settings import DecodeConfig, ModelConfig

SOURCES = [[5, 6, 7, 8, 2], [9, 4, 2], [10, 11, 12, 13, 14, 15, 2], [4, 2], [8, 2]]
LIMITS = [30, 9, 35, 14, 1]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "n_best": 2},
    "never early": {"beam": 3, "early_stopping": "never", "no_repeat_ngram": 2},
    "sampling": {"sample": True, "n_best": 3},
}
CONSTRAINTS = [
    Constraints(prefix=(6, 7)), Constraints(required=((7, 8),)), Constraints(), Constraints(banned=((5,),)),
    Constraints(prefix=(9,)),
]  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    **{positions: {"positions": positions} for positions in ModelConfig.choices("positions")},
    "pre-norm, nothing tied": {"norm": "pre", **BUNDLES[1]},
    "all tied": BUNDLES[0],
}


class RecordedPass(TorchDispatchMode):
    """The operations of a pass; a replay repeats them on the tensors that they had, and puts results where they were."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in READS | SIZES, f"{func}: a GPU cannot wait in a graph"
        results = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, results))
        return results

    def floats(self) -> list[Tensor]:
        """The results that are not whole numbers."""
        found: list[Tensor] = []
        map_tensors(found.append, [results for *_, results in self.operations])
        return [one for one in found if one.is_floating_point()]

    def replay(self) -> None:
        for func, args, kwargs, results in self.operations:
            before: list[Tensor] = []
            now: list[Tensor] = []
            map_tensors(before.append, results)
            map_tensors(now.append, func(*args, **kwargs))
            for there, here in zip(before, now, strict=True):
                if there.data_ptr() != here.data_ptr():  # neither a view nor written in place
                    there.copy_(here)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RecordedPass]]:
    """The passes that were captured; in the end there is one, or the test has shown nothing."""
    passes: list[RecordedPass] = []

    def capture(_: CudaGraphs, compute: Callable[[], Tensor], *, warm_up: int) -> Callable[[], Tensor]:
        for _number in range(warm_up):
            compute()
        with RecordedPass() as recorded:
            result = compute()
        passes.append(recorded)

        def replay() -> Tensor:
            recorded.replay()
            return result

        return replay

    monkeypatch.setattr(CudaGraphs, "capture", capture)
    monkeypatch.setattr(checks, "check_id_values", lambda *_: None)  # which looks at ids on a CPU alone
    yield passes
    assert passes


def make_model(**changes: Any) -> Transformer:
    torch.manual_seed(3)
    model = Transformer(small_config(**{"output_bias": True, "n_decoder_layers": 1, **changes})).eval()
    shake(model)
    return model


def compare(engine: TorchEngine, job: SearchJob) -> None:
    expected = engine.run(job)
    found = engine.run(replace(job, options=replace(job.options, cuda_graphs="on")))
    for of_source, others in zip(found.candidates, expected.candidates, strict=True):
        assert [one.ids for one in of_source] == [one.ids for one in others]
        assert_close([one.score for one in of_source], [one.score for one in others], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_searches(model: dict[str, Any], options: dict[str, Any], captured: list[RecordedPass]) -> None:
    engine = TorchEngine([make_model(**model)])
    for places in ([0, 1, 2, 3, 4], [3, 2, 1, 0], [2]):  # the first two share room, and rows end one by one
        sources, limits = ([of[place] for place in places] for of in (SOURCES, LIMITS))
        compare(engine, SearchJob(sources, limits, DecodeConfig(**options), places))


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4, "n_best": 2}, {"sample": True, "n_best": 2}])
@pytest.mark.usefixtures("captured")
def test_constraints(options: dict[str, Any]) -> None:
    constraints = [Constraints(prefix=one.prefix, banned=one.banned) for one in CONSTRAINTS]
    constraints = constraints if "sample" in options else CONSTRAINTS
    engine = TorchEngine([make_model()])
    for _ in range(2):
        compare(engine, SearchJob(SOURCES, [12] * 5, DecodeConfig(**options), range(5), constraints))


@pytest.mark.parametrize("precision", [Precision.FLOAT32, Precision.BF16])
@pytest.mark.usefixtures("captured")
def test_an_ensemble_and_a_model_for_inference(precision: Precision) -> None:
    engine = TorchEngine([make_model(), make_model(positions="rotary", n_decoder_layers=2)], precision)
    for _ in range(2):
        compare(engine, SearchJob(SOURCES, LIMITS, DecodeConfig(beam=3), range(5)))


@pytest.mark.usefixtures("captured")
def test_searches_in_turns_do_not_mix() -> None:
    engine, options = TorchEngine([make_model()]), DecodeConfig(beam=3, cuda_graphs="on")
    jobs = [SearchJob([source], [30], options) for source in (SOURCES[0], SOURCES[2])]
    expected = [engine.run(job).candidates[0][0].ids for job in jobs]
    streams = [engine.stream(job) for job in jobs]
    found: dict[int, list[int]] = {}
    while len(found) < 2:
        for number, stream in enumerate(streams):
            try:
                next(stream)
            except StopIteration as end:
                found[number] = end.value[0].ids
    assert [found[0], found[1]] == expected
    assert len(engine._static_decoders[0]._free) == 2


def test_what_is_not_finite_is_gone_with_its_batch() -> None:
    model = make_model()
    engine, job = TorchEngine([model]), SearchJob(SOURCES[:1], [9], DecodeConfig(beam=2, cuda_graphs="on"))
    expected = engine.run(job).candidates
    (decoder,) = engine._static_decoders[0]._free
    with torch.inference_mode():
        for layer in decoder.cache.layers:
            layer.self_attention._v.fill_(float("nan"))
    assert engine.run(job).candidates == expected


def test_a_model_with_other_weights_has_other_graphs(captured: list[RecordedPass]) -> None:
    model = make_model()
    engine, job = TorchEngine([model]), SearchJob(SOURCES, LIMITS, DecodeConfig(beam=2))
    for change in (model.float, lambda: shake(model), model.double):  # nothing, values in place, and all of them
        change()
        compare(engine, job)
    assert len(engine._static_decoders[0]._free) == 2
    assert torch.float64 in {one.dtype for one in captured[-1].floats()}


@pytest.mark.parametrize("change", [{"cache": False}, {"coverage_penalty": 0.2}, {"cuda_graphs": "auto"}])
def test_other_searches_stay_plain(change: dict[str, Any]) -> None:
    options = DecodeConfig(**{"beam": 2, "cuda_graphs": "on", **change})
    assert not StaticDecoders(make_model()).can_lend(SearchJob(SOURCES, LIMITS, options))


def test_few_graphs_and_decoders_are_kept(monkeypatch: pytest.MonkeyPatch, captured: list[RecordedPass]) -> None:
    monkeypatch.setattr(cuda_graphs, "MOST_GRAPHS", 1)
    monkeypatch.setattr(cuda_graphs, "MOST_DECODERS", 2)
    engine = TorchEngine([make_model()])
    for rows in (5, 3, 2, 1):
        compare(engine, SearchJob(SOURCES[:rows], [30] * rows, DecodeConfig(beam=4)))
    assert [one.room.rows for one in engine._static_decoders[0]._free] == [2, 1]
    assert len(captured) == 4
    monkeypatch.setattr(cuda_graphs, "MOST_BYTES", 20_000)
    large, small = (
        SearchJob([SOURCES[0]] * rows, [4] * rows, DecodeConfig(beam=1, cuda_graphs="on")) for rows in (9, 1)
    )
    assert [engine._static_decoders[0].can_lend(job) for job in (large, small)] == [False, True]


def test_sizes_are_rounded_up_to_few() -> None:
    assert [round_up(count, 2) for count in (1, 3, 4, 5, 7, 9, 13, 64, 65)] == [1, 3, 4, 6, 8, 12, 16, 64, 96]
    job = SearchJob(SOURCES, LIMITS, DecodeConfig(beam=3))
    assert Room.for_job(job, 37) == Room(rows=6, slots=3, keys=128, src=16)
    samples = replace(job, options=DecodeConfig(sample=True, n_best=3), sources=[[4] * 33] * 5)
    assert Room.for_job(samples, 37) == Room(rows=16, slots=1, keys=64, src=37)


def test_a_copy_of_decoders_is_of_the_copied_model_and_keeps_none() -> None:
    model = Transformer(small_config()).eval()
    found = copy.deepcopy({"model": model, "decoders": StaticDecoders(model)})
    assert isinstance(found["decoders"], StaticDecoders)
    assert found["decoders"]._model is found["model"] is not model
