"""One small untrained translator and walks of the three sentences of every kind, made once and only read."""

from dataclasses import asdict
from io import StringIO

import pytest
import torch
from rich.console import Console
from three_sentences import SOURCES, TARGETS

from glassformer.checkpoint import save_checkpoint
from glassformer.decoding import Constraints, Translator
from glassformer.explain import Walk, print_walk, walk
from glassformer.explain.walks import walk_generation, walk_training
from glassformer.model import Transformer
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig, ModelConfig, TrainConfig
from glassformer.text import Tokenizer
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.optimizer import OPTIMIZER


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


@pytest.fixture(scope="session")
def searched(translator) -> Walk:
    """A beam search of two hypotheses; the first sentence ends before the others."""
    return walk_generation(translator, SOURCES, DecodeConfig(beam=2, n_best=2, max_length_a=0.5, max_length_b=1))


@pytest.fixture(scope="session")
def demanding(translator) -> Walk:
    """A search with every rule and coverage, of which something is demanded."""
    options = DecodeConfig(
        beam=4, n_best=3, coverage_penalty=0.3, repetition_penalty=1.4, no_repeat_ngram=1, min_length=2,
        max_length_a=0, max_length_b=4,
    )  # fmt: skip
    constraints = [
        Constraints(prefix=(5, 6), banned=((4,), (7, 8))),
        Constraints(required=((9, 7), (6,)), starts=((5, 7), (6,))),
        Constraints(),
    ]
    return walk_generation(translator, SOURCES, options, constraints=constraints)


@pytest.fixture(scope="session")
def sampled(translator) -> Walk:
    options = DecodeConfig(sample=True, n_best=2, top_k=4, max_length_a=0, max_length_b=4, cache=False)
    return walk_generation(translator, SOURCES, options)


@pytest.fixture(scope="session")
def trained(translator) -> Walk:
    return walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=10, clip_norm=0.1))


@pytest.fixture(scope="session")
def restarted(translator, tmp_path_factory) -> Walk:
    """An update by Muon of a training that went back once; part of the weights is frozen."""
    settings = TrainConfig(warmup=10, freeze="encoder,*.w_q.weight", optimizer="muon")
    state = TrainState(restarts=1)
    run = tmp_path_factory.mktemp("restarted")
    save_checkpoint(RunDirectory(run).latest, 1, {OPTIMIZER: {}}, {"counters": asdict(state)})
    return walk_training(translator, SOURCES, TARGETS, settings, run=run)


@pytest.fixture(scope="session")
def printed():
    """What ``print_walk`` prints of a walk."""

    def print_it(walked: Walk, width: int = 100, **options: object) -> str:
        out = StringIO()
        print_walk(walked, Console(file=out, width=width), **options)
        return out.getvalue()

    return print_it
