"""What ``gpu.py`` holds a card to before it is timed: the results of the CPU. And the tests that are marked gpu."""

import copy
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from decoding_models import SHAPES, forced_model, sentences_of
from gpu_stages import Bench, Cell, check, products_in
from torch import Tensor
from torch.nn.functional import cross_entropy
from training_systems import batches_of, config_of

from glassformer.checkpoint import checkpoints, read_tensors
from glassformer.decoding.engines.engine import SearchJob
from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, RunConfig, TrainConfig
from glassformer.text.corpus.batches import Batch
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.distributed import make_strategy
from glassformer.training.loop.optimizer import new_optimizer
from glassformer.training.loop.update import accumulate_gradients, update
from glassformer.training.objective.objective import autocast
from glassformer.training.reporting.run_log import Display, TrainProgress
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train
from glassformer.world import ALONE

ROOT = Path(__file__).resolve().parents[1]
# Relative norms of the differences of logits, loss and gradients from those in float64. Products are rounded to 24,
# 11 and 8 bits.
BOUNDS = {"float32": (1e-5, 1e-5, 1e-4), "tf32": (1e-2, 1e-3, 2e-2), "bf16": (5e-2, 5e-3, 1e-1)}
UPDATES, LOSS_BOUND, SCORE_BOUND = 20, 1e-3, 1e-4
LETTERS = {"d_model": 32, "n_heads": 2, "d_ff": 48, "n_encoder_layers": 1, "n_decoder_layers": 1}
RESUMED_UPDATES = 12


def parity(bench: Bench) -> dict[str, Cell]:
    """The cells that compare this device with the CPU."""
    sizes = ["tiny"] if bench.smoke else ["small", "base"]
    searches = ["small"] if bench.smoke else ["small", "base"]
    return {
        **{f"pass, {size}, {precision}": partial(one_pass, bench, size, precision)
           for size in sizes for precision in BOUNDS},
        f"{UPDATES} updates, {sizes[0]}": partial(updates, bench, sizes[0]),
        "resume": partial(resume, bench),
        **{f"beam {beam}, {size}": partial(search, bench, size, beam) for size in searches for beam in (1, 5)},
    }  # fmt: skip


def one_pass(bench: Bench, size: str, precision: str) -> dict[str, Any]:
    """Logits, loss and gradients, with an activation without a kink.

    Of millions of units a few lie within rounding of 0, where ReLU's gradient jumps from 0 to 1.
    """
    torch.manual_seed(1)
    model = Transformer(replace(config_of(size, 0.0), activation="gelu"))
    batch = batches_of(1, 256, 200)[0]
    expected = _exact_pass(copy.deepcopy(model).double(), batch)
    model.to(bench.device)
    there = batch.to(bench.device)
    with products_in(precision) as cast:
        with autocast(cast, bench.device), torch.no_grad():
            logits = model(there.src_ids, there.tgt_in_ids)
        sums = accumulate_gradients(model, [there], TrainConfig(precision=cast))
    found = logits, torch.tensor(sums.loss / sums.tokens), _gradients(model)
    rows = zip(("logits", "loss", "gradients"), found, expected, BOUNDS[precision], strict=True)
    return {"checks": [check(what, _difference(one, other), bound) for what, one, other, bound in rows]}


