"""Every step of a trace follows from those before it, over the whole grid of options; and a false one does not."""

import pkgutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from covering import FULL, Cell, covering_cells
from filter_values import FILTER_VALUES, PROCESSOR_VALUES
from small_models import AXES, options_of
from three_sentences import SOURCES, TARGETS

from glassformer.checkpoint import read_tensors, save_checkpoint
from glassformer.decoding import Constraints, Translator
from glassformer.decoding.search import beam_search, filters, outputs, sampling
from glassformer.decoding.search import constraints as search_constraints
from glassformer.errors import TraceError
from glassformer.explain import walk, walks
from glassformer.explain.entries.sampling_entries import FILTER_EQUATIONS
from glassformer.explain.entries.scope import PassContext, Record, Scope
from glassformer.explain.recording import sentence_batch
from glassformer.explain.verify import audit_operations, prove, verify, verify_walk
from glassformer.explain.walks import walk_generation, walk_training
from glassformer.model import Transformer
from glassformer.model.dropout import Dropout
from glassformer.model.layers import FeedForward
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig, ModelConfig, TrainConfig
from glassformer.text import Tokenizer
from glassformer.trace import tracing
from glassformer.training.loop import muon, optimizer, schedule, update
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.optimizer import OPTIMIZER

KINDS = {"bpe": 280, "wordpiece": 60, "unigram": 60, "words": 60, "characters": 60}
TWO_LAYERS = {"n_encoder_layers": 2, "n_decoder_layers": 2}
SHORT = {"max_length_a": 0, "max_length_b": 4}
SEARCHES = [
    DecodeConfig(beam=1, **SHORT),
    DecodeConfig(beam=3, n_best=2, **SHORT),
    DecodeConfig(beam=3, n_best=2, cache=False, **SHORT),
    DecodeConfig(beam=3, n_best=2, no_repeat_ngram=2, min_length=2, repetition_penalty=1.3, **SHORT),
    DecodeConfig(beam=4, n_best=3, coverage_penalty=0.4, **SHORT),
    DecodeConfig(beam=2, coverage_penalty=0.4, cache=False, **SHORT),
    DecodeConfig(sample=True, no_repeat_ngram=1, repetition_penalty=2.0, n_best=2, **SHORT),
    DecodeConfig(sample=True, n_best=2, top_k=5, temperature=0.7, **SHORT),
    DecodeConfig(sample=True, top_p=0.8, min_p=0.01, cache=False, **SHORT),
    DecodeConfig(sample=True, typical_p=0.6, n_best=2, **SHORT),
]


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: Tokenizer.train(kind, [*SOURCES, *TARGETS], size) for kind, size in KINDS.items()}


@pytest.fixture
def build(tokenizers, small_model) -> Callable[..., Translator]:
    """A translator with a tokenizer of a kind on both sides, and a small model with some options, of one layer."""

    def make(kind: str = "words", **changes: Any) -> Translator:
        tokenizer = tokenizers[kind]
        layers = {"n_encoder_layers": 1, "n_decoder_layers": 1}
        sizes = {"src_vocab": tokenizer.size, "tgt_vocab": tokenizer.size, "max_length": 200}
        options = DecodeConfig(beam=2, max_length_a=0, max_length_b=3)
        return Translator(small_model(**{**layers, **changes, **sizes}), tokenizer, tokenizer, options)

    return make


def assert_all_follow(translator: Translator, search: DecodeConfig, changes: dict[str, Any]) -> None:
    """A forced walk with the audit of its operations, and a generation."""
    proof = prove(walk(translator, SOURCES, TARGETS), translator.model)
    assert proof.holds, (changes, list(proof.lines()))
    assert proof.verification.n_recomputed > 150
    verification = verify_walk(walk_generation(translator, SOURCES, search), translator.model)
    assert verification.holds, (changes, search, verification.off)


