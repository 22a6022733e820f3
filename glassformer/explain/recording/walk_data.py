"""A walk's steps, with tokens and sentences along their axes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from glassformer.axes import LEGEND
from glassformer.errors import TraceError, nearest
from glassformer.explain.entries import Story
from glassformer.explain.recording.sentence_batch import Rows, SentenceBatch, token_rows
from glassformer.settings import DecodeConfig, ModelConfig, TrainConfig
from glassformer.text import Tokenizer
from glassformer.trace import Step, Trace

_MOST = 5
_IDS_OF = {
    "log_probs": "ids", "sums": "ids", "finished_scores": "finished_ids", "sampled_log_probs": "sampled_ids",
    "result_scores": "results",
}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class WalkStep(Step):
    """One tensor of the walk; ``axes`` name src or tgt, not query or key.

    ``cells``: tokens of ids; ``lines``: the step in words; ``labels``: tokens along src, tgt and vocab, by row;
    ``sentences``: each row's; ``token``: the generated token's number, if any.
    """

    number: int
    stage: str
    story: Story
    cells: Rows | None
    lines: Rows | None
    labels: Mapping[str, Rows]
    sentences: tuple[int, ...]
    token: int | None
    gradient: Tensor | None

    @property
    def symbols(self) -> tuple[str, ...]:
        """The walkthroughs' symbol of each axis."""
        return tuple(LEGEND[word].symbol for word in self.axes)


@dataclass(frozen=True, eq=False)
class WalkData:
    """Sentences, the whole trace, and the steps that the glob ``only`` chose.

    ``kind``: ``forced``, ``generation`` (with ``decode``) or ``training`` (with ``train``; ``saved`` and
    ``counters``: the optimizer's state before it).
    """

    config: ModelConfig
    sentences: SentenceBatch
    trace: Trace
    steps: tuple[WalkStep, ...]
    only: str
    kind: str = "forced"
    decode: DecodeConfig | None = None
    train: TrainConfig | None = None
    saved: Mapping[str, Tensor] = field(default_factory=dict)
    counters: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, address: str) -> WalkStep:
        """The first step at an address; else ``TraceError``."""
        for step in self.steps:
            if step.address == address:
                return step
        addresses = [step.address for step in self.steps]
        raise TraceError(f"{address}: no such step among the {len(addresses)} walked.{nearest(address, addresses)}")

    def labels(self, step: WalkStep, row: int) -> tuple[tuple[str, ...] | None, ...]:
        """Tokens along each axis of a row, or None."""
        return tuple(
            step.labels[word][row][-size:] if word in step.labels and row < len(step.labels[word]) else None
            for word, size in zip(step.axes, step.shape, strict=True)
        )

    def narrow(self, *, layer: int | None = None, head: int | None = None) -> Self:
        """Steps of a layer, a head, or both, from 0; ``TraceError`` if there are none."""
        most = max(self.config.n_encoder_layers, self.config.n_decoder_layers)
        for name, number, limit in (("layer", layer, most), ("head", head, self.config.n_heads)):
            if number is not None and not 0 <= number < limit:
                raise TraceError(f"--{name}: found {number}, expected 0 to {limit - 1}.")
        steps = [step for step in self.steps if layer is None or f".layers.{layer}." in step.address]
        if head is not None:
            steps = [_select_head(step, head) for step in steps if "heads" in step.axes]
        if not steps:
            raise TraceError(f"layer, head: match no step of {self.only!r}. Drop one of them, or only.")
        return replace(self, steps=tuple(steps))


def _select_head(step: WalkStep, head: int) -> WalkStep:
    place = step.axes.index("heads")
    axes = (*step.axes[:place], *step.axes[place + 1 :])
    gradient = None if step.gradient is None else step.gradient.select(place, head)
    return replace(step, axes=axes, value=step.value.select(place, head), gradient=gradient)


