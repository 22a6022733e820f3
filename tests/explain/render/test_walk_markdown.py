"""A walk as Markdown, read by a Markdown reader: what stands there is what was meant, whatever the sentences hold."""

import re
from html import unescape

import pytest
from markdown_it import MarkdownIt
from three_sentences import SOURCES, TARGETS

from glassformer.explain import walk
from glassformer.explain.render.walk_markdown import escape_markdown

NASTY = "# a | b <b>c</b> `d` *e* [f](g) \\ 1. &amp; ~~h~~ <!-- \x1b[31m ▁ _i_ $j$ <script>"


def read(text: str) -> str:
    return MarkdownIt("commonmark").enable("table").enable("strikethrough").render(text)


def words(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


@pytest.mark.parametrize("values", [False, True])
def test_each_stage_is_a_section_and_each_step_a_row_of_its_table(walked, values):
    html = read(walked.to_markdown(values=values))
    assert re.findall(r"<h2>(.*?)</h2>", html) == list(dict.fromkeys(step.stage for step in walked.steps))
    rows = re.findall(r"<tr>\n<td>(\d+)</td>\n<td><code>(.*?)</code></td>", html)
    assert rows == [(str(step.number), step.address) for step in walked.steps]
    assert "<h1>Walk of 3 sentences</h1>" in html
    for source, target in zip(SOURCES, TARGETS, strict=True):
        assert f"<li>{source} → {target}</li>" in html


def test_a_row_names_equation_symbols_shape_and_section(walked):
    step = walked["decoder.layers.0.cross_attention.scores"]
    assert (
        f"| {step.number} | `decoder.layers.0.cross_attention.scores` | `scores = Q Kᵀ / √d_k` "
        "| `(nbatches, h, n_seq_tgt, n_seq_src) = (3, 11, 8, 7)` | 3.2.1 |"
    ) in walked.to_markdown()
    assert "one number: 18" in walked.to_markdown()


def test_values_stand_under_the_tokens_and_lines_are_lists(translator):
    some = walk(translator, SOURCES, TARGETS, only="decoder.layers.0.cross_attention.weights")
    assert "0." not in some.to_markdown().replace("layers.0.", "")
    text = some.to_markdown(values=True)
    assert "|  | I | love | you | \\</s\\> | \\<pad\\> | \\<pad\\> | \\<pad\\> |" in text
    numbers = " | ".join(f"{weight:.3f}" for weight in some.steps[0].value[0, 0, 2].tolist())
    assert re.search(rf"\| reads liebe +-\\> writes dich \| {re.escape(numbers)} \|", text)
    assert "*showing 4 of 11 along h*" in text
    assert "**Where the target looks.** For each target position" in text
    some = walk(translator, SOURCES, TARGETS, only="text.src_spelling")
    html = read(some.to_markdown(values=True))
    assert re.search(r"<li>love → love \[5\]\s*<ul>\s*<li>love → love \(in the vocabulary\)</li>", html)


def test_a_table_of_text_has_a_line_for_each_sentence(walked):
    text = walked.to_markdown()
    assert "| 1 | I │ am │ in │ love │ with │ you | I am in love with you \\</s\\> |" in text


@pytest.mark.parametrize("values", [False, True])
def test_user_text_is_shown_and_not_read(translator, values):
    walked = walk(translator, [NASTY, "- I\n- love"], [NASTY, "1. you"], only="text.*")
    html = read(walked.to_markdown(values=values))
    shown = NASTY.replace("\x1b", "�")
    assert f"{shown} → {shown}" in words(html)
    assert "- I - love → 1. you" in words(html)
    for tag in ("script", "b>", "del>", "a ", "ol>", "hr"):
        assert f"<{tag}" not in html


@pytest.mark.parametrize("text", [NASTY.replace("\x1b", ""), "1. x", "a  b", "</s>", "\\", "|", "ʼ 日本"])
def test_escaped_text_reads_as_it_was(text):
    assert words(read(f"x {escape_markdown(text)}")).strip() == f"x {text}"


def test_a_generation_folds_tokens_after_the_first_unless_values_are_asked_for(searched):
    text, whole = searched.to_markdown(), searched.to_markdown(values=True)
    assert "# Generation of 3 sentences" in text
    assert "## Token 1\n\n*decoder, numbers" in text
    assert "| -3.528 | 0.084 | dropped | \\] \\</s\\> |" in text
    assert "## Token 1: Decoder layer 0" in whole
    assert "- -3.423  \\</s\\>  after hypothesis 0" not in whole, "values are those of the first sentence"
    assert "sentence 0 is finished" in whole
    assert read(text).count("<table>") > 20


def test_values_of_each_sentence_and_ids_of_the_batch(walked):
    for sentence in range(3):
        text = walked.to_markdown(values=True, sentence=sentence)
        assert f"Values are those of sentence {sentence}, counted from 0." in text
        part = text.partition("`decoder.layers.0.cross_attention.weights`\n")[2]
        first = walked["decoder.layers.0.cross_attention.weights"].value[sentence, 0, 0, 0]
        assert f"{first:.3f}" in part.partition("###")[0]
    assert "Values are" not in walked.to_markdown()
    text = walked.to_markdown(ids=True)
    ids, tokens = walked.sentences.batch.src_ids[1].tolist(), walked.sentences.src_tokens[1]
    row = " | ".join(f"{one} {escape_markdown(token)}" for one, token in zip(ids, tokens, strict=True))
    assert f"| 1 | {row} |" in text
    assert "**causal\\_mask (query, key) = (8, 8): 1 = may attend**" in text


def test_it_is_written_to_a_file(walked, tmp_path):
    walked.write_markdown(tmp_path / "walk.md")
    assert (tmp_path / "walk.md").read_text("utf-8") == walked.to_markdown()
