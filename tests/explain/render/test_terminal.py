import re
from dataclasses import replace
from io import StringIO

import pytest
import torch
from rich.console import Console
from three_sentences import SOURCES, TARGETS

from glassformer.decoding import Translator
from glassformer.errors import InputError, TraceError
from glassformer.explain import narrate_step, print_attention, print_heads, print_heatmap, print_walk, walk
from glassformer.explain.plain import clip_text, number_text, printable


def printed(print_it, *arguments, width=100, **options) -> str:
    out = StringIO()
    print_it(*arguments, Console(file=out, width=width), **options)
    return out.getvalue()


def test_a_step_is_one_line_with_equation_symbols_and_shape(walked):
    lines = printed(print_walk, walked).splitlines()
    number = walked["decoder.layers.0.cross_attention.scores"].number
    (line,) = [line for line in lines if line.split()[:1] == [str(number)]]
    assert " ".join(line.split()[1:]) == (
        "scores scores = Q Kᵀ / √d_k (nbatches, h, n_seq_tgt, n_seq_src) = (3, 11, 8, 7)"
    )


@pytest.mark.parametrize("width", [40, 80, 100])
@pytest.mark.parametrize("values", [False, True])
def test_no_line_is_wider_than_the_console_and_no_escape_leaves_it(translator, width, values):
    some = walk(translator, SOURCES, TARGETS, only="*layers.0.cross*")
    text = printed(print_walk, some, width=width, values=values)
    assert "\x1b" not in text
    if width >= 80:
        assert max(map(len, text.splitlines())) <= width
    assert text.count("W_O") == (2 if values else 1), "in the equation, and in the sentence"


def test_layers_after_the_first_are_folded_unless_asked_for(walked, translator):
    folded, whole = printed(print_walk, walked), printed(print_walk, walked, all_layers=True)
    assert "Encoder layers 1 to 2" in folded
    assert "encoder.layers.1.self_attention" not in folded
    start, stop = (
        walked[f"encoder.layers.{n}.{name}"].number for n, name in ((1, "self_attention.q_projected"), (2, "output"))
    )
    assert f"the same steps again, numbers {start} to {stop}" in folded
    assert "encoder.layers.2.self_attention" in whole
    chosen = walk(translator, SOURCES, TARGETS, only="encoder.layers.*.weights")
    assert "encoder.layers.2.self_attention" in printed(print_walk, chosen)


def test_values_stand_under_their_tokens_for_the_sentence_asked_for(translator):
    some = walk(translator, SOURCES, TARGETS, only="decoder.layers.0.cross_attention.weights")
    text = printed(print_walk, some, values=True, sentence=1)
    assert "Where the target looks (section 3.2.1)." in text
    header = next(line for line in text.splitlines() if "love" in line and "→" not in line)
    assert header.split() == ["I", "am", "in", "love", "with", "you", "</s>"]
    row = next(line for line in text.splitlines() if line.split()[:2] == ["reads", "verliebt"])
    assert row.split()[2:5] == ["->", "writes", "</s>"]
    assert row.split()[5:] == [f"{weight:.3f}" for weight in some.steps[0].value[1, 0, 5].tolist()]
    assert "showing 4 of 11 along h" in text
    assert "values: those of sentence 1" in text


def test_ids_and_masks_of_the_batch_are_whole_tables_in_blocks_of_columns(walked):
    batch = walked.sentences.batch
    tables = printed(print_walk, walked, width=60, ids=True).partition("Text\n")[0]
    assert max(map(len, tables.splitlines())) <= 60
    for name, ids, tokens in (
        ("src_ids", batch.src_ids, walked.sentences.src_tokens),
        ("tgt_in_ids", batch.tgt_in_ids, walked.sentences.tgt_in_tokens),
        ("tgt_out_ids", batch.tgt_out_ids, walked.sentences.tgt_out_tokens),
    ):
        part = tables.partition(f"{name} (")[2].partition("\n\n")[0]
        for number, (row, labels) in enumerate(zip(ids.tolist(), tokens, strict=True)):
            lines = [line.split()[1:] for line in part.splitlines() if line.split()[:1] == [str(number)]]
            cells = [word for line in lines for word in line]
            assert cells == [word for one, token in zip(row, labels, strict=True) for word in (str(one), token)], name
    assert "src_mask (sentence, n_seq_src) = (3, 7): 1 = may attend" in tables
    causal = tables.partition("causal_mask (query, key) = (8, 8): 1 = may attend")[2].splitlines()
    assert [line.split()[1:] for line in causal if line[:1].isdigit()] == [
        ["1"] * (row + 1) + ["0"] * (7 - row) for row in range(8)
    ]


