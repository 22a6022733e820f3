import json
import math
from dataclasses import replace

import pytest
import torch
from three_sentences import SOURCES, TARGETS

from glassformer.decoding import Translator
from glassformer.errors import InputError, StorageError, TraceError
from glassformer.explain import walk, walks
from glassformer.explain.recording.sentence_batch import read_sentences

SRC_WIDE, TGT_WIDE = ("nbatches", "n_seq_src", "d_model"), ("nbatches", "n_seq_tgt", "d_model")


def attention_table(place: str, query: str, key: str) -> list[tuple[str, tuple[str, ...]]]:
    """The walkthrough's eight steps of one attention; where it writes d_model for all heads, the width is h·d_k."""
    q, k = f"n_seq_{query}", f"n_seq_{key}"
    return [
        *((f"{place}.{name}_projected", ("nbatches", axis, f"h·d_{width}")) for name, axis, width in (("q", q, "k"), ("k", k, "k"), ("v", k, "v"))),
        *((f"{place}.{name}_split", ("nbatches", axis, "h", f"d_{width}")) for name, axis, width in (("q", q, "k"), ("k", k, "k"), ("v", k, "v"))),
        *((f"{place}.{name}", ("nbatches", "h", axis, f"d_{width}")) for name, axis, width in (("q", q, "k"), ("k", k, "k"), ("v", k, "v"))),
        (f"{place}.scores", ("nbatches", "h", q, k)),
        (f"{place}.masked_scores", ("nbatches", "h", q, k)),
        (f"{place}.weights", ("nbatches", "h", q, k)),
        (f"{place}.heads", ("nbatches", "h", q, "d_v")),
        (f"{place}.heads_by_position", ("nbatches", q, "h", "d_v")),
        (f"{place}.heads_merged", ("nbatches", q, "h·d_v")),
        (f"{place}.output", ("nbatches", q, "d_model")),
        (f"{place}_add_norm.residual", ("nbatches", q, "d_model")),
        (f"{place}_add_norm.norm.output", ("nbatches", q, "d_model")),
    ]  # fmt: skip


def feed_forward_table(layer: str, side: str) -> list[tuple[str, tuple[str, ...]]]:
    wide, inner = ("nbatches", f"n_seq_{side}", "d_model"), ("nbatches", f"n_seq_{side}", "d_ff")
    return [
        (f"{layer}.feed_forward.inner", inner),
        (f"{layer}.feed_forward.activated", inner),
        (f"{layer}.feed_forward.output", wide),
        (f"{layer}.feed_forward_add_norm.residual", wide),
        (f"{layer}.feed_forward_add_norm.norm.output", wide),
    ]


TABLE = [
    *((f"text.src_{name}", ("nbatches",)) for name in ("normalised", "pre_tokens", "spelling")),
    ("text.src_tokens", ("nbatches", "n_seq_src")),
    ("text.src_ids", ("nbatches", "n_seq_src")),
    *((f"text.tgt_{name}", ("nbatches",)) for name in ("normalised", "pre_tokens", "spelling")),
    ("text.tgt_out_ids", ("nbatches", "n_seq_tgt")),
    ("text.tgt_in_ids", ("nbatches", "n_seq_tgt")),
    ("text.ntokens", ()),
    ("src_mask", ("nbatches", "1", "1", "n_seq_src")),
    ("src_embedding.embedded", SRC_WIDE),  # 1-1
    ("src_embedding.scaled", SRC_WIDE),
    ("src_embedding.position_vectors", ("n_seq_src", "d_model")),  # 1-2
    ("src_embedding.with_positions", SRC_WIDE),
    *attention_table("encoder.layers.0.self_attention", "src", "src"),  # 2-1
    *feed_forward_table("encoder.layers.0", "src"),  # 2-2
    ("encoder.layers.0.output", SRC_WIDE),
    ("encoder.memory", SRC_WIDE),
    ("causal_mask", ("1", "1", "n_seq_tgt", "n_seq_tgt")),
    ("tgt_embedding.embedded", TGT_WIDE),  # 3-1
    ("tgt_embedding.with_positions", TGT_WIDE),  # 3-2
    *attention_table("decoder.layers.0.self_attention", "tgt", "tgt"),  # 4-1
    *attention_table("decoder.layers.0.cross_attention", "tgt", "src"),  # 4-2
    *feed_forward_table("decoder.layers.0", "tgt"),  # 4-3
    ("decoder.layers.0.output", TGT_WIDE),
    ("decoder.output", TGT_WIDE),
    ("output_projection.logits", ("nbatches", "n_seq_tgt", "vocab")),  # 5-1
    ("output_projection.probabilities", ("nbatches", "n_seq_tgt", "vocab")),  # 5-2
    ("choice.next_ids", ("nbatches", "n_seq_tgt")),
]


