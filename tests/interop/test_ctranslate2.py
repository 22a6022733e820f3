"""A CTranslate2 directory computes what the model computes, for every setting that it takes; the others are refused."""

import json
import os
import random
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Library
from torch import nn

from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.decoding.search.job import SearchJob
from glassformer.errors import ConfigError, RunError
from glassformer.interop.ctranslate2 import QUANTIZATIONS, check_supported, convert, export_ctranslate2
from glassformer.model.layers import ACTIVATIONS, Activation
from glassformer.run_directory import LoadedRun, RunConfig
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text import Tokenizer

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is an extra: pip install '.[fast]'")

EOS, LIMIT = 2, 14
TEXTS = ["the old house stands by a river", "under tall trees", "a river by the house", "</s> old", "Zürich, 3 €"]
KINDS = ["bpe", "wordpiece", "unigram", "words", "characters"]


@pytest.fixture
def decided_model(small_model):
    """A model without near ties, whose outputs end; <pad> and <s> have no probability, as CTranslate2 has it."""

    def build(**changes):
        model = small_model(**{"output_bias": True, **changes})
        with torch.no_grad():
            model.output_projection.linear.weight *= 2
            model.output_projection.linear.bias[:2] = -40.0
            model.output_projection.linear.bias[EOS] += 1.5
        return model

    return build


def supported(options: dict) -> bool:
    try:
        check_supported(ModelConfig(**{"tie_embeddings": "none", **options}))
    except ConfigError:
        return False
    return True


def load(model, directory: Path, **kind):
    src, tgt = (list(map(str, range(vocab))) for vocab in (model.config.src_vocab, model.config.tgt_vocab))
    convert(model, (src, tgt), directory, **kind)
    return ctranslate2.Translator(str(directory), intra_threads=1, compute_type="float32")


def sources(vocab: int, count: int = 12) -> list[list[int]]:
    draw = random.Random(5)
    return [[*(draw.randrange(4, vocab) for _ in range(draw.randrange(1, 12))), EOS] for _ in range(count)]


def search(translator, rows: list[list[int]], beam: int) -> list[tuple[list[int], float]]:
    """The best complete hypothesis of each source, and its log-probability."""
    found = translator.translate_batch(
        [list(map(str, row)) for row in rows], beam_size=beam, num_hypotheses=beam, length_penalty=1e-30,
        return_scores=True, return_end_token=True, max_decoding_length=LIMIT, min_decoding_length=0,
    )  # fmt: skip
    best = [
        max(zip(one.hypotheses, one.scores, strict=True), key=lambda pair: (pair[0][-1] == "2", pair[1]))
        for one in found
    ]
    return [(list(map(int, tokens)), score) for tokens, score in best]


@pytest.mark.parametrize("grid", ["options", pytest.param("every_option", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_outputs_and_log_probs_are_ours_over_the_grid(grid, request, decided_model, tmp_path):
    seen = set()
    choices = [{**each, "d_v": 0} for each in request.getfixturevalue(grid)]
    for number, options in enumerate(filter(supported, choices)):
        model = decided_model(**options)
        translator, rows = load(model, tmp_path / str(number)), sources(model.config.src_vocab)
        for beam in (1, 4):
            asked = DecodeConfig(beam=beam, length_penalty=0.0)
            job = SearchJob(rows, [LIMIT] * len(rows), asked)
            ours = [best for best, *_ in TorchEngine([model]).run(job).candidates]
            theirs = search(translator, rows, beam)
            assert [ids for ids, _ in theirs] == [one.ids for one in ours], options
            assert [score for _, score in theirs] == pytest.approx([one.log_prob for one in ours], abs=1e-4)
        seen |= {options["positions"], options["norm"], options["activation"]}
    assert seen == {"sinusoidal", "learned", "relative", "rotary", "pre", "post", *ModelConfig.choices("activation")}


def test_an_activation_that_ctranslate2_does_not_have_is_refused(decided_model, monkeypatch, tmp_path):
    monkeypatch.setitem(ACTIVATIONS, "gelu", Activation(nn.functional.gelu))
    with pytest.raises(ConfigError, match=r"model\.activation: found 'gelu', which CTranslate2 does not have"):
        load(decided_model(activation="gelu"), tmp_path / "model")


def test_no_output_holds_padding_bos_or_what_is_banned(decided_model, tmp_path):
    model = decided_model()
    with torch.no_grad():
        model.output_projection.linear.bias[[0, 1, 7]] = 50.0
    for ids, _ in search(load(model, tmp_path / "x", banned=[7]), sources(23), beam=2):
        assert not {0, 1, 7} & {*ids}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "alibi"}, "model.positions: found 'alibi', but CTranslate2 has only 'sinusoidal' or"),
        (
            {"autoregressive_sublayer": "ssru"},
            "model.autoregressive_sublayer: found 'ssru', but CTranslate2 has only",
        ),
        ({"d_v": 7}, "model.d_v: found 7, but CTranslate2 has only 10"),
    ],
)
def test_what_it_cannot_express_is_refused_by_name(small_config, changes, message):
    with pytest.raises(ConfigError, match=message):
        check_supported(small_config(**changes))


def test_an_unknown_quantization_is_refused(small_config):
    with pytest.raises(ConfigError, match="quantization: found 'int3', expected one of int8"):
        check_supported(small_config(), "int3")


@pytest.fixture
def run(decided_model):
    def make(kind: str = "bpe") -> LoadedRun:
        tokenizer = Tokenizer.train(kind, TEXTS, 300)
        model = decided_model(src_vocab=tokenizer.size, tgt_vocab=tokenizer.size, tie_embeddings="all")
        return LoadedRun(RunConfig(model=model.config), model, tokenizer, tokenizer, Path())

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizer_beside_it_gives_our_ids_with_the_end(run, kind, tmp_path):
    made = run(kind)
    export_ctranslate2(made, tmp_path / "out")
    library = Library.from_file(str(tmp_path / "out" / "source_tokenizer.json"))
    names = json.loads((tmp_path / "out" / "shared_vocabulary.json").read_text(encoding="utf-8"))
    assert names == made.src_tokenizer.entries()
    assert len({*names}) == len(names)
    for text in TEXTS[:3]:
        found = library.encode(text)
        assert found.ids == [*made.src_tokenizer.to_ids(text), EOS]
        assert [names.index(token) for token in found.tokens] == found.ids


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_every_quantization_is_written_and_loads(run, quantization, tmp_path):
    export_ctranslate2(run(), tmp_path / "out", quantization)
    translator = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1, compute_type="float32")
    assert translator.translate_batch([["</s>"]], max_decoding_length=3)[0].hypotheses


def test_a_directory_that_holds_something_stays_as_it_is(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match="out: exists and is not empty, expected a new directory"):
        export_ctranslate2(run(), tmp_path / "out")
    assert os.listdir(tmp_path / "out") == ["thesis.txt"]
    assert os.listdir(tmp_path) == ["out"]
    (tmp_path / "out" / "thesis.txt").unlink()
    export_ctranslate2(run(), tmp_path / "out")
    assert (tmp_path / "out" / "model.bin").is_file()
    assert os.listdir(tmp_path) == ["out"]


def test_without_the_extra_it_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ctranslate2.converters", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[fast\]'"):
        export_ctranslate2(run(), tmp_path / "out")
