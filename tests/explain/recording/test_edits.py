"""Edits as a person writes them: read, refused, carried out, and what they do to the next token."""

from dataclasses import replace
from math import isnan

import pytest
import torch
from rich.console import Console
from three_sentences import SOURCES, TARGETS

from glassformer.decoding import Translator
from glassformer.errors import TraceError
from glassformer.explain import walk
from glassformer.explain.recording.edits import parse_edits
from glassformer.explain.recording.effect import find_changes, print_effect
from glassformer.model import Transformer
from glassformer.text import Tokenizer
from glassformer.trace import Trace

CROSS = "decoder.layers.1.cross_attention"


@pytest.fixture
def edited(walked, translator):
    """A walk over the same sentences with edits as text."""

    def make(*specs: str):
        return walk(translator, SOURCES, TARGETS, edits=parse_edits(specs, walked, translator))

    return make


def test_a_head_is_silenced_and_the_others_are_not(edited, walked):
    found = edited(f"{CROSS}.weights[heads=2]=0")[f"{CROSS}.weights"].value
    assert not found[:, 2].any()
    others = [head for head in range(11) if head != 2]
    assert torch.equal(found[:, others], walked[f"{CROSS}.weights"].value[:, others])


@pytest.mark.parametrize(
    ("spec", "address", "cell", "expected"),
    [
        ("src_mask[key=2]=false", "src_mask", (slice(None), 0, 0, 2), False),
        ("src_mask[src=you]=false", "src_mask", (slice(None), 0, 0, 2), False),
        ("causal_mask[query=0,key=1:]=true", "causal_mask", (0, 0, 0), True),
        ("encoder.memory[batch=1,src=:2]=0.5", "encoder.memory", (1, slice(0, 2)), 0.5),
        ("tgt_embedding.positions.table=0", "tgt_embedding.position_vectors", (), 0.0),
        ("src_embedding.positions.table[row=1]=7", "src_embedding.position_vectors", (1,), 7.0),
        ("*.self_attention.weights[query=3]=0", "decoder.layers.0.self_attention.weights", (0, 0, 3), 0.0),
        (f"{CROSS}.v[key=2]=9", f"{CROSS}.v", (0, 0, 2), 9.0),
        (f"{CROSS}.weights[src=2]=0", f"{CROSS}.weights", (0, 0, slice(None), 2), 0.0),
        ("src_embedding.scaled[position=2]=9", "src_embedding.scaled", (0, 2), 9.0),
        ('src_mask[ key = "you" ]=false', "src_mask", (slice(None), 0, 0, 2), False),
    ],
)
def test_places_are_named_by_axis_index_range_and_token(edited, spec, address, cell, expected):
    assert (edited(spec)[address].value[cell] == expected).all()


def test_a_word_is_forgotten_by_its_name_and_the_mean_takes_the_place_of_each_position(edited, walked):
    embedded = edited("src_embedding.tokens.weight[row=love]=0")["src_embedding.embedded"].value
    is_love = torch.tensor([[token == "love" for token in row] for row in walked.sentences.src_tokens])
    assert is_love.sum() == 3
    assert not embedded[is_love].any()
    assert torch.equal(embedded[~is_love], walked["src_embedding.embedded"].value[~is_love])
    # Padding has no part in it.
    found = edited(f"{CROSS}.heads[heads=0,query=2]=mean")[f"{CROSS}.heads"].value
    real = walked.sentences.batch.tgt_in_ids != 0
    mean = walked[f"{CROSS}.heads"].value[:, 0][real].mean(dim=0)
    torch.testing.assert_close(found[:, 0, 2], mean.expand(3, -1))


def test_tokens_of_digits_and_commas_stand_between_quotation_marks(translator):
    tokenizer = Tokenizer.train("characters", ["7,] a"], 20)
    config = replace(translator.model.config, src_vocab=tokenizer.size)
    reading = Translator(Transformer(config).eval(), tokenizer, translator.tgt_tokenizer, translator.config)
    plain = walk(reading, ["7,]"], ["Ich"])
    for token in tokenizer.to_tokens(tokenizer.to_ids("7,]")):
        edits = parse_edits([f'src_mask[key="{token}"]=false'], plain, reading)
        masked = ~walk(reading, ["7,]"], ["Ich"], edits=edits)["src_mask"].value.flatten()
        assert [plain.sentences.src_tokens[0][place] for place in masked.nonzero()] == [token]


def test_an_edit_that_leaves_no_number_has_no_divergence_that_is_nought(edited, walked, translator):
    found = find_changes(walked, edited("encoder.memory=nan"), translator.tgt_tokenizer)
    assert all(isnan(change.divergence) for change in found)
    console = Console(width=80, record=True, color_system=None)
    print_effect(found, walked, console)
    assert ": nan nats." in console.export_text()


