import math
from itertools import count, islice

import pytest
import torch
from words import MIXED, TEXTS, outcomes

from glassformer.decoding import Translator
from glassformer.errors import DivergedError, InputError, TokenizerError
from glassformer.settings import DecodeConfig
from glassformer.text import Tokenizer
from glassformer.trace import tracing

EOS = 2


def test_results_keep_the_order_and_the_count(translator):
    found = translator.translate(MIXED)
    assert [one.source for one in found] == MIXED
    alone = [translator.translate([text])[0] for text in MIXED]
    assert outcomes(found) == outcomes(alone)
    assert outcomes(translator.translate(MIXED[::-1])) == outcomes(found)[::-1]
    assert len({one.text for one in found}) > 3


@pytest.mark.parametrize("batch_tokens", [1, 20, 60, 10_000])
def test_batches_change_nothing(translator, batch_tokens):
    for options in ({"beam": 3, "n_best": 2}, {"sample": True, "n_best": 2, "seed": 5}):
        expected = translator.translate(MIXED, DecodeConfig(**options))
        assert outcomes(translator.translate(MIXED, DecodeConfig(batch_tokens=batch_tokens, **options))) == outcomes(
            expected
        )


def test_batches_keep_the_budget(translator, monkeypatch):
    shapes, encode = [], translator.model.encode

    def counted(src_ids):
        shapes.append(tuple(src_ids.shape))
        return encode(src_ids)

    monkeypatch.setattr(translator.model, "encode", counted)
    texts = [f"{one} {other}" for one in TEXTS for other in TEXTS]
    translator.translate([*texts, *texts], DecodeConfig(beam=3, batch_tokens=200))
    assert sum(rows for rows, _ in shapes) == len(texts)  # each once
    assert all(rows * 3 * longest <= 200 for rows, longest in shapes)
    assert max(rows for rows, _ in shapes) > 8


def test_blank_texts_do_not_reach_the_model(translator, monkeypatch):
    monkeypatch.setattr(translator.model, "encode", None)
    found = translator.translate(["", " ", "\t", "\u00a0", "\u200b", "\u2028"])
    assert [one.text for one in found] == [""] * 6
    assert all(one.hypotheses[0].ids == [] and not one.hypotheses[0].truncated for one in found)
    assert translator.translate([]) == []
    assert list(translator.translate_stream([])) == []


def test_a_stream_and_a_part_of_the_input_give_what_the_whole_gives(translator):
    for options in (None, DecodeConfig(sample=True, n_best=2)):
        streamed = translator.translate_stream(iter(MIXED), options, chunk=4)
        assert outcomes(streamed) == outcomes(translator.translate(MIXED, options))
    taken = count()
    endless = (TEXTS[next(taken) % len(TEXTS)] for _ in count())
    assert len(list(islice(translator.translate_stream(endless, chunk=3), 4))) == 4
    assert next(taken) == 6
    options = DecodeConfig(sample=True, beam=1)
    whole = outcomes(translator.translate(TEXTS, options))
    assert outcomes(translator.translate_stream(TEXTS[3:], options, start=3)) == whole[3:]
    assert outcomes(translator.translate_stream(TEXTS[3:], options)) != whole[3:]


def test_tokens_ids_and_text_say_the_same(translator, tokenizer):
    for translation in translator.translate(TEXTS):
        assert translation.source_tokens == [*translation.source.split(), "</s>"]
        assert translation.text == translation.hypotheses[0].text
        for one in translation.hypotheses:
            assert one.text == tokenizer.to_text(one.ids) == " ".join(one.tokens).removesuffix("</s>").strip()
            assert (one.ids[-1] == EOS) != one.truncated


def test_score_by_hand_and_its_refusals(translator, tokenizer):
    ids = tokenizer.to_ids("old trees")
    src = torch.tensor([[*tokenizer.to_ids("river"), EOS]])
    log_probs = translator.model(src, torch.tensor([[1, *ids]]))[0].log_softmax(-1)
    expected = sum(log_probs[place, token].item() for place, token in enumerate([*ids, EOS]))
    assert translator.score(["river"], ["old trees"]) == pytest.approx([expected], abs=1e-5)
    assert translator.score([], []) == []
    with pytest.raises(InputError, match="2 sources and 1 targets"):
        translator.score(["a", "b"], ["a"])
    with pytest.raises(InputError, match=r"targets\[1\]: has more than the 22 tokens"):
        translator.score(["a", "b"], ["a", "old " * 23])


