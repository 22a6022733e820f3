"""The page of steps: a small model is walked through, and each step is printed with its entry."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch

from glassformer.axes import LEGEND
from glassformer.checkpoint import save_checkpoint
from glassformer.decoding import Constraints, Translator
from glassformer.explain import Walk, WalkStep, symbols, walk
from glassformer.explain.addresses import kind_of, layer_of, stage_of
from glassformer.explain.entries import Story, Variant, entry_of, story_of
from glassformer.explain.entries.entry import all_entries
from glassformer.explain.recording.recording import record_pass
from glassformer.explain.walks import walk_generation, walk_training
from glassformer.model import Transformer
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig, ModelConfig, TrainConfig
from glassformer.text.tokenizer.tokenizer import Tokenizer
from glassformer.trace import Step, tracing
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.optimizer import OPTIMIZER
from reference.markdown import code, page, plain, table, typed_text

AnyStep = TypeVar("AnyStep", WalkStep, Step)

AROUND = {
    "search": (
        "Search and sampling",
        "The trace of a generation also shows how each token is chosen, under `search.`.",
    ),
    "answer": (
        "Answer",
        "What the model has written becomes text, and what was taken off the source is put back, under `answer.`.",
    ),
    "dropout": (
        "Dropout",
        "The trace of a training step shows what dropout keeps, under `src_embedding.dropout`, "
        "`tgt_embedding.dropout` and each `*_add_norm.dropout`.",
    ),
    "loss": ("Loss", "A training step shows how wrong the model is, under `loss.`"),
    "update": ("Update", "A training step shows what all weights share in the update, under `update.`"),
    "weight": (
        "Weights in the update",
        "A training step shows the update of each weight, under the weight's own address, such as "
        "`encoder.layers.0.feed_forward.w_1.weight.gradient`.",
    ),
}


def steps_page() -> str:
    translator = small_translator()
    main, around = list(main_steps(translator)), list(once(steps_around(translator)))
    found = set(map(key_of, [*main, *around]))
    extra = [step for step in extra_steps() if key_of(step) not in found]
    found |= set(map(key_of, extra))
    modules = list(dict.fromkeys(map(module_of, extra)))
    extra.sort(key=lambda step: modules.index(module_of(step)))
    unseen = {(kind, name) for kind, name, _ in all_entries()} - found
    assert not unseen, f"no recorded step has these entries: {sorted(unseen)}"
    return page(
        "Steps of the walk",
        "Every tensor that `glassformer trace` and `tracing(model)` show, in the order in which it is computed. A "
        "step's address is the path of its module and its own name, such as `encoder.layers.0.self_attention.q`; "
        "`*` stands for the number of the layer, from 0. `src_mask` and `causal_mask` belong to the model itself. "
        "Sections are the paper's unless another work is named.",
        "The last column says how `glassformer trace --verify` checks the step: *independently*, by its equation, "
        "stated again in torch's operations and in Python, or *given*, as an input of the pass.",
        "## Axes",
        "Each tap names its axes with these words; the tables below give the symbols. An axis with a size must have "
        "the one of the model's configuration, or the trace raises.",
        table(["axis", "symbol", "meaning", "size"], legend()),
        *step_sections(main),
        *sections_around(around),
        "## With other settings",
        "Steps that other settings add, and those that decoding with a cache adds.",
        *step_tables(extra),
        "## Equations",
        "What other settings change in the equations above.",
        table(["step", "setting", "equation"], variants()),
    )


def legend() -> Iterator[list[str]]:
    for word, axis in LEGEND.items():
        yield [code(word), axis.symbol, axis.meaning, code(axis.size)]


def small_translator() -> Translator:
    """The paper's model, made small."""
    tokenizer = Tokenizer.train("characters", ["ab"], 8)
    model = Transformer(small(src_vocab=tokenizer.size, tgt_vocab=tokenizer.size)).eval()
    return Translator(model, tokenizer, tokenizer, DecodeConfig(beam=2, max_length_a=0, max_length_b=2))


def main_steps(translator: Translator) -> Iterator[WalkStep]:
    """The walk with teacher forcing; of each stack the first layer."""
    for step in walk(translator, ["ab"], ["ba"]).steps:
        if layer_of(step.address) in (None, ("encoder", 0), ("decoder", 0)):
            yield step


