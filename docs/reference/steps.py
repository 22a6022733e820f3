"""The page of steps: a small model is walked through, and each step tells its story."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import torch

from glassformer.axes import LEGEND
from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding import Translator
from glassformer.explain import WalkStep, symbols, walk
from glassformer.explain.recording import recorded_pass
from glassformer.explain.stages import layer_of, stage_of
from glassformer.explain.stories import STORIES, VARIANTS, Story
from glassformer.explain.story import kind_of, story_of
from glassformer.model import Transformer
from glassformer.text.tokenizer import Tokenizer
from glassformer.trace import Step, tracing
from reference.markdown import code, page, plain, table, typed_text


def steps_page() -> str:
    main = list(main_steps())
    told = {(kind_of(step.address), step.address.rpartition(".")[2]) for step in main}
    extra = [step for step in extra_steps() if (kind_of(step.address), step.name) not in told]
    told |= {(kind_of(step.address), step.name) for step in extra}
    modules = list(dict.fromkeys(map(module_of, extra)))
    extra.sort(key=lambda step: modules.index(module_of(step)))
    untold = {(kind, name) for kind, stories in STORIES.items() for name in stories} - told
    assert not untold, f"no recorded step tells these stories: {sorted(untold)}"
    return page(
        "Steps of the walk",
        "Every tensor that `glassformer trace` and `tracing(model)` show, in the order in which it is computed. A "
        "step's address is the path of its module and its own name, such as `encoder.layers.0.self_attention.q`; "
        "`*` stands for the number of the layer, from 0. `src_mask` and `causal_mask` belong to the model itself. "
        "Sections are the paper's unless another work is named.",
        "## Axes",
        "Each tap names its axes with these words; the tables below give the symbols. An axis with a size must have "
        "the one of the model's configuration, or the trace raises.",
        table(["axis", "symbol", "meaning", "size"], legend()),
        *step_sections(main),
        "## With other settings",
        "Steps that other settings add, or that decoding with a cache adds.",
        *step_tables(extra),
        "## Equations",
        "What other settings change in the equations above.",
        table(["step", "setting", "equation"], variants()),
    )


def legend() -> Iterator[list[str]]:
    for word, axis in LEGEND.items():
        yield [code(word), axis.symbol, axis.meaning, code(axis.size)]


def main_steps() -> Iterator[WalkStep]:
    """The walk of the paper's model, made small; of each stack the first layer."""
    tokenizer = Tokenizer.train("characters", ["ab"], 8)
    model = Transformer(small(src_vocab=tokenizer.size, tgt_vocab=tokenizer.size)).eval()
    translator = Translator(model, tokenizer, tokenizer, DecodeConfig())
    for step in walk(translator, ["ab"], ["ba"]).steps:
        if layer_of(step.address) in (None, ("encoder", 0), ("decoder", 0)):
            yield step


def extra_steps() -> Iterator[Step]:
    """The steps of passes with the other kinds of positions, and of decoding with a cache."""
    ids = torch.tensor([[3, 2]])
    for positions in ("relative", "rotary"):
        yield from first_layers(recorded_pass(Transformer(small(positions=positions)), ids, ids))
    model = Transformer(small()).eval()
    with torch.no_grad(), tracing(model) as trace:
        memory, src_mask = model.encode(ids)
        model.decode(ids, memory, src_mask, model.new_cache())
    yield from first_layers(trace)


def first_layers(steps: Iterable[Step]) -> Iterator[Step]:
    """Of each kind of module the first that takes a step: the encoder's before the decoder's."""
    seen: set[tuple[str, str]] = set()
    for step in steps:
        key = kind_of(step.address), step.name
        if key not in seen:
            seen.add(key)
            yield step


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
        yield table(["name", "what it is", "equation", "axes", "section"], map(step_row, members))


def step_row(step: WalkStep | Step) -> list[str]:
    told: Story = step.story if isinstance(step, WalkStep) else story_of(step.address)
    axes = step.symbols if isinstance(step, WalkStep) else symbols(step)
    return [
        code(step.name), f"**{told.title}.** {typed_text(told.sentence)}", code(told.equation),
        code(f"({', '.join(axes)})") if axes else "one number", told.section,
    ]  # fmt: skip


def variants() -> Iterator[list[str]]:
    for variant in VARIANTS:
        kinds = ", ".join(f"{kind}.{variant.name}" for kind in variant.kinds)
        setting = f"model.{variant.field} = {plain(variant.value)}"
        yield [code(kinds), code(setting), code(variant.equation)]
