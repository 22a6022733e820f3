"""What translating and training compute untraced, compared with the plain pass that a trace shows.

Translating: log-probabilities and outputs of a search. Training: loss and gradients, fused and without padding.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.decoding.batching import output_limit
from glassformer.decoding.engines.agreement import OutputPair, compare_outputs
from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output
from glassformer.decoding.search.search import result_tensors
from glassformer.decoding.search.steps import Steps, pad_ids
from glassformer.explain.compare.align import Aligned
from glassformer.explain.compare.passes import EXACT
from glassformer.explain.recording.recording import record_pass, record_search
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, TrainConfig
from glassformer.text import Batch
from glassformer.trace import Trace, tracing
from glassformer.training.loop.update import accumulate_gradients

Sides = tuple[list[Aligned], list[Aligned]]
_Row = tuple[int, tuple[int, ...]]  # a source, and the ids that were read after it
_MAX_ROWS = 64  # that are compared at a time: a row has a number for each position and entry of the vocabulary
_MAX_HALVES = 3
# A gradient's unit: so many times its greatest number, or this share of the greatest of all.
GRADIENT_UNITS, _SMALL = 10.0, 0.01


class _WatchedSteps:
    """Steps of a search that keep the log-probabilities of each row."""

    def __init__(self, steps: Steps, n_sources: int) -> None:
        self._steps = steps
        self.config, self.device, self.fills_gaps = steps.config, steps.device, steps.fills_gaps
        self._rows: list[_Row] = [(source, ()) for source in range(n_sources)]
        self.log_probs: dict[_Row, Tensor] = {}

    def next_log_probs(self, ids: Tensor) -> Tensor:
        self._rows = [
            (source, (*read, number)) for (source, read), number in zip(self._rows, ids.tolist(), strict=True)
        ]
        found = self._steps.next_log_probs(ids)
        self.log_probs.update(zip(self._rows, found.cpu().clone(), strict=True))
        return found

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        self._rows = [self._rows[row] for row in rows.tolist()]
        self._steps.select(rows, same_sources=same_sources)

    @property
    def source_mask(self) -> Tensor:
        return self._steps.source_mask

    def attention(self) -> Tensor:
        return self._steps.attention()


class _WatchedEngine(TorchEngine):
    """The engine of translating, which keeps the log-probabilities of its last job."""

    watched: _WatchedSteps

    def _steps(self, job: SearchJob) -> Steps:
        self.watched = _WatchedSteps(super()._steps(job), len(job.sources))
        return self.watched


@dataclass(frozen=True)
class Searched:
    """Both sides' taps, the recorded searches, and how many ids were read."""

    sides: Sides
    records: list[tuple[Trace, DecodeConfig]]
    tokens: int


def search_sides(
    plain: Transformer, used: Transformer, sources: Sequence[Sequence[int]], decode: DecodeConfig, longest: int
) -> Searched:
    """Search with ``used``, by the options and greedily, and with ``plain``; up to ``longest`` ids.

    After each id, the log-probability that differs most is compared. Outputs of equal score may be exchanged.
    """
    sources, records, tokens = add_halves(sources), [], 0
    sides: Sides = ([], [])
    jobs = {"search": decode if decode.sample else replace(decode, n_best=decode.beam)}
    if decode.beam > 1 or decode.sample:
        jobs["search.greedy"] = DecodeConfig(beam=1, cache=decode.cache)
    for prefix, options in jobs.items():
        wanted = (output_limit(ids, plain.config, options) for ids in sources)
        job = SearchJob(sources, [min(limit, longest) for limit in wanted], options)
        trace, expected = record_search(plain, job)
        engine = _WatchedEngine([used])
        found, log_probs = engine.run(job).candidates, engine.watched.log_probs
        read = list(_longest(log_probs, plain))
        for place in range(0, len(read), _MAX_ROWS):
            _extend(sides, _log_prob_taps(plain, job, read[place : place + _MAX_ROWS], log_probs, prefix, place))
        own = _tap(found, plain, "result_log_probs", prefix)
        _extend(sides, (replace(own, value=_sums(found, log_probs, plain.config.bos_id, own.value)), own))
        for pair in _output_taps(expected, found, plain, prefix):
            _extend(sides, pair)
        records.append((trace, options))
        tokens += sum(len(ids) for _, ids in read)
    return Searched(sides, records, tokens)


def _extend(sides: Sides, pair: tuple[Aligned, Aligned]) -> None:
    for side, tap in zip(sides, pair, strict=True):
        side.append(tap)


def _longest(log_probs: dict[_Row, Tensor], model: Transformer) -> Iterator[_Row]:
    """The rows that no other row continues, without empty slots."""
    control = {model.config.pad_id, model.config.eos_id}
    real = [(source, ids) for source, ids in log_probs if not control & set(ids)]
    continued = {(source, ids[:-1]) for source, ids in real}
    return (row for row in real if row not in continued)


def _plain_log_probs(model: Transformer, sources: Sequence[Sequence[int]], read: Sequence[Sequence[int]]) -> Tensor:
    config = model.config
    src_ids, tgt_in_ids = (pad_ids(rows, config.pad_id, torch.device("cpu")) for rows in (sources, read))
    logits = record_pass(model, src_ids, tgt_in_ids, "output_projection.logits")["output_projection.logits"]
    log_probs = logits.cpu().float().log_softmax(dim=-1)
    log_probs[..., [config.pad_id, config.bos_id]] = -math.inf
    return log_probs


