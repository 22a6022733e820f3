"""A trace of the paper's base model in the browser: what is kept and what is said, and no long task while scrolling."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("playwright.sync_api", reason="the browser tests need Playwright's Python client")

from browsing import living, longest_task_ms, open_page, scroll_through, until
from covering import FULL
from page_reader import PageReader

from glassformer.decoding import Translator
from glassformer.explain import Walk, walk
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, ModelConfig

pytestmark = pytest.mark.browser

TOKENS, SENTENCES = 20, 8
TEXT = "the house is near a river and we have two dogs with three children who read good books"


def sentence_of(tokenizer, first: int) -> str:
    """A text of TOKENS tokens."""
    words, all_words = list[str](), TEXT.split()
    for at in range(10 * TOKENS):
        longer = [*words, all_words[(first + at) % len(all_words)]]
        words = longer if len(tokenizer.to_ids(" ".join(longer))) <= TOKENS else words
    return " ".join(words)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> tuple[Walk, Path]:
    tokenizer = Translator.load().src_tokenizer
    torch.manual_seed(1)
    config = ModelConfig.base(src_vocab=tokenizer.size, tgt_vocab=tokenizer.size)
    texts = [sentence_of(tokenizer, first) for first in range(SENTENCES)]
    assert all(len(tokenizer.to_ids(text)) == TOKENS for text in texts)
    walked = walk(Translator(Transformer(config), tokenizer, tokenizer, DecodeConfig()), texts, texts[::-1])
    path = tmp_path_factory.mktemp("large") / "base.html"
    walked.to_page(path, run="base", run_option="--run runs/base")
    return walked, path


def test_it_is_small_enough_and_every_step_of_one_sentence_is_exact(large):
    walked, path = large
    assert path.stat().st_size <= 40e6
    reader = PageReader(path.read_text(encoding="utf-8"))
    for step in walked.trace:
        if not step.address.startswith("text.") and "vocab" not in step.axes:
            found = torch.tensor(reader.value(0, step.address)[0].copy())
            assert torch.equal(found, step.value[0].float()), step.address
    for sentence in reader.record["sentences"]:
        wide = [tap for tap in sentence["taps"] if "vocab" in tap["axes"]]
        assert [tap["kept"] for tap in wide] == [50, 50]


def test_what_is_left_out_says_so_where_it_would_stand(browser, large):
    walked, path = large
    with open_page(browser, path, "#encoder.layers.0.feed_forward.inner&sentence=3") as page:
        assert "million parameters, too many to compute here" in page.inner_text("#typing")
        assert "left out" in page.inner_text("#view .left-out")
        command = page.inner_text("#view code.record")
        assert command.startswith(f"glassformer trace '{walked.sentences.sources[3]}' --tgt ")
        assert command.endswith("--run runs/base --only 'encoder.layers.0.feed_forward.inner' --save DIR")
        page.evaluate("location.hash = 'next&sentence=3'")
        page.wait_for_selector(".distribution .note")
        assert "Only the 50 most probable tokens are in this page; the rest have" in page.inner_text("#view")
        page.evaluate(
            "location.hash = 'encoder.layers.5.feed_forward_add_norm.residual[position=1,d_model=7]&sentence=3'"
        )
        page.wait_for_selector("#view .value output")
        value = walked["encoder.layers.5.feed_forward_add_norm.residual"].value[3, 1, 7]
        assert torch.tensor(float(page.inner_text("#view .value output").replace("−", "-"))) == value


LAPTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@pytest.mark.parametrize(
    ("lives", "size"), [(False, LAPTOP), (True, PHONE)] + FULL * [(True, LAPTOP), (False, PHONE)]
)
def test_no_task_of_the_main_thread_takes_50_ms_while_scrolling(browser, large, bundled_file, lives, size):
    path = bundled_file if lives else large[1]
    for place in ("", "#attention", "#encoder", "#decoder"):
        with open_page(browser, path, place, viewport=size) as page:
            until(page, "document.readyState === 'complete'")
            if lives:
                living(page)
            page.wait_for_timeout(500)
            times = [longest_task_ms(browser, page, lambda page=page: scroll_through(page))]
            while min(times) > 50 and len(times) < 3:
                page.evaluate("window.glassformer.redraw()")
                page.evaluate("scrollTo(0, 0)")
                page.wait_for_timeout(500)
                times.append(longest_task_ms(browser, page, lambda page=page: scroll_through(page)))
            assert min(times) <= 50, (path.name, place, times)
