"""A trace outlives its process: saved, loaded, printed; and a place that holds something else is left alone."""

import json

import pytest
import torch
from safetensors import SafetensorError

from glassformer.errors import StorageError, TraceError
from glassformer.trace import Step, Trace, tracing


@pytest.fixture
def trace(small_model, src_ids, tgt_ids) -> Trace:
    model = small_model()
    with tracing(model, gradients=True) as recorded:
        for _ in range(2):
            model(src_ids, tgt_ids).sum().backward()
    return recorded


def test_what_is_loaded_is_what_was_saved(trace, tmp_path):
    trace.save(tmp_path / "kept")
    loaded = Trace.load(tmp_path / "kept")
    assert [(step.address, step.call, step.axes) for step in loaded] == [
        (step.address, step.call, step.axes) for step in trace
    ]
    for saved, read in zip(trace, loaded, strict=True):
        assert saved.value.dtype == read.value.dtype
        assert torch.equal(saved.value, read.value), saved.address
    assert loaded.gradients.keys() == trace.gradients.keys()
    assert len(loaded.gradients) > 100
    assert all(torch.equal(loaded.gradients[key], gradient) for key, gradient in trace.gradients.items())


def test_calls_count_the_passes_of_an_address(trace):
    assert [step.call for step in trace.select("encoder.memory")] == [0, 1]


def test_numbers_truth_ids_and_nothing_at_all_can_be_kept(tmp_path):
    trace = Trace()
    for number, value in enumerate((torch.tensor(3.5), torch.tensor([True]), torch.tensor([7]), torch.empty(2, 0))):
        trace.steps.append(Step(f"step.n{number}", ("batch", "src")[: value.ndim], value))
    trace.save(tmp_path / "kept")
    loaded = Trace.load(tmp_path / "kept")
    assert [step.value.tolist() for step in loaded] == [3.5, [True], [7], [[], []]]


def test_a_trace_replaces_a_trace_and_nothing_else_and_stays_if_the_disk_is_full(trace, tmp_path, monkeypatch):
    trace.save(tmp_path / "kept")
    shorter = Trace()
    shorter.steps = trace.steps[:3]
    shorter.save(tmp_path / "kept")
    assert len(Trace.load(tmp_path / "kept")) == 3
    (tmp_path / "empty").mkdir()
    trace.save(tmp_path / "empty")
    assert len(Trace.load(tmp_path / "empty")) == len(trace)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        trace.save(tmp_path / "file" / "below")
    trace.save(tmp_path / "kept")

    def full(*_: object) -> None:
        raise SafetensorError("I/O error: File too large (os error 27)")

    monkeypatch.setattr("glassformer.trace.record.save_file", full)
    with pytest.raises(StorageError, match="kept: the trace cannot be written: I/O error: File too large"):
        trace.save(tmp_path / "kept")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["empty", "file", "kept"]
    assert len(Trace.load(tmp_path / "kept")) == len(trace)


def test_what_stands_beside_a_trace_is_never_removed(trace, tmp_path):
    trace.save(tmp_path / "kept")
    (tmp_path / "kept" / "notes.txt").write_text("mine")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "trace.json").write_text('{"traceEvents": []}')
    for name in ("kept", "foreign"):
        before = sorted(entry.name for entry in (tmp_path / name).iterdir())
        with pytest.raises(StorageError, match=f"{name}: exists and holds more than a trace"):
            trace.save(tmp_path / name)
        assert sorted(entry.name for entry in (tmp_path / name).iterdir()) == before


def test_a_trace_is_saved_where_one_stands(trace, tmp_path, monkeypatch):
    trace.save(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    trace.save(".")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["here"]
    assert len(Trace.load(".")) == len(trace)


@pytest.mark.parametrize("name", ["/", "a" * 300, "loop/x", "file/x", "."])
def test_a_place_where_no_trace_can_be_is_refused_in_words(trace, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("dear to me")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StorageError, match="Choose another directory"):
        trace.save(name)
    assert sorted(tmp_path.iterdir()) == before


def test_a_name_may_be_as_long_as_the_system_allows(trace, tmp_path):
    trace.save(tmp_path / ("a" * 255))
    assert Trace.load(tmp_path / ("a" * 255)).steps


def test_a_directory_that_is_no_trace_or_not_whole_is_refused(trace, tmp_path):
    with pytest.raises(TraceError, match=r"trace.json: cannot be read as a trace"):
        Trace.load(tmp_path)
    trace.save(tmp_path / "kept")
    index = json.loads((tmp_path / "kept" / "trace.json").read_text())
    for change, message in (
        ({"version": 99}, r"found \('glassformer trace', 99\)"),
        (
            {"steps": [{**index["steps"][0], "shape": [1]}]},
            r"step 1, src_mask, is \(3, 1, 1, 5\), trace.json says \[1\]",
        ),
        ({"steps": [{"call": 0}]}, "step 1 lacks 'address'"),
        ({"steps": [{**index["steps"][0], "address": 5}]}, "found address 5 and call 0, expected a string"),
        ({"steps": [{**index["steps"][0], "call": "<b>"}]}, "call '<b>', expected a string and a whole number"),
        ({"steps": [{**index["steps"][0], "axes": ["batch"]}]}, "expected 4 words of the legend"),
        ({"steps": [{**index["steps"][0], "axes": ["<img>"] * 4}]}, "expected 4 words of the legend"),
        ({"steps": [5]}, "step 1 cannot be read"),
    ):
        (tmp_path / "kept" / "trace.json").write_text(json.dumps({**index, **change}))
        with pytest.raises(TraceError, match=message):
            Trace.load(tmp_path / "kept")
    (tmp_path / "kept" / "trace.json").write_text(json.dumps(index))
    (tmp_path / "kept" / "values.safetensors").write_bytes(b"cut short")
    with pytest.raises(TraceError, match=r"values.safetensors: cannot be read"):
        Trace.load(tmp_path / "kept")


def test_it_prints_as_markdown_and_in_a_notebook():
    trace = Trace()
    trace.steps.append(Step("<b>.weights", ("batch", "src"), torch.tensor([[1.0, 2.0, 6.0]])))
    trace.steps.append(Step("nothing", ("batch",), torch.empty(0)))
    assert "| `<b>.weights` | 0 | batch src | 1 × 3 | 1 | 3 | 6 |" in trace.to_markdown().splitlines()
    html = trace._repr_html_()
    assert "<code>&lt;b&gt;.weights</code>" in html
    assert "<td>1 × 3</td><td>1</td><td>3</td><td>6</td>" in html


def test_the_gradient_of_an_address_by_its_name(small_model, src_ids, tgt_ids):
    model = small_model()
    with tracing(model, gradients=True) as trace:
        model(src_ids, tgt_ids).sum().backward()
    key = ("decoder.output", 0)
    assert torch.equal(trace.gradient("decoder.output"), trace.gradients[key])
    with pytest.raises(TraceError, match=r"causal_mask: has .* no gradient"):
        trace.gradient("causal_mask")
    with pytest.raises(TraceError, match="no such step"):
        trace.gradient("decoder.outputs")