def test_every_step_follows_with_some_options(options, build):
    for place in (0, 5, 10):
        search = SEARCHES[place % len(SEARCHES)]
        assert_all_follow(build(**options[place], **TWO_LAYERS), search, options[place])


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    """Of all options, tokenizers and searches so many cells that any two choices meet in one; with FULL=1 any three."""
    return covering_cells([*map(len, AXES), len(KINDS), len(SEARCHES)], strength=3 if FULL else 2)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", KINDS)
def test_every_step_follows_whichever_options_tokenizers_and_searches_meet(cells, build, kind):
    for *options, tokenizer, search in cells:
        if tokenizer == list(KINDS).index(kind):
            changes = options_of(tuple(options))
            assert_all_follow(build(kind, **changes, **TWO_LAYERS), SEARCHES[search], changes)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: f"{search.beam}-{search.sample}-{search.cache}")
def test_a_generation_follows_step_by_step(build, search):
    every_choice = ModelConfig.choices("positions")
    for positions in every_choice if search == SEARCHES[0] else every_choice[:1]:
        translator = build("words", positions=positions)
        verification = verify_walk(walk_generation(translator, SOURCES, search), translator.model)
        assert verification.holds, (positions, verification.off)
        assert verification.count("exact") > 200


@pytest.mark.parametrize(
    "search",
    [
        DecodeConfig(beam=4, n_best=4, max_length_a=0, max_length_b=6),
        DecodeConfig(beam=4, n_best=2, coverage_penalty=0.2, max_length_a=0, max_length_b=6),
        DecodeConfig(beam=1, cache=False, no_repeat_ngram=2, max_length_a=0, max_length_b=6),
    ],
    ids=lambda search: f"beam {search.beam}",
)
def test_what_was_demanded_is_recorded_and_followed(build, search):
    translator = build()
    constraints = [
        Constraints(prefix=(6, 8), banned=((9,), (4, 5))),
        Constraints(required=((7, 8), (10,))),
        Constraints(),
    ]
    walked = walk_generation(translator, SOURCES, search, constraints=constraints)
    verification = verify_walk(walked, translator.model)
    assert verification.holds, verification.off
    place = next(at for at, step in enumerate(walked.trace) if step.address == "search.required_ids")
    other = walked.trace.steps[place].value.clone()
    other[other == 10] = 11
    walked.trace.steps[place] = replace(walked.trace.steps[place], value=other)
    assert not verify_walk(walked, translator.model).holds, "other demands do not explain the search"


CLIPPED, SHORT_MEMORY = {"clip_norm": 0.01, "label_smoothing": 0.0}, {"adam_beta1": 0.5}
MUON = {"optimizer": "muon"}


@pytest.mark.parametrize(
    ("dropout", "changes"),
    [
        (0.0, {}), (0.3, {}), (0.3, CLIPPED), (0.0, SHORT_MEMORY), (0.3, MUON), (0.0, {**MUON, "freeze": "encoder"}),
        *(pytest.param(*both, marks=pytest.mark.slow) for both in ((0.0, CLIPPED), (0.3, SHORT_MEMORY))),
    ],
    ids=str,
)  # fmt: skip
def test_a_training_step_follows_down_to_each_weight(build, changes, dropout):
    translator = build("bpe", dropout=dropout, norm="pre", **TWO_LAYERS)
    walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=7, **changes))
    verification = verify_walk(walked, translator.model)
    assert verification.holds, verification.off
    updates = [step for step in verification.steps if step.address.endswith(".value")]
    assert len(updates) == len(list(translator.model.parameters()))
    assert max(step.error for step in updates) < 6e-7, "a little more than one bit of a weight"


# How a Muon could be wrong, and the step that says so.
WRONG_MUONS = {
    "another coefficient": (("COEFFICIENTS", (3.44, -4.7750, 2.0315)), ".orthogonal"),
    "one iteration fewer": (("ITERATIONS", 4), ".orthogonal"),
    "another momentum": (("MOMENTUM", 0.9), ".first_moment"),
    "a longer step": (("ADAM_STEP", 0.21), ".value"),
}


@pytest.mark.parametrize("name", WRONG_MUONS)
def test_a_wrong_step_of_muon_does_not_follow(build, monkeypatch, name):
    (constant, value), address = WRONG_MUONS[name]
    translator = build(dropout=0.0)
    monkeypatch.setattr(muon, constant, value)
    walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=4000, optimizer="muon"))
    assert verify_walk(walked, translator.model).off[0].address.endswith(address)