def test_what_another_trace_recorded_is_patched_in_and_read_once(edited, walked, translator, tmp_path, monkeypatch):
    """The memory of other sentences, patched in: the decoder says what it would say of those."""
    others = walk(translator, list(reversed(SOURCES)), TARGETS)
    others.save(tmp_path / "others")
    patched = edited(f"encoder.memory=@{tmp_path / 'others'}", f"src_mask=@{tmp_path / 'others'}")
    assert torch.equal(patched["encoder.memory"].value, others["encoder.memory"].value)
    assert torch.equal(patched["output_projection.logits"].value, others["output_projection.logits"].value)
    part = edited(f"encoder.memory[batch=0]=@{tmp_path / 'others'}")["encoder.memory"].value
    assert torch.equal(part[0], others["encoder.memory"].value[0])
    assert torch.equal(part[1:], walked["encoder.memory"].value[1:])
    read = []
    load = Trace.load
    monkeypatch.setattr(Trace, "load", lambda place: read.append(place) or load(place))
    found = edited(f"decoder.layers.*.cross_attention.*=@{tmp_path / 'others'}")
    assert len(read) == 1
    assert torch.equal(found[f"{CROSS}.output"].value, others[f"{CROSS}.output"].value)


def test_two_edits_of_one_place_follow_one_another(edited):
    found = edited("encoder.memory=3", "encoder.memory[src=1]=4")["encoder.memory"].value
    assert found[0, :3, 0].tolist() == [3, 4, 3]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("encoder.memory", r"'encoder.memory': expected ADDRESS\[AXIS=INDEX,...\]=VALUE"),
        ("encoder.memry=0", r"encoder.memry: no such tap or weight. Did you mean 'encoder.memory'"),
        ("text.src_ids=0", "text.src_ids: no such tap or weight"),
        ("encoder.memory[heads=0]=0", "has no axis 'heads', only batch, src, d_model."),
        (f"{CROSS}.k[query=2]=0", "has no axis 'query', only batch, heads, src, d_k, key"),
        (f"{CROSS}.heads[key=2]=0", "has no axis 'key', only batch, heads, tgt, d_v, query"),
        ("encoder.memory[src=0,src=1]=0", "selects along src twice"),
        ("encoder.memory[" + '"a' * 99, r"expected ADDRESS\[AXIS=INDEX,...\]=VALUE"),  # in this life
        ("encoder.memory[src]=0", r"found 'src' between the brackets, expected AXIS=INDEX"),
        (f"src_embedding.tokens.weight[row={'9' * 5000}]=0", "expected an index such as 0"),
        (
            "encoder.memory[src=dog]=0",
            "src='dog', expected an index such as 0, a range such as 2:5 or one of its tokens",
        ),
        ("encoder.memory[d_model=x]=0", "d_model='x', expected an index such as 0, a range such as 2:5."),
        ("encoder.memory[src=7]=0", "selects 7:8 of axis 1, which has 7"),
        ("encoder.memory[src=3:3]=0", "selects 3:3 of axis 1"),
        ("encoder.memory=much", "found value 'much', expected a number, true, false, mean, or @DIR"),
        ("src_mask=mean", "has no mean over sentences and positions"),
        ("encoder.layers.0.feed_forward.w_1.weight[src=0]=0", "has no axis 'src', only row, column"),
        ("encoder.layers.0.self_attention_add_norm.norm.mean=0", "is shown only"),
        ("encoder.memory=@nowhere", "nowhere/trace.json: cannot be read as a trace"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(edited, spec, message):
    with pytest.raises(TraceError, match=message):
        edited(spec)


def test_a_patch_of_another_shape_is_refused(edited, translator, tmp_path):
    walk(translator, ["I love"], ["Ich liebe"]).save(tmp_path / "short")
    with pytest.raises(TraceError, match=r"the saved trace holds \(1, 3, 22\), this one \(3, 7, 22\)"):
        edited(f"encoder.memory=@{tmp_path / 'short'}")


def test_the_effect_is_the_divergence_of_the_two_distributions(edited, walked, translator):
    other = edited(f"{CROSS}.weights=0", "src_embedding.tokens.weight=0")
    found = find_changes(walked, other, translator.tgt_tokenizer)
    assert len(found) == walked["text.ntokens"].value
    p = walked["output_projection.probabilities"].value.double()
    q = other["output_projection.probabilities"].value.double()
    for change in found:
        cell = change.sentence, change.position
        assert change.divergence == pytest.approx(float((p[cell] * (p[cell] / q[cell]).log()).sum()), abs=1e-9)
        assert change.before[1] == pytest.approx(float(p[cell].max()))
        assert change.after[1] == pytest.approx(float(q[cell].max()))
        assert change.before_now == pytest.approx(float(q[cell][p[cell].argmax()]))
    assert max(change.divergence for change in found) > 1e-4


def test_no_edit_has_no_effect_and_walks_of_other_targets_cannot_be_compared(walked, translator):
    assert all(change.divergence < 1e-12 for change in find_changes(walked, walked, translator.tgt_tokenizer))
    other = walk(translator, SOURCES, list(reversed(TARGETS)))
    with pytest.raises(TraceError, match="read different targets"):
        find_changes(walked, other, translator.tgt_tokenizer)


def test_the_effect_is_printed_beside_the_original(edited, walked, translator):
    console = Console(width=80, record=True, color_system=None)
    other = edited("decoder.output=0", "output_projection.linear.weight[row=7]=5")
    print_effect(find_changes(walked, other, translator.tgt_tokenizer), walked, console)
    text = console.export_text()
    assert "I love you → Ich liebe dich" in text
    assert "next tokens changed" in text
    assert "nats" in text
