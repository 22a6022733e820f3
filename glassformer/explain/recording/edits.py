"""Edits written as text, for the command line: what to replace, where, by what.

    decoder.layers.0.cross_attention.weights[heads=2]=0     ablate head 2
    *.self_attention.heads[heads=0,query=3]=mean            replace it by its mean over sentences and positions
    src_mask[key=4]=false                                   hide source position 4
    src_embedding.tokens.weight[row=▁dog]=0                 remove a word's vector
    tgt_embedding.positions.table=0                         remove all positions
    encoder.memory=@saved/trace                             patch in what another trace recorded

Axes are words of the trace or tap (``src`` or its ``key``, ``query``, ``position``); a weight has ``row`` and
``column``. An index counts from 0; it may be a range ``2:5``, or a token of the first sentence or, along the rows of
an embedding, of the vocabulary. Quote a token of digits, or with a comma or bracket: ``src="7"``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial

import torch
from torch import Tensor

from glassformer.decoding import Translator
from glassformer.errors import TraceError, nearest
from glassformer.explain.recording.walk_data import WalkData
from glassformer.text import Tokenizer
from glassformer.trace import Trace
from glassformer.trace.taps import Edit

_CELLS = r'(?>"[^"]*"|[^\]])*+'  # possessive: no backtracking
_FORM = re.compile(rf"(?P<address>[^\[\]=]+)(?:\[(?P<cells>{_CELLS})\])?=(?P<value>.+)", re.DOTALL)
_CELL = re.compile(r'\s*(?P<word>\w+)\s*=\s*(?P<index>"[^"]*"|[^,]*)\s*(?:,|$)', re.DOTALL)
_AVERAGED = ("batch", "src", "tgt")
_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class _Place:
    axes: tuple[str, ...]
    tap_axes: tuple[str, ...]
    labels: Mapping[str, Sequence[str]]


def parse_edits(specs: Sequence[str], plain: WalkData, translator: Translator) -> dict[str, Edit]:
    """The edits of ``specs`` by address; ``plain``, the walk without edits, tells axes and tokens.

    Raises ``TraceError`` for text that cannot be read and for an unknown address, axis, index or token.
    """
    places = _places(plain, translator)
    edits: dict[str, Edit] = {}
    load = cache(Trace.load)
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
        value = found["value"].strip()
        other = load(value[1:]) if value.startswith("@") else None
        if other is not None:  # of several addresses, those that the trace has
            addresses = [address for address in addresses if address in other] or addresses[:1]
        for address in addresses:
            place = places[address]
            cells = _cells(address, place, found["cells"] or "")
            compute = partial(_take, address, other) if other is not None else _edit_of(address, place, value, plain)
            edits[address] = partial(_replace, address, cells, compute, edits.get(address))
    return edits


def _places(plain: WalkData, translator: Translator) -> dict[str, _Place]:
    model = translator.model
    tap_axes = {step.address: step.axes for step in plain.trace}
    if "src_mask" in tap_axes:  # every attention reads it along its keys
        tap_axes["src_mask"] = (*tap_axes["src_mask"][:-1], "key")
    places = {}
    for step in plain.steps:
        if not step.address.startswith(("text.", "choice.")):
            labels = dict(zip(step.axes, plain.labels(step, 0), strict=True))
            tokens = {word: own for word, own in labels.items() if own is not None}
            places[step.address] = _Place(step.axes, tap_axes[step.address], tokens)
    for name, tensor in (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ):
        axes = ("row", "column")[: tensor.ndim]
        places[name] = _Place(axes, axes, _row_tokens(name, translator))
    return places


def _row_tokens(name: str, translator: Translator) -> dict[str, Sequence[str]]:
    tokenizers: dict[str, Tokenizer] = {
        "src_embedding.tokens.weight": translator.src_tokenizer,
        "tgt_embedding.tokens.weight": translator.tgt_tokenizer,
        "output_projection.linear.weight": translator.tgt_tokenizer,
    }
    return {"row": tokenizers[name].to_tokens(range(tokenizers[name].size))} if name in tokenizers else {}


def _cells(address: str, place: _Place, text: str) -> tuple[slice, ...]:
    """The range along each axis that the text in brackets selects; by default all."""
    chosen: dict[int, slice] = {}
    at = 0
    while at < len(text.rstrip()):
        found = _CELL.match(text, at)
        if found is None:
            raise TraceError(f"--edit {address}: found {text[at:]!r} between the brackets, expected AXIS=INDEX,...")
        word, axis = found["word"], _axis(address, place, found["word"])
        if axis in chosen:
            raise TraceError(f"--edit {address}: selects along {word} twice. Give a range, or two edits.")
        chosen[axis] = _range(address, word, found["index"].strip(), place.labels.get(place.axes[axis], ()))
        at = found.end()
    return tuple(chosen.get(axis, slice(None)) for axis in range(len(place.axes)))


def _axis(address: str, place: _Place, word: str) -> int:
    for axes in (place.tap_axes, place.axes):
        if word in axes:
            return axes.index(word)
    aliases = [own for own, shown in zip(place.tap_axes, place.axes, strict=True) if own != shown]
    known = ", ".join(dict.fromkeys((*place.axes, *aliases)))
    raise TraceError(f"--edit {address}: has no axis {word!r}, only {known}.")


def _range(address: str, word: str, index: str, labels: Sequence[str]) -> slice:
    """``3``, ``2:5``, ``:4`` or a token."""
    if re.fullmatch(r"\d{1,9}", index):
        return slice(int(index), int(index) + 1)
    if re.fullmatch(r"\d{0,9}:\d{0,9}", index):
        start, stop = (int(bound) if bound else None for bound in index.split(":"))
        return slice(start, stop)
    token = index[1:-1] if re.fullmatch(r'".*"', index, re.DOTALL) else index
    if token in labels:
        return slice(labels.index(token), labels.index(token) + 1)
    tokens = f" or one of its tokens.{nearest(token, labels)}" if labels else "."
    raise TraceError(f"--edit {address}: {word}={index!r}, expected an index such as 0, a range such as 2:5{tokens}")


def _edit_of(address: str, place: _Place, value: str, plain: WalkData) -> Edit:
    """The function that a number, a truth value or ``mean`` stands for."""
    if value == "mean":
        averaged = [at for at, word in enumerate(place.axes[:-1]) if word in _AVERAGED]
        return partial(_mean, address, averaged, _token_mask(place.axes, plain))
    try:
        number = _TRUTH[value] if value in _TRUTH else float(value)
    except ValueError:
        raise TraceError(
            f"--edit {address}: found value {value!r}, expected a number, true, false, mean, or @DIR of a trace."
        ) from None
    return lambda found: torch.full_like(found, number)


def _token_mask(axes: tuple[str, ...], plain: WalkData) -> Tensor:
    """1 at tokens, 0 at padding, broadcast along the axes."""
    ids = {"src": plain.sentences.batch.src_ids, "tgt": plain.sentences.batch.tgt_in_ids}
    real = torch.ones((1,) * len(axes))
    for at, word in enumerate(axes[:-1]):
        if word in ids and "batch" in axes:
            shape = [1] * len(axes)
            shape[axes.index("batch")], shape[at] = ids[word].shape
            real = real * (ids[word] != plain.config.pad_id).reshape(shape)
    return real


def _mean(address: str, axes: list[int], real: Tensor, value: Tensor) -> Tensor:
    """The mean without padding, so that more padding does not change it."""
    if not axes or not value.is_floating_point():
        raise TraceError(f"--edit {address}: has no mean over sentences and positions. Give a number.")
    counted = real.to(value.device).expand([size if at in axes else 1 for at, size in enumerate(value.shape)])
    mean = (value * counted).sum(dim=axes, keepdim=True) / counted.sum(dim=axes, keepdim=True)
    return mean.expand_as(value)


def _take(address: str, other: Trace, value: Tensor) -> Tensor:
    patch = other[address].to(value.device)
    if patch.shape != value.shape:
        raise TraceError(
            f"--edit {address}: the saved trace holds {tuple(patch.shape)}, this one {tuple(value.shape)}. "
            "Save a trace of sentences with as many rows and tokens."
        )
    return patch


def _replace(address: str, cells: tuple[slice, ...], compute: Edit, earlier: Edit | None, value: Tensor) -> Tensor:
    value = value if earlier is None else earlier(value)
    for at, chosen in enumerate(cells):
        size = value.shape[at]
        if len(range(*chosen.indices(size))) == 0 or (chosen.stop or 0) > size:
            raise TraceError(
                f"--edit {address}: selects {chosen.start}:{chosen.stop} of axis {at}, which has {size} entries."
            )
    value[cells] = compute(value)[cells].to(value.dtype)
    return value
