"""`glassformer diff`: the first tap at which two passes part, with cell and size, and the ways that must not part."""

import copy
import json
import math
import random
import shutil
from pathlib import Path

import pytest
import torch
from covering import sample
from three_sentences import SOURCES, TARGETS

from glassformer.checkpoint import save_checkpoint, weights_of
from glassformer.cli import explain as cli_explain
from glassformer.decoding.search.steps import DecoderSteps
from glassformer.errors import CheckpointError, ConfigError, InputError, RunError, TokenizerError, TraceError
from glassformer.explain.compare.align import PositionTokens, align_steps, join_calls, stack_sentences
from glassformer.explain.compare.compare import compare, diff_traces
from glassformer.explain.compare.compiled import capture_pass, run_compiled
from glassformer.explain.compare.passes import EXACT, LOW_PRECISION, Mode, read_mode, run_pass, usual_tolerance
from glassformer.explain.compare.runs import ModelPass, diff_places, diff_sides
from glassformer.explain.recording.recording import record_pass
from glassformer.explain.walks import walk
from glassformer.run_directory import RunDirectory
from glassformer.settings import ModelConfig, RunConfig
from glassformer.text import Tokenizer
from glassformer.trace import Step, Trace, tracing

PLACES = 200
POSITIONS = ModelConfig.choices("positions")


def place(tap):
    """The cell's index by axis word, without broadcast axes."""
    return {word: index for word, index in zip(tap.axes, tap.cell, strict=False) if word != "one"}


def one_layer(small_model, **changes):
    return small_model(n_encoder_layers=1, n_decoder_layers=1, **changes)


def drawn_places(trace, count, seed):
    """As many (step, cell), any tap and any cell of it."""
    draw = random.Random(seed)
    for _ in range(count):
        step = draw.choice(trace.steps)
        yield step, tuple(draw.randrange(size) for size in step.shape)


def least_change(cell):
    """An edit of one element: the next number that its type knows, or the other truth."""

    def edit(value):
        now = value[cell]
        value[cell] = ~now if value.dtype == torch.bool else torch.nextafter(now, torch.tensor(math.inf))
        return value

    return edit


# 1. Two hundred places.


