"""A notebook carried out and looked at in a headless Chromium: walks, traces and translations show themselves."""

import json
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="the browser tests need Playwright's Python client")

from browsing import living, open_page, until

pytestmark = pytest.mark.browser

CELLS = [
    "from glassformer import Translator\nfrom glassformer.explain import walk\ntranslator = Translator.load()",
    'walked = walk(translator, ["I love you, too."])\nwalked',
    "walked.trace",
    'translator.translate(["I love you, too."], attention=True)[0]',
    "walked.frame(height=500)",
]
WALK, TRACE, TRANSLATION, LIVING = 1, 2, 3, 4


@pytest.fixture(scope="module")
def notebook():
    import nbformat  # as the others here, which take half a second, only where the tests are run
    from nbclient import NotebookClient

    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return NotebookClient(made, timeout=300).execute()


@pytest.fixture(scope="module")
def shown(notebook, tmp_path_factory) -> Path:
    """The notebook as an HTML page; what its template would fetch is left out."""
    import nbconvert

    templates = Path(nbconvert.__file__).parents[4] / "share" / "jupyter"
    fetched = dict.fromkeys(("mathjax_url", "require_js_url", "mermaid_js_url", "jquery_url"), "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(templates))
        text, _ = nbconvert.HTMLExporter(**fetched).from_notebook_node(notebook)
    path = tmp_path_factory.mktemp("notebook") / "notebook.html"
    path.write_text(text, encoding="utf-8")
    return path


def html_of(notebook, cell: int) -> str:
    (output,) = notebook.cells[cell].outputs
    return "".join(output.data["text/html"])


def test_a_displayed_walk_is_the_page_without_its_model_and_small(notebook):
    text = html_of(notebook, WALK)
    assert text.startswith("<iframe ")
    assert "sandbox='allow-scripts allow-downloads'" in text
    assert 'id="living"' not in text
    assert len(text) < 3_000_000
    assert notebook.cells[WALK].outputs[0].data["text/plain"].startswith("Walk(forced, ")
    assert len(json.dumps(html_of(notebook, TRACE))) < 2_000_000
    assert len(html_of(notebook, TRANSLATION)) < 100_000


def test_the_walk_opens_steps_and_numbers_inside_the_notebook(browser, shown, notebook):
    with open_page(browser, shown, wait="iframe", viewport={"width": 1280, "height": 1000}) as page:
        page.locator("iframe").first.scroll_into_view_if_needed()
        until(page, "document.querySelectorAll('iframe').length === 2")
        frame = page.locator("iframe").first.element_handle().content_frame()
        frame.wait_for_selector("#view .view")
        assert frame.url == "about:srcdoc"
        assert "The method frame()" in frame.inner_text("#typing")
        frame.click("svg.figure .box >> nth=0")
        until(frame, "location.hash !== ''")
        frame.evaluate("location.hash = 'decoder.layers.1.cross_attention.weights[heads=1,query=1,key=1]'")
        frame.wait_for_selector("#view .number")
        assert float(frame.inner_text("#view .value output")) > 0.5
        frame.evaluate("window.glassformer.set({step: 2})")
        until(frame, "location.hash.endsWith('step=2')")
        assert page.url == shown.as_uri()
        assert frame.evaluate("self.origin") == "null", "it must not see the notebook"


def test_heads_of_a_trace_and_a_translation_unfold(browser, shown):
    with open_page(browser, shown, wait="iframe") as page:
        maps = page.locator("summary:has-text('cross-attention of decoder layer 1')")
        assert maps.locator("svg").count() == 4
        maps.click()
        large = page.locator("details[open] > div")
        assert "reads <s> → writes Ich" in large.inner_text()
        page.locator("summary:has-text('encoder.layers.0.self_attention')").locator("visible=true").first.click()
        assert page.locator("details[open]").count() == 2


def test_on_request_the_walk_lives_in_the_notebook(browser, shown):
    with open_page(browser, shown, wait="iframe") as page:
        last = page.locator("iframe").last
        last.scroll_into_view_if_needed()
        frame = last.element_handle().content_frame()
        frame.wait_for_selector("#view .view")
        living(frame)
        frame.fill("#text", "She reads a book.")
        until(frame, "window.glassformer.record.sentence.source === 'She reads a book.'")
        assert "Buch" in frame.inner_text("#band")