@pytest.mark.parametrize(("address", "expected"), TABLE, ids=[address for address, _ in TABLE])
def test_each_step_of_the_shape_walkthrough_is_there(walked, translator, address, expected):
    step = walked[address]
    assert step.symbols == expected
    sizes = {
        "nbatches": 3, "n_seq_src": 7, "n_seq_tgt": 8, "d_model": 22, "h": 11, "d_k": 3, "d_v": 5, "h·d_k": 33,
        "h·d_v": 55, "d_ff": 13, "vocab": translator.tgt_tokenizer.size, "1": 1,
    }  # fmt: skip
    assert step.shape == tuple(sizes[symbol] for symbol in expected)


def test_the_steps_come_in_the_walkthroughs_order_and_are_numbered(walked):
    places = [
        walked[address].number
        for address, _ in TABLE
        if not address.endswith(("_projected", "_split", ".q", ".k", ".v"))
    ]
    assert places == sorted(places)
    assert [step.number for step in walked.steps] == list(range(1, len(walked.steps) + 1))
    stages = list(dict.fromkeys(step.stage for step in walked.steps))
    assert stages == [
        "Text", "Encoder embedding", "Encoder layer 0", "Encoder layer 1", "Encoder layer 2", "Encoder output",
        "Decoder embedding", "Decoder layer 0", "Decoder layer 1", "Decoder output", "Output", "Choice",
    ]  # fmt: skip


def test_the_three_sentences_become_3_6_and_5_tokens_and_padding(walked):
    rows = walked["text.src_tokens"].cells
    assert rows[0] == ("I", "love", "you", "</s>", "<pad>", "<pad>", "<pad>")
    assert rows[1] == ("I", "am", "in", "love", "with", "you", "</s>")
    assert rows[2] == ("I", "love", "you", ",", "too", "</s>", "<pad>")
    assert walked["src_mask"].value[:, 0, 0].sum(-1).tolist() == [3 + 1, 6 + 1, 5 + 1]


def test_a_walk_shows_the_text_as_the_model_reads_it(translator):
    found = walk(translator, [" I\u00a0 love\u200b you\n"], TARGETS[:1], only="text.*")
    assert found.sentences.sources == ("I love you",)
    assert found["text.src_tokens"].cells == (("I", "love", "you", "</s>"),)


def test_the_target_goes_in_one_place_behind_what_is_to_come_out(walked):
    went_in, comes_out = walked["text.tgt_in_ids"], walked["text.tgt_out_ids"]
    assert went_in.cells[0] == ("<s>", "Ich", "liebe", "dich", *["<pad>"] * 4)
    assert comes_out.cells[0] == ("Ich", "liebe", "dich", "</s>", *["<pad>"] * 4)
    assert walked["text.ntokens"].value.item() == 4 + 6 + 8
    assert walked["text.src_ids"].value.tolist()[0][4:] == [0, 0, 0]


def test_the_walk_is_the_models_own_pass(walked, translator):
    """What is shown is what is computed: the same logits, bit for bit, from the same ids."""
    batch = walked.sentences.batch
    with torch.no_grad():
        logits = translator.model.eval()(batch.src_ids, batch.tgt_in_ids)
    assert torch.equal(walked["output_projection.logits"].value, logits)
    choice = walked["choice.next_ids"]
    assert torch.equal(choice.value, logits.argmax(-1))
    assert choice.cells[1] == tuple(translator.tgt_tokenizer.to_tokens(choice.value[1].tolist()))
    shares = logits.softmax(-1).gather(-1, choice.value[..., None]).squeeze(-1)
    assert torch.equal(walked["choice.next_probabilities"].value, shares)


def test_a_model_in_training_is_walked_without_dropout_and_left_in_training(walked, translator):
    translator.model.train()
    try:
        again = walk(translator, SOURCES, TARGETS)
        assert translator.model.training
    finally:
        translator.model.eval()
    assert torch.equal(again["decoder.output"].value, walked["decoder.output"].value)


