"""The page of settings, from the fields of the configuration."""

from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch

from glassformer.model import Transformer
from glassformer.settings import NAMED_MODELS, DecodeConfig, ModelConfig, TextConfig, TrainConfig
from glassformer.settings.section import Section
from glassformer.training.resume_check import MAY_CHANGE
from reference.markdown import code, page, plain, prose, table

SECTIONS: dict[str, type[Section]] = {
    "model": ModelConfig, "text": TextConfig, "train": TrainConfig, "decode": DecodeConfig,
}  # fmt: skip


def settings_page() -> str:
    return page(
        "Settings",
        "All settings, in four sections. Set one in a TOML file (`glassformer train --config FILE`) or with "
        "`--set section.key=value`; a key that does not exist is refused. All effective values are saved in the run "
        "directory's `config.json`. A symbol is that of the paper, or of the work that a setting comes from.",
        *(settings_section(name, section) for name, section in SECTIONS.items()),
        "## Named models",
        "`--model NAME`, `[model]` with `name = \"NAME\"`, or `ModelConfig.NAME()` in Python. What a name does not "
        "set has the default above. Training replaces the vocabulary sizes by those of its tokenizers; the "
        "parameters are counted with the sizes given here.",
        table(["name", "what it is", "what it sets", "parameters"], named_models()),
        "## What may change when a run continues",
        "The same command continues a stopped run. All of `decode` may then have other values, and so may "
        + ", ".join(code(key) for key in sorted(MAY_CHANGE)) + "; so may `train.valid_translations` where "
        "`train.metric` is `loss`, and `train.accumulate` with the number of processes, as long as their product "
        "stays what it was: see [scaling](scaling.md#resuming-with-another-number-of-processes). Any other "
        "difference is refused.",
    )  # fmt: skip


def settings_section(name: str, section: type[Section]) -> str:
    hints = get_type_hints(section)
    rows = (
        [code(knob.name), code(plain(knob.default)), limits(knob, hints[knob.name]),
         knob.metadata["symbol"], knob.metadata["doc"]]
        for knob in fields(section)
    )  # fmt: skip
    head = ["key", "default", "values", "symbol", "meaning"]
    return "\n\n".join([f"## [{name}]", prose(section.__doc__), table(head, rows)])


def limits(knob: Field[Any], hint: Any) -> str:
    low, high = knob.metadata["low"], knob.metadata["high"]
    if get_origin(hint) is Literal:
        return ", ".join(code(plain(choice)) for choice in get_args(hint))
    if get_origin(hint) is Union:  # words and a type
        words, hint = get_args(hint)
        return f"{limits(knob, words)}, or {limits(knob, hint)}"
    if hint is bool:
        return "`true`, `false`"
    if low is None:
        return "text"
    whole = "whole, " if hint is int else ""
    return f"{whole}{plain(low)} or more" if high is None else f"{whole}{plain(low)} to {plain(high)}"


def named_models() -> Iterator[list[str]]:
    for name, values in NAMED_MODELS.items():
        with torch.device("meta"):
            model = Transformer(ModelConfig.from_name(name))
        count = sum(parameter.numel() for parameter in model.parameters())
        changes = ", ".join(code(f"{key} = {plain(value)}") for key, value in values.items())
        yield [code(name), prose(getattr(ModelConfig, name).__doc__), changes or "the defaults", f"{count:,}"]
