"""The essential promises on a card: the CPU's outputs, an update, a search, and a training that resumes.

``make gpu`` runs them; without a card each is skipped by name. tests/test_devices.py holds more of them to a stand-in.
"""

import copy

import pytest
import torch
from small_models import shake, small_config
from torch.testing import assert_close

from glassformer import Translator
from glassformer.checkpoint import checkpoints, read_tensors
from glassformer.decoding.engines.engine import SearchJob
from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, RunConfig, TrainConfig
from glassformer.text.corpus.batches import Batch
from glassformer.training.loop.optimizer import adam_step, clip_gradients, new_optimizer
from glassformer.training.loop.update import accumulate_gradients
from glassformer.training.reporting.run_log import Display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),  # of the compiler's own imports
]
SOURCES = [[5, 6, 7, 8, 2], [9, 4, 2], [10, 11, 12, 13, 14, 15, 2]]


@pytest.fixture
def models() -> tuple[Transformer, Transformer]:
    """The same weights on the CPU and on the card."""
    torch.manual_seed(3)
    model = Transformer(small_config(output_bias=True)).eval()
    shake(model)
    return model, copy.deepcopy(model).to("cuda")


@pytest.fixture
def batch() -> Batch:
    src, tgt = torch.randint(4, 19, (3, 7)), torch.randint(4, 19, (3, 6))
    src[1, 5:], tgt[2, 4:] = 0, 0
    return Batch(src, tgt, tgt.roll(-1, 1) * (tgt != 0))


@pytest.mark.parametrize("fused", [False, True])
def test_logits(models: tuple[Transformer, Transformer], batch: Batch, fused: bool) -> None:
    logits = []
    for model in models:
        model.use_fused_attention(fused)
        there = batch.to(model.output_projection.linear.weight.device)
        logits.append(model(there.src_ids, there.tgt_in_ids).cpu())
    assert_close(logits[1], logits[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_an_update(models: tuple[Transformer, Transformer], batch: Batch, precision: str) -> None:
    settings, losses = TrainConfig(precision=precision), []
    for model in models:
        optimizer = new_optimizer(model, settings)
        for _ in range(2):
            sums = accumulate_gradients(model.train(), [batch], settings)
            clip_gradients(model, settings)
            adam_step(model, optimizer, 1e-3)
        losses.append(sums.loss)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4 if precision == "float32" else 2e-2)


@pytest.mark.parametrize(
    "options", [{"beam": 1}, {"beam": 4}, {"beam": 3, "coverage_penalty": 0.2}, {"sample": True}]
)
def test_searches(models: tuple[Transformer, Transformer], options: dict[str, object]) -> None:
    job = SearchJob(SOURCES, [9, 8, 11], DecodeConfig.from_mapping(options), [1, 2, 3])
    here, there = ([of_source[0] for of_source in TorchEngine([model]).run(job).candidates] for model in models)
    assert [one.ids for one in there] == [one.ids for one in here]
    assert_close([one.score for one in there], [one.score for one in here], rtol=1e-4, atol=1e-5)


def test_engine_auto_translates_by_ctranslate2(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    texts = ["I love you, too.", "The children are playing in the garden."]
    expected = [one.text for one in Translator.load(engine="torch", device="cpu").translate(texts)]
    with Translator.load() as translator:
        found = translator.translate(texts)
    assert [(one.engine, one.text) for one in found] == [("ctranslate2", text) for text in expected]


def test_a_training_goes_on(tmp_path) -> None:
    words = [f"{first}{second}" for first in "abcdefghij" for second in "klmnop"]
    (tmp_path / "src").write_text("\n".join(words) + "\n")
    (tmp_path / "tgt").write_text("\n".join(word[::-1] for word in words) + "\n")
    model = {"name": "tiny", "d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1}
    for updates in (3, 6):
        settings = {"max_updates": updates, "validate_every": 3, "device": "cuda", "batch_tokens": 128}
        config = RunConfig.from_mapping({"model": model, "text": {"tokenizer": "characters"}, "train": settings})
        outcome = train(
            TrainRequest(tmp_path / "run", FileSource(tmp_path / "src", tmp_path / "tgt"), config), Display()
        )
        assert outcome.updates == updates
    weights = read_tensors(checkpoints(tmp_path / "run" / "latest")[-1], "model")
    assert all(bool(weight.isfinite().all()) for weight in weights.values())
