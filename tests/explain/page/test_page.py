"""The page as a file: every number of the trace exactly, nothing from a network, and no text that becomes markup."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from xml.dom import minidom

import numpy as np
import pytest
import torch
from page_reader import PageReader
from typer.testing import CliRunner

import glassformer.explain
from glassformer.cli.main import app
from glassformer.decoding import Translator
from glassformer.errors import TraceError
from glassformer.explain import walk
from glassformer.explain.entries.entry import all_entries
from glassformer.explain.page import page_record
from glassformer.explain.page.mathml import to_mathml
from glassformer.explain.page.writer import page_html
from glassformer.trace import Trace

HOSTILE = '</script><script>alert(1)</script> <!-- \u202eevil\u202c שלום 👩‍👩‍👧 & "quotes" \x07'


@pytest.fixture(scope="module")
def page(walked) -> PageReader:
    return PageReader(walked.to_page())


def test_every_number_and_story_of_the_trace_is_in_the_page(walked, page):
    for step in walked.trace:
        if step.address.startswith("text."):
            continue
        for sentence in range(len(walked.sentences.sources)):
            batched = "batch" in step.axes and step.shape[step.axes.index("batch")] > 1
            expected = step.value[sentence : sentence + 1] if batched else step.value
            assert np.array_equal(page.value(sentence, step.address), expected.float().numpy()), step.address
    for step in walked.steps:
        story = page.record["stories"][step.address]
        assert story["title"] == step.story.title
        assert story["equation"] == step.story.equation
        assert story["mathml"].startswith("<math>")


def test_all_equations_are_well_formed_mathml_that_keeps_every_letter():
    for _, _, entry in all_entries():
        for equation in (entry.equation, *(variant.equation for variant in entry.variants)):
            written = minidom.parseString(f"<p>{to_mathml(equation)}</p>")
            shown = "".join(node.data for node in _texts(written))
            assert set(re.findall(r"[A-Za-zα-ω]", equation)) <= set(shown), equation


def _texts(node):
    return (
        [node] if node.nodeType == node.TEXT_NODE else [text for child in node.childNodes for text in _texts(child)]
    )


def test_a_fraction_a_root_and_scripts():
    assert to_mathml("scores = Q Kᵀ / √d_k") == (
        "<math><mrow><mi>scores</mi><mo>=</mo><mfrac><mrow><mi>Q</mi><mspace width=\"0.3em\"/><msup><mi>K</mi><mrow>"
        "<mo>T</mo></mrow></msup></mrow><msqrt><msub><mi>d</mi><mrow><mi>k</mi></mrow></msub></msqrt></mfrac></mrow></math>"
    )  # fmt: skip


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_page_fetches_nothing(page):
    tags = _Tags()
    tags.feed(page.text)
    for tag, attributes in tags.found:
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    assert "default-src 'none'" in page.text


def test_hostile_text_neither_ends_a_script_nor_starts_one(translator):
    reader = PageReader(walk(translator, [HOSTILE], ["der"]).to_page())
    plain = PageReader(walk(translator, ["der"], ["der"]).to_page())
    counts = [len(re.findall("<script", text, re.IGNORECASE)) for text in (reader.text, plain.text)]
    assert counts[0] == counts[1]
    assert reader.record["sentences"][0]["source"] == HOSTILE


KEPT = ("attention.weights", ".residual", ".with_positions", "encoder.memory", "src_mask", "causal_mask")


def test_a_large_trace_keeps_one_sentence_whole_and_says_what_is_left_out(walked, monkeypatch):
    numbers = sum(step.value.numel() for step in walked.trace)
    most = int(0.45 * numbers)
    monkeypatch.setattr(page_record, "_MAX_PROBABLE", 3)
    reader = PageReader(page_html(walked, most=most))
    assert len(reader.numbers) <= most
    for step in walked.trace:
        if step.address.startswith("text."):
            continue
        taps = [{tap["address"]: tap for tap in one["taps"]}[step.address] for one in reader.record["sentences"]]
        for sentence, tap in enumerate(taps):
            row = step.value[sentence if step.shape[0] > 1 else 0].float().numpy()
            if "vocab" in step.axes:
                values, ids = cut_rows(reader, tap)
                assert np.array_equal(values[:, :3], np.take_along_axis(row, ids, axis=1))
                assert np.array_equal(values[:, :3], -np.sort(-row, axis=1)[:, :3])
                assert np.allclose(values[:, 3], row.sum(-1) - values[:, :3].sum(-1), atol=1e-4)
            elif sentence == 0 or step.address.endswith(KEPT):
                assert np.array_equal(reader.value(sentence, step.address)[0], row), step.address
            else:
                assert (tap["offset"] is None) != step.address.endswith("decoder.output"), step.address


def cut_rows(reader: PageReader, tap: dict) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of each row with the rest's sum as the last, and the ids."""
    rows, kept = tap["shape"][1], tap["kept"]
    values = reader.numbers[tap["offset"] :][: rows * (kept + 1)].reshape(rows, kept + 1)
    return values, reader.numbers[tap["ids"] :][: rows * kept].reshape(rows, kept).astype(int)