def moments_are_exchanged(monkeypatch):
    other = {"exp_avg": "exp_avg_sq", "exp_avg_sq": "exp_avg"}

    def read(*place):
        return {"/".join([other.get(key, key), name]): value for key, name, value in split(read_tensors(*place))}

    monkeypatch.setattr(optimizer, "read_tensors", read)


def split(tensors):
    return [(*name.split("/", 1), value) for name, value in tensors.items()]


def the_count_is_one_ahead(monkeypatch):
    def read(*place):
        return {f"{key}/{name}": value + (key == "step") for key, name, value in split(read_tensors(*place))}

    monkeypatch.setattr(optimizer, "read_tensors", read)


def weights_are_not_the_models(monkeypatch):
    def freeze(model, *_, **__):
        with torch.no_grad():
            model.output_projection.linear.weight[0, 0] += 1e-3

    monkeypatch.setattr(walks, "freeze", freeze)


MOMENTS = {"first_moment_before", "second_moment_before"}
# What an update begins with or leaves, and the steps that do not follow when that is another.
BEGINNINGS = {
    lambda monkeypatch: None: set(),
    moments_are_exchanged: MOMENTS,
    the_count_is_one_ahead: {"count_before"},
    lambda monkeypatch: monkeypatch.setattr(torch.optim.Adam, "zero_grad", lambda *_, **__: None): {"gradients_left"},
    weights_are_not_the_models: {"value_before"},
}


@pytest.mark.parametrize("fault", BEGINNINGS)
def test_an_update_begins_with_what_its_checkpoint_holds_and_leaves_no_gradient(build, tmp_path, monkeypatch, fault):
    translator, train = build(tie_embeddings="none", dropout=0.0), TrainConfig(warmup=7)
    model = deepcopy(translator.model)
    adam = optimizer.new_optimizer(model, train)
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, 0.3)
    adam.step()
    saved = {optimizer.OPTIMIZER: optimizer.optimizer_tensors(model, adam)}
    save_checkpoint(RunDirectory(tmp_path).latest, 1, saved, {"counters": asdict(TrainState(update=1))})
    fault(monkeypatch)
    walked = walk_training(translator, SOURCES, TARGETS, train, run=tmp_path)
    off = {step.address.rpartition(".")[2] for step in verify_walk(walked, translator.model).off}
    assert BEGINNINGS[fault] == off & {"count_before", "gradients_left", "value_before", *MOMENTS}
    assert bool(off) == bool(BEGINNINGS[fault])


def test_a_gradient_shown_is_the_change_of_the_loss(build):
    """A small change of one recorded value moves the loss as its gradient says."""
    translator = build("words", dropout=0.0)
    train = TrainConfig(warmup=7)
    walked = walk_training(translator, SOURCES, TARGETS, train)
    model, batch = translator.model, walked.sentences.batch
    double = Transformer(model.config).double()
    double.load_state_dict(model.state_dict())
    address, cell, by = "decoder.layers.0.cross_attention.scores", (0, 1, 2, 1), 1e-6

    def loss(change: float) -> float:
        from glassformer.trace import tracing

        def move(value):
            value[cell] += change
            return value

        with torch.no_grad(), tracing(double.eval(), {address: move}):
            log_p = double(batch.src_ids, batch.tgt_in_ids).log_softmax(-1)
        q = walked["loss.target_distribution"].value.double()
        return float(-(q * log_p).sum() / batch.target_tokens)

    slope = (loss(by) - loss(-by)) / (2 * by)
    assert walked[address].gradient[cell].item() == pytest.approx(slope, rel=1e-3, abs=1e-8)


