"""A text translated sentence by sentence is its sentences' translations, joined."""

from dataclasses import replace

import pytest
import torch
from words import MIXED, outcomes

from glassformer.decoding import Request, Translator
from glassformer.errors import InputError
from glassformer.settings import DecodeConfig
from glassformer.text import Tokenizer

THREE = ["The old house stands.", "A river by tall trees!", "Under the house?"]
GAPS = [" ", "\n\n  "]
TEXT = THREE[0] + GAPS[0] + THREE[1] + GAPS[1] + THREE[2]
BEAM = DecodeConfig(beam=3, n_best=2, max_length_b=6, split_sentences=True)
SAMPLE = DecodeConfig(sample=True, n_best=2, seed=1, max_length_b=6, split_sentences=True)


@pytest.fixture
def spelling(make_model) -> Translator:
    """A translator of characters, which keeps marks and white space."""
    tokenizer = Tokenizer.train("characters", [TEXT], 40)
    model = make_model(vocab=tokenizer.size, seed=5, bias={2: 1.5}, max_length=60)
    return Translator(model, tokenizer, tokenizer, BEAM)


def test_a_text_of_three_sentences_equals_its_parts(spelling):
    (whole,) = spelling.translate([TEXT], attention=True)
    parts = spelling.translate(THREE, replace(BEAM, split_sentences=False), attention=True)
    assert whole.source == TEXT
    assert whole.source_tokens == [token for part in parts for token in part.source_tokens]
    assert len(whole.hypotheses) == 2
    for rank, one in enumerate(whole.hypotheses):
        first, second, third = (part.hypotheses[rank] for part in parts)
        assert one.text == first.text + GAPS[0] + second.text + GAPS[1] + third.text
        assert one.ids == first.ids + second.ids + third.ids
        assert one.log_prob == pytest.approx(first.log_prob + second.log_prob + third.log_prob, abs=1e-4)
        assert one.truncated == (first.truncated or second.truncated or third.truncated)
    seen, blocks = whole.hypotheses[0].attention, [part.hypotheses[0].attention for part in parts]
    assert seen.shape[2:] == (sum(one.shape[2] for one in blocks), sum(one.shape[3] for one in blocks))
    torch.testing.assert_close(seen.sum(-1), torch.ones(seen.shape[:-1]))
    torch.testing.assert_close(seen[:, :, : blocks[0].shape[2], : blocks[0].shape[3]], blocks[0])
    ends = [place for place, token in enumerate(whole.source_tokens) if token == "</s>"]
    assert len(ends) == 3
    assert not {source for source, _ in whole.links()} & set(ends)


@pytest.mark.parametrize(("options", "batch_tokens"), [(BEAM, 300), (SAMPLE, 1)])
def test_neighbours_and_batches_change_nothing(spelling, options, batch_tokens):
    texts = [THREE[1], TEXT, "", *MIXED[:2], TEXT + " " + TEXT]
    found = spelling.translate(texts, replace(options, batch_tokens=batch_tokens))
    assert outcomes(found) == outcomes(spelling.translate(texts, options))
    assert [one.source for one in found] == texts
    assert outcomes(spelling.translate_stream(texts, options, chunk=2)) == outcomes(found)
    if not options.sample:
        assert outcomes([spelling.translate([text], options)[0] for text in texts]) == outcomes(found)


def test_one_sentence_is_as_without_cutting_and_one_that_is_cut_flags_the_whole(spelling):
    plain = replace(SAMPLE, split_sentences=False)
    assert outcomes(spelling.translate(THREE, SAMPLE)) == outcomes(spelling.translate(THREE, plain))
    one = spelling.translate(["Tall trees."], SAMPLE)[0].text
    two = spelling.translate(["Tall trees. Tall trees."], SAMPLE)[0].text
    assert two.startswith(one + " ")
    assert two != f"{one} {one}"
    (whole,) = spelling.translate(["The " * 40 + "house. A river."])
    assert whole.source_truncated
    assert len(whole.source_tokens) == 60 + len("A river.") + 1


