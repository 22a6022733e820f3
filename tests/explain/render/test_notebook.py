"""A walk in a notebook: well-formed, self-contained, small, and with nothing of a user's text read as HTML."""

import re
from html.parser import HTMLParser

import pytest
from three_sentences import SOURCES, TARGETS

from glassformer.errors import TraceError
from glassformer.explain import walk
from glassformer.explain.page.writer import MAX_FRAME_NUMBERS, page_html
from glassformer.explain.render.notebook import attention_html, walk_html

VOID = {"br"}
ALLOWED = {"pre", "details", "summary", "b", "div", "svg", "title", "rect", "text", "image", "p", "br", "code", "i"}


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


@pytest.mark.parametrize("kind", ["walked", "searched", "sampled", "trained"])
def test_every_kind_of_walk_is_well_formed_and_self_contained(kind, request):
    walked = request.getfixturevalue(kind)
    page = Reader(walk_html(walked))
    assert kind == "walked" or walked._repr_html_() == walk_html(walked)
    assert {tag for tag, _ in page.tags} <= ALLOWED
    of_html = [attributes for tag, attributes in page.tags if tag not in ("svg", "title", "rect", "text", "image")]
    assert {name for attributes in of_html for name in attributes} <= {"style", "open"}
    assert not {name for _, attributes in page.tags for name in attributes if name.startswith(("on", "src"))}
    assert all(attributes.get("href", "data:").startswith("data:") for _, attributes in page.tags)
    assert "url(" not in str(page.tags)


def test_a_whole_pass_is_the_page_in_an_iframe_and_a_narrowed_walk_shows_only_its_steps(walked):
    tags = Reader(walked._repr_html_()).tags
    assert [tag for tag, _ in tags[:2]] == ["iframe", "details"]
    frame = tags[0][1]
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert frame["srcdoc"] == page_html(walked, most=MAX_FRAME_NUMBERS)
    assert 'id="living"' not in frame["srcdoc"]
    assert 'id="living"' in Reader(walked.frame()._repr_html_()).tags[0][1]["srcdoc"]
    heads = sum(tag == "svg" for tag, _ in tags)
    assert heads == sum(tag == "svg" for tag, _ in Reader(attention_html(walked)).tags) > 0
    assert walked.narrow(layer=0)._repr_html_().startswith("<details>")
    with pytest.raises(TraceError, match="expected one whole pass"):
        walked.narrow(layer=0).frame()


def test_a_narrowed_walk_is_what_the_terminal_prints_and_user_text_is_escaped(translator):
    some = walk(translator, SOURCES, TARGETS, only="decoder.layers.0.cross_attention.weights")
    text = "".join(Reader(walk_html(some)).text)
    step = some.steps[0]
    assert step.story.sentence.split()[0] in text
    first = step.value[0, 0, 0].tolist()
    assert "  ".join(f"{x:.3f}" for x in first[:4]) in re.sub(" +", "  ", text)
    many = walk(translator, SOURCES, TARGETS, only="decoder.*")
    assert len(many.steps) > 40
    assert many.steps[0].story.sentence not in "".join(Reader(walk_html(many)).text)
    nasty = "<script>alert(1)</script> & <b>\x1b[31m"
    text = walk(translator, [nasty], [nasty], only="text.*")._repr_html_()
    page = Reader(text)
    assert {tag for tag, _ in page.tags} <= ALLOWED
    shown = nasty.replace("\x1b", "�")
    assert shown in "".join(page.text).replace("\n", "")


def test_a_large_walk_stays_small(searched, trained):
    for walked in (searched, trained):
        assert 1_000 < len(walked._repr_html_()) < 500_000