@pytest.mark.parametrize(
    "address",
    [
        "text.src_ids", "src_mask", "src_embedding.scaled", "encoder.layers.1.self_attention.weights",
        "decoder.layers.0.cross_attention.q_split", "decoder.layers.1.feed_forward_add_norm.norm.variance",
        "output_projection.logits", "choice.next_ids",
    ],
)  # fmt: skip
def test_one_false_number_is_found_where_it_stands(build, address):
    translator = build(**TWO_LAYERS)
    walked = walk(translator, SOURCES, TARGETS)
    place = next(place for place, step in enumerate(walked.trace) if step.address == address)
    step = walked.trace.steps[place]
    value = step.value.clone()
    cell = tuple(size - 1 for size in value.shape)
    value[cell] = ~value[cell] if value.dtype == torch.bool else value[cell] + 1
    walked.trace.steps[place] = replace(step, value=value)
    verification = verify_walk(walked, translator.model)
    assert not verification.holds
    assert (verification.off[0].address, verification.off[0].cell) == (address, cell)
    assert verification.largest_error == pytest.approx(1, abs=1e-3) or verification.largest_error > 0.001


def test_a_call_or_a_part_of_a_trace_that_is_not_there_is_named(build):
    translator = build()
    walked = walk(translator, SOURCES, TARGETS)
    record = Record(walked.trace.steps, PassContext(translator.model))
    with pytest.raises(TraceError, match=r"its equation needs call 1 of text\.src_ids\. Trace all steps"):
        Scope(record, 5).at_call("text.src_ids", 1)
    walked = walk(translator, SOURCES, TARGETS, only="*.weights")
    with pytest.raises(TraceError, match=r"needs .*, which was not recorded before it. Verify a whole trace"):
        verify_walk(walked, translator.model)


def test_another_models_weights_do_not_explain_a_trace(build):
    translator, other = build(**TWO_LAYERS), build(**TWO_LAYERS)
    with torch.no_grad():
        other.model.load_state_dict(translator.model.state_dict())
        other.model.decoder.layers[1].cross_attention.w_v.weight[3, 4] += 0.01
    verification = verify_walk(walk(translator, SOURCES, TARGETS), other.model)
    assert [step.address for step in verification.off] == ["decoder.layers.1.cross_attention.v_projected"]


def test_an_operation_that_no_equation_states_is_found(build, monkeypatch):
    translator = build(**TWO_LAYERS)
    original = FeedForward.forward
    monkeypatch.setattr(FeedForward, "forward", lambda self, x: original(self, x * 1.0))
    batch = walk(translator, SOURCES, TARGETS).sentences.batch
    found = audit_operations(translator.model, batch.src_ids, batch.tgt_in_ids)
    assert not found.complete
    assert [entry.address for entry in found.mismatches] == [
        f"{stack}.layers.{layer}.feed_forward.inner" for stack in ("encoder", "decoder") for layer in (0, 1)
    ]
    assert found.mismatches[0].done - found.mismatches[0].stated == {"mul": 1}
    assert found.n_operations == found.n_accounted + 4


def test_means_of_large_numbers_that_cancel_follow(build):
    """Their rounding goes by what is added up; a false one is found all the same."""
    translator = build(norm="pre")
    with torch.no_grad():
        translator.model.src_embedding.tokens.weight *= 300
    walked = walk(translator, SOURCES, TARGETS)
    assert verify_walk(walked, translator.model).holds
    (mean,) = walked.trace.select("encoder.layers.0.self_attention_add_norm.norm.mean")
    scale = walked.trace["src_embedding.with_positions"].abs().amax(-1)
    mean.value[0, 1] += 3e-6 * scale[0, 1]
    assert verify_walk(walked, translator.model).off[0].address == mean.address


def test_what_is_no_number_follows_from_what_is_none(build):
    translator = build()
    with torch.no_grad():
        translator.model.encoder.layers[0].feed_forward.w_1.weight[0, 0] = torch.nan
    assert prove(walk(translator, SOURCES, TARGETS), translator.model).holds


def test_the_report_counts_what_it_checked(build):
    translator = build()
    proof = prove(walk(translator, SOURCES, TARGETS), translator.model)
    lines = list(proof.lines())
    assert lines[-1].endswith(" All checks passed.")
    assert f"{proof.verification.n_recomputed:,} steps recomputed" in lines[-3]
    assert proof.verification.n_recomputed == sum(step.result != "given" for step in proof.verification.steps)


@pytest.mark.parametrize("beam", [4, 7])
def test_a_beam_that_is_divided_among_required_sequences_follows_and_one_with_all_the_room_does_not(
    build, monkeypatch, beam
):
    translator = build()
    options = DecodeConfig(beam=beam, max_length_a=0, max_length_b=6)
    constraints = [
        Constraints(required=((7, 8), (8, 9, 10)), starts=((6, 8), (12, 11, 9, 10))),
        Constraints(),
        Constraints(required=((11,),)),
    ]
    walked = walk_generation(translator, SOURCES, options, constraints=constraints)
    assert verify_walk(walked, translator.model).holds
    divide = search_constraints.allocate_banks
    monkeypatch.setattr(
        search_constraints, "allocate_banks", lambda keys, banks, n, beam: divide(keys, banks, n, beam * 9)
    )
    walked = walk_generation(translator, SOURCES, options, constraints=constraints)
    assert "search.candidate_ids" in [step.address for step in verify_walk(walked, translator.model).off]


def _wrong_base(original):
    return lambda width, *_: 1000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


PLAIN_BEAM = DecodeConfig(beam=3, max_length_a=0, max_length_b=6)
HEURISTIC = DecodeConfig(beam=3, length_norm="power", early_stopping="heuristic", max_length_a=0, max_length_b=6)
SAMPLE = DecodeConfig(sample=True, top_k=5, top_p=0.9, max_length_a=0, max_length_b=4)
MISTAKES = {
    "sinusoids": ("model.positions.frequencies", _wrong_base, {}, None, "src_embedding.position_vectors"),
    "rotation": (
        "model.positions.frequencies", _wrong_base, {"positions": "rotary"}, None,
        "encoder.layers.0.self_attention.q_rotated",
    ),
    "beam": (
        "decoding.search.beam.top_k_of_beams", lambda best: lambda sums, own, count: best(sums, own, count + 1)[:, 1:], {},
        PLAIN_BEAM, "search.candidate_log_probs",
    ),
    "outcome": (
        "decoding.search.beam_search.live_ranks", lambda ranks: lambda is_eos, beam: ranks(is_eos, beam).flip(1), {}, PLAIN_BEAM,
        "search.ids",
    ),
    "length penalty": (
        "settings.DecodeConfig.penalty", lambda penalty: lambda self, length: penalty(self, length + (length < 6)), {},
        PLAIN_BEAM, "search.finished_scores",
    ),
    "length penalty of others": (
        "settings.DecodeConfig.penalty", lambda penalty: lambda self, length: penalty(self, length + (length < 6)), {},
        HEURISTIC, "search.finished_scores",
    ),
    "end": (
        "decoding.search.beam_search.is_done", lambda _: lambda state, options: state.step >= state.limits, {}, PLAIN_BEAM,
        "search.done",
    ),
    "draw": ("decoding.search.sampling.draw_ids", lambda _: lambda own, u: own.argmax(dim=1), {}, SAMPLE, "search.drawn_ids"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_product_does_not_follow(build, monkeypatch, name):
    """The equations are stated anew, so that a wrong function of the product does not explain itself."""
    place, mistake, changes, options, address = MISTAKES[name]
    module, _, function = f"glassformer.{place}".rpartition(".")
    home = pkgutil.resolve_name(module)
    monkeypatch.setattr(home, function, mistake(getattr(home, function)))
    translator = build(**changes, **TWO_LAYERS)
    walked = walk(translator, SOURCES, TARGETS) if options is None else walk_generation(translator, SOURCES, options)
    proof = prove(walked, translator.model)
    assert proof.verification.off[0].address == address
    assert list(proof.lines())[-1].endswith(" Some checks failed.")


def worst_first(monkeypatch):
    original = outputs.rank_outputs
    for home in (beam_search, sampling):
        monkeypatch.setattr(
            home, "rank_outputs", lambda found, n_best, **_: original(found, len(found))[::-1][:n_best]
        )


def truncated_as_ended(monkeypatch):
    original = beam_search._results
    changed = lambda *args: [replace(one, truncated=False) for one in original(*args)]  # noqa: E731
    monkeypatch.setattr(beam_search, "_results", changed)


def scores_without_penalty(monkeypatch):
    def from_log_prob(cls, ids, log_prob, options, eos_id):
        return cls(ids, log_prob, log_prob, truncated=ids[-1] != eos_id)

    monkeypatch.setattr(outputs.Output, "from_log_prob", classmethod(from_log_prob))


def no_truncated_beside_ended(monkeypatch):
    original = beam_search._results

    def results(state, place, plan):
        found = original(state, place, plan)
        return [one for one in found if not one.truncated] or found

    monkeypatch.setattr(beam_search, "_results", results)


DRAWS = DecodeConfig(sample=True, n_best=3, max_length_a=0, max_length_b=6)
ALL_OF_A_BEAM = DecodeConfig(beam=4, n_best=4, max_length_a=0, max_length_b=5)
WRONG_CHOICES = [
    (worst_first, ALL_OF_A_BEAM, "results"), (worst_first, DRAWS, "results"),
    (truncated_as_ended, ALL_OF_A_BEAM, "result_ended"), (scores_without_penalty, DRAWS, "result_scores"),
    (no_truncated_beside_ended, ALL_OF_A_BEAM, "result_log_probs"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "options", "name"), WRONG_CHOICES)
def test_a_wrong_final_choice_does_not_follow(build, monkeypatch, wrong, options, name):
    translator = build(**TWO_LAYERS)
    walked = walk_generation(translator, SOURCES, options)
    assert verify_walk(walked, translator.model).holds
    ended = walked["search.result_ended"].value
    assert ended.any()
    assert not ended.all()
    wrong(monkeypatch)
    off = verify_walk(walk_generation(translator, SOURCES, options), translator.model).off
    assert f"search.{name}" in {step.address for step in off}


@pytest.mark.parametrize("tied", ["all", "target"])
def test_a_model_that_does_not_tie_what_its_configuration_ties_does_not_follow(build, tied):
    translator = build(tie_embeddings=tied)
    assert verify_walk(walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=4)), translator.model).holds
    linear = translator.model.output_projection.linear
    linear.weight = torch.nn.Parameter(linear.weight.detach().clone())  # equal numbers, but its own gradient
    walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=4))
    off = {step.address for step in verify_walk(walked, translator.model).off}
    assert "output_projection.linear.weight.gradient" in off
    with torch.no_grad():
        linear.weight[3] += 0.1
    off = [step.address for step in verify_walk(walk(translator, SOURCES, TARGETS), translator.model).off]
    assert off == ["output_projection.logits"]


def test_an_edit_beyond_the_positions_of_a_search_says_what_is_there(build):
    translator = build()

    def edit(weights):
        weights[:, :, 3] = 0
        return weights

    edits = {"decoder.layers.0.self_attention.weights": edit}
    message = r"not there, this tensor is .*A search passes the target position by position"
    with torch.no_grad(), pytest.raises(TraceError, match=message), tracing(translator.model, edits):
        translator.translate(SOURCES)


@pytest.mark.parametrize("setting", [*PROCESSOR_VALUES, *FILTER_VALUES])
def test_each_filter_follows_and_one_that_does_nothing_does_not(build, monkeypatch, setting):
    register, drawn = ("SAMPLING_FILTERS", True) if setting in FILTER_VALUES else ("PROCESSORS", False)
    value = {**PROCESSOR_VALUES, **FILTER_VALUES}[setting]
    options = DecodeConfig(beam=3, n_best=3, sample=drawn, max_length_a=0, max_length_b=6, **{setting: value})
    translator = build()
    assert verify_walk(walk_generation(translator, SOURCES, options), translator.model).holds
    idle = tuple(
        replace(one, apply=lambda log_probs, *_: log_probs) if one.setting == setting else one
        for one in getattr(filters, register)
    )
    monkeypatch.setattr(filters, register, idle)
    off = verify_walk(walk_generation(translator, SOURCES, options), translator.model).off
    assert off[0].address == f"search.{'filtered' if drawn else 'processed'}_log_probs"


