"""What differs between a model and its conversion: tokenizers, settings, weights, search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from glassformer.decoding.engines.ctranslate2_engine import differing_options, lacking_options
from glassformer.explain.compare.sides import Side
from glassformer.interop.imported_model import OUT, OUT_BIAS, SRC, TGT, interleave, separate
from glassformer.settings import DecodeConfig
from glassformer.text.tokenizer.tokenizer import BOS_ID, CONTROL_TOKENS, EOS_ID

START, END, LAYOUT, BIAS = "start token", "end token", "sinusoid layout", "output bias"
TOKENIZER, SETTING, WEIGHTS, QUANTIZATION = "tokenizer", "model setting", "weights", "quantization"
SEARCH, CONTROL, OUTPUTS, ROUNDING = "search setting", "control tokens", "outputs", "rounding"
_NO_EFFECT = {"cache", "batch_tokens", "n_best"}  # settings that change no output
# Settings that change no sample.
_ONLY_IN_SEARCH = {"beam", "early_stopping", "coverage_penalty", "length_penalty", "length_norm"}


@dataclass(frozen=True)
class Finding:
    """One thing that differs: its name, and what it is on both sides."""

    what: str
    detail: str


def find_differences(a: Side, b: Side, sources: Sequence[str], targets: Sequence[str]) -> list[Finding]:
    """Everything that differs in the sides' parts, most decisive first."""
    return [
        *_compare_tokenizers(a, b, sources, targets),
        *_compare_settings(a, b),
        *_compare_control_tokens(a, b),
        *_compare_weights(a, b),
        *_find_conflicts(a, b),
        *_compare_quantization(a, b),
        *_compare_search(a, b),
    ]


def explain_gap(a: Side, b: Side, place: str) -> Finding:
    """The reason for other log-probabilities where no finding explains them."""
    if a.weights is not None and b.weights is not None:
        biases = [side.get(OUT_BIAS, torch.zeros(EOS_ID))[:EOS_ID].cpu() for side in (a.weights, b.weights)]
        if not _is_close(*biases):
            one, other = ([round(float(number), 3) for number in bias] for bias in biases)
            return Finding(BIAS, f"<pad> and <s> have {one} in A, {other} in B")
    return Finding(WEIGHTS, f"the same targets have other log-probabilities{place}")


def _compare_tokenizers(a: Side, b: Side, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Finding]:
    """For each side the first text with other tokens, else the first other entry."""
    for which, texts in enumerate((sources, targets)):
        one, other = a.tokenizers[which], b.tokenizers[which]
        side = ("source", "target")[which]
        cuts = ([tokenizer.to_tokens(tokenizer.to_ids(text)) for tokenizer in (one, other)] for text in texts)
        odd = next((cut for cut in cuts if cut[0] != cut[1]), None)
        if odd:
            yield Finding(TOKENIZER, f"of the {side}: {' / '.join(' '.join(cut[:12]) for cut in odd)}")
        elif differs := _first_entry(one.entries(), other.entries()):
            yield Finding(TOKENIZER, f"of the {side}: {differs.format('A', 'B')}")
        for tokenizer, directory in ((one, a.directory), (other, b.directory)):
            if directory is None:
                continue
            path, known = directory.vocabularies[which]
            if differs := _first_entry(tokenizer.entries(), known):
                yield Finding(TOKENIZER, f"of the {side}: {differs.format('its tokenizer', path)}")


def _first_entry(mine: Sequence[str], theirs: Sequence[str]) -> str:
    """The first id with another entry, as a sentence with {} for names; else empty."""
    if len(mine) != len(theirs):
        return f"{len(mine)} entries in {{}}, {len(theirs)} in {{}}"
    at = next((at for at, (one, other) in enumerate(zip(mine, theirs, strict=True)) if one != other), None)
    if at is None:
        return ""
    one, other = (repr(side[at]).replace("{", "{{").replace("}", "}}") for side in (mine, theirs))
    return f"id {at} is {one} in {{}}, {other} in {{}}"


