"""The tap: what a reader is shown is what was computed, all of it, and watching changes nothing."""

import ast
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import glassformer.model
from glassformer.axes import LEGEND
from glassformer.decoding.teacher_forcing import forced_attention
from glassformer.errors import TraceError
from glassformer.model import Transformer
from glassformer.model.masks import Mask
from glassformer.settings import ModelConfig
from glassformer.trace import show, tap, tracing

aten = torch.ops.aten
RESULTS_A_READER_MUST_SEE = {
    aten.mm.default, aten.bmm.default, aten.addmm.default, aten.matmul.default, aten.baddbmm.default,
    aten.linear.default, aten._softmax.default, aten.native_layer_norm.default, aten.relu.default,
    aten.gelu.default, aten.silu.default, aten.embedding.default, aten.masked_fill.Scalar,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
}  # fmt: skip
ARITHMETIC = {aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.sub.Tensor}


class Overheard(TorchDispatchMode):
    """Keeps the first output of every listed operation that is really carried out."""

    def __init__(self, operations: set) -> None:
        super().__init__()
        self.operations = operations
        self.heard: list[tuple[str, Tensor]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if func in self.operations:
            first = output[0] if isinstance(output, tuple) else output
            if first.is_floating_point():
                self.heard.append((str(func), first.detach().clone()))
        return output


def hidden(heard: list[tuple[str, Tensor]], recorded: list[Tensor]) -> list[str]:
    """The operations whose values, in whatever order of axes, are not among the recorded ones."""
    known: dict[int, list[Tensor]] = {}
    for value in recorded:
        known.setdefault(value.numel(), []).append(value.flatten().float().sort().values)
    return [
        f"{operation} {tuple(value.shape)}"
        for operation, value in heard
        if not any(torch.equal(value.flatten().sort().values, other) for other in known.get(value.numel(), []))
    ]


class TestNothingIsHiddenAndNothingIsChanged:
    def test_every_product_softmax_norm_activation_and_mask_of_a_forward_pass_is_recorded(
        self, options, small_model, src_ids, tgt_ids
    ):
        for changes in options:
            model = small_model(n_encoder_layers=1, n_decoder_layers=1, **changes)
            with torch.no_grad():
                with Overheard(RESULTS_A_READER_MUST_SEE) as overheard:
                    model(src_ids, tgt_ids)
                with tracing(model) as trace:
                    model(src_ids, tgt_ids)
            assert len(overheard.heard) > 30
            assert hidden(overheard.heard, [step.value for step in trace]) == [], changes

    @pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
    @pytest.mark.parametrize("norm", ModelConfig.choices("norm"))
    def test_every_sum_and_scaling_of_the_papers_model_is_recorded_too(
        self, norm, positions, small_model, src_ids, tgt_ids
    ):
        model = small_model(norm=norm, positions=positions)
        with torch.no_grad():
            with Overheard(RESULTS_A_READER_MUST_SEE | ARITHMETIC) as overheard:
                model(src_ids, tgt_ids)
            with tracing(model) as trace:
                model(src_ids, tgt_ids)
        assert hidden(overheard.heard, [step.value for step in trace]) == []

    @pytest.mark.parametrize("positions", ModelConfig.choices("positions"))
    def test_every_result_of_a_cached_step_is_recorded(self, positions, small_model, src_ids, tgt_ids):
        model = small_model(positions=positions)

        def step_after_two(watch) -> None:
            memory, mask = model.encode(src_ids)
            cache = model.new_cache()
            model.decode(tgt_ids[:, :2], memory, mask, cache)
            with watch:
                model.decode(tgt_ids[:, 2:3], memory, mask, cache)

        with torch.no_grad():
            overheard = Overheard(RESULTS_A_READER_MUST_SEE)
            step_after_two(overheard)
            with tracing(model) as trace:
                step_after_two(nullcontext())
        assert hidden(overheard.heard, [step.value for step in trace]) == []

    def test_this_test_would_notice_a_hidden_product(self, small_model, src_ids, tgt_ids):
        model = small_model()
        with torch.no_grad():
            with Overheard(RESULTS_A_READER_MUST_SEE) as overheard:
                model(src_ids, tgt_ids)
            with tracing(model, only="*[!s]") as trace:  # leaves out scores, weights, heads ...
                model(src_ids, tgt_ids)
        assert any("bmm" in operation for operation in hidden(overheard.heard, [step.value for step in trace]))

    def test_a_traced_pass_equals_an_untraced_one_bit_for_bit(self, options, small_model, src_ids, tgt_ids):
        for changes in options:
            model = small_model(**changes)
            plain = model(src_ids, tgt_ids)
            with tracing(model) as trace:
                traced = model(src_ids, tgt_ids)
            assert torch.equal(plain, traced), changes
            assert torch.equal(trace["output_projection.logits"], traced), changes

    def test_gradients_and_dropout_are_bit_for_bit_the_same_too(self, small_model, src_ids, tgt_ids):
        model = small_model(dropout=0.3).train()
        gradients = []
        for watch in (nullcontext(), tracing(model)):
            torch.manual_seed(11)
            with watch:
                loss = model(src_ids, tgt_ids).square().mean()
            gradients.append(torch.autograd.grad(loss, list(model.parameters())))
        assert all(torch.equal(plain, traced) for plain, traced in zip(*gradients, strict=True))

    def test_each_layer_records_the_same_names_and_no_address_comes_twice(
        self, options, small_model, src_ids, tgt_ids
    ):
        for changes in options:
            model = small_model(**changes)
            with tracing(model) as trace:
                model(src_ids, tgt_ids)
            addresses = [step.address for step in trace]
            assert len(addresses) == len(set(addresses)) == len(trace)
            for stack in ("encoder", "decoder"):
                first, second = (
                    [
                        a.removeprefix(f"{stack}.layers.{i}.")
                        for a in addresses
                        if a.startswith(f"{stack}.layers.{i}.")
                    ]
                    for i in range(2)
                )
                assert first == second

    def test_recorded_steps_are_detached_copies_that_training_and_caches_cannot_change(
        self, small_model, src_ids, tgt_ids
    ):
        model = small_model(positions="learned")
        with tracing(model) as trace:
            model(src_ids, tgt_ids)
        recorded = trace["tgt_embedding.position_vectors"]
        before = recorded.clone()
        with torch.no_grad():
            model.tgt_embedding.positions.table.zero_()
        assert torch.equal(recorded, before)
        assert not any(step.value.requires_grad for step in trace)
        # Nor what a cache holds:
        with torch.no_grad(), tracing(model, only="decoder.layers.0.self_attention.k_cached") as trace:
            memory, mask = model.encode(src_ids)
            cache = model.new_cache()
            copies = []
            for token in range(3, 10):
                model.decode(torch.full((3, 1), token), memory, mask, cache)
                copies.append(cache.layers[0].autoregressive.k.clone())
            cache.reorder(torch.tensor([2, 2, 0]))
            cache.layers[0].autoregressive.k.zero_()
        assert [step.shape[2] for step in trace] == list(range(1, 8))
        for step, copy in zip(trace, copies, strict=True):
            assert torch.equal(step.value, copy)


class TestThePaperInATrace:
    def test_a_trace_can_be_searched_by_glob_and_says_its_shapes(self, small_model, src_ids, tgt_ids):
        model = small_model(d_v=7)
        with tracing(model) as trace:
            model(src_ids, tgt_ids)
        steps = trace.select("decoder.layers.*.cross_attention.weights")
        assert [step.address for step in steps] == [f"decoder.layers.{i}.cross_attention.weights" for i in range(2)]
        assert {(step.name, step.axes, step.shape) for step in steps} == {
            ("weights", ("batch", "heads", "query", "key"), (3, 3, 7, 5))
        }
        assert trace.select("no.such.*") == []

    def test_only_keeps_what_its_glob_names_and_still_checks_the_rest(self, small_model, src_ids, tgt_ids):
        model = small_model()
        with tracing(model, only="encoder.*.weights") as trace:
            model(src_ids, tgt_ids)
        assert [step.address for step in trace] == [f"encoder.layers.{i}.self_attention.weights" for i in range(2)]
        model.encoder.layers[0].self_attention.n_heads = 5
        model.encoder.layers[0].self_attention.d_k = 6
        with pytest.raises(TraceError, match="expected 3 from the configuration"), tracing(model, only="decoder.*"):
            model(src_ids, tgt_ids)

    def test_an_address_that_is_not_there_or_passed_twice_is_not_guessed_at(self, small_model, src_ids, tgt_ids):
        model = small_model()
        with tracing(model) as trace:
            model(src_ids, tgt_ids)
            model(src_ids, tgt_ids)
        with pytest.raises(TraceError, match=r"Did you mean 'encoder\.layers\.0\.self_attention\.weights'"):
            trace["encoder.layers.0.self_attention.weight"]
        with pytest.raises(TraceError, match=r"recorded 2 times.*select"):
            trace["encoder.memory"]
        assert len(trace.select("encoder.memory")) == 2

    def test_a_part_of_the_model_can_be_traced_alone(self, small_model):
        model = small_model()
        with tracing(model.encoder) as trace:
            model.encoder(torch.randn(2, 5, 26), Mask.from_visible(torch.ones(2, 1, 1, 5, dtype=torch.bool)))
        assert trace["layers.1.output"].shape == trace["memory"].shape == (2, 5, 26)


class TestTheLegend:
    def test_every_word_a_tap_uses_is_in_it_and_every_word_in_it_is_used(
        self, options, small_model, src_ids, tgt_ids
    ):
        used = set()
        for changes in options:
            model = small_model(n_encoder_layers=1, n_decoder_layers=1, **changes)
            with tracing(model) as trace:
                model(src_ids, tgt_ids)
            used |= {word for step in trace for word in step.axes}
        # Of a typed text, a search, a loss and an update:
        around = {"character", "tgt", "beam", "n_best", "candidate", "phrase", "row", "column"}
        assert used <= set(LEGEND)
        assert set(LEGEND) - used <= around, "a word that no tap uses has no place in the legend"

    def test_its_sizes_are_attributes_of_the_configuration(self):
        config = ModelConfig()
        for word, axis in LEGEND.items():
            assert axis.meaning, word
            assert axis.symbol, word
            assert not axis.size or getattr(config, axis.size) > 0, word

    def test_no_tap_computes_and_no_name_is_tapped_twice_in_one_class(self):
        for path in Path(glassformer.model.__file__).parent.glob("*.py"):
            for cls in (
                node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)
            ):
                calls = [
                    node for node in ast.walk(cls)
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tap"
                ]  # fmt: skip
                names = [ast.unparse(call.args[1]) for call in calls]
                assert len(names) == len(set(names)), f"{path.name}: {cls.name} taps a name twice"
                for call in calls:
                    assert isinstance(call.args[2], ast.Name | ast.Attribute), f"{path.name}:{call.lineno} computes"


