"""Another program's model as a run: weights, ids and tokenizers in our order.

The width is permuted (others have all sines first), and ids: ours begin with <pad>, <s>, </s>, <unk>. If targets
start with another token, <s> gets its row. A bias bans added entries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from glassformer.checkpoint import save_checkpoint
from glassformer.errors import CheckpointError, ConfigError, TokenizerError
from glassformer.interop.new_directory import write_whole
from glassformer.interop.shortlist import Shortlist
from glassformer.model.transformer import Transformer
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.settings import ModelConfig, RunConfig
from glassformer.text.tokenizer.sentencepiece import UNREACHABLE, SentencePieceModel
from glassformer.text.tokenizer.tokenizer import CONTROL_TOKENS, Tokenizer, Tokenizers
from glassformer.version import __version__

PAD, _, EOS, UNKNOWN = CONTROL_TOKENS
SINUSOIDS = {"paper": "paper", "marian": "tensor2tensor"}  # model.sinusoid, by what --positions calls it
MARIAN_EPS = 1e-6  # model.norm_eps of Marian
UNUSED = "<unused "  # begins the name of a row without an entry
NEVER = -100.0  # bias of an added entry: e^-100 vanishes in float32
SRC, TGT, OUT = "src_embedding.tokens.weight", "tgt_embedding.tokens.weight", "output_projection.linear.weight"
OUT_BIAS = "output_projection.linear.bias"
# The axes of d_model, by weights' endings.
_WIDTH_AXES = {
    "tokens.weight": (1,), "positions.table": (1,), "norm.gain": (0,), "norm.bias": (0,), "linear.weight": (1,),
    "w_q.weight": (1,), "w_k.weight": (1,), "w_v.weight": (1,), "w_o.weight": (0,), "w_o.bias": (0,),
    "w_1.weight": (1,), "w_2.weight": (0,), "w_2.bias": (0,),
    "ssru.w.weight": (0, 1), "w_f.weight": (0, 1), "w_f.bias": (0,),
}  # fmt: skip


def interleave(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights for sines first, as weights for interleaved ones."""
    return {name: _permute_width(name, value, inverse=False) for name, value in weights.items()}