def step_without_bias_correction(adam):
    (group,) = adam.param_groups
    for weight in group["params"]:
        gradient, (beta1, beta2) = weight.grad, group["betas"]
        first, second = (1 - beta1) * gradient, (1 - beta2) * gradient**2
        adam.state[weight] = {"step": torch.tensor(1.0), "exp_avg": first, "exp_avg_sq": second}
        with torch.no_grad():
            weight -= group["lr"] * first / (second.sqrt() + group["eps"])


def a_weaker_step(step):
    def weaker(adam):
        adam.param_groups[0]["lr"] *= 0.3
        step(adam)

    return weaker


def scale_moment(name, factor):
    def after(step):
        def wrong(adam):
            step(adam)
            for state in adam.state.values():
                state[name] *= factor

        return wrong

    return after


def scale_small_weights(step):
    def wrong(adam):
        step(adam)
        for weight in adam.param_groups[0]["params"]:
            weight.data = torch.where(weight.abs() < 0.1, weight * (1 + 1e-5), weight)

    return wrong


ADAM = (torch.optim.Adam, "step")
RATE = (update, "learning_rate")
WRONG_UPDATES = {
    "a first moment a hundred-thousandth off": (*ADAM, scale_moment("exp_avg", 1 + 1e-5), ".first_moment"),
    "a second moment a thousandth off": (*ADAM, scale_moment("exp_avg_sq", 1.001), ".second_moment"),
    "small weights a hundred-thousandth off": (*ADAM, scale_small_weights, ".value"),
    "no bias correction": (*ADAM, lambda _: step_without_bias_correction, ".value"),
    "an update times 0.3": (*ADAM, a_weaker_step, ".value"),
    "half the rate": (*RATE, lambda rate: lambda *args: 0.5 * rate(*args), "update.rate"),
    "one update off": (*RATE, lambda rate: lambda number, *args: rate(number + 1, *args), "update.rate"),
}


@pytest.mark.parametrize("name", WRONG_UPDATES)
def test_a_wrong_update_at_the_start_of_the_papers_warm_up_does_not_follow(build, monkeypatch, name):
    """Rates are 1e-7 there and moments less: what is absolute to 1e-6 would let all of these pass."""
    home, function, wrong, address = WRONG_UPDATES[name]
    translator = build()
    monkeypatch.setattr(home, function, wrong(getattr(home, function)))
    walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=4000))
    assert verify_walk(walked, translator.model).off[0].address.endswith(address)


def test_an_update_after_a_restart_follows_and_a_rate_that_forgets_it_does_not(restarted, translator):
    assert verify_walk(restarted, translator.model).holds
    restarted = deepcopy(restarted)
    (rate,) = (step for step in restarted.trace if step.address == "update.rate")
    restarted.trace.steps[restarted.trace.steps.index(rate)] = replace(rate, value=rate.value * 2)
    assert "update.rate" in [step.address for step in verify_walk(restarted, translator.model).off]


@pytest.mark.parametrize("updates", [9, 14, 30])
def test_an_update_in_a_cooldown_follows_and_one_that_is_a_step_ahead_does_not(build, tmp_path, monkeypatch, updates):
    state, train = TrainState(update=updates, cooldown_from=10, cooldown_to=15), TrainConfig(warmup=7)
    save_checkpoint(RunDirectory(tmp_path).latest, 1, {OPTIMIZER: {}}, {"counters": asdict(state)})
    translator = build()
    walked = walk_training(translator, SOURCES, TARGETS, train, run=tmp_path)
    assert walked["update.cooldown"].value.item() == pytest.approx({9: 1.0, 14: 1 / 6, 30: 1 / 6}[updates])
    assert verify_walk(walked, translator.model).holds
    monkeypatch.setattr(update, "cooldown_factor", lambda state, number: schedule.cooldown_factor(state, number) / 2)
    walked = walk_training(translator, SOURCES, TARGETS, train, run=tmp_path)
    assert verify_walk(walked, translator.model).off[0].address == "update.cooldown"