def test_of_a_generation_only_the_source_is_a_batch(searched):
    text = printed(print_walk, searched, ids=True)
    assert "src_ids (nbatches, n_seq_src)" in text
    assert "tgt_in_ids (nbatches, n_seq_tgt)" not in text.partition("Text\n")[0]


def test_a_sentence_that_is_not_there_is_said(walked):
    with pytest.raises(TraceError, match=r"sentence: found 3, expected 0 to 2\."):
        printed(print_walk, walked, values=True, sentence=3)


def test_rows_of_cross_attention_say_what_is_read_and_written_in_as_many_columns_as_fit(walked, searched):
    step = "decoder.layers.0.cross_attention.weights"
    text = printed(print_walk, replace(walked, steps=(walked[step],)), values=True, width=60)
    rows = [line.strip() for line in text.splitlines() if line.strip().startswith("reads ")]
    assert re.match(r"reads <s> +-> writes Ich +0\.\d+", rows[0])
    assert all(len(line) <= 60 for line in text.splitlines())
    assert "of 7 along n_seq_src" in text
    some = [one for one in searched.steps if one.address == step][:1]
    assert re.search(
        r"^ +reads <s> +0\.\d+", printed(print_walk, replace(searched, steps=tuple(some)), values=True), re.M
    )


def test_tables_are_cut_in_both_directions_and_say_so(translator):
    some = walk(translator, ["I love you"], ["Ich liebe dich"], only="src_embedding.embedded")
    assert "showing 8 of 22 along d_model" in printed(print_walk, some, values=True)
    some = walk(translator, ["I love you"], ["Ich liebe dich"], only="src_mask")
    text = printed(print_walk, some, values=True)
    assert "showing" not in text
    assert re.search(r"I +love +you +</s>", text)
    assert text.count("yes") == 4
    long = "I love you " * 9
    some = walk(translator, [long], only="encoder.layers.0.self_attention.masked_scores")
    assert "showing 12 of 28 along n_seq_src, 8 of 28 along n_seq_src" in printed(print_walk, some, values=True)


def test_user_text_is_neither_markup_nor_terminal_control(translator):
    source = "[red]I love[/red] [/nothing] \x1b[31m you\u202e\n\t[bold]"
    some = walk(translator, [source], [source], only="text.*")
    text = printed(print_walk, some, values=True)
    assert "[red]I love[/red] [/nothing] �[31m you���[bold]" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (True, "yes"), (7, "7"), (0.0, "0.000"), (-0.12345, "-0.123"), (-float("inf"), "−∞"), (1e-5, "1.0e-05"),
        (-12345.0, "-1.2e+04"), (999.9999, "1000.000"),
    ],
)  # fmt: skip
def test_numbers_fit_their_column(number, shown):
    assert number_text(number) == shown
    assert len(shown) <= 8


def test_labels_are_cut_to_columns_of_the_terminal_not_characters():
    assert clip_text("Donaudampfschiff", 8) == "Donauda…"
    assert clip_text("日本語日本語", 12) == "日本語日本語"
    assert clip_text("日本語日本語", 7) == "日本語…"
    assert printable("a\tb\x9bc\u202e\u2028") == "a�b�c��"
    for whole in ("می\u200cخواهم", "👩\u200d👧", "Bonjour\u00a0!", "日本\u3000語"):
        assert printable(whole) == whole


def test_the_heat_map_shades_each_weight_under_its_source_token():
    weights = torch.tensor([[0.01, 0.05, 0.94], [0.25, 0.0, 0.75], [0.5, 0.5, 0.0]])
    text = printed(print_heatmap, weights, ["I", "love", "[b]"], ["Ich", "liebe", "</s>"])
    assert text.splitlines() == [
        "      I   love [b]",
        "Ich   ··· ░░░░ ███",
        "liebe ▒▒▒ ···· ███",
        "</s>  ▓▓▓ ▓▓▓▓ ···",
        "      · below 0.05  ░ from 0.05  ▒ from 0.25  ▓ from 0.5  █ from 0.75",
    ]


