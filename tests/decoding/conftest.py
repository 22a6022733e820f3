from collections.abc import Callable

import pytest
import torch
from words import WORDS

from glassformer.decoding import Translator
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text import Tokenizer

EOS, UNK = 2, 3
POSITIONS = ModelConfig.choices("positions")
MakeModel = Callable[..., Transformer]


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    """A small untrained model with decided opinions; ``bias`` adds to the logits of some ids."""

    def make(*, vocab: int = 11, seed: int = 0, bias: dict[int, float] | None = None, **changes) -> Transformer:
        torch.manual_seed(seed)
        shape = {"d_model": 14, "n_heads": 3, "d_k": 2, "d_v": 5, "d_ff": 17, "n_encoder_layers": 2}
        config = ModelConfig.from_mapping(
            {
                **shape,
                "n_decoder_layers": 2,
                "src_vocab": vocab,
                "tgt_vocab": vocab,
                "tie_embeddings": "none",
                "output_bias": True,
                "max_length": 23,
                **changes,
            }
        )
        model = Transformer(config).eval()
        with torch.no_grad():
            model.output_projection.linear.weight *= 2.0
            for token, value in (bias or {}).items():
                model.output_projection.linear.bias[token] += value
        return model

    return make


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("words", WORDS, 14)


@pytest.fixture
def translator(make_model, tokenizer) -> Translator:
    model = make_model(vocab=14, seed=2, positions="rotary", bias={EOS: 2.5, UNK: -30.0})
    return Translator(model, tokenizer, tokenizer, DecodeConfig(beam=3, n_best=3))


@pytest.fixture(params=POSITIONS)
def positions(request) -> str:
    return request.param


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield
