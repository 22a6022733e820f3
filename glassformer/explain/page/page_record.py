"""The trace for the page: a JSON index of taps and a block of float32.

Each sentence has its own taps. Above ``MAX_NUMBERS`` one sentence stays whole.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.axes import LEGEND
from glassformer.explain.entries import story_of
from glassformer.explain.page.mathml import to_mathml
from glassformer.explain.recording.walk_data import WalkData
from glassformer.settings import ModelConfig
from glassformer.text import Derivation
from glassformer.trace import Step

MAX_NUMBERS = 7_000_000
"""The float32 numbers of a page: 28 MB, at most 37 MB in the file."""
_MAX_PROBABLE = 50
_MAX_STATES = 40  # of one word: quadratic in its length
_WORDS = ("text.", "answer.")
_VOCABULARY_WIDE = ("output_projection.logits", "output_projection.probabilities")
_KEPT_OF_EVERY_SENTENCE = (
    ".weights", ".forget_gate", ".residual", ".memory", ".with_positions", "decoder.output", "src_mask",
    "causal_mask",
)  # fmt: skip


@dataclass(frozen=True)
class Tap:
    """A sentence's tap, perhaps without ``value``; ``ids``: of a cut vocabulary."""

    address: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    value: Tensor | None
    ids: Tensor | None = None


class Block:
    """Numbers end to end, at most ``most``, without repeats."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self._parts: dict[bytes, int] = {}  # places, in the block's order
        self.size = 0

    def place(self, value: Tensor) -> int | None:
        """Where the tensor's float32 numbers begin; None without room."""
        part = value.detach().cpu().to(torch.float32).contiguous().numpy().astype("<f4").tobytes()
        if part in self._parts:
            return self._parts[part]
        if self.size + value.numel() > self.most:
            return None
        start = self._parts[part] = self.size
        self.size += value.numel()
        return start

    def to_bytes(self) -> bytes:
        """The whole block."""
        return b"".join(self._parts)


def record_mapping(walk: WalkData, block: Block) -> dict[str, Any]:
    """What the page shows of a walk, for JSON; numbers go to ``block``."""
    numbers = sum(step.value.numel() for step in walk.trace if not step.address.startswith(_WORDS))
    cut = numbers > block.most
    rows = range(len(walk.sentences.sources))
    taps = [list(_taps(walk.trace, row, len(rows), whole=not cut or row == 0, cut_vocabulary=cut)) for row in rows]
    placed = _place(taps, block)
    sentences = [{**_sentence(walk, row), "taps": placed[row]} for row in rows]
    addresses = dict.fromkeys(step.address for step in walk.trace)
    return {
        "format": "glassformer page",
        "version": 1,
        "config": asdict(walk.config),
        "sentences": sentences,
        "vocab": list(walk.sentences.vocab),
        "stories": {address: _story(address, walk.config) for address in addresses},
        "legend": {word: {"meaning": axis.meaning, "symbol": axis.symbol} for word, axis in LEGEND.items()},
    }


def _story(address: str, config: ModelConfig) -> dict[str, str]:
    story = story_of(address, config)
    return {**asdict(story), "mathml": to_mathml(story.equation)}


def _sentence(walk: WalkData, row: int) -> dict[str, Any]:
    sentences = walk.sentences
    return {
        "source": sentences.sources[row],
        "target": sentences.targets[row],
        "forced": sentences.tgt_derivations is not None,
        "src_ids": sentences.batch.src_ids[row].tolist(),
        "tgt_in_ids": sentences.batch.tgt_in_ids[row].tolist(),
        "tgt_out_ids": sentences.batch.tgt_out_ids[row].tolist(),
        "src_tokens": list(sentences.src_tokens[row]),
        "tgt_in_tokens": list(sentences.tgt_in_tokens[row]),
        "tgt_out_tokens": list(sentences.tgt_out_tokens[row]),
        "derivation": derivation_mapping(sentences.src_derivations[row]),
        "confidence": sentences.confidence[row],
    }


def _place(taps: Sequence[Sequence[Tap]], block: Block) -> list[list[dict[str, Any]]]:
    """Each sentence's taps; those of all sentences are stored first."""
    index = [[_tap_mapping(tap) for tap in sentence] for sentence in taps]
    pairs = [pair for both in zip(taps, index, strict=True) for pair in zip(*both, strict=True)]
    for tap, mapping in sorted(pairs, key=lambda pair: not pair[0].address.endswith(_KEPT_OF_EVERY_SENTENCE)):
        if tap.value is not None:
            mapping["offset"] = block.place(tap.value.transpose(1, 2) if mapping["by_position"] else tap.value)
        if tap.ids is not None and mapping["offset"] is not None:
            mapping |= {"ids": block.place(tap.ids), "kept": tap.ids.shape[-1]}
    return index


def _tap_mapping(tap: Tap) -> dict[str, Any]:
    by_position = tap.axes[1:2] == ("heads",) and tap.axes[-1] in ("d_k", "d_v")
    return {
        "address": tap.address, "axes": tap.axes, "shape": tap.shape, "offset": None, "by_position": by_position,
    }  # fmt: skip


def _taps(trace: Iterable[Step], row: int, rows: int, *, whole: bool, cut_vocabulary: bool) -> Iterable[Tap]:
    for step in trace:
        if step.address.startswith(_WORDS):
            continue
        value = _row(step, row, rows)
        kept = whole or step.address.endswith(_KEPT_OF_EVERY_SENTENCE) or step.address in _VOCABULARY_WIDE
        if cut_vocabulary and kept and step.address in _VOCABULARY_WIDE:
            yield _cut_vocabulary(step, value)
        else:
            yield Tap(step.address, step.axes, tuple(value.shape), value if kept else None)


def _row(step: Step, row: int, rows: int) -> Tensor:
    if "batch" not in step.axes or step.value.shape[step.axes.index("batch")] != rows:
        return step.value
    return step.value.narrow(step.axes.index("batch"), row, 1)


def _cut_vocabulary(step: Step, value: Tensor) -> Tap:
    """The most probable entries, and each row's sum of the others."""
    best = value.topk(min(_MAX_PROBABLE, value.shape[-1]), dim=-1)
    rest = value.sum(-1, keepdim=True) - best.values.sum(-1, keepdim=True)
    return Tap(step.address, step.axes, tuple(value.shape), torch.cat([best.values, rest], -1), best.indices)


def derivation_mapping(derivation: Derivation) -> dict[str, Any]:
    """How a text became tokens, as plain values."""
    return {
        "normalised": derivation.normalised,
        "pre_tokens": [
            {
                "text": part.text,
                "symbols": list(part.symbols),
                "steps": [str(step) for step in part.steps],
                "states": [list(state) for state in part.states()] if len(part.steps) <= _MAX_STATES else [],
                "tokens": list(part.tokens),
                "ids": list(part.ids),
            }
            for part in derivation.pre_tokens
        ],
    }  # fmt: skip