def test_labels_follow_the_axes_and_what_was_written(walked, searched, trained):
    weights = walked["decoder.layers.0.cross_attention.weights"]
    assert weights.axes == ("batch", "heads", "tgt", "src")
    tokens = walked.sentences.tgt_in_tokens[2], walked.sentences.src_tokens[2]
    assert walked.labels(weights, 2) == (None, None, *tokens)
    values = walked["decoder.layers.0.cross_attention.v"]
    assert walked.labels(values, 0)[2] == walked.sentences.src_tokens[0]
    ids = [step for step in searched.steps if step.address == "search.ids"][-1]
    assert searched.labels(ids, 0) == (None, None, None)
    loss = trained["loss.per_token"]
    assert trained.labels(loss, 0)[1] == trained.sentences.tgt_out_tokens[0], "a loss belongs to what is to be said"
    logits = trained["output_projection.logits"]
    assert trained.labels(logits, 0)[2] == trained.sentences.vocab


def test_without_targets_the_best_translations_are_walked_through(translator):
    walked = walk(translator, SOURCES, only="text.*")
    best = [translation.hypotheses[0] for translation in translator.translate(SOURCES)]
    assert walked.sentences.targets == tuple(one.text for one in best)
    for row, one in zip(walked["text.tgt_out_ids"].value.tolist(), best, strict=True):
        assert row[: len(one.ids)] == one.ids
        assert not any(row[len(one.ids) :])


def test_a_batch_whose_attention_would_fill_the_memory_is_refused_before_it_is_recorded(translator, monkeypatch):
    monkeypatch.setattr(walks, "record_pass", lambda *_, **__: pytest.fail("it was recorded"))
    sources = ["A man. " * 60, *["A dog."] * 2000]
    with pytest.raises(InputError, match=r"2,001 sentences: found up to .* Give fewer or shorter sentences"):
        walk(translator, sources, ["Ein Hund."] * len(sources))


def test_a_blank_source_is_walked_through_with_nothing_but_its_end(translator):
    walked = walk(translator, [" "])
    assert walked["text.src_tokens"].cells == (("</s>",),)
    assert walked["text.tgt_out_ids"].cells == (("</s>",),)


@pytest.mark.parametrize(
    ("only", "addresses"),
    [
        ("decoder.*.cross_attention.weights", [f"decoder.layers.{n}.cross_attention.weights" for n in (0, 1)]),
        ("choice.*", ["choice.next_ids", "choice.next_probabilities"]),
        ("*_ids", ["text.src_ids", "text.tgt_out_ids", "text.tgt_in_ids", "choice.next_ids"]),
    ],
)
def test_only_chooses_steps_by_address(translator, only, addresses):
    assert [step.address for step in walk(translator, SOURCES, TARGETS, only=only).steps] == addresses


def test_what_does_not_fit_is_refused(translator, walked):
    with pytest.raises(InputError, match="found no sentence"):
        walk(translator, [])
    with pytest.raises(InputError, match="found 1, expected one for each of the 3"):
        walk(translator, SOURCES, TARGETS[:1])
    with pytest.raises(InputError, match=r"targets\[0\]: has more than the 1023 tokens"):
        walk(translator, ["I"], ["ja " * 1024])
    with pytest.raises(TraceError, match="'weight': matches no step"):
        walk(translator, SOURCES, TARGETS, only="weight")
    with pytest.raises(TraceError, match=r"Did you mean 'encoder\.memory'"):
        _ = walked["encoder.memry"]


