"""One small untrained translator and one walk of the three sentences, made once and only read."""

import pytest
import torch
from three_sentences import SOURCES, TARGETS

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding import Translator
from glassformer.explain import Walk, walk
from glassformer.model import Transformer
from glassformer.text import Tokenizer


@pytest.fixture(scope="session")
def translator() -> Translator:
    src, tgt = (Tokenizer.train("words", [*texts, "[red]"], 60) for texts in (SOURCES, TARGETS))
    torch.manual_seed(5)
    config = ModelConfig(
        src_vocab=src.size, tgt_vocab=tgt.size, tie_embeddings="none", d_model=22, n_heads=11, d_k=3, d_v=5,
        d_ff=13, n_encoder_layers=3, n_decoder_layers=2,
    )  # fmt: skip
    return Translator(Transformer(config), src, tgt, DecodeConfig(beam=2, max_length_b=4))


@pytest.fixture(scope="session")
def walked(translator) -> Walk:
    return walk(translator, SOURCES, TARGETS)