def steps_around(translator: Translator) -> Iterator[WalkStep]:
    """The steps of a search, of sampling and of a training step that no module of the model computes."""
    last = translator.model.config.tgt_vocab - 1
    constraints = [Constraints(prefix=(last,), required=((last, last),), banned=((last, last, last),))]
    all_rules = translator.config.with_changes({"coverage_penalty": 0.2, "min_length": 1})
    walks = (
        walk_generation(translator, ["ab"]),
        walk_generation(translator, ["ab"], all_rules, constraints=constraints),
        walk_generation(translator, ["ab"], translator.config.with_changes({"sample": True})),
        restarted_training(translator),
    )
    for step in chain.from_iterable(walked.steps for walked in walks):
        if kind_of(step.address) in AROUND:
            yield step


def restarted_training(translator: Translator) -> Walk:
    """An update by Muon of a training that diverged before."""
    with TemporaryDirectory() as name:
        state = {"counters": asdict(TrainState(restarts=1))}
        save_checkpoint(RunDirectory(Path(name)).latest, 1, {OPTIMIZER: {}}, state)
        return walk_training(translator, ["ab"], ["ba"], TrainConfig(warmup=1, optimizer="muon"), run=Path(name))


def sections_around(steps: Iterable[WalkStep]) -> Iterator[str]:
    own = list(steps)
    for kind, (title, about) in AROUND.items():
        yield from (f"## {title}", about, step_table(step for step in own if kind_of(step.address) == kind))


def extra_steps() -> Iterator[Step]:
    """The steps of passes with other positions or an SSRU, and of decoding with a cache."""
    ids = torch.tensor([[3, 2]])
    for positions in ModelConfig.choices("positions"):
        yield from once(record_pass(Transformer(small(positions=positions)), ids, ids))
    for sublayer in ModelConfig.choices("autoregressive_sublayer"):
        model = Transformer(small(autoregressive_sublayer=sublayer)).eval()
        with torch.no_grad(), tracing(model) as trace:
            memory, src_mask = model.encode(ids)
            cache = model.new_cache()
            for column in ids.split(1, dim=1):
                model.decode(column, memory, src_mask, cache)
        yield from once(trace)


def once(steps: Iterable[AnyStep]) -> Iterator[AnyStep]:
    """Each kind of step once, where it is first recorded: the encoder's before the decoder's."""
    seen: set[tuple[str, str]] = set()
    for step in steps:
        if key_of(step) not in seen:
            seen.add(key_of(step))
            yield step


def key_of(step: WalkStep | Step) -> tuple[str, str]:
    """What finds an entry: the kind of module and the name."""
    return kind_of(step.address), step.name


def small(**changes: Any) -> ModelConfig:
    sizes: dict[str, Any] = {"d_model": 8, "n_heads": 2, "d_ff": 4, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return ModelConfig(**{**sizes, "src_vocab": 8, "tgt_vocab": 8, "max_length": 8, **changes})


def step_sections(steps: Iterable[WalkStep]) -> Iterator[str]:
    for stage, members in groupby(steps, key=lambda step: stage_of(step.address)):
        yield f"## {stage.replace(' layer 1', ' layers')}"
        yield from step_tables(members)


def module_of(step: WalkStep | Step) -> str:
    return step.address.rpartition(".")[0]


def step_tables(steps: Iterable[WalkStep | Step]) -> Iterator[str]:
    """A table for each module, under the module's path."""
    for path, members in groupby(steps, key=module_of):
        if path:
            yield f"### {code(re.sub(r'[.]0(?=[.]|$)', '.*', path))}"
        yield step_table(members)


def step_table(steps: Iterable[WalkStep | Step]) -> str:
    return table(["name", "what it is", "equation", "axes", "section", "verified"], map(step_row, steps))


def step_row(step: WalkStep | Step) -> list[str]:
    story: Story = step.story if isinstance(step, WalkStep) else story_of(step.address)
    axes = step.symbols if isinstance(step, WalkStep) else symbols(step)
    return [
        code(step.name), f"**{story.title}.** {typed_text(story.sentence)}", code(story.equation),
        code(f"({', '.join(axes)})") if axes else "one number", story.section,
        "given" if entry_of(step.address).compute is None else "independently",
    ]  # fmt: skip


def variants() -> Iterator[list[str]]:
    """Each variant once, with all the steps that it changes."""
    steps: dict[Variant, list[str]] = {}
    for kind, name, entry in all_entries():
        for variant in entry.variants:
            steps.setdefault(variant, []).append(f"{kind}.{name}")
    for variant, names in steps.items():
        setting = f"model.{variant.field} = {plain(variant.value)}"
        yield [code(", ".join(names)), code(setting), code(variant.equation)]