def _exact_pass(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """The same in float64 on the CPU, with PyTorch's own loss."""
    logits = model(batch.src_ids, batch.tgt_in_ids)
    targets = batch.tgt_out_ids.flatten()
    loss = cross_entropy(logits.flatten(0, 1), targets, ignore_index=0, label_smoothing=0.1)
    loss.backward()  # type: ignore[no-untyped-call]
    return logits.detach(), loss.detach(), _gradients(model)


def _gradients(model: Transformer) -> Tensor:
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


def _difference(found: Tensor, expected: Tensor) -> float:
    """The norm of the difference relative to what is expected."""
    return float((found.detach().cpu().double() - expected).norm() / expected.norm())


def updates(bench: Bench, size: str) -> dict[str, Any]:
    """The losses of a few updates as training makes them here, and on the CPU."""
    torch.manual_seed(1)
    model = Transformer(config_of(size, 0.0)).train()
    batches = batches_of(1, 512, 1000)
    here, there = (_losses(copy.deepcopy(model), batches, one) for one in (torch.device("cpu"), bench.device))
    apart = max(abs(one - other) / one for one, other in zip(here, there, strict=True))
    return {"losses": there, "losses on the CPU": here, "checks": [check("losses", apart, LOSS_BOUND)]}


def _losses(model: Transformer, batches: list[Batch], device: torch.device) -> list[float]:
    settings = TrainConfig(precision="float32", schedule="inverse_sqrt", peak_rate=1e-4, warmup=UPDATES)
    strategy = make_strategy(ALONE, model, settings, device)
    optimizer, losses = new_optimizer(model, settings), []
    for number in range(UPDATES):
        batch, state = batches[number % len(batches)], TrainState(update=number)
        made = update(strategy, optimizer, [batch], tokens=batch.target_tokens, state=state, config=settings)
        losses.append(made.loss)
    return losses


class StopsOnce(Display):
    """Stops a training after half of its updates, as a signal does."""

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        """Send the signal."""
        if progress.update == RESUMED_UPDATES // 2:
            os.kill(os.getpid(), signal.SIGTERM)


def resume(bench: Bench) -> dict[str, Any]:
    """A training with dropout that is stopped and resumed ends as one that is not.

    The bound is the difference of two that are not, which is 0 where the device repeats itself.
    """
    words = ["".join("abcdef"[number // 6**place % 6] for place in range(4)) for number in range(400)]
    files = bench.scratch / "letters.src", bench.scratch / "letters.tgt"
    for path, side in zip(files, (words, [word[::-1] for word in words]), strict=True):
        path.write_text("\n".join(side) + "\n", encoding="utf-8")
    settings = {"batch_tokens": 512, "max_updates": RESUMED_UPDATES, "validate_every": 6, "device": str(bench.device)}
    config = RunConfig.from_mapping({
        "model": {"name": "tiny", **LETTERS}, "text": {"tokenizer": "characters"}, "decode": {"max_length_b": 5},
        "train": {**settings, "warmup": 4, "metric": "loss"},
    })  # fmt: skip

    def weights(name: str, *displays: Display) -> Tensor:
        run = bench.scratch / name
        for display in displays:
            train(TrainRequest(run, FileSource(*files), config), display)
        saved = read_tensors(checkpoints(run / "latest")[-1], "model")
        return torch.cat([saved[key].flatten().double() for key in sorted(saved)])

    whole, repeated = weights("whole", Display()), weights("repeated", Display())
    resumed = weights("resumed", StopsOnce(), Display())
    return {"checks": [check("weights", _difference(resumed, whole), 2 * _difference(repeated, whole))]}


def search(bench: Bench, size: str, beam: int) -> dict[str, Any]:
    """The outputs and scores of a search; where nearly equal scores made two outputs differ, the scores decide."""
    model, count = forced_model(SHAPES[size]), 4 if bench.smoke else 64
    sources = sentences_of(None, None, count)
    job = SearchJob(sources, [16] * count, DecodeConfig(beam=beam))
    here = TorchEngine([model]).run(job).candidates
    with products_in("float32"):
        there = TorchEngine([copy.deepcopy(model).to(bench.device)]).run(job).candidates
    pairs = [(one[0], other[0]) for one, other in zip(here, there, strict=True)]
    apart = max(abs(one.score - other.score) / abs(one.score) for one, other in pairs)
    differ = sum(one.ids != other.ids for one, other in pairs)
    return {"checks": [check("scores", apart, SCORE_BOUND), check("other outputs", differ, count // 50)]}


def tests(bench: Bench) -> dict[str, Cell]:
    """The tests that are marked gpu."""
    return {"pytest": partial(run_tests, bench)}


# Those of pyproject.toml without the plugins that these tests do not need.
_OPTIONS = "addopts=-q --jaxtyping-packages=glassformer.model,beartype.beartype"


def run_tests(bench: Bench) -> dict[str, Any]:
    """Their last lines; left out where there is no pytest."""
    missing = [name for name in ("pytest", "jaxtyping", "beartype") if find_spec(name) is None]
    if missing:
        return {"left_out": f"not installed: {', '.join(missing)}"}
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    options = ["-m", "gpu", "-o", f"cache_dir={bench.scratch}", "-o", _OPTIONS]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/test_gpu.py"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {"output": ran.stdout[-2000:] + ran.stderr[-500:], "checks": [check("exit status", ran.returncode, 0)]}
