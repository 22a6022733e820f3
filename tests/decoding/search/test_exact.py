"""One search, whatever it runs on: cached, batched, padded, in beam slots, for inference, in any order, it finds the same.

On a hundred random small models; with ``make slow FULL=1`` on a thousand.
"""

import random

import pytest
import torch
from covering import sample
from reference_search import EOS, SENTENCES, padded

from glassformer.decoding import DecoderSteps, Output
from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.decoding.search.beam_search import beam_search
from glassformer.decoding.search.greedy import greedy_search, is_greedy
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.steps import BeamSteps, Steps
from glassformer.model import Transformer
from glassformer.model.inference import Precision, for_inference
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.trace import tracing

CLOSE = 1e-5


def random_model(chance: random.Random) -> Transformer:
    tie = chance.choice(["all", "target", "none"])
    config = ModelConfig(
        src_vocab=17, tgt_vocab=17 if tie == "all" else 13, tie_embeddings=tie, d_model=2 * chance.choice([5, 7]),
        n_heads=chance.randint(1, 3), d_k=2 * chance.randint(1, 3), d_v=chance.randint(1, 5), d_ff=19,
        n_encoder_layers=1, n_decoder_layers=chance.randint(1, 2), max_length=19,
        positions=chance.choice(ModelConfig.choices("positions")), relative_clip=chance.randint(1, 3),
        norm=chance.choice(ModelConfig.choices("norm")), activation=chance.choice(ModelConfig.choices("activation")),
        attention_bias=chance.random() < 0.5, output_bias=True,
        autoregressive_sublayer=chance.choice(ModelConfig.choices("autoregressive_sublayer")),
    )  # fmt: skip
    torch.manual_seed(chance.randrange(2**31))
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.output_projection.linear.bias[EOS] += 1.0
    return model


def the_same(found: list[list[Output]], expected: list[list[Output]], how: str) -> None:
    """Equal ids and scores; where the ids of a rank differ, two hypotheses must be worth the same."""
    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours) == len(theirs), how
        for our, their in zip(ours, theirs, strict=True):
            assert our.score == pytest.approx(their.score, abs=CLOSE), how
            assert our.ids == their.ids or abs(our.score - their.score) < CLOSE, how


@torch.no_grad()
def check(seed: int) -> None:
    chance = random.Random(seed)
    model = random_model(chance)
    rows = chance.randint(1, 4)
    sources = [[chance.randint(3, 12) for _ in range(chance.randint(1, 6))] + [EOS] for _ in range(rows)]
    limits = [chance.randint(1, 11) for _ in sources]
    beam = chance.choice([1, 1, 2, 3, 4, 5])
    options = DecodeConfig(
        beam=beam, n_best=chance.randint(1, beam), length_penalty=chance.choice([0.0, 0.6, 1.0]),
        no_repeat_ngram=chance.choice([0, 0, 3]), repetition_penalty=chance.choice([1.0, 1.0, 1.3]),
        length_norm=chance.choice(DecodeConfig.choices("length_norm")),
        early_stopping=chance.choice(DecodeConfig.choices("early_stopping")),
    )  # fmt: skip

    def search(steps: Steps, order: list[int] | None = None) -> list[list[Output]]:
        places = order or range(rows)
        job = SearchJob([sources[place] for place in places], [limits[place] for place in places], options)
        return beam_search(steps, job)

    plain = [
        beam_search(
            DecoderSteps(model, padded([source]), DecodeConfig(cache=False)), SearchJob([source], [limit], options)
        )[0]
        for source, limit in zip(sources, limits, strict=True)
    ]
    src_ids = padded(sources)
    order = chance.sample(range(rows), rows)
    ready = for_inference(model, Precision.FLOAT32)
    for how, found in {
        "cached and batched": search(DecoderSteps(model, src_ids)),
        "more padding": search(DecoderSteps(model, padded(sources, more=3))),
        "in beam slots": search(BeamSteps(model, src_ids)),
        "in beam slots, more padding": search(BeamSteps(model, padded(sources, more=2))),
        "for inference": search(BeamSteps(ready, src_ids)),
        "in rows, for inference": search(DecoderSteps(ready, src_ids)),
    }.items():
        the_same(found, plain, f"{how}, seed {seed}")
    if is_greedy(SearchJob(sources, limits, options)):
        the_same(
            greedy_search(BeamSteps(model, src_ids), SearchJob(sources, limits, options)),
            plain,
            f"greedy, seed {seed}",
        )
    moved = search(BeamSteps(model, padded([sources[place] for place in order])), order)
    the_same(moved, [plain[place] for place in order], f"another order, seed {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("first", sample(range(0, 1000, 50), 2))
def test_every_way_through_the_model_finds_the_same(first):
    for seed in range(first, first + 50):
        check(seed)


def test_a_hook_and_an_edit_on_a_decoder_layer_act_in_translate(make_model):
    model, options = make_model(), DecodeConfig(beam=3)
    job = SearchJob(SENTENCES, [9] * len(SENTENCES), options)
    before, calls = TorchEngine([model]).run(job), []
    with tracing(model, {"decoder.layers.0.output": torch.zeros_like}):
        assert TorchEngine([model]).run(job) != before
    hook = model.decoder.layers[0].register_forward_hook(lambda module, given, output: calls.append(output.shape))
    for precision in (None, Precision.FLOAT32):
        calls.clear()
        TorchEngine([model], precision).run(job)
        assert calls[0][:2] == (len(SENTENCES), 1)
        assert calls[1][:2] == (len(SENTENCES), 3), "the hypotheses of a source are slots of its row"
    hook.remove()
    model.decoder.layers[0].register_forward_hook(lambda module, given, output: torch.zeros_like(output))
    assert TorchEngine([model]).run(job) != before


def test_sources_that_are_encoded_in_parts_are_only_as_wide_as_their_part(monkeypatch):
    model = random_model(random.Random(3))
    sources = [[5, 6, 7, 8, 9, 10, 11, 2], [5, 6, 7, 2], [8, 9, 2], [7, 2], [4, 2]]
    src_ids = padded(sources)
    expected = DecoderSteps(model, src_ids).next_log_probs(torch.full((5,), 1))
    monkeypatch.setattr("glassformer.decoding.search.steps._POSITIONS_AT_ONCE", 16)
    widths, encode = [], model.encode
    monkeypatch.setattr(model, "encode", lambda ids: (widths.append(ids.shape[1]), encode(ids))[1])
    found = DecoderSteps(model, src_ids).next_log_probs(torch.full((5,), 1))
    assert widths == [8, 3, 2]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