def test_the_json_holds_every_number_exactly_or_the_steps_alone(walked, tmp_path):
    walked.write_json(tmp_path / "walk.json", values=True)
    read = json.loads((tmp_path / "walk.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert read == walked.to_mapping(values=True)
    assert (read["sources"], read["model"]["d_v"]) == (SOURCES, 5)
    for step, mapping in zip(walked.steps, read["steps"], strict=True):
        told = (mapping["number"], mapping["address"], mapping["shape"])
        assert (step.number, step.address, list(step.shape)) == told
    memory = torch.tensor(read["steps"][walked["encoder.memory"].number - 1]["values"])
    assert torch.equal(memory, walked["encoder.memory"].value)
    masked = read["steps"][walked["decoder.layers.0.self_attention.masked_scores"].number - 1]["values"]
    assert masked[0][0][0][1:] == ["-inf"] * 7
    assert math.isfinite(masked[0][0][0][0])
    mapping = walked.to_mapping()
    assert (mapping["version"], mapping["kind"], mapping["decode"], mapping["train"]) == (2, "forced", None, None)
    assert set(mapping["steps"][0]) == {
        "number", "address", "call", "stage", "title", "sentence", "equation", "section", "axes", "symbols", "shape",
        "row_sentences", "lines", "gradient",
    }  # fmt: skip
    assert mapping["steps"][3]["lines"][0] == ["I", "love", "you"]


def test_json_of_a_generation_tells_whose_each_row_is(searched, tmp_path):
    searched.write_json(tmp_path / "walk.json", values=True)
    mapping = json.loads((tmp_path / "walk.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert (mapping["kind"], mapping["decode"]["beam"], mapping["train"]) == ("generation", 2, None)
    second = [step for step in mapping["steps"] if step["call"] == 1]
    rows = {step["address"]: step["row_sentences"] for step in second}
    assert rows["search.tgt_in_ids"] == rows["decoder.output"] == [0, 0, 1, 1, 2, 2]
    assert rows["search.candidate_ids"] == [0, 1, 2]


@pytest.mark.slow
def test_json_of_a_training_step_has_gradients(trained):
    steps = {step["address"]: step for step in trained.to_mapping(values=True)["steps"]}
    gradient = steps["encoder.memory"]["gradient"]
    recorded = trained["encoder.memory"].gradient
    assert torch.equal(torch.tensor(gradient["values"]), recorded)
    assert gradient["norm"] == recorded.norm().item()
    assert steps["src_mask"]["gradient"] is None
    without = {step["address"]: step["gradient"] for step in trained.to_mapping()["steps"]}
    assert without["encoder.memory"] == {"norm": gradient["norm"]}
    assert trained.to_mapping()["train"]["clip_norm"] == 0.1


def test_rows_are_known_by_their_sentence_while_the_batch_shrinks(searched, sampled):
    for walked in (searched, sampled):
        for step in walked.steps:
            if "batch" in step.axes:
                assert len(step.sentences) == step.shape[step.axes.index("batch")], step.address
                assert list(step.sentences) == sorted(step.sentences)
            else:
                assert step.sentences == ()
    limits = next(step for step in sampled.steps if step.address == "search.limits")
    assert limits.sentences == (0, 0, 1, 1, 2, 2), "two samples of each sentence"


def test_a_place_that_cannot_be_written_is_named(walked, tmp_path):
    with pytest.raises(StorageError, match="missing"):
        walked.write_json(tmp_path / "missing" / "walk.json")


def test_what_people_print_says_what_it_is(translator):
    (translation,) = translator.translate(["I love you"])
    some = walk(translator, ["I love you"], ["Ich liebe dich"])
    assert repr(translator) == (
        f"Translator(1 model, {translator.src_tokenizer.size:,} source and {translator.tgt_tokenizer.size:,} target "
        f"tokens, beam {translator.config.beam})"
    )
    assert repr(translation) == f"Translation('I love you' -> {translation.text!r})"
    assert repr(translation.hypotheses[0]).startswith(f"Hypothesis({translation.text!r}, score=")
    assert repr(some) == f"Walk(forced, {len(some.steps)} steps, 'I love you' -> 'Ich liebe dich')"
    assert repr(some.trace).startswith(f"Trace({len(some.trace)} steps, text.")


def test_each_sentence_is_walked_through_as_translate_reads_it():
    translator, text = Translator.load(device="cpu", engine="torch"), "My cat 🐱 sleeps.  WHERE ARE YOU? 🎉"
    translator.config = replace(translator.config, match_style=True, split_sentences=True)
    found = read_sentences(translator, [text], None)
    assert found.sources == ("My cat sleeps.", "Where are you?")
    (whole,) = translator.translate([text])
    assert [one for row in found.batch.tgt_out_ids.tolist() for one in row if one] == whole.hypotheses[0].ids
    pieces = list(translator.stream(text))
    assert "".join(pieces) == whole.text
    assert (whole.text.count(" 🐱 "), whole.text[-3:]) == (1, "? 🎉")
