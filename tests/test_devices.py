"""The package on another device than the CPU: each tensor is made where the model is, and results are the CPU's.

The device is a stand-in (``other_device``); tests/test_gpu.py repeats the essential ones on a card.
"""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from other_device import DEVICE, move, other_device
from small_models import shake, small_config
from torch.testing import assert_close

from glassformer.checkpoint import checkpoints, read_tensors
from glassformer.decoding.engines.engine import SearchJob
from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.decoding.search.job import Constraints
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, ModelConfig, RunConfig, TrainConfig
from glassformer.text.corpus.batches import Batch
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.cuda_graphs import GraphStrategy, pad_batch, round_up
from glassformer.training.loop.optimizer import adam_step, clip_gradients, new_optimizer
from glassformer.training.loop.strategy import ParallelStrategy
from glassformer.training.loop.update import accumulate_gradients, update
from glassformer.training.reporting.run_log import Display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

SOURCES = [[5, 6, 7, 8, 2], [9, 4, 2], [10, 11, 12, 13, 14, 15, 2]]
LIMITS = [4, 3, 5]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "n_best": 2},
    "never early": {"beam": 3, "early_stopping": "never", "length_norm": "power", "length_penalty": 1.0},
    "coverage": {"beam": 3, "coverage_penalty": 0.2},
    "no cache": {"beam": 2, "cache": False},
    "processors": {"beam": 3, "repetition_penalty": 1.5, "no_repeat_ngram": 2, "min_length": 3},
    "sampling": {"sample": True, "n_best": 2, "temperature": 0.8, "top_k": 9},
    "nucleus": {"sample": True, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.95, "repetition_penalty": 1.2},
}
PHRASES = [Constraints(prefix=(6,)), Constraints(required=((7, 8), (9,))), Constraints(banned=((5,), (6, 6)))]

OTHER_POSITIONS = [pytest.param(one, marks=pytest.mark.slow) for one in ModelConfig.choices("positions")[1:]]


@pytest.fixture(params=ModelConfig.choices("positions"))
def model(request: pytest.FixtureRequest) -> Transformer:
    torch.manual_seed(3)
    layers = {"n_encoder_layers": 1, "n_decoder_layers": 1}
    made = Transformer(small_config(positions=request.param, output_bias=True, **layers)).eval()
    shake(made)
    return made


@pytest.fixture
def batch() -> Batch:
    src, tgt = torch.randint(4, 19, (3, 7)), torch.randint(4, 19, (3, 6))
    src[1, 5:], tgt[2, 4:] = 0, 0
    return Batch(src, tgt, tgt.roll(-1, 1) * (tgt != 0))


def test_the_stand_in_refuses_what_a_gpu_refuses() -> None:
    with other_device() as device:
        there, here = torch.ones(3, device=DEVICE), torch.ones(3)
        assert (there * torch.tensor(2.0)).device == DEVICE  # a number may come from the CPU
        with pytest.raises(RuntimeError, match="on the device and on the CPU"):
            there + here
        assert not device.waits
        assert there.sum().item() == 3.0
        assert there.tolist() == [1.0, 1.0, 1.0]
        assert sum(device.waits.values()) == 2


@pytest.mark.parametrize("fused", [False, True])
def test_logits(model: Transformer, batch: Batch, fused: bool) -> None:
    model.use_fused_attention(fused)
    expected = model(batch.src_ids, batch.tgt_in_ids)
    with other_device():
        there = batch.to(DEVICE)
        assert_close(move(model)(there.src_ids, there.tgt_in_ids).cpu(), expected)


def test_an_update(model: Transformer, batch: Batch) -> None:
    _compare_updates(model, batch, TrainConfig())


@pytest.mark.parametrize("model", ["sinusoidal", *OTHER_POSITIONS], indirect=True)
def test_an_update_with_r_drop_and_without_smoothing(model: Transformer, batch: Batch) -> None:
    _compare_updates(model, batch, TrainConfig(r_drop=1.0, label_smoothing=0.0))


