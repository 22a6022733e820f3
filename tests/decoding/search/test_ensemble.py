"""Several models as one: the mean of their probabilities, in every search, in scores, and from run directories."""

from dataclasses import replace

import pytest
import torch
from words import MIXED, TEXTS, WORDS, outcomes

from glassformer.checkpoint import save_checkpoint, weights_of
from glassformer.decoding import Translator
from glassformer.errors import RunError, TokenizerError
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig, RunConfig, TextConfig
from glassformer.text import Tokenizer

BOS, EOS, UNK = 1, 2, 3
OPTIONS = [
    DecodeConfig(beam=3, n_best=3), DecodeConfig(beam=1), DecodeConfig(beam=3, cache=False),
    DecodeConfig(beam=3, coverage_penalty=0.3), DecodeConfig(beam=4, no_repeat_ngram=2),
    DecodeConfig(sample=True, n_best=3, top_p=0.9, seed=4),
]  # fmt: skip


@pytest.fixture
def members(make_model):
    """Two models of one vocabulary and different sizes that disagree."""
    bias = {EOS: 2.0, UNK: -30.0}
    return make_model(vocab=14, seed=2, bias=bias), make_model(vocab=14, seed=9, bias=bias, n_heads=2, max_length=19)


@pytest.fixture
def save_run(tmp_path, tokenizer):
    def save(name: str, model, tokenizer=tokenizer):
        run = RunDirectory(tmp_path / name)
        run.create()
        run.write_config(
            RunConfig(model=model.config, text=TextConfig(max_tokens=15), decode=DecodeConfig(beam=2)), {}
        )
        run.write_tokenizers(tokenizer, tokenizer)
        state = {"src_tokenizer": tokenizer.digest, "tgt_tokenizer": tokenizer.digest}
        save_checkpoint(run.final, 1, {"model": weights_of(model)}, state)
        return tmp_path / name

    return save


def together(members, tokenizer, options=None) -> Translator:
    first, *others = members
    return Translator(first, tokenizer, tokenizer, options or DecodeConfig(beam=3, n_best=3), others=others)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_model_with_itself_is_the_model(members, tokenizer, options):
    alone, twice = together(members[:1], tokenizer), together([members[0]] * 3, tokenizer)
    expected, found = alone.translate(MIXED, options), twice.translate(MIXED, options)
    assert outcomes(found) == outcomes(expected)
    for one, other in zip(found, expected, strict=True):
        log_probs = [hypothesis.log_prob for hypothesis in other.hypotheses]
        assert [hypothesis.log_prob for hypothesis in one.hypotheses] == pytest.approx(log_probs, abs=1e-5)
    targets = MIXED[::-1]
    assert twice.score(MIXED, targets) == pytest.approx(alone.score(MIXED, targets), abs=1e-6)


def test_two_models_by_hand(members, tokenizer):
    ids = tokenizer.to_ids("old trees by")
    src = torch.tensor([[*tokenizer.to_ids("a river"), EOS]])
    probabilities = sum(model(src, torch.tensor([[BOS, *ids]]))[0].double().softmax(-1) for model in members) / 2
    expected = [probabilities[place, token].log().item() for place, token in enumerate([*ids, EOS])]
    found = together(members, tokenizer).score_tokens(["a river"], ["old trees by"])[0]
    assert found.token_log_probs == pytest.approx(expected, abs=1e-6)
    assert found.log_prob == pytest.approx(sum(expected), abs=1e-6)


def test_greedy_takes_what_both_together_like_best(members, tokenizer):
    both = together(members, tokenizer)
    for translation in both.translate(TEXTS, DecodeConfig(beam=1)):
        src = torch.tensor([[*tokenizer.to_ids(translation.source), EOS]])
        ids = translation.hypotheses[0].ids
        for step, chosen in enumerate(ids):
            read = torch.tensor([[BOS, *ids[:step]]])
            mean = sum(model(src, read)[0, -1].double().softmax(-1) for model in members)
            mean[[0, BOS]] = 0
            assert chosen == mean.argmax()
    found = {one.text for one in both.translate(TEXTS)}
    assert found != {one.text for one in together(members[:1], tokenizer).translate(TEXTS)}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_batch_is_its_texts_one_by_one(members, tokenizer, options):
    both = together(members, tokenizer)
    found = both.translate(MIXED, options)
    if not options.sample:
        assert outcomes([both.translate([text], options)[0] for text in MIXED]) == outcomes(found)
    assert outcomes(both.translate(MIXED, replace(options, batch_tokens=1))) == outcomes(found)
    scores = [one.hypotheses[0].log_prob for one in found if one.text and not one.hypotheses[0].truncated]
    texts = [(one.source, one.text) for one in found if one.text and not one.hypotheses[0].truncated]
    assert both.score(*zip(*texts, strict=True)) == pytest.approx(scores, abs=1e-4)


def test_lengths_are_those_that_all_models_take_and_they_load_from_several_runs(members, tokenizer, save_run):
    long = " ".join(WORDS * 3)
    assert len(together(members, tokenizer).translate([long])[0].source_tokens) == 19
    assert len(together(members[:1], tokenizer).translate([long])[0].source_tokens) == 23
    places = [save_run("one", members[0]), save_run("two", members[1])]
    loaded = Translator.load(places, device="cpu")
    assert loaded.config == DecodeConfig(beam=2)
    assert outcomes(loaded.translate(TEXTS)) == outcomes(together(members, tokenizer).translate(TEXTS, loaded.config))
    assert outcomes(Translator.load(places[:1], device="cpu").translate(TEXTS)) == outcomes(
        Translator.load(places[0], device="cpu").translate(TEXTS)
    )


def test_runs_of_other_vocabularies_are_named(members, save_run):
    other = Tokenizer.train("words", ["small", *WORDS[1:]], 14)
    places = [save_run("one", members[0]), save_run("two", members[1], tokenizer=other)]
    with pytest.raises(
        TokenizerError, match=r"two/tokenizer.src.json: is not the tokenizer of .*one, expected the same"
    ):
        Translator.load(places, device="cpu")
    with pytest.raises(RunError, match="found none, expected at least one"):
        Translator.load([], device="cpu")