class Wrong(nn.Module):
    """Taps its input under axes that need not fit."""

    config = ModelConfig(d_model=26, n_heads=13)

    def __init__(self, axes: str) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        return tap(self, "x", x, self.axes)


class TestTapsThatDoNotFit:
    @pytest.mark.parametrize(
        ("axes", "words"),
        [
            ("batch d_model", "x: the tap names 2 axes ('batch', 'd_model'), the tensor has (2, 5, 26)"),
            ("batch src heads d_k", "x: the tap names 4 axes"),
            ("batch positoin d_model", "x: 'positoin' is not an axis of the legend. Did you mean 'position'?"),
            ("batch position d_ff", "x: axis d_ff has size 26, expected 2048 from the configuration"),
            ("batch heads d_model", "x: axis heads has size 5, expected 13 from the configuration"),
            ("batch one d_model", "x: axis one has size 5, expected 1"),
        ],
    )
    def test_are_refused_with_the_axis_that_is_wrong_but_only_while_recording(self, axes, words):
        module, x = Wrong(axes), torch.zeros(2, 5, 26)
        assert module(x) is x
        with pytest.raises(TraceError) as raised, tracing(module):
            module(x)
        assert words in str(raised.value)

    def test_another_model_in_the_same_block_is_not_recorded(self, small_model, src_ids, tgt_ids):
        model, other = small_model(), small_model()
        with tracing(model) as trace:
            other(src_ids, tgt_ids)
        assert len(trace) == 0