class RowLabels:
    """Each batch row's sentence, what it has read, and tokens along axes."""

    def __init__(
        self, sentences: SentenceBatch, tokenizer: Tokenizer, config: ModelConfig, *, generates: bool
    ) -> None:
        self.config = config
        self._tokenizer, self._generates = tokenizer, generates
        self._seen: dict[str, Tensor] = {}
        self.token: int | None = None
        self.sentences = tuple(range(len(sentences.sources)))
        self._read = sentences
        self._labels: dict[str, Rows] = {
            "src": sentences.src_tokens,
            "tgt": tuple(() for _ in self.sentences) if generates else sentences.tgt_in_tokens,
            "vocab": tuple(sentences.vocab for _ in self.sentences),
        }

    def follow(self, step: Step) -> None:
        """Take one more step into account."""
        if not self._generates or not step.address.startswith("search."):
            return
        self._seen[step.name] = step.value
        if step.name == "tgt_in_ids":
            self.token = step.call
            read = token_rows(self._tokenizer, step.value)
            past = self._labels["tgt"] if step.value.shape[1] == 1 else [()] * len(read)
            self._labels = {**self._labels, "tgt": tuple((*old, *new) for old, new in zip(past, read, strict=True))}
        elif step.name == "rows":
            rows = step.value.tolist()
            self.sentences = tuple(self.sentences[row] for row in rows)
            self._labels = {axis: tuple(old[row] for row in rows) for axis, old in self._labels.items()}

    def labels(self, step: Step) -> dict[str, Rows]:
        """Tokens along src, tgt and vocab; of a loss, those to predict."""
        root = step.address.partition(".")[0]
        if root == "loss":
            return {**self._labels, "tgt": self._read.tgt_out_tokens}
        if root == "search" and step.name != "tgt_in_ids":  # not what was read
            found = {"vocab": self._labels["vocab"]}
            if "src" in step.axes:
                found["src"] = tuple(self._read.src_tokens[sentence] for sentence in self.sentence_of_rows(step))
            return found
        return self._labels

    def sentence_of_rows(self, step: Step) -> tuple[int, ...]:
        """The sentence of each batch row."""
        if "batch" not in step.axes:
            return ()
        size = step.shape[step.axes.index("batch")]
        if step.name.startswith("result") or step.address.startswith("answer."):  # of every source
            return tuple(range(size))
        rows = len(self.sentences)
        if size and rows % size == 0:  # equally many rows each
            return self.sentences[:: rows // size]
        copies = size // rows if rows else 0  # not recorded yet
        return tuple(sentence for sentence in self.sentences for _ in range(copies))

    def cells(self, step: Step) -> Rows | None:
        """Tokens of a step of ids, row by row; else None."""
        if step.address in ("text.src_tokens", "text.src_ids"):
            return self._read.src_tokens
        if "character" in step.axes:
            return tuple(tuple(map(chr, row)) for row in step.value.tolist())
        is_ids = step.value.ndim == 2 and step.name.endswith("_ids") and step.value.dtype == torch.int64
        return token_rows(self._tokenizer, step.value.cpu()) if is_ids else None

    def lines(self, step: Step) -> Rows | None:
        """A step of text or search in words, row by row."""
        if not self._generates or step.address.partition(".")[0] != "search":
            return self._read.lines(step.address)
        if step.name == "candidate_ids":
            return tuple(tuple(self._candidates(row)) for row in range(len(step.value)))
        if step.name in ("next_log_probs", "processed_log_probs", "filtered_log_probs"):
            return tuple(tuple(self._likeliest(row)) for row in step.value)
        ids = _IDS_OF.get(step.name)
        if ids is None or ids not in self._seen:
            return None
        pairs = zip(self._seen[ids], step.value, strict=True)
        return tuple(tuple(self._hypotheses(row_ids, numbers)) for row_ids, numbers in pairs)

    def _candidates(self, row: int) -> Iterator[str]:
        log_probs, parents, ids = (self._seen[f"candidate_{name}"][row] for name in ("log_probs", "parents", "ids"))
        tokens = self._tokenizer.to_tokens(ids.tolist())
        ranking = self._seen.get("candidate_sums", self._seen["candidate_log_probs"])[row]
        found = zip(log_probs.tolist(), ranking.tolist(), parents.tolist(), tokens, strict=True)
        for log_prob, rank, parent, token in found:
            if rank > -math.inf:
                yield f"{log_prob:8.3f}  {token}  after hypothesis {parent}"

    def _likeliest(self, log_probs: Tensor) -> Iterator[str]:
        best = log_probs.topk(min(_MOST, len(log_probs)))
        for log_prob, number in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            if log_prob > -math.inf:
                yield f"{math.exp(log_prob):7.2%}  {self._tokenizer.to_tokens([number])[0]}"

    def _hypotheses(self, ids: Tensor, numbers: Tensor) -> Iterator[str]:
        rows = ids if ids.ndim == 2 else ids[None]
        for row, number in zip(rows, numbers.reshape(-1).tolist(), strict=True):
            if number > -math.inf:
                written = row[row != self.config.pad_id].tolist()
                yield f"{number:8.3f}  {' '.join(self._tokenizer.to_tokens(written)) or '(nothing yet)'}"