def test_a_prefix_is_that_of_the_first_sentence_and_phrases_that_must_occur_need_one(spelling):
    with pytest.raises(
        InputError, match=r"texts\[0\]: found 3 sentences or lines with phrases.*split_sentences = false"
    ):
        spelling.translate([TEXT], constraints=[["e"]])
    (begun,), (plain,) = spelling.translate([TEXT], prefixes=["The"]), spelling.translate([TEXT])
    assert begun.text.startswith("The")
    assert begun.text.splitlines()[1:] == plain.text.splitlines()[1:]
    (whole,) = spelling.translate_stream([Request(TEXT, ban=("e",))])
    assert "e" not in whole.text
    assert spelling.translate(THREE[:1], prefixes=["The"])[0].text.startswith("The")


def test_a_blank_sentence_among_others_leaves_all_ranks(spelling):
    (whole,) = spelling.translate([f"{THREE[0]}\n\u200b\n{THREE[2]}"])
    (without,) = spelling.translate([f"{THREE[0]}\n{THREE[2]}"])
    assert len(whole.hypotheses) == 2
    assert [one.ids for one in whole.hypotheses] == [one.ids for one in without.hypotheses]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (" The house. ", [" |The house.| "]), ("The  house.", ["|The house.|"]), ("The\u00a0house.\u200b", ["|The house.|"]),
        ("A river.\nThe house.\n", ["|A river.|\n", "|The house.|\n"]),
        ("\tA river.\u2028 \r\nThe house.", ["\t|A river.|\u2028 \r\n", "|The house.|"]),
        ("A river.\n...\nThe house.", ["|A river.|\n", "|...|\n", "|The house.|"]),
    ],
)  # fmt: skip
def test_white_space_is_kept_around_what_the_model_reads(spelling, text, lines, split):
    options = replace(BEAM, n_best=1, split_sentences=split)
    read = [line.split("|") for line in lines]
    alone = spelling.translate([inner for _, inner, _ in read], options)
    (whole,) = spelling.translate([text], options)
    assert whole.source == text
    assert whole.source_tokens == [token for one in alone for token in one.source_tokens]
    assert whole.text == "".join(start + one.text + end for (start, _, end), one in zip(read, alone, strict=True))
    assert "".join(spelling.stream(text, options)) == whole.text
    assert spelling.score([f" {lines[0].split('|')[1]}  "], ["The"]) == spelling.score([read[0][1]], ["The"])


@pytest.mark.parametrize("text", ["...", "-", "12345", " 3.50 €", "🙂"])
def test_what_has_no_letter_is_copied_unless_it_must_have_words(spelling, text):
    (found,) = spelling.translate([text])
    assert (found.text, found.source_tokens, len(found.hypotheses)) == (text, [], 1)
    assert "".join(spelling.stream(text)) == text
    assert spelling.translate([text], replace(BEAM, copy_wordless=False))[0].source_tokens
    assert spelling.translate([text], prefixes=["The"])[0].text.lstrip().startswith("The")


def test_white_space_at_the_ends_of_a_prefix_does_not_count(spelling):
    texts, spaced = THREE[:1] * 3, ["The ", " The", " The \u00a0"]
    plain = spelling.translate(texts, prefixes=["The"] * 3)
    assert outcomes(spelling.translate(texts, prefixes=spaced)) == outcomes(plain)
    assert spelling.translate([TEXT.replace("\n", " ")], replace(BEAM, split_sentences=False), prefixes=[" "])


@pytest.mark.parametrize(("must", "ban"), [("river", "river"), ("the river", "river")])
def test_no_phrase_is_required_and_banned(spelling, must, ban):
    with pytest.raises(InputError, match=rf"texts\[0\]: must '{must}': found with ban '{ban}', expected one of them"):
        spelling.translate(THREE[:1], constraints=[[must]], banned=[ban])
