"""The page in a headless Chromium, opened from disk with the network blocked: what a person sees and does."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import torch

pytest.importorskip("playwright.sync_api", reason="the browser tests need Playwright's Python client")

from axe_playwright_python.sync_playwright import Axe
from browsing import go, living, longest_task_ms, open_page, until
from page_reader import PageReader

from glassformer.decoding import SearchJob, Translator
from glassformer.decoding.search.search import search
from glassformer.decoding.search.steps import DecoderSteps
from glassformer.decoding.sentences import read_source_sentences
from glassformer.explain import Walk, walk
from glassformer.explain.page.packing import pack, unpack
from glassformer.interop.marian.release import import_marian
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text import Tokenizer
from glassformer.text.lines import normalize_source
from glassformer.trace import tracing

pytestmark = pytest.mark.browser

MARIAN_MODELS = Path(__file__).parents[2] / "interop/marian_models"
OTHER = "She reads a book."
TEXT, TARGET = "I love you, too.", "Ich liebe dich auch."


def small_walk(kind: str) -> Walk:
    """Of a small model of either norm order, with rotary positions or a learned table; or with an SSRU."""
    tokenizer = Tokenizer.train("words", [TEXT, TARGET], 40)
    torch.manual_seed(3)
    choices: dict[str, dict[str, Any]] = {
        "pre": {"norm": "pre", "positions": "rotary"}, "post": {"positions": "learned"},
        "ssru": {"autoregressive_sublayer": "ssru"},
    }  # fmt: skip
    config = ModelConfig(
        src_vocab=tokenizer.size, tgt_vocab=tokenizer.size, d_model=12, n_heads=3, d_ff=10, n_encoder_layers=2,
        n_decoder_layers=1, **choices[kind],
    )  # fmt: skip
    return walk(Translator(Transformer(config), tokenizer, tokenizer, DecodeConfig()), [TEXT], [TARGET])


@pytest.fixture(scope="module", params=["pre", "post", "ssru"])
def small(request, tmp_path_factory) -> tuple[Walk, Path]:
    walked, path = small_walk(request.param), tmp_path_factory.mktemp("small") / f"{request.param}.html"
    walked.to_page(path)
    return walked, path


@pytest.fixture(scope="module")
def small_file(tmp_path_factory) -> Path:
    """The page of a small model, for what does not depend on the model."""
    path = tmp_path_factory.mktemp("small") / "small.html"
    small_walk("post").to_page(path)
    return path


def number_of(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


def type_text(page, text: str, read: str | None = None) -> None:
    """Type it, and wait for its translation; ``read`` is what the model reads of it, if not all."""
    page.fill("#text", text)
    until(page, f"window.glassformer.record.sentence.source === {json.dumps(read or text)}")


def download(page, place: str, kind: str) -> bytes:
    """What a button saves."""
    with page.expect_download() as started:
        page.click(f"{place} .exports >> text={kind}")
    return Path(started.value.path()).read_bytes()


DOUBTFUL = "Xqzv wkjhp bnmtr qwzx."


def test_silencing_the_head_on_the_first_screen_changes_the_translation(browser, bundled, bundled_file):
    with open_page(browser, bundled_file) as page:
        assert page.inner_text("#telling") == "Looking for a head to switch off …"
        until(page, "document.querySelector('#telling button')")
        box = page.locator("#telling button").bounding_box()
        assert box["y"] + box["height"] < 800
        words = page.inner_text("#telling button")
        assert re.fullmatch(r"Switch (head \d|heads \d and \d|all heads) off", words)
        page.click("#telling button")
        until(page, "window.glassformer.before !== null")
        edits = page.evaluate("window.glassformer.edits")
        heads = [edit["index"]["heads"] for edit in edits]
        assert all(str(head) in words for head in heads) or words == "Switch all heads off"
        shown = page.inner_text(".translation")
        assert shown == silenced_translation(edits[0]["address"], heads) != bundled.sentences.targets[0]
        assert page.inner_text(".was") == bundled.sentences.targets[0]
        assert page.inner_text("#telling button") == words.replace(" off", " on")
        page.click("#telling button")
        until(page, "window.glassformer.before === null")
        assert page.inner_text(".translation") == bundled.sentences.targets[0]


def silenced_translation(address: str, silent: list[int]) -> str:
    """As PyTorch writes it."""
    translator = Translator.load()
    ids = [*translator.src_tokenizer.to_ids(TEXT), translator.model.config.eos_id]

    def silence(heads: torch.Tensor) -> torch.Tensor:
        heads[:, silent] = 0.0
        return heads

    with torch.no_grad(), tracing(translator.model, {address: silence}, only="src_mask"):
        steps = DecoderSteps(translator.model, torch.tensor([ids]), translator.config)
        best = search(steps, SearchJob([ids], [50], translator.config))[0][0]
    return translator.tgt_tokenizer.to_text(best.ids)


TYPE = """() => {
    const input = document.querySelector("#text");
    input.value = "She reads a book.";
    input.dispatchEvent(new Event("input"));
    const faint = (one) => Number(getComputedStyle(document.querySelector(one)).opacity) < 1;
    return [document.querySelector(".state").textContent, faint(".translation"), faint(".rows"), faint(".middle")];
}"""


def test_what_is_stale_is_dimmed_at_once_and_said(browser, bundled_file):
    with open_page(browser, bundled_file) as page:
        living(page)
        assert page.evaluate(TYPE) == ["computing …", True, True, True]
        until(page, f"window.glassformer.record.sentence.source === '{OTHER}'")
        assert page.inner_text(".state") == ""
        assert page.evaluate("getComputedStyle(document.querySelector('.middle')).opacity") == "1"


def test_a_whole_bar_is_100_percent(browser, bundled_file):
    with open_page(browser, bundled_file, "#next") as page:
        shares = page.evaluate(
            "[...document.querySelectorAll('.bars li')].map((one) => [one.querySelector('.fill').clientWidth / "
            "one.querySelector('.track').clientWidth, parseFloat(one.querySelector('.share').textContent) / 100])"
        )
        assert all(width == pytest.approx(share, abs=0.01) for width, share in shares)
        assert page.inner_text(".bar-axis").split() == ["0", "100", "%"]


def test_attention_opens_on_its_weights_and_heads_are_numbered(browser, bundled_file):
    with open_page(browser, bundled_file, "#encoder.layers.0.self_attention") as page:
        assert page.locator("#view svg.matrix").is_visible()
        assert not page.locator("#view .step").first.is_visible()
        # A click whose view is drawn anew at once, as when the model of the page wakes: what was opened stays open.
        page.evaluate("document.querySelector('#view .other-steps > summary').click(); window.glassformer.redraw()")
        assert page.locator("#view .step").first.is_visible()
        living(page)
        assert page.locator("#view .step").first.is_visible()
    with open_page(browser, bundled_file) as page:
        n_heads = Translator.load().model.config.n_heads
        numbers = page.locator(".overview .layer-heads >> nth=0").locator("small").all_inner_texts()
        assert numbers == [str(head) for head in range(n_heads)]


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080)])
def test_large_type_is_larger_and_nothing_is_wider_than_the_screen(browser, bundled_file, size):
    with open_page(browser, bundled_file, viewport={"width": size[0], "height": size[1]}) as page:
        living(page)
        width = "document.querySelector('.chip.src bdi').getBoundingClientRect().height"
        before = page.evaluate(width)
        page.click(".type-size")
        until(page, "location.hash.endsWith('large=1')")
        assert page.evaluate(width) > 1.3 * before
        for place in ("", DEEP[1:], "why", "beam", "attention"):
            go(page, f"{place}&large=1")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        ends = page.evaluate(
            """() => { const box = (one) => document.querySelector(one).getBoundingClientRect();
            const chip = box('.chip.tgt[aria-pressed=true]'), line = box('.line.chosen');
            return line.right >= chip.left && line.left <= chip.right; }"""
        )
        assert ends, "lines end at their tokens"


def test_no_matrix_is_cut_off_on_a_laptop(browser, bundled_file):
    with open_page(browser, bundled_file) as page:
        living(page)
        for place in ("encoder.memory", "decoder.layers.1.cross_attention.weights", "src_embedding.embedded"):
            go(page, place)
            box, view = (page.locator(one).bounding_box() for one in ("#view svg.matrix", "#view"))
            assert box["y"] + box["height"] <= page.locator(".bottom").bounding_box()["y"], place
            assert box["x"] + box["width"] <= view["x"] + view["width"], place


CUT = """() => [...document.querySelectorAll('#view .labels text')].filter((one) => {
    const [own, all] = [one.getBoundingClientRect(), one.closest('svg').getBoundingClientRect()];
    return own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 1;
}).map((one) => one.textContent)"""
WIDE = (
    "() => [...document.querySelectorAll('.equation')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
)


@pytest.mark.parametrize("size", [(1280, 800), (1024, 640), (390, 844)])
def test_each_row_has_its_label_and_nothing_is_cut_or_wider_than_the_screen(browser, bundled_file, size):
    with open_page(browser, bundled_file, viewport={"width": size[0], "height": size[1]}) as page:
        living(page)
        type_text(page, "My name is Tom, and I live near the river.")
        until(page, "!window.glassformer.living.busy")
        for place in ("", "decoder.layers.1.self_attention.weights", "src_embedding.position_vectors"):
            go(page, f"{place}{'&tour=8' if place else ''}")
            tokens = "src_tokens" if place.startswith("src") else "tgt_in_tokens"
            rows = page.evaluate(f"window.glassformer.record.sentence.{tokens}.length")
            assert page.locator("#view .labels text[text-anchor=end]").count() == rows, place
            assert page.evaluate(CUT) == [], place
            assert page.evaluate(WIDE) == 0, place
        go(page, DEEP[1:])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_layer_is_told_by_its_name(browser, bundled_file):
    with open_page(browser, bundled_file, "#decoder.layers.1") as page:
        assert page.inner_text("#about h2") == "Decoder, layer 1"
        assert "Residual sum add & norm of cross-attention" in page.inner_text("#about")


def test_what_the_model_reads_is_said_where_something_else_was_typed(browser, bundled_file):
    with open_page(browser, bundled_file) as page:
        living(page)
        type_text(page, "Where is {city}? 😀", "Where is Tom?")
        assert page.inner_text(".reads").startswith(
            "The model reads “Where is Tom?”; glassformer translate restores {name}"
        )
        type_text(page, "12345")
        assert page.inner_text(".reads").startswith("glassformer translate copies")
        type_text(page, TEXT)
        assert page.query_selector(".reads") is None
        page.fill("#text", " ")
        until(page, "document.querySelector('#edits').textContent.startsWith('Type a sentence')")
        assert page.inner_text("#band").strip() == ""


def test_layers_heads_and_steps_count_from_0(browser, small_file):
    places = ["encoder", "decoder.layers.0", "encoder.layers.1.self_attention", "attention", "next", "why", "beam"]
    with open_page(browser, small_file) as page:
        living(page)
        for place in ["", *places]:
            go(page, place)
            labels = page.eval_on_selector_all(
                "[aria-label], [title]", "all => all.map((one) => `${one.getAttribute('aria-label')} ${one.title}`)"
            )
            text = "\n".join([page.inner_text("#app"), *labels])
            for word, count in (("layer", 2), ("decoder layer", 1), ("head", 3)):
                found = {int(one) for one in re.findall(rf"(?i)\b{word} ?(\d+)", text)}
                assert max(found, default=0) < count, (place, word)


def test_first_sight_has_sentence_translation_confidence_figure_and_what_to_do(browser, bundled, bundled_file):
    with open_page(browser, bundled_file) as page:
        band = page.inner_text("#band")
        for token in (*bundled.sentences.src_tokens[0], *bundled.sentences.tgt_out_tokens[0]):
            assert token in band
        figure, config = page.inner_html("svg.figure"), Translator.load().model.config
        assert f"7 × {config.d_model}" in figure
        assert f"6 × {config.tgt_vocab:,}" in figure
        assert "click any box or cell" in page.inner_text("#view")
    with open_page(browser, bundled_file) as page:
        assert page.inner_text(".translation") == bundled.sentences.targets[0]
        chance, _ = bundled.sentences.confidence[0]
        assert page.inner_text(".confidence") == f"confidence {chance:.2f}"
        living(page)
        doubtful = Translator.load().translate([DOUBTFUL])[0]
        type_text(page, DOUBTFUL)
        expected = f"probably wrong, confidence {doubtful.hypotheses[0].confidence:.2f}: {doubtful.doubt.text}"
        assert page.inner_text(".confidence") == expected
        assert page.inner_text(".translation") == doubtful.text


def test_every_step_shows_the_numbers_of_the_trace_and_sums_that_give_them(browser, small):
    walked, path = small
    with open_page(browser, path) as page:
        for step in walked.trace:
            if step.address.startswith("text.") or "vocab" in step.axes:
                continue
            index = tuple(size - 1 for size in step.shape)
            cells = ",".join(
                f"{axis}={at}" for axis, at in zip(step.axes, index, strict=True) if axis not in ("batch", "one")
            )
            page.evaluate("place => { location.hash = place }", f"{step.address}[{cells}]")
            until(page, f"window.glassformer.place.address === '{step.address}'")
            shown = number_of(page.inner_text("#view .value output"))
            assert torch.tensor(shown, dtype=torch.float32) == step.value[index].float(), step.address
    # Whatever is written as a sum of factors in the record agrees with the recorded number.
    with open_page(browser, path) as page:
        for step in walked.trace:
            if step.address.startswith(("text.", "choice.")) or "vocab" in step.axes:
                continue
            made = page.evaluate(
                """([address, index]) => {
                    const app = window.glassformer, tap = app.record.at(address), cells = {};
                    tap.axes.forEach((axis, at) => { cells[axis] = index[at]; });
                    const made = window.glassformer.originOf(app, address, cells);
                    const products = made.terms.map((term) => term.product);
                    return {kind: made.kind, total: products.reduce((a, b) => a + b, 0), terms: products.length,
                            chosen: made.kind === "softmax" ? products[cells.key] : null,
                            same: made.kind === "same" ? made.factors[0].value : null, missing: made.missing ?? ""};
                }""",
                [step.address, [size - 1 for size in step.shape]],
            )
            value = step.value[tuple(size - 1 for size in step.shape)].item()
            if made["kind"] in ("dot", "sum") and made["terms"]:
                assert made["total"] == pytest.approx(value, rel=1e-4, abs=1e-5), step.address
            elif made["kind"] == "softmax" and made["total"]:
                assert made["chosen"] / made["total"] == pytest.approx(value, abs=1e-6), step.address
            elif made["kind"] == "same":
                assert made["same"] == value, step.address


PLACES = [
    "",
    "text", "next", "attention", "encoder", "decoder.layers.1", "encoder.layers.0.self_attention", "why", "beam",
]  # fmt: skip
DEEP = "#decoder.layers.1.cross_attention.weights[heads=1,query=1,key=1]"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser, bundled_file, scheme):
    with open_page(browser, bundled_file, color_scheme=scheme) as page:
        living(page)
        for place in [*PLACES, DEEP[1:]]:
            go(page, place)
            results = Axe().run(page).response["violations"]
            serious = [f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
                       for one in results if one["impact"] in ("serious", "critical")]  # fmt: skip
            assert not serious, "\n".join([place, *serious])


SHIFTS = """window.shifts = 0;
new PerformanceObserver((list) => list.getEntries().forEach((one) => { window.shifts += one.value; }))
    .observe({type: 'layout-shift', buffered: true});"""


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_nothing_shifts_while_the_model_wakes(browser, bundled_file, width, height):
    place = "#decoder.layers.1.cross_attention.weights[heads=1]"
    with open_page(browser, bundled_file, place, script=SHIFTS, viewport={"width": width, "height": height}) as page:
        before = page.evaluate("document.querySelector('#view svg.matrix').getBoundingClientRect().top + scrollY")
        chips = page.evaluate(
            "[...document.querySelectorAll('.chip')].map((one) => one.getBoundingClientRect().left)"
        )
        living(page)
        until(page, "document.querySelector('button.eye') && document.querySelector('button.switch')")
        page.wait_for_timeout(300)
        assert page.evaluate("window.shifts") == 0
        after = page.evaluate("document.querySelector('#view svg.matrix').getBoundingClientRect().top + scrollY")
        assert abs(after - before) < 1
        now = page.evaluate("[...document.querySelectorAll('.chip')].map((one) => one.getBoundingClientRect().left)")
        assert now == pytest.approx(chips, abs=1)


def test_the_page_of_a_decoder_without_self_attention(browser, tmp_path):
    """Every place opens, the tour shows its recurrence, and a number leads on to the cell before it."""
    path = tmp_path / "ssru.html"
    walked = small_walk("ssru")
    walked.to_page(path)
    with open_page(browser, path) as page:
        living(page)
        assert "SSRU" in page.inner_html("svg.figure")
        assert "Masked self-attention" not in page.inner_html("svg.figure")
        assert page.locator(".overview section").count() == 2
        for place in ("decoder.layers.0", "decoder.layers.0.ssru", "attention", "next", "why", "beam", "&tour=8"):
            go(page, place)
        assert "forget gate" in page.inner_text(".tour")
        go(page, "decoder.layers.0.ssru.cell[tgt=2,d_model=5]")
        cell = walked["decoder.layers.0.ssru.cell"].value[0, :, 5]
        assert torch.tensor(number_of(page.inner_text("#view .value output"))) == cell[2]
        page.click("a.factor >> nth=2")
        until(page, "window.glassformer.place.cells.tgt === 1")
        assert torch.tensor(number_of(page.inner_text("#view .value output"))) == cell[1]


def test_the_keyboard_alone_goes_from_a_matrix_to_a_number_and_up_again(browser, bundled, bundled_file):
    with open_page(browser, bundled_file, "#decoder.layers.1.cross_attention.weights[heads=1]") as page:
        page.focus("svg.matrix")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.wait_for_selector("#view .number")
        weights = bundled["decoder.layers.1.cross_attention.weights"].value
        assert torch.tensor(number_of(page.inner_text(".value output"))) == weights[0, 1, 1, 1]
        page.keyboard.press("Escape")
        page.wait_for_selector("#view .number", state="detached")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        until(page, "window.glassformer.place.address === 'decoder.layers.1.cross_attention'")
        page.go_back()
        until(page, "window.glassformer.place.address.endsWith('weights')")


def test_a_click_on_a_cell_opens_it_and_a_factor_leads_on_to_the_text(browser, bundled_file):
    with open_page(browser, bundled_file, "#src_embedding.scaled[position=1,d_model=5]") as page:
        page.click("a.factor")
        until(page, "window.glassformer.place.address === 'src_embedding.embedded'")
        assert "id of ▁love" in page.inner_text(".number")
        page.click("a.factor")
        page.wait_for_selector(".text-side")
        assert str(Translator.load().src_tokenizer.to_ids(TEXT)[1]) in page.inner_text(".text-side")


def test_pointing_at_a_token_lights_it_everywhere_and_moves_nothing(browser, bundled_file):
    with open_page(browser, bundled_file) as page:
        living(page)  # what wakes draws the band anew
        before = page.evaluate("document.querySelector('#view').getBoundingClientRect().top")
        page.hover("#band [data-token='src:1']")
        assert page.locator(".lit-token").count() > 2
        assert page.evaluate("document.querySelector('#view').getBoundingClientRect().top") == before


def test_temperature_and_top_k_change_the_shares_as_the_model_would(browser, bundled, bundled_file):
    with open_page(browser, bundled_file, "#next&step=2") as page:
        page.fill("[data-lever=temperature]", "2")
        page.fill("[data-lever=topK]", "3")
        shown = [float(one.rstrip(" %")) for one in page.locator(".bars .share").all_inner_texts()[:3]]
        logits = bundled["output_projection.logits"].value[0, 2] / 2
        expected = logits.topk(3).values.softmax(-1) * 100
        assert shown == pytest.approx(expected.tolist(), abs=0.06)


MIXED = "</script><b>x</b> שלום עולם 👩‍👩‍👧 \u202eevil "


def test_a_hostile_text_is_typed_and_shown_as_text(browser, bundled_file):
    translator = Translator.load()
    with open_page(browser, bundled_file, "#text") as page:
        living(page)
        for text in ("</script><b>x</b>", "שלום 👩‍👩‍👧", "\u202eevil"):
            expected = walk(translator, [text]).sentences
            type_text(page, text, expected.sources[0])
            assert page.evaluate("document.querySelector('blockquote').textContent") == expected.sources[0]
            assert page.evaluate("window.glassformer.record.sentence.src_ids") == expected.batch.src_ids[0].tolist()
            assert page.locator("#app b:text-is('x')").count() == 0


def test_a_text_beyond_the_models_length_is_typed_and_said_in_words(browser, bundled, bundled_file):
    text = normalize_source((MIXED * 60)[:2000])
    translator, longest = Translator.load(), bundled.config.max_length
    tokens = (
        len(
            translator.src_tokenizer.to_ids(
                " ".join(read_source_sentences(text, translator.config, translator.plain_signs))
            )
        )
        + 1
    )
    assert tokens > longest
    with open_page(browser, bundled_file) as page:
        living(page)
        times = longest_task_ms(browser, page, lambda: type_and_wait(page, text, f"has {tokens} tokens"))
        assert times < 1000, "the page must not freeze"
        said = page.inner_text("#edits .left-out")
        assert said == f"The text has {tokens} tokens, and this model takes {longest}. Shorten it."
        type_text(page, OTHER)
        assert page.inner_text("#edits") == ""


def type_and_wait(page, text: str, said: str) -> None:
    page.fill("#text", text)
    until(page, f"document.querySelector('#edits').textContent.includes('{said}')")


def test_rows_of_cross_attention_say_what_is_read_and_what_is_written(browser, bundled_file):
    place = "#decoder.layers.1.cross_attention.weights[heads=1,query=0,key=0]"
    with open_page(browser, bundled_file, place) as page:
        rows = page.locator("svg.matrix .labels text").all_text_contents()
        assert rows[:2] == ["reads <s> → writes Ich", "reads Ich → writes ▁liebe"]
        assert "reads <s> → writes Ich" in page.inner_text("#crumbs")
        assert "reads <s> → writes Ich" in page.inner_text(".value")
    with open_page(browser, bundled_file, place, viewport={"width": 390, "height": 844}) as page:
        assert page.locator("svg.matrix .labels text").first.text_content() == "<s> → Ich"
        assert "(reads → writes)" in page.inner_text(".axes")


def test_each_sentence_of_a_typed_text_is_translated_by_itself_and_can_be_looked_at(browser, bundled_file):
    sentences = ["I am tired.", "I go home."]
    expected = [one.text for one in Translator.load().translate(sentences)]
    with open_page(browser, bundled_file, viewport={"width": 390, "height": 844}) as page:
        living(page)
        buttons = page.locator("#sentences button")
        assert buttons.count() == 0
        type_text(page, " ".join(sentences), sentences[1])  # the caret stands at the end
        until(page, "!/…/.test(document.querySelector('#sentences').textContent)")
        shown = [one.split("\n") for one in buttons.all_inner_texts()]
        assert shown == [list(pair) for pair in zip(sentences, expected, strict=True)]
        assert page.inner_text(".translation") == expected[1]
        buttons.first.click()
        until(page, f"window.glassformer.record.sentence.source === {json.dumps(sentences[0])}")
        assert page.inner_text(".translation") == expected[0]
        assert [one.get_attribute("aria-pressed") for one in buttons.all()] == ["true", "false"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        buttons.last.click()
        until(page, "location.hash.includes('shown=1')")
        link = page.evaluate("location.hash")
        type_text(page, OTHER)
        assert buttons.count() == 0
    with open_page(browser, bundled_file, link) as page:
        until(page, f"window.glassformer.record.sentence.source === {json.dumps(sentences[1])}")


def test_settings_that_the_pages_search_leaves_out_are_named_where_it_is_shown(browser, tmp_path):
    translator = Translator.load()
    translator.config = replace(translator.config, no_repeat_ngram=2, repetition_penalty=1.2)
    path = tmp_path / "settings.html"
    walk(translator, [TEXT]).to_page(path)
    named = "repetition_penalty = 1.2, no_repeat_ngram = 2"
    with open_page(browser, path, "#beam") as page:
        living(page)
        page.wait_for_selector("svg.tree")
        assert named in page.inner_text("#view .ignored")
        assert page.locator("#edits .ignored").count() == 0, "the recorded translation has them"
        type_text(page, OTHER)
        assert named in page.inner_text("#edits .ignored")


def test_numbers_and_pictures_can_be_saved(browser, bundled, bundled_file):
    with open_page(browser, bundled_file, "#encoder.memory") as page:
        rows = download(page, "#view", "CSV").decode().splitlines()[1:]
        values = [[float(one) for one in re.sub(r'^"[^"]*",', "", row).split(",")] for row in rows]
        assert torch.equal(torch.tensor(values, dtype=torch.float32), bundled["encoder.memory"].value[0])
        for kind in ("SVG", "PNG"):
            assert len(download(page, "#view", kind)) > 1000
    with open_page(browser, bundled_file) as page:
        living(page)
        save_text(page, ".figure-column", "SVG", "6 × 8,000")
        save_text(page, "#view", "SVG", "Ich → <tspan")  # whose ▁ is light
        page.evaluate("location.hash = 'next'")
        page.wait_for_selector("#view .levers")
        assert 'fill="rgb(' in save_text(page, "#view", "SVG", "Ich"), "the bars have the page's colour"
        text = save_text(page, "#view", "CSV", "id,token,logit,probability,with_levers")
        probability = float(text.splitlines()[1].split(",")[3])
        assert torch.tensor(probability) == bundled["output_projection.probabilities"].value[0, 0].max()
        page.evaluate("location.hash = 'beam'")
        page.wait_for_selector("svg.tree")
        save_text(page, "#view", "SVG", "step 1")
        assert save_text(page, "#view", "CSV", "node,parent,step").count("\n") > 20
        for place in (".figure-column", "#view"):
            assert download(page, place, "PNG").startswith(b"\x89PNG")


def save_text(page, place: str, kind: str, holds: str) -> str:
    text = download(page, place, kind).decode()
    assert holds in text
    return text


def test_every_link_of_the_figure_leads_where_it_says(browser, small_file):
    with open_page(browser, small_file) as page:
        links = "all => all.map((one) => one.getAttribute('href').slice(1))"
        addresses = page.eval_on_selector_all("svg.figure a, nav.chips a", links)
        assert {"text", "next", "encoder.memory", "encoder.layers.1", "src_embedding"} <= {*addresses}
        for address in addresses:
            page.dispatch_event(f'svg.figure a[href="#{address}"], nav.chips a[href="#{address}"]', "click")
            until(page, f"window.glassformer.place.address === '{address}'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_is_switched_and_back(browser, small_file, scheme):
    with open_page(browser, small_file, color_scheme=scheme) as page:
        colours = "[document.body, document.querySelector('.stack')].map((one) => getComputedStyle(one))"
        colours += ".map((one) => [one.backgroundColor, one.color, one.fill].join())"
        first = page.evaluate(colours)
        page.click("button.theme")
        assert all(one != other for one, other in zip(first, page.evaluate(colours), strict=True))
        page.click("button.theme")
        assert page.evaluate(colours) == first


def test_a_step_is_found_by_its_address_or_words_and_a_wrong_one_is_named(browser, bundled_file):
    with open_page(browser, bundled_file) as page:
        for typed, found in (
            ("encoder.memory", "encoder.memory"),
            ("cross_attention.scores", "decoder.layers.0.cross_attention.scores"),
            ("encoder.layers.1[heads=2]", "encoder.layers.1"),
            ("Cross-attention", "decoder.layers.0.cross_attention"),
            ("softmax", "output_projection.probabilities"),
            ("next token", "next"),
            ("Head 3", "decoder.layers.0.cross_attention.weights"),
            ("no.such.step", "no.such.step"),
        ):
            page.fill("input[type=search]", typed)
            page.press("input[type=search]", "Enter")
            until(page, f"window.glassformer.place.address === '{found}'")
        assert "No step has the address no.such.step" in page.inner_text("#view")


def test_a_typed_sentence_is_translated_and_traced_as_in_pytorch(browser, bundled, bundled_file):
    expected = walk(Translator.load(), [OTHER])
    with open_page(browser, bundled_file, "#decoder.layers.1.cross_attention.weights[heads=1,query=1,key=1]") as page:
        living(page)
        type_text(page, OTHER)
        band = page.inner_text("#band")
        assert all(token in band for token in expected.sentences.tgt_out_tokens[0])
        assert_page_has(page, expected)


def assert_page_has(page, expected: Walk) -> None:
    """The page shows every step of the model as PyTorch computes it."""
    for step in expected.trace:
        if step.address.startswith(("text.", "answer.")):
            continue
        shown = page.evaluate(
            "address => { const tap = window.glassformer.record.at(address);"
            " return {shape: tap.shape, axes: tap.axes, data: Array.from(tap.data, (one) => String(one))} }",
            step.address,
        )
        assert shown["axes"] == list(step.axes), step.address
        assert shown["shape"] == list(step.shape), step.address
        found = torch.tensor([float(one.replace("Infinity", "inf")) for one in shown["data"]]).view(step.shape)
        assert torch.allclose(found, step.value.float(), atol=1e-4, rtol=1e-4), step.address


def test_a_student_that_marian_trained_is_translated_and_traced_as_in_pytorch(browser, tmp_path):
    """As a browser has it: SSRU, int8 weights, a shortlist."""
    pytest.importorskip("yaml")
    place = MARIAN_MODELS / "ssru"
    imported = import_marian(place / "model.int8.bin", [place / "vocab.spm"], shortlist=place / "lex.s2t.bin")
    imported.write(tmp_path / "run")
    translator = Translator.load(tmp_path / "run", engine="torch")
    typed = "51 cubic meters"
    walk(translator, ["8 Dynamics"]).to_page(tmp_path / "student.html")
    expected = walk(translator, [typed])
    with open_page(browser, tmp_path / "student.html") as page:
        living(page)
        type_text(page, typed)
        assert page.inner_text(".translation") == expected.sentences.targets[0]
        assert_page_has(page, expected)


def test_edits_stack_are_listed_marked_linked_and_undone(browser, bundled_file):
    with open_page(browser, bundled_file, "#decoder.layers.1.cross_attention.heads[heads=1]") as page:
        living(page)
        page.click(".multiples .switch >> nth=1")
        until(page, "window.glassformer.before !== null")
        assert "head 1 off" in page.inner_text("#edits")
        assert page.locator(".changes rect").count() > 0
        page.click("#band .eye >> nth=1")
        until(page, "document.querySelectorAll('#edits .edit').length === 2")
        until(page, "window.glassformer.record.value('src_mask', {src: 1}) === 0")
        link = page.url
        page.keyboard.down("b")
        until(page, "window.glassformer.record.value('src_mask', {src: 1}) === 1")
        page.keyboard.up("b")
        until(page, "window.glassformer.record.value('src_mask', {src: 1}) === 0")
        page.click("#edits >> text=Reset")
        until(page, "window.glassformer.before === null")
        assert page.inner_text("#edits") == ""
    with open_page(browser, bundled_file, link[link.index("#") :]) as page:
        until(page, "document.querySelectorAll('#edits .edit').length === 2 && window.glassformer.before !== null")


def test_a_number_and_a_weight_can_be_set(browser, bundled_file):
    with open_page(browser, bundled_file, "#decoder.layers.0.feed_forward.inner[position=0,d_ff=3]") as page:
        living(page)
        before = page.evaluate("window.glassformer.record.value('output_projection.logits', {tgt: 0, vocab: 9})")
        page.fill(".what-if input", "7.5")
        page.click("text=Set")
        until(
            page,
            "window.glassformer.record.value('decoder.layers.0.feed_forward.inner', {position: 0, d_ff: 3}) === 7.5",
        )
        assert (
            page.evaluate("window.glassformer.record.value('output_projection.logits', {tgt: 0, vocab: 9})") != before
        )
        page.evaluate("location.hash = 'decoder.layers.0.feed_forward.w_1.weight[row=3,column=5]'")
        page.wait_for_selector(".what-if input")
        page.fill(".what-if input", "2")
        page.press(".what-if input", "Enter")
        until(page, "document.querySelectorAll('#edits .edit').length === 2")
        cell = 3 * Translator.load().model.config.d_model + 5
        weight = "window.glassformer.weights.get('decoder.layers.0.feed_forward.w_1.weight')"
        until(page, f"{weight}.data[{cell}] === 2")


def test_why_this_word_sums_to_its_logit_in_both_norm_orders(browser, small):
    walked, path = small
    with open_page(browser, path, "#why&step=1") as page:
        living(page)
        page.wait_for_selector(".sum-check")
        assert "below 1e-4" in page.inner_text(".sum-check")
        assert page.locator(".occlusion li").count() == len(walked.sentences.src_tokens[0])
        assert page.locator(".lens tbody tr").count() == 1 + walked.config.n_decoder_layers


def test_the_beam_and_a_linear_map_show_what_they_are_made_of(browser, bundled, bundled_file):
    with open_page(browser, bundled_file, "#beam") as page:
        living(page)
        page.wait_for_selector("svg.tree")
        assert bundled.sentences.targets[0] in page.inner_text(".candidates li >> nth=0")
        assert page.locator("svg.tree g.dropped").count() > 0
    with open_page(browser, bundled_file, "#encoder.layers.0.feed_forward.inner[position=1,d_ff=5]") as page:
        living(page)
        page.wait_for_selector(".total")
        assert "up to float32 rounding" in page.inner_text(".total")


MATRIX = "#view svg.matrix"
ASKED = {  # what each stop asks to look at, and its levers
    1: ["#text", "#view .words details"], 2: [MATRIX], 3: ["#text", MATRIX], 4: [MATRIX], 5: [MATRIX],
    6: [".translation", "#view .head", "#view button.switch"], 7: [MATRIX], 8: ["#view .mask-lever button", MATRIX],
    9: [".translation", "button.eye", MATRIX],
    10: ["[data-lever=temperature]", "#view .bars li:nth-child(2)", "a[href='#beam']"],
}  # fmt: skip
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SCREENS = [{}, PHONE]
HIDDEN = """asked => {
    const card = document.querySelector('.tour').getBoundingClientRect();
    return asked.filter((one) => {
        const box = document.querySelector(one).getBoundingClientRect();
        return box.top < 0 || box.bottom > card.top || box.left < 0 || box.right > innerWidth || !box.width;
    });
}"""


@pytest.mark.parametrize("screen", SCREENS, ids=["laptop", "phone"])
def test_every_stop_of_the_tour_shows_what_it_asks_for_and_its_lever(browser, bundled_file, screen):
    with open_page(browser, bundled_file, **screen) as page:
        living(page)
        page.click(".tour-start")
        for stop, asked in ASKED.items():
            page.wait_for_selector(f".tour-place:has-text('{stop} / 10')")
            until(page, "window.glassformer.drawn === window.glassformer.place.address")
            page.wait_for_timeout(50)
            assert page.evaluate(HIDDEN, asked) == [], stop
            assert f"tour={stop}" in page.url
            told = page.inner_text(".tour")
            assert not (screen and re.search("pointer|[Cc]lick|arrow key", told)), "a phone has no pointer"
            page.click(".tour .go")
        page.wait_for_selector(".tour", state="detached")


def test_a_phone_is_asked_for_nothing_that_it_has_not(browser, bundled_file):
    with open_page(browser, bundled_file, **PHONE) as page:
        living(page)
        for place in ("", "encoder.memory", "decoder.layers.1.self_attention", "attention", "why"):
            go(page, place)
            asked = re.search("[Pp]oint at|pointer|[Cc]lick|arrow keys|[Hh]old B", page.inner_text("#app"))
            assert not asked, (place, asked)


def test_a_choice_that_the_page_does_not_know_leaves_the_recorded_pass(browser, bundled_file, tmp_path):
    text = bundled_file.read_text(encoding="utf-8")
    strange = tmp_path / "strange.html"
    packed = PageReader(text).script("living")
    changed = pack(unpack(packed).replace(b'"norm":"pre"', b'"norm":"sideways"', 1))
    strange.write_text(text.replace(packed, changed, 1), encoding="utf-8")
    with open_page(browser, strange) as page:
        page.wait_for_selector("#typing .left-out")
        assert "recorded pass only" in page.inner_text("#typing")
        assert "sideways" in page.inner_text("#typing")
        assert page.locator("svg.matrix").count() == 1


def test_addresses_of_a_link_that_are_none_say_so_or_lead_to_the_nearest(browser, small_file):
    with open_page(browser, small_file) as page:
        for place in ("constructor", "toString", "__proto__", "why.constructor", "decoder.hasOwnProperty"):
            open_link(page, small_file, place)
            assert "Nothing is here" in page.inner_text("#view"), place
    with open_page(browser, small_file) as page:
        for rest in ("sentence=-1", "sentence=0.5", "step=0.5", "step=-1&tour=-1", "tour=1.5", "step=1e9"):
            open_link(page, small_file, f"next&{rest}")
            assert "Next token, step " in page.inner_text("#view"), rest
    with open_page(browser, small_file) as page:
        for place, shown in NEAREST.items():
            open_link(page, small_file, place)
            living(page)
            until(page, f"document.querySelector('#crumbs li:last-child').innerText.startsWith({json.dumps(shown)})")


def open_link(page, path: Path, link: str) -> None:
    """Open the page anew, as by a link."""
    page.goto("about:blank")
    page.goto(f"{path.as_uri()}#{link}")
    page.wait_for_selector("#view .view")


WEIGHTS, W_1 = "encoder.layers.0.self_attention.weights", "encoder.layers.0.feed_forward.w_1.weight"


NEAREST = {
    f"{WEIGHTS}[heads=99,query=99,key=99999999999999999999]": "head 2 × </s> × </s> = ",
    f"{WEIGHTS}[nothing=3,constructor=1,__proto__=2]": "weights",
    "output_projection.logits[tgt=99,vocab=9999]": "reads . → writes </s> × ",
    "choice.next_ids[tgt=99]": "reads . → writes </s> = ",
    "next[tgt=99]": "reads . → writes </s>",
    "why[tgt=99]": "reads . → writes </s>",
    "attention[heads=99]": "head 2",
    "text[src=99]": "</s>",
    f"{W_1}[row=99,column=99]": "9 × 11",
}


HEADS = "encoder.layers.0.self_attention.heads"


NO_EDITS = [
    "[", "{}", "null", '[1, null, "a"]', f'[{{"address": "{HEADS}"}}]', f'[{{"address": "{HEADS}", "operation": "constructor"}}]',
    f'[{{"address": "{HEADS}", "operation": "set", "value": "a"}}]', f'[{{"address": "{HEADS}", "operation": "zero", "index": null}}]',
]  # fmt: skip


def test_edits_of_a_link_that_are_none_are_left_out_or_can_be_reset(browser, small_file):
    with open_page(browser, small_file) as page:
        for edits in NO_EDITS:
            open_link(page, small_file, f"&edits={quote(edits)}")
            until(page, "document.querySelector('#edits').innerText.includes('they are left out')")
            assert page.evaluate("[window.glassformer.living.ready, window.glassformer.edits.length]") == [True, 0]
    edits = json.dumps([{"address": HEADS, "index": {"heads": 99}, "operation": "zero"}])
    with open_page(browser, small_file, f"#&edits={quote(edits)}") as page:
        until(page, "document.querySelector('#edits').innerText.includes('heads 99 is not in the tensor')")
        page.click("#edits >> text=Reset")
        until(page, "document.querySelector('#edits').innerText === ''")
