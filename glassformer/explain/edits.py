"""Edits written as text, for the command line: what to replace, where, by what.

    decoder.layers.0.cross_attention.weights[heads=2]=0     silence head 2
    *.self_attention.heads[heads=0,query=3]=mean            its mean over sentences and positions instead
    src_mask[key=4]=false                                   hide source position 4
    src_embedding.tokens.weight[row=▁dog]=0                 forget a word
    tgt_embedding.positions.table=0                         forget all order
    encoder.memory=@saved/trace                             patch in what another trace recorded

Axes are the words of the trace; a weight has ``row`` and ``column``. An index counts from 0, may be a range
``2:5``, or a token: of the first sentence along a position, of the vocabulary along the rows of an embedding.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from torch import Tensor

from glassformer.decoding import Translator
from glassformer.errors import TraceError, nearest
from glassformer.explain.walk import Walk, WalkStep
from glassformer.text import Tokenizer
from glassformer.trace import Edit, Trace

_FORM = re.compile(r"(?P<address>[^\[\]=]+)(?:\[(?P<cells>[^\]]*)\])?=(?P<value>.+)", re.DOTALL)
_AVERAGED = ("batch", "src", "tgt")
_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class _Place:
    """What an address stands for: its axis words, and the tokens along those that have some."""

    axes: tuple[str, ...]
    labels: Mapping[str, Sequence[str]]


def parse_edits(specs: Sequence[str], plain: Walk, translator: Translator) -> dict[str, Edit]:
    """The edits of ``specs``, one for each address that they meet, for ``walk`` or ``tracing``.

    ``plain`` is the walk without edits, from which axes and tokens are known. Raises ``TraceError`` for what cannot
    be read, an address that nothing has, an axis that it lacks, an index or a token outside of it.
    """
    places = _places(plain, translator)
    edits: dict[str, Edit] = {}
    for spec in specs:
        found = _FORM.fullmatch(spec)
        if found is None:
            raise TraceError(
                f"--edit {spec!r}: expected ADDRESS[AXIS=INDEX,...]=VALUE, such as '*.weights[heads=2]=0'."
            )
        pattern = found["address"].strip()
        addresses = [address for address in places if fnmatchcase(address, pattern)]
        if not addresses:
            raise TraceError(f"--edit {pattern}: no such tap or weight.{nearest(pattern, places)}")
        for address in addresses:
            cells = _cells(address, places[address], found["cells"] or "")
            edit = _edit(address, places[address], cells, found["value"].strip())
            edits[address] = partial(_both, edits[address], edit) if address in edits else edit
    return edits


def _both(first: Edit, second: Edit, value: Tensor) -> Tensor:
    return second(first(value))


def _places(plain: Walk, translator: Translator) -> dict[str, _Place]:
    """Every address that may be edited: the taps of the walk, and the model's weights and tables."""
    model = translator.model
    places = {step.address: _Place(step.axes, _tokens(plain, step)) for step in plain.steps if _is_tap(step)}
    for name, tensor in (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ):
        places[name] = _Place(("row", "column")[: tensor.ndim], _row_tokens(name, translator))
    return places


def _is_tap(step: WalkStep) -> bool:
    return step.address.partition(".")[0] not in ("text", "choice")


def _tokens(plain: Walk, step: WalkStep) -> dict[str, Sequence[str]]:
    return {word: tokens for word, tokens in zip(step.axes, plain.labels(step, 0), strict=True) if tokens is not None}


def _row_tokens(name: str, translator: Translator) -> dict[str, Sequence[str]]:
    tokenizers: dict[str, Tokenizer] = {
        "src_embedding.tokens.weight": translator.src_tokenizer,
        "tgt_embedding.tokens.weight": translator.tgt_tokenizer,
        "output_projection.linear.weight": translator.tgt_tokenizer,
    }
    return {"row": tokenizers[name].to_tokens(range(tokenizers[name].size))} if name in tokenizers else {}


def _cells(address: str, place: _Place, text: str) -> tuple[slice, ...]:
    """The range along each axis that the text between brackets chooses; all of it where it names none."""
    chosen = [slice(None)] * len(place.axes)
    for part in filter(None, map(str.strip, text.split(","))):
        word, _, index = part.partition("=")
        word = {"query": "tgt" if "tgt" in place.axes else "src", "key": place.axes[-1]}.get(word, word)
        if word not in place.axes:
            raise TraceError(f"--edit {address}: has no axis {word!r}, only {', '.join(place.axes)}.")
        at = len(place.axes) - 1 - place.axes[::-1].index(word) if part.startswith("key") else place.axes.index(word)
        chosen[at] = _range(address, word, index.strip(), place.labels.get(word, ()))
    return tuple(chosen)


def _range(address: str, word: str, index: str, labels: Sequence[str]) -> slice:
    """``3``, ``2:5``, ``:4`` or a token."""
    if re.fullmatch(r"\d+", index):
        return slice(int(index), int(index) + 1)
    if re.fullmatch(r"\d*:\d*", index):
        start, stop = (int(bound) if bound else None for bound in index.split(":"))
        return slice(start, stop)
    if index in labels:
        return slice(labels.index(index), labels.index(index) + 1)
    tokens = f" or one of its tokens.{nearest(index, labels)}" if labels else "."
    raise TraceError(f"--edit {address}: {word}={index!r}, expected an index such as 0, a range such as 2:5{tokens}")


def _edit(address: str, place: _Place, cells: tuple[slice, ...], value: str) -> Edit:
    if value.startswith("@"):
        return partial(_patched, address, cells, Trace.load(value[1:]))
    if value == "mean":
        axes = [at for at, word in enumerate(place.axes[:-1]) if word in _AVERAGED]
        return partial(_averaged, address, cells, axes)
    try:
        number = _TRUTH[value] if value in _TRUTH else float(value)
    except ValueError:
        raise TraceError(
            f"--edit {address}: found value {value!r}, expected a number, true, false, mean, or @DIR of a trace."
        ) from None
    return partial(_filled, address, cells, number)


def _filled(address: str, cells: tuple[slice, ...], number: float, value: Tensor) -> Tensor:
    _check_inside(address, cells, value)
    value[cells] = number
    return value


def _averaged(address: str, cells: tuple[slice, ...], axes: list[int], value: Tensor) -> Tensor:
    _check_inside(address, cells, value)
    if not axes or not value.is_floating_point():
        raise TraceError(f"--edit {address}: has no mean over sentences and positions. Give a number.")
    value[cells] = value.mean(dim=axes, keepdim=True).expand_as(value)[cells]
    return value


def _patched(address: str, cells: tuple[slice, ...], other: Trace, value: Tensor) -> Tensor:
    _check_inside(address, cells, value)
    patch = other[address].to(value.device)
    if patch.shape != value.shape:
        raise TraceError(
            f"--edit {address}: the saved trace holds {tuple(patch.shape)}, this one {tuple(value.shape)}. "
            "Save one of sentences with as many tokens, in as many rows."
        )
    value[cells] = patch[cells].to(value.dtype)
    return value


def _check_inside(address: str, cells: tuple[slice, ...], value: Tensor) -> None:
    for at, chosen in enumerate(cells):
        size = value.shape[at]
        if len(range(*chosen.indices(size))) == 0 or (chosen.stop or 0) > size:
            raise TraceError(
                f"--edit {address}: chooses {chosen.start}:{chosen.stop} of axis {at}, which has {size}."
            )
