"""The taps of the final choice: the ranked outputs of each source."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from glassformer.explain.entries.entry import NOT_IN_PAPER, add
from glassformer.explain.entries.rule_entries import occurs, required_forms
from glassformer.explain.entries.scope import Scope, has_rules, samples_left
from glassformer.explain.entries.search_entries import SCORE, coverage, length_penalty


@dataclass(frozen=True)
class _Found:
    """One output, before the outputs of its source are ranked."""

    ids: list[int]
    log_prob: float
    score: float
    ended: bool


def _rank_outputs(scope: Scope) -> list[list[_Found]]:
    options = scope.context.decode
    limits = scope.at_call("search.limits", 0)
    found: list[list[_Found]] = [[] for _ in range(len(limits) // (options.n_best if options.sample else 1))]
    for source, one in _samples(scope) if options.sample else _hypotheses(scope):
        if math.isfinite(one.log_prob):
            found[source].append(one)
    cut_last = options.early_stopping != "shrink"
    for source, outputs in enumerate(found):
        outputs.sort(key=lambda one: (cut_last and not one.ended, _missing(scope, source, one.ids), -one.score))
    return [outputs[: options.n_best] for outputs in found]


def _missing(scope: Scope, source: int, ids: list[int]) -> int:
    if not scope.has("search.required_ids"):
        return 0
    return sum(not occurs(*form, ids) for form in required_forms(scope, source))


def _samples(scope: Scope) -> Iterator[tuple[int, _Found]]:
    options = scope.context.decode
    for step in range(scope.count("search.done")):
        rows, done = samples_left(scope, step), scope.at_call("search.done", step)
        ids, sums = (scope.at_call(f"search.sampled_{name}", step) for name in ("ids", "log_probs"))
        divisor = float(length_penalty(ids.shape[1], options))
        for place in done.nonzero().flatten().tolist():
            written, total = ids[place].tolist(), float(sums[place])
            ended = written[-1] == scope.config.eos_id
            score = (total - options.word_penalty * len(written)) / divisor
            yield int(rows[place]) // options.n_best, _Found(written, total, score, ended)


def _hypotheses(scope: Scope) -> Iterator[tuple[int, _Found]]:
    """Each sentence's ended hypotheses when it was done, and living ones if needed."""
    options = scope.context.decode
    for step in range(scope.count("search.done")):
        after = {
            name: scope.at_call(f"search.{name}", step + 1)
            for name in ("sentences", "limits", "finished_ids", "finished_log_probs", "finished_scores", "ids")
        }
        for place in scope.at_call("search.done", step).nonzero().flatten().tolist():
            source = int(after["sentences"][place])
            ended = [
                _Found([*ids[: ids.index(scope.config.eos_id)], scope.config.eos_id], total, score, ended=True)
                for ids, total, score in zip(
                    *(after[f"finished_{name}"][place].tolist() for name in ("ids", "log_probs", "scores")),
                    strict=True,
                )
                if score > -math.inf
            ]
            yield from ((source, one) for one in ended)
            if len(ended) < options.n_best or after["ids"].shape[2] >= int(after["limits"][place]):
                yield from ((source, one) for one in _cut(scope, step + 1, place))


def _cut(scope: Scope, state: int, place: int) -> Iterator[_Found]:
    """The living hypotheses of a sentence, as if they were complete."""
    options = scope.context.decode
    names = ("ids", "log_probs", "sums" if has_rules(scope) else "log_probs")
    ids, totals, sums = (scope.at_call(f"search.{name}", state)[place] for name in names)
    scores = (sums - options.word_penalty * ids.shape[1]) / length_penalty(ids.shape[1], options).to(sums.device)
    if options.coverage_penalty:
        scores = scores + coverage(scope.at_call("search.covered", state)[place], options)
    for written, total, score in zip(ids.tolist(), totals.tolist(), scores.tolist(), strict=True):
        yield _Found(written, total, score, ended=False)


def _results(scope: Scope) -> Tensor:
    """One field of the ranked outputs; the name of the tap says which."""
    found = _rank_outputs(scope)
    most = max(map(len, found))
    places: list[list[_Found | None]] = [[*outputs, *[None] * (most - len(outputs))] for outputs in found]
    if scope.step.name == "results":
        pad_id, longest = scope.config.pad_id, max(len(one.ids) for outputs in found for one in outputs)
        ids = [[one.ids if one else [] for one in outputs] for outputs in places]
        return scope.step.value.new_tensor([
            [[*own, *[pad_id] * (longest - len(own))] for own in outputs] for outputs in ids
        ])  # fmt: skip
    field, empty = _FIELDS[scope.step.name]
    values = [[getattr(one, field) if one else empty for one in outputs] for outputs in places]
    return scope.step.value.new_tensor(values)


_FIELDS = {
    "result_log_probs": ("log_prob", -math.inf), "result_scores": ("score", -math.inf),
    "result_ended": ("ended", False),
}  # fmt: skip
_ORDER = "Those that ended first, then by score; those of equal score in the order in which they were found."
add("search.results", "The outputs, ranked", _ORDER, "sort by (ended, score)", "6.1", compute=_results)
_WITH_EOS = "The sum over all its tokens, with </s> if it ended; by the model alone."
add("search.result_log_probs", "Their log-probabilities", _WITH_EOS, "Σ log P", "6.1", compute=_results)
_SCORES = "By these they are ranked: the sums, divided by the length penalty; the best output is the translation."
add("search.result_scores", "Their scores", _SCORES, SCORE, "6.1; Wu et al. 2016, 7", compute=_results)
_ENDED = "False for an output that was cut at its greatest length: it stands behind all that ended."
add("search.result_ended", "Whether they ended", _ENDED, "last token = </s>", NOT_IN_PAPER, compute=_results)