def test_attention_is_that_of_the_hypothesis_and_its_rows_sum_to_1(translator):
    found = translator.translate(MIXED, attention=True)
    assert outcomes(found) == outcomes(translator.translate(MIXED))
    for translation in found:
        best, *others = translation.hypotheses
        assert all(one.attention is None and one.alignment() is None for one in others)
        if not translation.source_tokens:
            assert best.attention is None
            continue
        assert best.attention.shape == (2, 3, len(best.tokens), len(translation.source_tokens))
        torch.testing.assert_close(best.attention.sum(-1), torch.ones(best.attention.shape[:-1]))
        torch.testing.assert_close(best.alignment(), best.attention[-1].mean(0))
        src = torch.tensor([[*translator.src_tokenizer.to_ids(translation.source), EOS]])
        with tracing(translator.model) as trace:
            translator.model(src, torch.tensor([[1, *best.ids[:-1]]]))
        weights = [trace[f"decoder.layers.{layer}.cross_attention.weights"][0] for layer in range(2)]
        torch.testing.assert_close(best.attention, torch.stack(weights), atol=1e-5, rtol=0)


def test_translating_can_be_traced_and_edited(translator):
    with tracing(translator.model, only="encoder.memory") as trace:
        before = translator.translate(TEXTS[:1])
    assert trace["encoder.memory"].shape == (1, 4, 14)
    with tracing(translator.model, {"encoder.memory": torch.zeros_like}):
        after = translator.translate(TEXTS[:1])
    assert outcomes(before) == outcomes(translator.translate(TEXTS[:1])) != outcomes(after)


def test_a_source_that_is_too_long_is_cut_and_flagged(translator):
    fits, longer = " ".join(["river"] * 22), " ".join(["river"] * 22 + ["house"] * 200)
    first, second = translator.translate([fits, longer])
    assert (first.source_truncated, second.source_truncated) == (False, True)
    assert outcomes([first])[0][1:] == outcomes([second])[0][1:]
    assert second.source == longer
    assert second.source_tokens == ["river"] * 22 + ["</s>"]


@pytest.mark.parametrize("sampled", [False, True])
def test_an_output_without_end_is_as_long_as_the_options_allow(make_model, tokenizer, sampled):
    translator = Translator(
        make_model(vocab=14, bias={EOS: -30.0}), tokenizer, tokenizer, DecodeConfig(sample=sampled)
    )

    def lengths(**options) -> list[int]:
        found = translator.translate(
            ["old house", "the"], DecodeConfig(sample=sampled, max_length_b=4, **options), attention=True
        )
        assert all(one.hypotheses[0].truncated for one in found)
        assert all(one.hypotheses[0].attention.shape[2] == len(one.hypotheses[0].ids) for one in found)
        return [len(one.hypotheses[0].ids) for one in found]

    assert lengths() == [6, 5]
    assert lengths(max_length_a=2.5) == [9, 6]
    assert lengths(max_length_a=0.0) == [4, 4]
    assert lengths(max_length_a=100.0) == [23, 23]


def test_an_n_best_list_has_no_text_twice(make_model):
    tokenizer = Tokenizer.train("bpe", ["aa aa aa aaaa"], 264)  # aa is one token, or two
    translator = Translator(
        make_model(vocab=tokenizer.size, bias={tokenizer.to_ids(text)[0]: 9.0 for text in ("a", "aa")} | {EOS: 9.0}),
        tokenizer, tokenizer, DecodeConfig(beam=30, n_best=30, max_length_a=0, max_length_b=4),
    )  # fmt: skip
    texts = [one.text for one in translator.translate(["aa"])[0].hypotheses]
    assert len(texts) == len(set(texts)) < 30


def test_a_model_in_training_mode_is_used_without_dropout_and_given_back(translator):
    expected = outcomes(translator.translate(TEXTS))
    translator.model.train()
    assert outcomes(translator.translate(TEXTS)) == expected
    assert all(module.training for module in translator.model.modules())
    translator.model.train().output_projection.linear.weight.fill_(math.nan)
    with pytest.raises(DivergedError):
        translator.translate(TEXTS)
    assert translator.model.training


def test_what_is_no_list_of_texts_is_refused(translator):
    with pytest.raises(InputError, match="one str 'the old house'"):
        translator.translate("the old house")
    with pytest.raises(InputError, match=r"texts\[1\]: found NoneType"):
        translator.translate(["a", None])


def test_a_tokenizer_of_another_size_is_refused(make_model, tokenizer):
    with pytest.raises(TokenizerError, match="target tokenizer has 14 entries, but the model has 17"):
        Translator(make_model(src_vocab=14, tgt_vocab=17), tokenizer, tokenizer, DecodeConfig())