def zero_head(head: int):
    def edit(value: Tensor) -> Tensor:
        value = value.clone()
        value[:, head] = 0.0
        return value

    return edit


class TestEdits:
    def test_replacing_the_weights_of_one_head_changes_the_output_and_nothing_before(
        self, small_model, src_ids, tgt_ids
    ):
        model = small_model()
        with tracing(model) as plain:
            before = model(src_ids, tgt_ids)
        address = "decoder.layers.1.cross_attention.weights"
        with tracing(model, edits={address: zero_head(2)}) as trace:
            after = model(src_ids, tgt_ids)
        assert not torch.equal(before, after)
        assert torch.count_nonzero(trace[address][:, 2]) == 0
        assert torch.equal(trace[address][:, :2], plain[address][:, :2])
        changed = next(step.address for step in trace if not torch.equal(step.value, plain[step.address]))
        assert changed == address, "what was computed before the edit is what it was"
        assert torch.equal(model(src_ids, tgt_ids), before), "the edit ends with its block"

    @pytest.mark.parametrize("positions", ModelConfig.choices("positions"))
    @pytest.mark.parametrize("head", [0, 2])
    def test_ablating_a_head_equals_zeroing_its_columns_of_w_o(
        self, *, positions, head, small_model, src_ids, tgt_ids
    ):
        model = small_model(positions=positions, d_v=7)
        with tracing(model, edits={"decoder.layers.0.self_attention.heads": zero_head(head)}):
            ablated = model(src_ids, tgt_ids)
        with torch.no_grad():
            model.decoder.layers[0].self_attention.w_o.weight[:, 7 * head : 7 * head + 7] = 0.0
        torch.testing.assert_close(ablated, model(src_ids, tgt_ids), rtol=1e-5, atol=1e-5)

    def test_a_glob_edits_every_match_and_several_edits_follow_one_another(self, small_model, src_ids, tgt_ids):
        model = small_model()
        edits = {
            "*.memory": lambda x: x + 1,
            "encoder.memory": lambda x: x * 2,
            "*self_attention.scores": torch.zeros_like,
        }
        with tracing(model) as plain:
            model(src_ids, tgt_ids)
        with tracing(model, edits=edits) as trace:
            model(src_ids, tgt_ids)
        assert len(trace.select("*self_attention.scores")) == 4
        assert all(torch.count_nonzero(step.value) == 0 for step in trace.select("*self_attention.scores"))
        assert not torch.equal(trace["encoder.memory"], plain["encoder.memory"])

    def test_gradients_flow_through_an_edit(self, small_model, src_ids, tgt_ids):
        model = small_model()
        scale = torch.ones((), requires_grad=True)
        with tracing(model, edits={"encoder.layers.0.feed_forward.activated": lambda x: x * scale}):
            model(src_ids, tgt_ids).square().mean().backward()
        assert scale.grad is not None
        assert scale.grad.isfinite()

    def test_a_misspelt_address_cannot_pass_for_an_edit_without_effect(self, small_model, src_ids, tgt_ids):
        model = small_model()
        edits = {"encoder.layer.0.*": lambda x: x, "encoder.memory": lambda x: x}
        with pytest.raises(TraceError, match=r"encoder\.layer\.0\.\* matched no tap"), tracing(model, edits=edits):
            model(src_ids, tgt_ids)

    def test_an_error_inside_the_block_is_not_covered_by_a_complaint_about_edits(self, small_model):
        with pytest.raises(ZeroDivisionError), tracing(small_model(), edits={"nothing": lambda x: x}):
            _ = 1 / 0

    @pytest.mark.parametrize("address", ["output_projection.probabilities", "*.norm.mean"])
    def test_a_value_shown_beside_the_way_cannot_be_edited(self, address, small_model, src_ids, tgt_ids):
        model = small_model()
        with pytest.raises(TraceError, match="is shown only"), tracing(model, edits={address: torch.zeros_like}):
            model(src_ids, tgt_ids)

    @pytest.mark.parametrize("edit", [lambda x: x[:, 1:], lambda x: x.sum(), lambda x: x.double(), lambda x: x > 0])
    def test_an_edit_may_change_neither_shape_nor_type_nor_forget_to_return(
        self, edit, small_model, src_ids, tgt_ids
    ):
        model = small_model()
        words = r"encoder\.memory: the edit returned .* expected \(3, 5, 26\) torch\.float32"
        with pytest.raises(TraceError, match=words), tracing(model, edits={"encoder.memory": edit}):
            model(src_ids, tgt_ids)
        words = "the edit returned NoneType, expected a tensor"
        with pytest.raises(TraceError, match=words), tracing(model, edits={"encoder.memory": lambda _: None}):
            model(src_ids, tgt_ids)

    def test_an_edit_that_works_in_place_ends_with_its_block_too(self, small_model, src_ids, tgt_ids):
        model = small_model()
        with torch.no_grad():
            before = model(src_ids, tgt_ids)
            with tracing(model, edits={"*.position_vectors": Tensor.zero_}):
                model(src_ids, tgt_ids)
            assert torch.equal(model(src_ids, tgt_ids), before)