def test_what_every_sentence_keeps_comes_before_the_rest_of_the_first(walked):
    numbers = sum(step.value.numel() for step in walked.trace)
    most = int(0.2 * numbers)
    reader = PageReader(page_html(walked, most=most))
    assert len(reader.numbers) <= most
    for sentence in reader.record["sentences"]:
        taps = {tap["address"]: tap["offset"] for tap in sentence["taps"]}
        assert taps["decoder.layers.1.cross_attention.weights"] is not None
    assert any(tap["offset"] is None for tap in reader.record["sentences"][0]["taps"])


def test_only_a_whole_forced_pass_makes_a_page(translator, searched):
    with pytest.raises(TraceError, match="found a walk of kind 'generation'"):
        searched.to_page()
    with pytest.raises(TraceError, match="one whole pass"):
        walk(translator, ["der"], ["der"], only="encoder.*").to_page()


def test_the_command_writes_a_page_and_says_how_to_open_it(tmp_path):
    out = tmp_path / "seen.html"
    done = CliRunner().invoke(app, ["explore", "A man sleeps.", "--tgt", "Ein Mann schläft.", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert out.as_uri() in done.output.replace("\n", "")
    sentence = PageReader(out.read_text(encoding="utf-8")).record["sentences"][0]
    assert sentence["forced"]
    assert sentence["target"] == "Ein Mann schläft."


SOURCE = 'It\'s $5, `x` & "more"'


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.slow
def test_the_command_for_what_is_left_out_records_it(run_js, tmp_path, forced):
    sentence = {"source": SOURCE, "target": "So 'ist' es.", "forced": forced}
    body = "return data.runs.map((run) => recordCommand({run_option: run}, data.sentence, 'encoder.memory'));"
    given = {"sentence": sentence, "runs": ["", "--run 'my runs/a'", None]}
    bundled, run, python = run_js('import { recordCommand } from "./record/record.js";', body, given)
    words = shlex.split(bundled)
    assert words[:3] == ["glassformer", "trace", SOURCE]
    done = CliRunner().invoke(app, [*words[1:-1], str(tmp_path / "saved")])
    assert done.exit_code == 0, done.output
    memory = Trace.load(tmp_path / "saved")["encoder.memory"]
    assert shlex.split(run)[words.index("--only") : -4] == ["--run", "my runs/a"]
    walked = eval(python, {"walk": walk, "translator": Translator.load()})
    assert torch.equal(walked["encoder.memory"].value, memory)
    assert not forced or walked.sentences.targets == (sentence["target"],)


def test_the_figures_of_the_documentation_are_those_that_were_measured():
    root = Path(__file__).parents[3]
    page = (root / "docs" / "page.md").read_text(encoding="utf-8")
    idle, busy, steps = (
        json.loads((root / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("page_idle_machine", "page", "page_steps")
    )
    for name, digits in (("first_paint_ms", 0), ("step_ms", 1), ("typed_sentence_ms", 0), ("edit_ms", 0)):
        cells = (quartiles(report["bundled"][name], digits) for report in (idle, busy))
        assert f"| {' | '.join(cells)} |" in page, name
    assert f"| {idle['bundled']['size_mb']:.2f} | {busy['bundled']['size_mb']:.2f} |" in page
    assert f"| {busy['base_8_sentences']['size_mb']:.1f} |" in page
    for report in (busy["bundled"], busy["base_8_sentences"]):
        assert f"| {report['scrolling']['longest_task_ms']['most']:.1f} |" in page
    errors = max(one["logits"] for one in steps["errors"]["grid"]), steps["errors"]["bundled"]["logits"]
    assert all(f"| {error:.1e} |".replace("e-0", "e-") in page for error in errors)


def quartiles(of: dict[str, float], digits: int) -> str:
    median, low, high = (f"{of[name]:.{digits}f}" for name in ("median", "lower_quartile", "upper_quartile"))
    return f"{median} ({low} to {high})"


def test_each_module_says_what_it_is_and_is_typed():
    modules = list((Path(glassformer.explain.__file__).parent / "page" / "assets").rglob("*.js"))
    assert "page.js" in {module.name for module in modules}
    for module in modules:
        assert module.read_text(encoding="utf-8").startswith("// @ts-check\n/**"), module
