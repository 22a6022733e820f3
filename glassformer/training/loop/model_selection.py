"""Model selection: which of a training's models is kept. Section 6.1: averages.

Some hundred translations tell only very different models apart: among the others the loss decides.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.significance import PairedTest, Result

from glassformer.checkpoint import checkpoint_path, is_valid
from glassformer.run_directory import RunDirectory
from glassformer.settings import TrainConfig
from glassformer.training.evaluation.metrics import METRICS, Metric
from glassformer.training.evaluation.results import Validation
from glassformer.training.loop.averaging import last_checkpoints
from glassformer.training.loop.checkpointing import TrainState
from glassformer.world import World

SENTENCES = 1000  # the most that are translated for each candidate
SHARE_OF_TRAINING = 0.1  # of its time, which the judging may take
MIN_BUDGET_S = 10.0  # a training of seconds may take so long
_FIRST_SENTENCES = 100
_AVERAGES = (5, 3, 10)
_RESAMPLES = 1000
_SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Contender:
    """The mean of the weights of some checkpoints, often of one."""

    name: str
    checkpoints: tuple[Path, ...]


@dataclass(frozen=True)
class Verdict:
    """A candidate and what it did on validation text."""

    candidate: Contender
    validation: Validation


def list_contenders(
    run: RunDirectory, state: TrainState, settings: TrainConfig, warn: Callable[[str], None]
) -> list[Contender]:
    """The models that may be kept, the most promising first."""
    history = last_checkpoints(run, settings.average_last, warn, state.update)
    sizes = [size for size in dict.fromkeys((settings.average_last, *_AVERAGES)) if 1 < size <= len(history)]
    if len(history) > 1 and not sizes:
        sizes = [len(history)]
    averages = [Contender(f"average of the last {size} checkpoints", tuple(history[-size:])) for size in sizes]
    singles = {
        f"best {settings.metric}": (run.best, state.best_update),
        "last checkpoint": (run.history, state.update),
        "best loss": (run.best_loss, state.best_loss_update),
    }
    found: dict[int, Contender] = {}
    for name, (series, update) in singles.items():
        checkpoint = checkpoint_path(series, update)
        if update not in found and checkpoint.exists() and is_valid(checkpoint, warn):
            found[update] = Contender(f"{name} (update {update:,})", (checkpoint,))
    return [*averages[:1], *found.values(), *averages[1:]]


def judge(
    candidates: Sequence[Contender],
    measure: Callable[[Contender, int], Validation],
    sentences: int,
    budget_s: float,
    world: World,
) -> list[Verdict]:
    """What each candidate does on the first ``sentences`` of the validation text; on fewer, then fewer candidates, if
    time is short.
    """
    first = min(sentences, _FIRST_SENTENCES)
    began = time.monotonic()
    validation = measure(candidates[0], first)
    (took_s,) = world.broadcast(lambda: (time.monotonic() - began,))
    left_s = budget_s - took_s
    affordable = int(first * left_s / (took_s * len(candidates)))
    if first == sentences or affordable <= first:
        others = candidates[1 : 1 + max(0, int(left_s / took_s))]
        return [Verdict(candidates[0], validation), *(Verdict(each, measure(each, first)) for each in others)]
    count = min(sentences, affordable)
    return [Verdict(each, measure(each, count)) for each in candidates]


def best_verdict(verdicts: Sequence[Verdict], metric: str, world: World, *, loss_is_comparable: bool) -> Verdict:
    """The verdict to keep: the best by ``metric``, or one that is not measurably worse and has a lower loss.

    Measurably: by paired bootstrap resampling (Koehn 2004), at 5 percent.
    """
    return verdicts[world.broadcast(lambda: _choose(verdicts, metric, loss_is_comparable=loss_is_comparable))]


def _choose(verdicts: Sequence[Verdict], metric: str, *, loss_is_comparable: bool) -> int:
    """The number of the verdict to keep; of equals the first."""
    found = [verdict.validation for verdict in verdicts]
    best = max(range(len(found)), key=lambda number: found[number].value(metric))
    alike = [number for number, one in enumerate(found) if one.value(metric) == found[best].value(metric)]
    if metric in METRICS:
        alike += _not_measurably_worse(found, best, METRICS[metric])
    return min(sorted(alike), key=lambda number: found[number].loss) if loss_is_comparable else min(alike)


def _not_measurably_worse(found: Sequence[Validation], best: int, metric: Metric) -> list[int]:
    """The numbers of those that are not measurably worse than ``best``."""
    outputs = [[example.output for example in one.examples] for one in found]
    others = [number for number, texts in enumerate(outputs) if texts != outputs[best]]
    if metric.resampled is None or not others or len(outputs[best]) < 2:
        return []
    systems: list[tuple[str, Sequence[str]]] = [(str(number), outputs[number]) for number in (best, *others)]
    references = [example.reference for example in found[best].examples]
    metrics = {"metric": metric.resampled(references)}
    _, scores = PairedTest(systems, metrics, [references], test_type="bs", n_samples=_RESAMPLES)()
    (results,) = (of_each for name, of_each in scores.items() if name != "System")
    p_values = [result.p_value for result in results if isinstance(result, Result)][1:]
    return [number for number, p in zip(others, p_values, strict=True) if p is None or p >= _SIGNIFICANT]


def verdict_lines(
    verdicts: Sequence[Verdict], chosen: Verdict, metric: str, *, not_judged: int = 0, loss_is_comparable: bool = True
) -> list[str]:
    """A line for each candidate, and which is kept, and why."""
    width = max(len(verdict.candidate.name) for verdict in verdicts)
    scores, has_scores = verdicts[0].validation.scores, metric != "loss"
    count = scores.sentences
    by = "the loss on the validation text"
    if has_scores:
        by = f"{count:,} validation {'sentence' if scores.unit == 'sentences' else 'word'}{'s' if count > 1 else ''}"
    order = [name for name in TrainConfig.choices("metric") if name in {metric, *scores.fitting} & METRICS.keys()]
    lines = [f"The final model is chosen by {by}:"]
    for verdict in verdicts:
        found, mark = verdict.validation, "  <- kept" if verdict is chosen else ""
        told = f"{found.scores.format(*order)}  " if has_scores else ""
        lines.append(f"  {verdict.candidate.name:{width}}  {told}loss {found.loss:.3f}{mark}")
    if not_judged:
        lines.append(f"  {not_judged} more could be kept, but to try them would have taken too long.")
    if chosen.validation.value(metric) < max(verdict.validation.value(metric) for verdict in verdicts):
        reason = "the lower loss decides" if loss_is_comparable else "the first of those that are as good is kept"
        lines.append(f"  The best {METRICS[metric].title} is not measurably better on these sentences, so {reason}.")
    return lines