class TestOneContextAlone:
    def test_two_threads_do_not_mix(self, small_model, src_ids, tgt_ids):
        models = [small_model(), small_model(norm="pre")]
        meet = threading.Barrier(3, timeout=30)
        traces, errors = {}, []

        def watch(index: int) -> None:
            try:
                with tracing(models[index]) as trace:
                    meet.wait()
                    for _ in range(3):
                        models[index](src_ids, tgt_ids)
                    meet.wait()
                traces[index] = trace
            except Exception as error:  # a thread's error must reach the test
                errors.append(error)

        threads = [threading.Thread(target=watch, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        meet.wait()
        for _ in range(3):
            for model in models:
                model(src_ids, tgt_ids)
        meet.wait()
        for thread in threads:
            thread.join(timeout=30)
        assert errors == []
        for index, trace in traces.items():
            assert {len(trace.select(step.address)) for step in trace} == {3}
            assert bool(trace.select("encoder.final_norm.output")) == (index == 1)

    def test_a_block_inside_a_block_is_refused_and_the_outer_one_goes_on(self, small_model, src_ids, tgt_ids):
        model = small_model()
        with tracing(model) as outer:
            with pytest.raises(TraceError, match="found one block inside another"), tracing(model):
                pass
            model(src_ids, tgt_ids)
        with tracing(model) as alone:
            model(src_ids, tgt_ids)
        assert len(outer) == len(alone) > 0

    def test_a_pass_for_its_attention_is_recorded_like_any_other(self, small_model, src_ids):
        model = small_model()
        outputs = [[5, 6, 2]] * len(src_ids)
        with tracing(model, only="*.cross_attention.weights") as trace:
            traced = forced_attention(model, src_ids, outputs)
        assert len(trace) == len(model.decoder.layers)
        for one, other in zip(traced, forced_attention(model, src_ids, outputs), strict=True):
            assert torch.equal(one, other)

    def test_nothing_is_left_on_the_model(self, small_model, src_ids, tgt_ids):
        model = small_model()
        before = [sorted(vars(module)) for module in model.modules()]
        with tracing(model):
            model(src_ids, tgt_ids)
        assert [sorted(vars(module)) for module in model.modules()] == before
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.usefixtures("unchecked")
class TestCompiled:
    def graphs_of(self, model: Transformer, *inputs: Tensor) -> tuple[list[list[tuple[str, str]]], Tensor]:
        graphs: list[list[tuple[str, str]]] = []

        def keep(graph_module, _example_inputs):
            graphs.append([(node.op, str(node.target)) for node in graph_module.graph.nodes])
            return graph_module.forward

        torch._dynamo.reset()
        with torch.no_grad():
            output = torch.compile(model, fullgraph=True, backend=keep)(*inputs)
        return graphs, output

    @pytest.mark.slow
    def test_a_compiled_graph_is_the_graph_of_a_model_without_taps(self, small_model, src_ids, tgt_ids, monkeypatch):
        model = small_model(n_encoder_layers=1, n_decoder_layers=1)
        with_taps, _ = self.graphs_of(model, src_ids, tgt_ids)
        for name in ("attention", "embedding", "layers", "norm", "positions", "transformer"):
            module = getattr(glassformer.model, name)
            monkeypatch.setattr(module, "tap", lambda _module, _name, value, _axes: value)
            monkeypatch.setattr(module, "show", lambda *_: None, raising=False)
        without_taps, _ = self.graphs_of(model, src_ids, tgt_ids)
        assert with_taps == without_taps
        assert len(with_taps) == 1, "one graph, no break"

    @pytest.mark.slow
    def test_a_graph_compiled_inside_tracing_serves_outside_and_the_other_way_round(
        self, small_model, src_ids, tgt_ids
    ):
        model = small_model(n_encoder_layers=1, n_decoder_layers=1)
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        with torch.no_grad():
            expected = model(src_ids, tgt_ids)
            outside = compiled(src_ids, tgt_ids)
            with tracing(model), torch._dynamo.config.patch(error_on_recompile=True):
                inside = compiled(src_ids, tgt_ids)
        assert torch.equal(outside, expected)
        assert torch.equal(inside, expected)


def test_an_idle_show_does_not_compute():
    def compute() -> Tensor:
        raise AssertionError("computed for nobody")

    show(nn.Module(), "x", compute, "batch")


@pytest.mark.parametrize(("wrong", "right"), [
    ("decoder.layers.0.cros_attention.weights", "decoder.layers.0.cross_attention.weights"),
    ("encoder.layers.0.feed_forward.w_1.weigth", "encoder.layers.0.feed_forward.w_1.weight"),
])  # fmt: skip
def test_a_mistyped_address_of_an_edit_is_told_the_nearest(small_model, wrong, right) -> None:
    model, ids = small_model(), torch.tensor([[5, 6, 2]])
    with pytest.raises(TraceError, match=f"Did you mean '{right}'"), tracing(model, {wrong: torch.zeros_like}):
        model(ids, ids)