def _compare_settings(a: Side, b: Side) -> Iterator[Finding]:
    for name in a.settings:
        if name in b.settings and a.settings[name] != b.settings[name]:
            yield Finding(SETTING, f"{name} is {a.settings[name]!r} in A, {b.settings[name]!r} in B")


def _compare_control_tokens(a: Side, b: Side) -> Iterator[Finding]:
    names = [
        (CONTROL_TOKENS[BOS_ID], CONTROL_TOKENS[EOS_ID])
        if side.directory is None
        else (side.directory.start, side.directory.end)
        for side in (a, b)
    ]
    for what, verb, one, other in zip((START, END), ("starts", "ends"), *names, strict=True):
        if one != other:
            yield Finding(what, f"A {verb} a target with {one}, B with {other}")


def _compare_weights(a: Side, b: Side) -> Iterator[Finding]:
    """What differs among the weights, recognised if it is a known mistake."""
    if a.weights is None or b.weights is None:
        yield from _compare_arrays(a, b)
        return
    mine, theirs = _complete_names(a.weights, b.weights), _complete_names(b.weights, a.weights)
    biases = [side.pop(OUT_BIAS, torch.zeros(side[TGT if TGT in side else SRC].shape[0])) for side in (mine, theirs)]
    layout = _recognize_layout(mine, theirs) if mine.keys() == theirs.keys() else None
    if layout is not None:
        yield layout
        return
    yield from _compare_start_rows(a, b, mine, theirs)
    if not _is_close(biases[0][EOS_ID:], biases[1][EOS_ID:]):  # the others are in no output
        sizes = [f"up to {float(bias.abs().max()):.3g}" if bias.any() else "none" for bias in biases]
        yield Finding(BIAS, f"A has {sizes[0]}, B {sizes[1]}")
    odd = [name for name in mine.keys() & theirs.keys() if not _is_close(mine[name], theirs[name])]
    odd += sorted(mine.keys() ^ theirs.keys())
    if odd:
        yield Finding(WEIGHTS, f"{len(odd)} of {len(mine)} differ, the first is {min(odd)}")


def _compare_arrays(a: Side, b: Side) -> Iterator[Finding]:
    """The arrays of CTranslate2 that differ by more than rounding."""
    names = [name for name in a.arrays if b.arrays.get(name) == a.arrays[name]]
    odd = []
    for name in names:
        (mine, my_error), (theirs, their_error) = a.values(name), b.values(name)
        rows = np.argwhere(~(np.abs(mine - theirs) <= my_error + their_error))
        odd += [(name, int(rows[0][0]))] if len(rows) else []
    if odd:
        name, row = odd[0]
        yield Finding(WEIGHTS, f"{len(odd)} of {len(names)} arrays differ, the first is {name}, there row {row}")