def separate(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of ``interleave``."""
    return {name: _permute_width(name, value, inverse=True) for name, value in weights.items()}


def _permute_width(name: str, value: Tensor, *, inverse: bool) -> Tensor:
    for axis in next((axes for end, axes in _WIDTH_AXES.items() if name.endswith(end)), ()):
        width = value.shape[axis]
        order = torch.arange(width).view(2, width // 2).t().flatten()  # 0, half, 1, half + 1 ...
        value = value.index_select(axis, order.argsort() if inverse else order).contiguous()
    return value


def check_ids(parts: Mapping[str, Any], size: int, where: str) -> None:
    """Raise ``CheckpointError`` unless all ``parts`` are ids below ``size``."""
    for name, number in parts.items():
        if type(number) is not int or not 0 <= number < size:
            raise CheckpointError(f"{where}: {name}: found {number!r}, expected an id from 0 to {size - 1}.")


@dataclass(frozen=True)
class Vocabulary:
    """One side's entries in order of foreign ids, with control ids."""

    entries: Sequence[str]
    pad: int
    start: int
    eos: int
    unk: int
    extra: tuple[str, ...] = ()
    """The tokenizer's own pieces, read as <unk>."""
    adds_pad: bool = False
    """Whether the program's entries lack padding."""
    has_start: bool = False
    """Whether id 1 there is <s>, whatever starts targets."""

    @property
    def never(self) -> set[int]:
        """The ids there that our outputs never hold."""
        return ({self.pad, self.start} | ({1} if self.has_start else set())) - {self.eos, self.unk}

    def rows(self) -> list[int]:
        """For each id of ours, the id there of its row."""
        parts = [self.pad, self.start, self.eos, self.unk]
        placed = {*parts, 1} if self.has_start else set(parts)
        rest = [number for number in range(len(self.entries)) if number not in placed]
        return [*parts, *rest, *[self.unk] * len(self.extra)]

    def names(self) -> list[str]:
        """The entry of each id of ours."""
        rest = [self.entries[number] for number in self.rows()[len(CONTROL_TOKENS) :]]
        rest = [*rest[: len(rest) - len(self.extra)], *self.extra]
        return [*CONTROL_TOKENS, *(UNREACHABLE + entry if entry in CONTROL_TOKENS else entry for entry in rest)]

    def suppressed_ids(self) -> list[int]:
        """Our ids that the other program's outputs may not have."""
        rows = self.rows()
        return [
            *([0] if self.adds_pad else []),
            *([1] if self.start in {self.pad, self.eos, self.unk} else []),  # here alone an entry
            *range(len(rows) - len(self.extra), len(rows)),
        ]

    def check_names(self, where: str) -> None:
        """Raise ``TokenizerError`` if a control id is an ordinary entry's."""
        expected = {"pad": CONTROL_TOKENS, "start": CONTROL_TOKENS, "eos": (EOS,), "unk": (UNKNOWN,)}
        for name, names in expected.items():
            entry = self.entries[getattr(self, name)]
            if entry not in names and not (name in {"pad", "start"} and entry.startswith(UNUSED)):
                raise TokenizerError(
                    f"{where}: {name}: found id {getattr(self, name)}, which the vocabulary has for {entry!r}, "
                    f"expected that of {' or '.join(names)}."
                )


@dataclass(frozen=True)
class ImportedModel:
    """A run not yet on disk; ``notes``: the dropped settings."""

    config: RunConfig
    weights: dict[str, Tensor]
    tokenizers: Tokenizers
    source: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    shortlist: Shortlist | None = None

    def with_languages(self, languages: str) -> Self:
        """The model with ``languages`` such as en-de; or ``ConfigError``."""
        return replace(self, config=replace(self.config, text=replace(self.config.text, languages=languages)))

    def model(self) -> Transformer:
        """The model, in eval mode."""
        model = Transformer.without_values(self.config.model, "cpu")
        for name, parameter in model.named_parameters():
            parameter.data.copy_(self.weights[name])
        return model.eval()

    def write(self, directory: Path) -> None:
        """Write a run, whole or not at all; ``RunError`` if in use."""
        RunDirectory(directory).check_name()
        with write_whole(directory, "--run") as temporary:
            run, (src, tgt) = RunDirectory(temporary), self.tokenizers
            run.create()
            run.write_tokenizers(src, tgt)
            if self.shortlist is not None:
                self.shortlist.write(run.shortlist_file)
            state = {
                "counters": {"update": 0, "epoch": 0}, "torch": torch.__version__,
                "model": self.config.model.to_mapping(),
                "src_tokenizer": src.digest, "tgt_tokenizer": tgt.digest,
            }  # fmt: skip
            save_checkpoint(run.final, 0, {WEIGHTS: self.weights}, state)
            run.write_config(self.config, {"imported": self.source, "glassformer": __version__})


def read_settings(settings: Mapping[str, Any], names: Mapping[str, str], where: str, kind: str) -> dict[str, Any]:
    """Foreign ``settings`` by our names; ``ConfigError`` if one is missing."""
    missing = [theirs for theirs in names.values() if theirs not in settings]
    if missing:
        raise ConfigError(f"{where}: has no {missing[0]!r}, expected the settings of a {kind}.")
    return {ours: settings[theirs] for ours, theirs in names.items()}


# By a default's type, a setting's types and their name.
_TYPES: dict[type, tuple[set[type], str]] = {
    int: ({int}, "a whole number"),
    float: ({int, float}, "a number"),
    bool: ({bool}, "true or false"),
}
Value = TypeVar("Value", int, float, bool)


def read_value(settings: Mapping[str, Any], name: str, default: Value, where: str) -> Value:
    """A setting or its ``default``; ``ConfigError`` for another type."""
    value = settings.get(name)
    types, words = _TYPES[type(default)]
    if value is not None and type(value) not in types:
        raise ConfigError(f"{where}: {name}: found {value!r}, expected {words}.")
    return default if value is None else value


def run_config(
    model: Mapping[str, Any], tokenizers: Tokenizers, decode: Mapping[str, Any], where: str, languages: str = ""
) -> RunConfig:
    """The run's settings; ``ConfigError`` with ``where`` if impossible."""
    src, tgt = tokenizers
    text = {
        "tokenizer": src.kind, "vocab_size": model["src_vocab"], "lowercase": src.lowercases,
        "joint": model["tie_embeddings"] == "all" or src.digest == tgt.digest, "languages": languages,
    }  # fmt: skip
    try:
        return RunConfig.from_mapping({"model": dict(model), "text": text, "decode": dict(decode)})
    except ConfigError as error:
        raise ConfigError(f"{where}: as a run's settings: {error}") from error


def find_dropped(settings: Mapping[str, Any], neutral: Mapping[str, Any]) -> dict[str, Any]:
    """The ``settings`` that are not ``neutral``."""
    return {name: settings[name] for name, value in neutral.items() if settings.get(name) not in (None, value)}


def describe_dropped(dropped: Mapping[str, Any], where: str, other: str) -> list[str]:
    """A note on dropped search settings, if any."""
    names = ", ".join(f"{name} = {repr(value)[:40]}" for name, value in dropped.items())
    return [f"{where}: not taken over: {names}. Outputs may differ from those of {other}."] if dropped else []


def order_weights(
    weights: Mapping[str, Tensor], src: Vocabulary, tgt: Vocabulary, tie: str, where: str
) -> dict[str, Tensor]:
    """The weights interleaved, by our ids, without biases of 0."""
    _check_rows(weights, src, tgt, where)
    try:
        found = interleave(weights)
        rows = {SRC: src.rows(), TGT: tgt.rows(), OUT: tgt.rows()}
        found |= {name: found[name][numbers] for name, numbers in rows.items() if name in found}
        bias = found.get(OUT_BIAS, torch.zeros(len(tgt.entries)))[tgt.rows()]
    except (KeyError, IndexError, RuntimeError) as error:
        raise CheckpointError(f"{where}: the weights do not fit the settings: {error}.") from error
    bias[tgt.suppressed_ids()] = NEVER
    found[OUT_BIAS] = bias
    if not bias.any():
        del found[OUT_BIAS]
    if tie == "all":
        found.pop(TGT, None)
    if tie != "none":
        found.pop(OUT, None)
    biases = {name for name in found if name.endswith(("w_q.bias", "w_k.bias", "w_v.bias", "w_o.bias"))}
    if any(bool(found[name].any()) for name in biases):
        return found
    return {name: value for name, value in found.items() if name not in biases}


def _check_rows(weights: Mapping[str, Tensor], src: Vocabulary, tgt: Vocabulary, where: str) -> None:
    for name, side in ((SRC, src), (TGT, tgt), (OUT, tgt), (OUT_BIAS, tgt)):
        ndim, rows = 1 if name == OUT_BIAS else 2, len(side.entries)
        if name in weights and (weights[name].ndim != ndim or len(weights[name]) != rows):
            raise CheckpointError(
                f"{where}: {name}: found the shape {tuple(weights[name].shape)}, expected {rows:,} rows, one for "
                "each entry of the vocabulary."
            )


def check_weights(config: ModelConfig, weights: Mapping[str, Tensor], where: str) -> None:
    """Raise ``CheckpointError`` for names and shapes of no such model."""
    expected = {name: tuple(value.shape) for name, value in Transformer.without_values(config).named_parameters()}
    odd = sorted(expected.keys() ^ weights.keys())
    if odd:
        kind = "has no" if odd[0] in expected else "has an unknown"
        raise CheckpointError(f"{where}: {kind} weight for {odd[0]}, and {len(odd) - 1} more differ.")
    for name, shape in expected.items():
        if tuple(weights[name].shape) != shape:
            raise CheckpointError(f"{where}: {name} is {tuple(weights[name].shape)}, the settings say {shape}.")
        if not bool(weights[name].isfinite().all()):
            raise CheckpointError(f"{where}: {name} holds numbers that are not finite.")


def extra_pieces(entries: Sequence[list[str]], spm: SentencePieceModel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``extra`` pieces of source and target, by the source's .spm."""
    known = {*entries[0], *CONTROL_TOKENS}
    extra = tuple(piece for piece in spm.scores if piece not in known)
    return extra, extra if entries[0] == entries[1] else ()


def make_tokenizers(spm: Sequence[SentencePieceModel], sides: tuple[Vocabulary, Vocabulary]) -> Tokenizers:
    """Tokenizers of source and target with our ids."""
    src, tgt = (Tokenizer(one.tokenizer_json(side.names())) for one, side in zip(spm, sides, strict=True))
    return src, tgt