def test_one_dropout_mask_for_all_sentences_does_not_follow(build, monkeypatch):
    draw, translator, train = Dropout._draw, build(dropout=0.2), TrainConfig(warmup=7)
    assert verify_walk(walk_training(translator, SOURCES, TARGETS, train), translator.model).holds
    monkeypatch.setattr(Dropout, "_draw", lambda _, x, dropped: draw(x[:1], dropped).expand_as(x).clone())
    off = verify_walk(walk_training(translator, SOURCES, TARGETS, train), translator.model).off
    assert off[0].address == "src_embedding.dropout.kept"


def test_target_ids_that_the_text_does_not_spell_do_not_follow(build, monkeypatch):
    translator, encode = build(), sentence_batch._encode
    monkeypatch.setattr(
        sentence_batch, "_encode", lambda name, *of: [ids[name == "targets" :] for ids in encode(name, *of)]
    )
    off = verify_walk(walk(translator, SOURCES, TARGETS), translator.model).off
    assert [step.address for step in off] == ["text.tgt_out_ids"]


@pytest.mark.parametrize(("factor", "follows"), [(1 + 0.9e-5, True), (1 + 1.05e-5, False)])
def test_a_gradient_may_be_a_hundred_thousandth_of_its_greatest_off(build, factor, follows):
    translator, weight = build(), "tgt_embedding.tokens.weight"
    walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=7))
    exact = walked[f"{weight}.gradient"].value
    known = {weight: (exact, exact.abs().max().item())}
    step = replace(walked[f"{weight}.gradient"], value=exact * factor)
    assert verify([step], PassContext(translator.model, weight_gradients=known)).holds == follows


def test_the_update_of_a_training_in_bf16_is_shown_in_float32_and_follows(build):
    translator = build()
    walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=7, precision="bf16"))
    assert walked["encoder.memory"].value.dtype == torch.float32
    assert prove(walked, translator.model).holds


@pytest.mark.parametrize(("setting", "value", "probabilities"), [
    ("top_p", 0.9, [0.6, 0.3, 0.1]), ("min_p", 1 / 6, [0.6, 0.3, 0.1]), ("top_k", 2, [0.4, 0.3, 0.3]),
    ("typical_p", 0.6, [0.4, 0.3, 0.3]), ("top_p", 0.7, [0.4, 0.3, 0.3])
])  # fmt: skip
def test_a_token_on_the_border_of_a_filter_is_as_the_search_has_it(setting, value, probabilities):
    apply = FILTER_EQUATIONS[setting]
    log_probs = torch.tensor(probabilities).log()[None].double()
    everything, nothing = torch.ones(1, 3, dtype=torch.bool), torch.zeros(1, 3, dtype=torch.bool)
    more, less = (apply(log_probs, value, kept) > -torch.inf for kept in (everything, nothing))
    if setting == "top_k":
        first, second = (torch.tensor([[True, *kept]]) for kept in ((True, False), (False, True)))
        assert (apply(log_probs, value, first) > -torch.inf).equal(first)
        assert (apply(log_probs, value, second) > -torch.inf).equal(second)
    else:
        assert more.sum() > less.sum()


@pytest.mark.parametrize("schedule", [{"warmup": 4000}, {"warmup": 7, "schedule": "inverse_sqrt", "peak_rate": 3e-4}])
def test_both_schedules_follow(build, schedule):
    translator = build()
    walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(**schedule))
    assert verify_walk(walked, translator.model).holds


def test_a_target_of_one_token_and_an_unfiltered_sample_follow(build):
    """The mask of one query is made without cutting it; a log-probability near 0 is rounded by those that it sums."""
    translator = build()
    assert prove(walk(translator, SOURCES[:1], [""]), translator.model).holds
    with torch.no_grad():
        translator.model.output_projection.linear.weight *= 5
    options = DecodeConfig(sample=True, n_best=8, max_length_a=0, max_length_b=6)
    assert verify_walk(walk_generation(translator, SOURCES, options), translator.model).holds