def _complete_names(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """My weights under all their names, with zeros for lacking biases."""
    found = dict(mine)
    for name, tied in ((TGT, SRC), (OUT, TGT)):
        if name in theirs and tied in found:
            found.setdefault(name, found[tied])
    for name, value in theirs.items():
        if name.endswith("bias") and name != OUT_BIAS:
            found.setdefault(name, torch.zeros_like(value))
    return found


def _recognize_layout(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Finding | None:
    if mine[SRC].shape != theirs[SRC].shape or _all_close(mine, theirs):
        return None
    for turn, words in ((interleave, "is permuted twice"), (separate, "is not permuted")):
        if _all_close(turn(mine), theirs):
            return Finding(
                LAYOUT,
                f"the width of B's weights {words}: its table has sines and cosines in other places than they",
            )
    return None


def _compare_start_rows(a: Side, b: Side, mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> Iterator[Finding]:
    """The rows of <s>, which are then made equal on both sides."""
    name = TGT if TGT in mine else SRC
    one, other = mine[name], theirs[name]
    if one.shape != other.shape or _is_close(one[BOS_ID], other[BOS_ID]):
        return
    yield Finding(START, f"A starts a target with {a.starts_with}, B with {b.starts_with}: the rows of <s> differ")
    for matrix in (SRC, TGT, OUT):
        if matrix in mine and matrix in theirs and mine[matrix].shape == theirs[matrix].shape:
            theirs[matrix] = theirs[matrix].clone()
            theirs[matrix][BOS_ID] = mine[matrix][BOS_ID]


def _all_close(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> bool:
    return all(_is_close(value, theirs[name]) for name, value in mine.items())


def _is_close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.cpu(), other.cpu(), rtol=1e-5, atol=1e-6)


def _find_conflicts(a: Side, b: Side) -> Iterator[Finding]:
    """The start and end tokens on which Hugging Face's two files differ."""
    for label, side in (("A", a), ("B", b)):
        for what, name in ((START, "decoder_start_token_id"), (END, "eos_token_id")):
            if name in side.clashes:
                one, other = side.clashes[name]
                yield Finding(
                    what, f"{name} is {one} in {label}'s config.json, {other} in its generation_config.json"
                )


def _compare_quantization(a: Side, b: Side) -> Iterator[Finding]:
    one, other = ("float32" if side.directory is None else side.directory.quantization for side in (a, b))
    if one != other:
        yield Finding(QUANTIZATION, f"the weights are {one} in A, {other} in B")


def _compare_search(a: Side, b: Side) -> Iterator[Finding]:
    for label, side, other in (("A", a, b), ("B", b, a)):
        known = [*side.clashes, *other.notes]  # named already, or true of both
        yield from (
            Finding(SEARCH, f"of {label}: {note}") for note in side.notes if not any(one in note for one in known)
        )
    if a.decode is not None and b.decode is not None:
        idle = _idle_settings(a.decode) & _idle_settings(b.decode)
        for name in (field.name for field in fields(DecodeConfig) if field.name not in idle):
            one, other = getattr(a.decode, name), getattr(b.decode, name)
            if one != other:
                yield Finding(SEARCH, f"decode.{name} is {one!r} in A, {other!r} in B")
        return
    for label, options in (("A", a.decode), ("B", b.decode)):
        if options is not None:
            for name, reason in _missing_settings(options):
                yield Finding(SEARCH, f"decode.{name} is {getattr(options, name)!r} in {label}; CTranslate2 {reason}")


def _idle_settings(options: DecodeConfig) -> set[str]:
    """The settings that change no output, as the others are set."""
    idle = set(_NO_EFFECT)
    if options.sample:
        idle |= _ONLY_IN_SEARCH
    else:
        idle |= {field.name for field in fields(options) if field.metadata["acts_in"] == "sampling"} - {"sample"}
    if not options.length_penalty:
        idle.add("length_norm")
    return idle


def _missing_settings(options: DecodeConfig) -> Iterator[tuple[str, str]]:
    idle = _idle_settings(options) | {"early_stopping"}  # one of its ``engine_differences``
    yield from ((name, reason) for name, _, reason in lacking_options(options) if name not in idle)
    if options.sample:
        yield from differing_options(options)


def search_options(side: Side, other: Side) -> DecodeConfig:
    """The settings of a side's search: its own, or CTranslate2's part of the other's."""
    options = replace(side.decode or other.decode or DecodeConfig(), n_best=1, mbr=0)
    if side.directory is None:
        return options
    return replace(options, **{name: neutral for name, neutral, _ in lacking_options(options)})


def engine_differences(options: DecodeConfig, *, is_cut: bool) -> str:
    """How CTranslate2 reads settings; ``is_cut``: an output has the greatest length."""
    if options.sample or options.beam == 1:
        return ""
    ways = [(name, reason) for name, _, reason in lacking_options(options) if name == "early_stopping"]
    if options.length_penalty and options.length_norm != "power":
        ways.append(("length_norm", "divides by length^α while it searches"))
    ways += differing_options(options)
    if is_cut:
        ways.append(("max_length_b", "does not rank complete outputs before those cut at the greatest length"))
    return "; ".join(f"decode.{name} is {getattr(options, name)!r}; CTranslate2 {reason}" for name, reason in ways)