def _compare_updates(model: Transformer, batch: Batch, config: TrainConfig) -> None:
    results = []
    for is_there in (False, True):
        with other_device():
            own = move(copy.deepcopy(model)) if is_there else copy.deepcopy(model)
            optimizer = new_optimizer(own, config)
            sums = accumulate_gradients(own.train(), [batch, batch], config)
            norm = clip_gradients(own, config)
            adam_step(own, optimizer, 1e-3)
            results.append(
                (sums.loss, float(norm), {name: weight.detach().cpu() for name, weight in own.named_parameters()})
            )
    assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", ["sinusoidal"], indirect=True)
def test_an_update_waits_once(model: Transformer, batch: Batch) -> None:
    config = TrainConfig(warmup=10)
    with other_device() as device:
        own = move(model.train())
        strategy, optimizer, state = ParallelStrategy(own, config), new_optimizer(own, config), TrainState()
        device.waits.clear()
        update(strategy, optimizer, [batch], tokens=batch.target_tokens, state=state, config=config)
        to_the_device = {key: count for key, count in device.waits.items() if "batches.py" in key}
        assert sum(to_the_device.values()) == 3  # the ids of a batch are copied, for which nothing waits
        assert sum(device.waits.values()) - 3 == 1, device.waits


@pytest.mark.parametrize("model", ["sinusoidal"], indirect=True)
@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4}, {"sample": True}])
def test_a_search_waits_once_a_step(model: Transformer, options: dict[str, Any]) -> None:
    waits = []
    with torch.no_grad():
        model.output_projection.linear.bias[2] = -100.0  # no output ends before its limit
    with other_device() as device:
        there = TorchEngine([move(model)])
        for sentences, limit in ((2, 5), (2, 15), (6, 15)):
            device.waits.clear()
            chosen = DecodeConfig(**options)
            there.run(SearchJob([SOURCES[0]] * sentences, [limit] * sentences, chosen, range(sentences)))
            waits.append({key: count for key, count in device.waits.items() if "steps.py" not in key})
    short, long, wide = (sum(one.values()) for one in waits)
    assert long - short == 10, waits
    assert wide == long, waits  # however many sentences end at once


@pytest.mark.parametrize("model", ["sinusoidal"], indirect=True)
def test_batches_padded_to_few_shapes_for_cuda_graphs_give_the_same_gradients(model: Transformer) -> None:
    config, models = TrainConfig(clip_norm=0.0), [copy.deepcopy(model) for _ in range(2)]
    plain, graphs = ParallelStrategy(models[0], config), GraphStrategy(models[1], config, compiled=False)
    optimizers = [new_optimizer(one, config) for one in models]
    for rows, src, tgt in ((3, 7, 6), (19, 5, 9), (3, 7, 6), (3, 6, 7)):
        ids = torch.randint(4, 19, (rows, src)), torch.randint(4, 19, (rows, tgt))
        ids[0][1, 3:], ids[1][2, 4:] = 0, 0
        batch = Batch(*ids, ids[1].roll(-1, 1) * (ids[1] != 0))
        sums = [one.backward(batch, 30.0, config) for one in (plain, graphs)]
        assert_close(sums[1], sums[0], rtol=1e-5, atol=1e-5)
        gradients = [[weight.grad for weight in one.parameters()] for one in models]
        assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)
        for one, optimizer in zip(models, optimizers, strict=True):
            adam_step(one, optimizer, 1e-5)
    assert len(graphs._graphs) == 2


def test_no_batch_is_padded_beyond_the_model_s_length() -> None:
    batch = Batch(torch.ones(3, 6), torch.ones(3, 9), torch.ones(3, 9))
    assert [list(one.shape) for one in pad_batch(batch, 10)] == [[3, 8], [3, 10], [3, 10]]
    assert [list(one.shape) for one in pad_batch(batch, 9)] == [[3, 8], [3, 9], [3, 9]]
    assert [round_up(count, 2) for count in (1, 3, 4, 5, 7, 9, 13, 64, 65)] == [1, 3, 4, 6, 8, 12, 16, 64, 96]


