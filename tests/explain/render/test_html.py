"""A walk in a notebook: well-formed, self-contained, small, and with nothing of a user's text read as HTML."""

import re
from html.parser import HTMLParser

import pytest
import torch
from three_sentences import SOURCES, TARGETS

from glassformer.decoding import Translator
from glassformer.errors import TraceError
from glassformer.explain import walk
from glassformer.explain.page.writer import MAX_FRAME_NUMBERS, page_html
from glassformer.explain.render import html
from glassformer.explain.walks import walk_generation
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text import Tokenizer
from glassformer.trace.palette import ABOVE, BELOW

VOID = {"br"}
ALLOWED = {
    "div", "ul", "li", "details", "summary", "b", "i", "p", "code", "table", "tr", "th", "td", "br",
    "svg", "title", "rect", "text", "image",
}  # fmt: skip


class Reader(HTMLParser):
    """Checks that tags are closed in order; keeps tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def still(walked) -> str:
    """What a walk shows that is not one whole pass."""
    return html.attention_html(walked) + html.walk_html(walked)


@pytest.mark.parametrize("kind", ["walked", "searched", "sampled", "trained"])
def test_every_kind_of_walk_is_well_formed_and_self_contained(kind, request):
    walked = request.getfixturevalue(kind)
    page = Reader(still(walked))
    assert kind == "walked" or walked._repr_html_() == still(walked)
    assert {tag for tag, _ in page.tags} <= ALLOWED
    of_html = [attributes for tag, attributes in page.tags if tag not in ("svg", "title", "rect", "text", "image")]
    assert {name for attributes in of_html for name in attributes} <= {"style", "open"}
    assert not {name for _, attributes in page.tags for name in attributes if name.startswith(("on", "src"))}
    assert all(attributes.get("href", "data:").startswith("data:") for _, attributes in page.tags)
    assert "url(" not in str(page.tags)


def test_a_whole_pass_is_the_page_in_an_iframe_with_the_heads_as_a_fallback(walked):
    tags = Reader(walked._repr_html_()).tags
    assert [tag for tag, _ in tags[:2]] == ["iframe", "details"]
    frame = tags[0][1]
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert frame["srcdoc"] == page_html(walked, most=MAX_FRAME_NUMBERS)
    assert 'id="living"' not in frame["srcdoc"]
    assert 'id="living"' in Reader(walked.frame()._repr_html_()).tags[0][1]["srcdoc"]
    heads = sum(tag == "svg" for tag, _ in tags)
    assert heads == sum(tag == "svg" for tag, _ in Reader(html.attention_html(walked)).tags) > 0


def test_a_narrowed_walk_shows_only_its_steps(walked):
    assert walked.narrow(layer=0)._repr_html_().startswith("<details>")
    with pytest.raises(TraceError, match="expected one whole pass"):
        walked.narrow(layer=0).frame()


def test_stages_fold_out_and_the_first_is_open(walked):
    text = html.walk_html(walked)
    titles = re.findall(r"<details(?: open)?><summary><b>(.*?)</b>", text)
    assert titles == list(dict.fromkeys(step.stage for step in walked.steps))
    assert text.count("<details open>") == 1
    assert text.index("<details open>") < text.index("<b>Text</b>")


def test_a_step_shows_title_sentence_equation_and_shape(walked):
    step = walked["decoder.layers.0.cross_attention.scores"]
    text = " ".join("".join(Reader(still(walked)).text).split())
    assert (
        f"{step.number} decoder.layers.0.cross_attention.scores {step.story.title} (section 3.2.1). "
        f"{step.story.sentence}scores = Q Kᵀ / √d_k (nbatches, h, n_seq_tgt, n_seq_src) = (3, 11, 8, 7)"
    ) in text


def test_numbers_are_visible_and_shaded_by_their_size(translator):
    some = walk(translator, SOURCES, TARGETS, only="decoder.layers.0.cross_attention.weights")
    text = some._repr_html_()
    assert "<tr><th></th><th>I</th><th>love</th><th>you</th><th>&lt;/s&gt;</th>" in text
    cells = re.findall(r'<td(?: style="background:(#\w{6})(\w\w)")?>([\d.]+)</td>', text)
    assert len(cells) == 2 * 8 * 7
    assert {colour for colour, _, _ in cells} == {ABOVE, ""}
    assert [number for _, _, number in cells[:7]] == [f"{x:.3f}" for x in some.steps[0].value[0, 0, 0].tolist()]
    first_head = cells[:56]
    darkest = max(int(opacity or "0", 16) for _, opacity, _ in first_head)
    assert max((float(number), int(opacity or "0", 16)) for _, opacity, number in first_head)[1] == darkest
    assert "showing 2 of 11 along h" in text


def test_signs_have_their_colours_and_infinities_none(translator):
    some = walk(translator, SOURCES, TARGETS, only="decoder.layers.0.self_attention.masked_scores")
    text = some._repr_html_()
    assert "<td>−∞</td>" in text
    for colour, number in re.findall(r'background:(#\w{6})\w\w">(-?[\d.]+)<', text):
        assert (colour == BELOW) == number.startswith("-")


def test_user_text_is_escaped(translator):
    nasty = "<script>alert(1)</script> & <b>\x1b[31m"
    text = walk(translator, [nasty], [nasty], only="text.*")._repr_html_()
    page = Reader(text)
    assert {tag for tag, _ in page.tags} <= ALLOWED
    shown = nasty.replace("\x1b", "�")
    assert f"{shown} → {shown}" in "".join(page.text)


def test_a_tiny_models_walk_stays_usable():
    tokenizer = Tokenizer.train("characters", [*SOURCES, *TARGETS], 60)
    torch.manual_seed(1)
    model = Transformer(ModelConfig.tiny(src_vocab=tokenizer.size, tgt_vocab=tokenizer.size)).eval()
    translator = Translator(model, tokenizer, tokenizer, DecodeConfig())
    walked = walk(translator, SOURCES * 5, TARGETS * 5)
    assert len(walked.steps) > 350
    assert 300_000 < len(still(walked).encode()) < 3_000_000


def test_what_has_no_room_is_left_out_with_a_word(walked, searched, monkeypatch):
    monkeypatch.setattr(html, "_VALUES_ROOM", 20_000)
    text = still(walked)
    assert text.count("values left out here, to keep the page small") > 100
    assert "<code>choice.next_ids</code>" in text
    monkeypatch.setattr(html, "_REST_ROOM", 30_000)
    for page in (html.walk_html(walked), searched._repr_html_()):
        Reader(page)
        assert len(page) < 90_000
        assert re.search(r"numbers \d+ to \d+ left out here", page)
        assert "<code>choice.next_ids</code>" not in page
    assert "the summary is left out here" in searched._repr_html_()


def test_long_spellings_are_cut(translator):
    text = walk(translator, ["I love you " * 30], ["ja"], only="text.src_spelling")._repr_html_()
    assert "… and 120 more" in text


def test_a_generation_shows_each_token(translator):
    walked = walk_generation(translator, SOURCES, DecodeConfig(beam=2, max_length_a=0, max_length_b=3))
    text = walked._repr_html_()
    for number in (1, 2):
        assert f"<details><summary><b>Token {number}</b></summary><p><i>decoder, numbers" in text
    assert "<td>lives as 0</td>" in text