def test_a_heat_map_goes_on_below_and_refuses_tokens_that_do_not_fit():
    words = [f"word{n}" for n in range(20)]
    text = printed(print_heatmap, torch.full((2, 20), 0.05), words, ["ein", "wort"], width=40)
    assert [word for word in text.split() if word.startswith("word")] == words
    assert max(len(line) for line in text.splitlines()[:-2]) <= 40
    assert text.count("░░░░░") >= 40
    with pytest.raises(InputError, match=r"found \(2, 3\), expected \(tgt, src\) = \(1, 3\)"):
        print_heatmap(torch.zeros(2, 3), ["a", "b", "c"], ["x"], Console(file=StringIO()))


def test_a_translations_attention_is_printed_with_its_tokens(translator):
    (translation,) = translator.translate(["I love you"], attention=True)
    lines = printed(print_attention, translation).splitlines()
    assert lines[0].split() == ["I", "love", "you", "</s>"]
    tokens = translation.hypotheses[0].tokens
    read_and_written = [tuple(line.split()[1:5:3]) for line in lines[1:-1]]
    assert read_and_written == list(zip(["<s>", *tokens[:-1]], tokens, strict=True))
    with pytest.raises(InputError, match="attention=True"):
        printed(print_attention, translator.translate(["I love you"])[0])
    assert "nothing was translated" in printed(print_attention, translator.translate([" "], attention=True)[0])


def test_blank_weights_beyond_the_scale_are_left_blank():
    """A weight that is not a number is no shade."""
    text = printed(print_heatmap, torch.tensor([[float("nan")]]), ["a"], ["x"])
    assert text.splitlines()[1] == "x    "


def test_every_head_is_a_small_map_and_one_is_marked():
    weights = torch.zeros(2, 3, 2, 4)
    weights[1, 2, 0, 3] = weights[0, 0, 1, 0] = 1.0
    text = printed(print_heads, weights, width=80, marked=(1, 2))
    lines = text.splitlines()
    assert [line.split()[:2] for line in lines[::3]] == [["layer", "0"], ["layer", "1"]]
    assert lines[0].split()[2:] == ["head", "0", "head", "1", "head", "2"]
    assert lines[3].split()[2:] == ["head", "0", "head", "1", "head", "2*"]
    assert lines[2].split() == ["█···", "····", "····"]
    assert lines[4].split() == ["····", "····", "···█"]
    narrow = printed(print_heads, weights, width=30).splitlines()
    assert max(map(len, narrow)) <= 30
    assert len(narrow) == 2 * len(lines)


def test_a_step_is_told_with_the_numbers_of_its_walk(translator):
    some = walk(translator, ["I love you"], ["Ich liebe dich"])
    told = dict(narrate_step(some, 1))
    config = some.config
    assert len(told) == (9 if config.n_decoder_layers == 1 else 12)
    assert f"{len(some.sentences.src_tokens[0])} source tokens" in told["encoder"]
    probabilities = some.trace["output_projection.probabilities"][0, 1]
    best = int(probabilities.argmax())
    assert told["softmax"].startswith(f"{some.sentences.vocab[best]} {float(probabilities[best]):.1%}")
    weights = some.trace["decoder.layers.0.cross_attention.weights"][0, :, 1].mean(dim=0)
    assert told["layer 0 cross"].startswith(
        f"looks at {some.sentences.src_tokens[0][int(weights.argmax())]} {float(weights.max()):.2f}"
    )
    assert all(len(sentence) <= 60 for sentence in told.values())


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_a_step_of_an_ssru_is_told_with_the_share_that_its_gate_keeps(translator, small_model, positions):
    vocab = {"src_vocab": translator.src_tokenizer.size, "tgt_vocab": translator.tgt_tokenizer.size}
    model = small_model(**vocab, autoregressive_sublayer="ssru", positions=positions)
    own = Translator(model, translator.src_tokenizer, translator.tgt_tokenizer, translator.config)
    some = walk(own, ["I love you"], ["Ich liebe dich"])
    told = dict(narrate_step(some, 1))
    assert len(told) == 12
    kept = float(some.trace["decoder.layers.1.ssru.forget_gate"][0, 1].mean())
    assert told["layer 1 ssru"] == f"keeps {kept:.0%} of its cell, the rest comes from this position"
    assert ("the SSRU tells positions apart" in told["position"]) == (positions == "rotary")
    assert all(len(sentence) <= 60 for sentence in told.values())