@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
@pytest.mark.slow
def test_one_changed_element_is_named_at_each_of_two_hundred_places(
    positions, small_model, src_ids, tgt_ids, seed, unchecked
):
    """Every change is the smallest that there is, and padding counts, since both sides are padded alike."""
    model = one_layer(small_model, positions=positions)
    plain = record_pass(model, src_ids, tgt_ids)
    with torch.no_grad(), tracing(model, shown=False) as editable:
        model(src_ids, tgt_ids)
    named = 0
    for step, cell in drawn_places(editable, PLACES // 2, seed):
        changed = record_pass(model, src_ids, tgt_ids, edits={step.address: least_change(cell)})
        first = diff_traces(plain, changed).first
        assert first is not None
        assert (first.address, first.cell, first.parted) == (step.address, cell, 1)
        assert first.values == (float(step.value[cell]), float(changed[step.address][cell]))
        assert first.size == abs(first.values[0] - first.values[1]) > 0
        named += 1
    assert named == PLACES // 2


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.slow
def test_a_change_at_one_step_of_a_cached_decoding_is_named_with_its_position(
    positions, small_model, src_ids, tgt_ids, seed, unchecked
):
    """Among them what the cache holds: the step that reads a wrong key is the query of the cell."""
    model = one_layer(small_model, positions=positions)
    plain = run_pass(Mode.PLAIN, model, src_ids, tgt_ids)
    calls = [step for step in cached_steps(model, src_ids, tgt_ids, {}) if step.address.startswith("decoder.")]
    draw = random.Random(seed)
    chosen = draw.sample([step for step in calls if step.name.endswith("_cached")], 3) + draw.sample(calls, 7)
    for step in chosen:
        if step.name in ("mean", "variance", "normalised"):
            continue  # shown beside the way
        cell = tuple(draw.randrange(size) for size in step.shape)
        edits = {step.address: at_call(step.call, cell)}
        first = compare(plain, join_calls(cached_steps(model, src_ids, tgt_ids, edits)), EXACT).first
        assert first is not None
        assert first.address == step.address
        expected = dict(zip(step.axes, cell, strict=True))
        moves = next(word for word in ("query", "position", "key", "tgt") if word in step.axes)
        if step.name.endswith("_cached"):
            expected["query"] = step.call
        elif step.shape[step.axes.index(moves)] == 1:
            expected[moves] = step.call
        assert place(first) == {word: index for word, index in expected.items() if word != "one"}


def cached_steps(model, src_ids, tgt_ids, edits):
    with torch.no_grad(), tracing(model, edits) as trace:
        steps = DecoderSteps(model, src_ids)
        for ids in tgt_ids.unbind(1):
            steps.next_log_probs(ids)
    return [step for step in trace if not step.address.startswith("search.")]


def at_call(call, cell):
    """An edit of one element at one call of its tap: two more, or nought where it was no number."""
    passed = iter(range(1000))

    def edit(value):
        if next(passed) == call:
            value[cell] = value[cell] + 2 if value[cell].isfinite() else 0.0
        return value

    return edit


# 2. The ways.


def test_the_ways_are_those_of_the_page_and_of_the_help():
    page = (Path(__file__).parents[3] / "docs" / "tracing.md").read_text(encoding="utf-8")
    for way in Mode:
        assert f"| `{way}` | {way.meaning} |" in page
    assert ", ".join(Mode) == cli_explain._WAYS


def test_the_plain_walk_agrees_with_itself_bit_for_bit(small_model, src_ids, tgt_ids):
    model = small_model()
    found = diff_sides(ModelPass(model), ModelPass(copy.deepcopy(model)), src_ids, tgt_ids)
    assert found.agrees
    assert (found.tolerance, found.largest.size, found.only) == (0.0, 0.0, ((), ()))


@pytest.mark.parametrize("positions", POSITIONS)
def test_bf16_parts_at_the_first_product_and_stays_within_its_bound(positions, small_model, src_ids, tgt_ids):
    model = small_model(positions=positions)
    sides = ModelPass(model), ModelPass(model, Mode.BF16)
    assert diff_sides(*sides, src_ids, tgt_ids).agrees
    first = diff_sides(*sides, src_ids, tgt_ids, EXACT).first
    assert first is not None
    assert first.address == "encoder.layers.0.self_attention.q_projected"
    assert first.size / first.scale < 2**-7, "both factors keep eight bits"


def test_what_cached_keys_are_read_at_every_step_is_compared(small_model, src_ids, tgt_ids):
    model = one_layer(small_model, positions="rotary", d_v=7)
    taps = {
        tap.address: tap for tap in diff_sides(ModelPass(model), ModelPass(model, Mode.CACHED), src_ids, tgt_ids).taps
    }
    held = taps["decoder.layers.0.self_attention.k_cached"]
    assert held.axes == ("batch", "heads", "query", "key", "d_k")
    real = [7, 5, 7]  # target positions of the three sentences; each step reads those before it and its own
    assert held.cells == sum(n * (n + 1) // 2 for n in real) * 3 * 10
    crossed = taps["decoder.layers.0.cross_attention.v_cached"]
    assert crossed.cells == sum(n_tgt * n_src for n_tgt, n_src in zip(real, [5, 3, 2], strict=True)) * 3 * 7


def test_a_wrong_row_of_a_lone_sentence_is_named_in_the_batch(small_model, src_ids, tgt_ids):
    model = one_layer(small_model)
    lone = [record_pass(model, src_ids[row : row + 1, :n], tgt_ids[row : row + 1]) for row, n in enumerate((5, 3, 2))]
    lone[1].select("encoder.layers.0.feed_forward.inner")[0].value[0, 2, 11] += 1
    lone[2].select("causal_mask")[0].value[0, 0, 4, 1] = False
    found = compare(
        run_pass(Mode.PLAIN, model, src_ids, tgt_ids),
        stack_sentences([align_steps(one.steps) for one in lone]),
        EXACT,
    )
    assert [place(tap) for tap in found.taps if tap.differs] == [
        {"batch": 1, "position": 2, "d_ff": 11},
        {"batch": 2, "query": 4, "key": 1},
    ]


def test_padding_does_not_count_where_it_is_known(small_model, src_ids, tgt_ids):
    model = one_layer(small_model)
    plain, other = (record_pass(model, src_ids, tgt_ids) for _ in range(2))
    other.select("encoder.memory")[0].value[2, 3] += 1  # the third source has two tokens
    other.select("decoder.layers.0.cross_attention.weights")[0].value[0, 1, 2, 4] += 1
    real = {"src": src_ids != 0, "tgt": tgt_ids != 0}
    assert [tap.address for tap in diff_traces(plain, other).taps if tap.differs] == [
        "encoder.memory", "decoder.layers.0.cross_attention.weights",
    ]  # fmt: skip
    (only,) = [tap for tap in diff_traces(plain, other, positions=PositionTokens(real)).taps if tap.differs]
    assert place(only) == {"batch": 0, "heads": 1, "query": 2, "key": 4}


def test_a_fused_way_leaves_the_model_plain(small_model, src_ids, tgt_ids):
    model = small_model()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for way in (Mode.FUSED, Mode.DOUBLE, Mode.BF16):
        run_pass(way, model, src_ids, tgt_ids)
    assert not any(module.fused for module in model.modules() if hasattr(module, "fused"))
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_a_captured_graph_holds_every_tap_bit_for_bit(small_model, src_ids, tgt_ids, unchecked):
    model = one_layer(small_model)
    graph, steps = capture_pass(model, src_ids, tgt_ids)
    plain = record_pass(model, src_ids, tgt_ids)
    assert [step.key for step in steps] == [step.key for step in plain]
    assert all(map(torch.equal, graph(src_ids, tgt_ids), (step.value for step in plain)))
    other = tgt_ids.flip(0)
    again = record_pass(model, src_ids, other)
    assert all(map(torch.equal, graph(src_ids, other), (step.value for step in again))), "ids are its inputs"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("positions", sample(["sinusoidal", "rotary"], 1))
def test_the_compiled_way_agrees_with_the_plain_walk(positions, small_model, src_ids, tgt_ids, unchecked):
    model = one_layer(small_model, positions=positions)
    found = diff_sides(ModelPass(model), ModelPass(model, Mode.COMPILED), src_ids, tgt_ids)
    assert found.agrees, str(found)
    assert found.only == ((), ())
    assert 0 < found.largest.size < 1e-4


def test_without_a_compiler_the_error_says_what_to_install(small_model, src_ids, tgt_ids, monkeypatch):
    def fail(*_):
        raise RuntimeError("No working C++ compiler found in /usr/bin/no-such\nlong advice follows")

    monkeypatch.setattr("glassformer.explain.compare.compiled.capture_pass", lambda *_: (fail, []))
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    with pytest.raises(
        ConfigError, match=r"No working C\+\+ compiler found in /usr/bin/no-such It needs .* g\+\+"
    ) as error:
        run_compiled(one_layer(small_model), src_ids, tgt_ids)
    assert "long advice" not in str(error.value)


def test_the_usual_tolerance_is_nought_for_one_way_and_wide_for_bf16():
    assert usual_tolerance(Mode.CACHED, Mode.CACHED) == usual_tolerance(Mode.BF16, Mode.BF16) == 0.0
    assert usual_tolerance(Mode.PLAIN, Mode.CACHED) == usual_tolerance(Mode.DOUBLE, Mode.FUSED) == EXACT
    assert usual_tolerance(Mode.PLAIN, Mode.BF16) == usual_tolerance(Mode.BF16, Mode.CACHED) == LOW_PRECISION


# 3. What counts as a difference.


def trace_of(*values, axes="batch d_model", address="encoder.memory"):
    trace = Trace()
    trace.steps = [
        Step(address, tuple(axes.split()), torch.as_tensor(value), call) for call, value in enumerate(values)
    ]
    return trace


def test_infinities_the_tolerance_and_calls_by_hand():
    same = trace_of([[math.inf, -math.inf, 0.0, -0.0]])
    assert diff_traces(same, trace_of([[math.inf, -math.inf, -0.0, 0.0]])).agrees
    found = diff_traces(trace_of([[1.0, math.nan]]), trace_of([[1.0, math.nan]]), tolerance=9.0).first
    assert found is not None
    assert (found.cell, found.size) == ((0, 1), math.inf)
    found = diff_traces(trace_of([[1.0, -math.inf]]), trace_of([[1.0, math.inf]]), tolerance=9.0).first
    assert found is not None
    assert (found.cell, found.values) == ((0, 1), (-math.inf, math.inf))
    plain, other = trace_of([[9.0, 0.0]]), trace_of([[9.0, 1e-3]])
    assert diff_traces(plain, other, 1.1e-4).agrees
    first = diff_traces(plain, other, 0.9e-4).first
    assert first is not None
    assert (first.scale, first.parted, first.cells, first.size) == (9.0, 1, 2, pytest.approx(1e-3))
    plain, other = trace_of([[1.0]], [[2.0]], [[3.0]]), trace_of([[1.0]], [[2.0]], [[3.5]])
    first = diff_traces(plain, other).first
    assert first is not None
    assert (first.address, first.call) == ("encoder.memory", 2)
    assert "encoder.memory, call 2" in str(diff_traces(plain, other))


def test_taps_of_another_shape_are_named_and_not_compared(small_model, src_ids, tgt_ids):
    narrow, wide = one_layer(small_model), small_model(n_encoder_layers=1, d_ff=37)
    found = diff_sides(ModelPass(narrow), ModelPass(wide), src_ids, tgt_ids)
    shapes = [tap for tap in found.taps if not tap.same_shape]
    assert {tap.name for tap in map(_last_part, shapes)} == {"inner", "activated"}
    assert shapes[0].shapes == ((3, 5, 31), (3, 5, 37))
    assert all(address.startswith("decoder.layers.1.") for address, _ in found.only[1])
    only_shape = diff_traces(trace_of([[1.0, 2.0]]), trace_of([[1.0]]))
    assert not only_shape.agrees
    assert "of another shape" in str(only_shape)


def _last_part(tap):
    return Step(tap.address, (), torch.tensor(0))


def test_walks_that_are_padded_differently_compare_their_tokens_alone(translator, tmp_path):
    """The first sentence, walked alone and saved, against the same sentence in a batch that pads it."""
    alone = walk(translator, SOURCES[:1], TARGETS[:1])
    beside = walk(translator, [SOURCES[0], SOURCES[0] + SOURCES[1]], [TARGETS[0], TARGETS[0] + TARGETS[2]])
    first_row = Trace()
    first_row.steps = [
        Step(step.address, step.axes, step.value[:1] if step.axes[:1] == ("batch",) else step.value, step.call)
        for step in beside.trace
        if step.address != "text.ntokens"
    ]
    assert first_row["text.src_ids"].shape != alone.trace["text.src_ids"].shape
    first_row.save(tmp_path / "beside")
    alone.trace.save(tmp_path / "alone")
    assert diff_places(tmp_path / "beside", tmp_path / "alone", tolerance=EXACT).agrees
    other = walk(translator, SOURCES[1:2], TARGETS[:1])
    first = diff_traces(alone.trace, other.trace).first
    assert first is not None
    assert first.address == "text.typed"


# 4. Runs and checkpoints.


@pytest.fixture
def make_run(translator, tmp_path):
    """``make_run(name, model, **tokenizers)``: a run directory whose final checkpoint is this model."""

    def make(name, model, src=translator.src_tokenizer, tgt=translator.tgt_tokenizer, update=1):
        run = RunDirectory(tmp_path / name)
        run.create()
        run.write_config(RunConfig(model=model.config, decode=translator.config), {})
        run.write_tokenizers(src, tgt)
        digests = {"src_tokenizer": src.digest, "tgt_tokenizer": tgt.digest}
        return save_checkpoint(run.final, update, {"model": weights_of(model)}, digests)

    return make


@pytest.mark.parametrize(
    ("weight", "cell", "reader"),
    [
        ("encoder.layers.1.self_attention.w_k.weight", (4, 3), "encoder.layers.1.self_attention.k_projected"),
        ("decoder.layers.0.feed_forward.w_2.bias", (7,), "decoder.layers.0.feed_forward.output"),
        ("decoder.layers.1.cross_attention_add_norm.norm.gain", (5,), "decoder.layers.1.cross_attention_add_norm.norm.output"),
        ("output_projection.linear.weight", (9, 2), "output_projection.logits"),
    ],
)  # fmt: skip
def test_of_two_checkpoints_with_one_other_weight_the_first_tap_that_reads_it_is_named(
    weight, cell, reader, translator, make_run
):
    other = copy.deepcopy(translator.model)
    with torch.no_grad():
        other.get_parameter(weight)[cell] += 0.01
    first, second = make_run("run", translator.model), make_run("run", other, update=2)
    found = diff_places(first, second, SOURCES, TARGETS, device="cpu").first
    assert found is not None
    assert found.address == reader
    changed = {word: place(found)[word] for word in list(place(found))[-1:]}
    assert list(changed.values()) == [cell[0]], "the column of the output that the weight makes"


def test_the_report_names_tap_title_cell_tokens_numbers_and_size(translator, make_run):
    other = copy.deepcopy(translator.model)
    love = translator.src_tokenizer.to_ids("love")[0]
    with torch.no_grad():
        other.src_embedding.tokens.weight[love, 4] += 1
    one, two = (make_run(name, model).parent.parent for name, model in (("one", translator.model), ("two", other)))
    found = diff_places(one, two, SOURCES[:1], TARGETS[:1], device="cpu")
    first = found.first
    assert first is not None
    before = translator.model.src_embedding.tokens.weight[love, 4].item()
    text = "\n".join(found.lines()[-5:])
    assert "They first differ at src_embedding.embedded (Token vectors)" in text
    assert "in cell batch 0, position 1 'love', d_model 4" in text
    assert f"{one}  {before:.9g}" in text
    assert "off by 1; 1 of 88 cells are out of tolerance" in text
    mapping = json.loads(json.dumps(found.to_mapping(), allow_nan=False))
    assert (mapping["agrees"], mapping["first"]["cell"], mapping["first"]["tokens"][1]) == (False, [0, 1, 4], "love")
    assert mapping["compared"] == len(mapping["taps"]) == len(found.taps)


# 5. What cannot be compared.


def test_traces_without_a_common_tap_are_refused():
    with pytest.raises(TraceError, match="A has 1 taps, B has 1, and none is in both"):
        diff_traces(trace_of([[1.0]]), trace_of([[1.0]], address="decoder.output"))


@pytest.mark.parametrize("tolerance", [-1e-9, math.nan, math.inf])
def test_a_tolerance_must_be_a_number_from_nought_on(tolerance):
    with pytest.raises(TraceError, match="tolerance: found"):
        diff_traces(trace_of([[1.0]]), trace_of([[1.0]]), tolerance)


def test_more_padding_needs_room(small_model):
    ids = torch.full((1, 37), 5)
    with pytest.raises(InputError, match="fills all 37 positions"):
        run_pass(Mode.PADDED, small_model(), ids, ids[:, :3])


def test_an_unknown_way_is_answered_with_the_nearest():
    with pytest.raises(
        ConfigError, match=r"found 'cache', expected one of plain, cached, .* Did you mean 'cached'\?"
    ):
        read_mode("cache")
    assert read_mode("bf16") is Mode.BF16


def test_runs_that_cannot_be_compared_are_refused_in_words(translator, make_run, tmp_path):
    model = translator.model
    place = make_run("run", model)
    run = place.parent.parent
    with pytest.raises(ConfigError, match="plain, on both sides, expected two things to compare"):
        diff_places(run, None, SOURCES)
    with pytest.raises(ConfigError, match="found no text"):
        diff_places(run, None, ways=(Mode.PLAIN, Mode.CACHED))
    with pytest.raises(RunError, match="is not a run directory"):
        diff_places(tmp_path, run, SOURCES)
    other = Tokenizer.train("words", [*SOURCES, "[blue]"], 60)
    swapped = make_run("other", model, src=other).parent.parent
    with pytest.raises(TokenizerError, match=r"have different src tokenizers .* so their ids mean different tokens"):
        diff_places(run, swapped, SOURCES)
    trace_of([[1.0]]).save(tmp_path / "trace")
    with pytest.raises(ConfigError, match="a saved trace, expected two saved traces"):
        diff_places(run, tmp_path / "trace", SOURCES)
    with pytest.raises(ConfigError, match="to which no text and no way applies"):
        diff_places(tmp_path / "trace", tmp_path / "trace", SOURCES)
    (place / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="is damaged"):
        diff_places(place, run, SOURCES)