@pytest.mark.parametrize("model", ["sinusoidal"], indirect=True)
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_searches(model: Transformer, options: dict[str, Any]) -> None:
    job = SearchJob(SOURCES, LIMITS, DecodeConfig(**options), [1, 2, 3], attention="n_best" in options)
    with other_device():
        _compare(model, job, members=1)


@pytest.mark.parametrize(
    "options", [pytest.param({"beam": 1}, marks=pytest.mark.slow), {"beam": 3, "coverage_penalty": 0.2}]
)
def test_ensembles_with_each_kind_of_positions(model: Transformer, options: dict[str, Any]) -> None:
    with other_device():
        _compare(model, SearchJob(SOURCES, LIMITS, DecodeConfig(**options), [1, 2, 3]), members=2)


@pytest.mark.parametrize("options", [{"beam": 4}, {"sample": True}])
@pytest.mark.parametrize("model", ["sinusoidal"], indirect=True)
def test_constraints(model: Transformer, options: dict[str, Any]) -> None:
    constraints = [Constraints(), PHRASES[0], PHRASES[2]] if "sample" in options else PHRASES
    with other_device():
        _compare(model, SearchJob(SOURCES, LIMITS, DecodeConfig(**options), [1, 2, 3], constraints), members=1)


def _compare(model: Transformer, job: SearchJob, *, members: int) -> None:
    here = TorchEngine([model] * members)
    there = TorchEngine([move(copy.deepcopy(model))] * members)
    expected, found = here.run(job), there.run(job)
    for of_source, others in zip(found.candidates, expected.candidates, strict=True):
        assert [one.ids for one in of_source] == [one.ids for one in others]
        assert_close([one.score for one in of_source], [one.score for one in others], rtol=1e-5, atol=1e-5)
    if job.attention:
        assert_close(list(found.attention), list(expected.attention))
    targets = [one.ids for one, *_ in expected.candidates]
    for of_target, others in zip(there.score(job.sources, targets), here.score(job.sources, targets), strict=True):
        assert_close(of_target, others, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["sinusoidal"], indirect=True)
def test_a_stream(model: Transformer) -> None:
    job = SearchJob(SOURCES[:1], [9], DecodeConfig(beam=3), [1])
    expected = list(TorchEngine([model]).stream(job))
    with other_device():
        assert list(TorchEngine([move(copy.deepcopy(model))]).stream(job)) == expected


@pytest.mark.slow
def test_a_training_with_validation_saving_and_resuming(tmp_path: Path) -> None:
    words = ["".join(pair) for pair in zip("abcdefghij" * 6, "bdfhj" * 12, strict=True)]
    (tmp_path / "src").write_text("\n".join(words) + "\n")
    (tmp_path / "tgt").write_text("\n".join(word[::-1] for word in words) + "\n")
    source = FileSource(tmp_path / "src", tmp_path / "tgt")
    model = {"name": "tiny", "d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1}
    weights = {}
    for device in ("cpu", DEVICE.type):
        for updates in (3, 6):
            settings = {"max_updates": updates, "validate_every": 3, "device": device, "batch_tokens": 128}
            sections = {"model": {**model, "dropout": 0.0}, "text": {"tokenizer": "characters"}, "train": settings}
            with other_device():
                outcome = train(TrainRequest(tmp_path / device, source, RunConfig.from_mapping(sections)), Display())
            assert outcome.updates == updates
        weights[device] = read_tensors(checkpoints(tmp_path / device / "latest")[-1], "model")
    assert_close(weights[DEVICE.type], weights["cpu"], rtol=1e-4, atol=1e-5)