def _log_prob_taps(  # noqa: PLR0917  # what was searched, which rows of it, and what to call them
    model: Transformer, job: SearchJob, read: Sequence[_Row], log_probs: dict[_Row, Tensor], prefix: str, call: int
) -> tuple[Aligned, Aligned]:
    """Both sides' log-probabilities of the worst entry at each position."""
    expected = _plain_log_probs(model, [job.sources[source] for source, _ in read], [ids for _, ids in read])
    own = torch.zeros_like(expected)
    present = torch.zeros(expected.shape[:2], dtype=torch.bool)
    for row, (source, ids) in enumerate(read):
        own[row, : len(ids)] = torch.stack([log_probs[source, ids[: end + 1]] for end in range(len(ids))])
        present[row, : len(ids)] = True
    worst = torch.where(own == expected, 0.0, (own - expected).abs()).nan_to_num(nan=math.inf).argmax(-1, True)
    values = (side.gather(-1, worst).squeeze(-1) for side in (expected, own))
    address = f"{prefix}.next_log_probs"
    first, second = (Aligned(address, ("batch", "tgt"), value, call, present=present) for value in values)
    return first, second


def _tap(found: Sequence[Sequence[Output]], model: Transformer, name: str, prefix: str) -> Aligned:
    value = result_tensors(found, model.config.pad_id, torch.device("cpu"))[name]
    return Aligned(f"{prefix}.{name}", ("batch", "n_best", "tgt")[: value.ndim], value)


def _output_taps(
    expected: list[list[Output]], found: list[list[Output]], model: Transformer, prefix: str
) -> Iterator[tuple[Aligned, Aligned]]:
    """Both sides' ranked outputs; a tie takes the first side's ids."""
    if list(map(len, expected)) == list(map(len, found)):
        found = [[_untie(pair) for pair in of_source] for of_source in compare_outputs(expected, found)]
    for name in ("result_scores", "result_ended", "results"):
        yield _tap(expected, model, name, prefix), _tap(found, model, name, prefix)


def _untie(pair: OutputPair) -> Output:
    first, second = pair.outputs
    return replace(second, ids=first.ids) if pair.is_tie(EXACT) else second


def _sums(found: Sequence[Sequence[Output]], log_probs: dict[_Row, Tensor], bos_id: int, like: Tensor) -> Tensor:
    """The log-probability of each output by the search; NaN if it has none."""
    sums = torch.full_like(like, -math.inf)
    for source, outputs in enumerate(found):
        for place, one in enumerate(outputs):
            read = [(source, (bos_id, *one.ids[:end])) for end in range(len(one.ids))]
            every = [
                log_probs[row][number] if row in log_probs else math.nan
                for row, number in zip(read, one.ids, strict=True)
            ]
            sums[source, place] = sum(map(float, every))
    return sums


def loss_sides(
    plain: Transformer,
    used: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    config: TrainConfig,
) -> Sides:
    """The loss and its gradients, of ``plain`` and of training with ``used``; no dropout."""
    config, pad_id, bos_id = replace(config, precision="float32"), plain.config.pad_id, plain.config.bos_id
    src, tgt_out = add_halves(sources), add_halves(targets)
    whole, *parts = (
        _batch(src[rows], tgt_out[rows], pad_id, bos_id)
        for rows in (slice(None), slice(len(sources)), slice(len(sources), None))
    )
    models = [copy.deepcopy(model).eval().requires_grad_(True) for model in (plain, used)]
    losses = [_plain_loss(models[0], whole, config), accumulate_gradients(models[1], parts, config).loss]
    gradients = [
        {
            name: torch.zeros_like(weight) if weight.grad is None else weight.grad
            for name, weight in model.named_parameters()
        }
        for model in models
    ]
    greatest = max(float(value.abs().max()) for value in gradients[0].values())
    sides: Sides = ([], [])
    for side, loss, of_weights in zip(sides, losses, gradients, strict=True):
        side.append(Aligned("loss.mean", (), torch.tensor(loss / whole.target_tokens)))
        for name, value in of_weights.items():
            unit = GRADIENT_UNITS * max(float(value.abs().max()), _SMALL * greatest)
            side.append(Aligned(f"{name}.gradient", ("row", "column")[: value.ndim], value.cpu(), unit=unit))
    return sides


def _batch(src: Sequence[Sequence[int]], tgt_out: Sequence[Sequence[int]], pad_id: int, bos_id: int) -> Batch:
    tgt_in = [[bos_id, *row[:-1]] for row in tgt_out]
    return Batch(*(pad_ids(rows, pad_id, torch.device("cpu")) for rows in (src, tgt_in, tgt_out)))


def _plain_loss(model: Transformer, batch: Batch, config: TrainConfig) -> float:
    """The sum of the smoothed losses in float64, and the gradients of their mean."""
    batch = batch.to(next(model.parameters()).device)
    with tracing(model, only="output_projection.logits"):
        log_p = model(batch.src_ids, batch.tgt_in_ids).double().log_softmax(dim=-1)
    nll = -log_p.gather(-1, batch.tgt_out_ids[..., None]).squeeze(-1)
    per_token = (1 - config.label_smoothing) * nll - config.label_smoothing * log_p.mean(dim=-1)
    loss = per_token[batch.tgt_out_ids != model.config.pad_id].sum()
    (loss / batch.target_tokens).backward()
    return float(loss.detach())


def add_halves(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """The rows, then the first half of some of them, each with its last id."""
    halves = [[*row[: len(row) // 2], row[-1]] for row in rows[:_MAX_HALVES]]
    return [*map(list, rows), *halves]
