"""A table for each token of a generation: continuations and their outcomes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from torch import Tensor

from glassformer.decoding.search.beam import FINISHED, LIVE
from glassformer.explain.recording.walk_data import WalkData, WalkStep
from glassformer.explain.render.walk_tables import MAX_SENTENCES, Cell, Table, omission_text

Searched = Mapping[tuple[str, int], WalkStep]
Values = dict[str, Tensor]

_TOP = 5
_STATE = ("sentences", "ids", "log_probs", "finished_ids", "finished_scores")
_BEAM = (
    "tgt_in_ids", "next_log_probs", "candidate_log_probs", "candidate_parents", "candidate_ids",
    "candidate_outcomes", "done",
)  # fmt: skip
_SOMETIMES = ("processed_log_probs", "candidate_sums")
_DRAW = ("tgt_in_ids", "next_log_probs", "filtered_log_probs", "uniforms", "drawn_ids", "sampled_ids", "done")


def index_search_steps(walk: WalkData) -> Searched:
    """The steps of the search, by name and call."""
    return {(step.name, step.call): step for step in walk.steps if step.address.startswith("search.")}


def search_tables(walk: WalkData, steps: Sequence[WalkStep], searched: Searched) -> Iterator[Table]:
    """A table a sentence or sample for these steps, if all were recorded."""
    call = next((step.call for step in steps if step.address == "search.done"), None)
    if call is None:
        return
    drawn, best = _values(searched, _DRAW, call), _values(searched, _BEAM, call)
    before, after = (_values(searched, _STATE, at) for at in (call, call + 1))
    if drawn:
        of_rows = searched["drawn_ids", call].sentences
        tables, count = (_sample_table(walk, row, of, drawn) for row, of in enumerate(of_rows)), len(of_rows)
    elif best and before and after:
        count = len(after["sentences"])
        before |= _values(searched, ("sums",), call)
        best |= {name: searched[name, call].value for name in _SOMETIMES if (name, call) in searched}
        tables = (_beam_table(walk, place, before, best | after) for place in range(count))
    else:
        return
    yield from islice(tables, MAX_SENTENCES)
    if count > MAX_SENTENCES:
        yield Table(caption=omission_text(MAX_SENTENCES, count, "that were searched at this token"))


def _values(searched: Searched, names: Sequence[str], call: int) -> Values:
    """The values of all these steps at one call; empty if one is missing."""
    found = {name: searched[name, call].value for name in names if (name, call) in searched}
    return found if len(found) == len(names) else {}


def _beam_table(walk: WalkData, place: int, before: Values, after: Values) -> Table:
    number = int(after["sentences"][place])
    was = before["sentences"].tolist().index(number)
    prefixes, alive = before["ids"][was], before["log_probs"][was] > -math.inf
    rows = slice(place * len(prefixes), (place + 1) * len(prefixes))
    read = after["tgt_in_ids"][rows, -1][alive].tolist()
    return Table(
        ("Σ log P", *(["after rules"] if "candidate_sums" in after else []), "P(next)", "outcome", "hypothesis"),
        (
            *_continuations(walk, place, prefixes.tolist(), after["next_log_probs"][rows], after),
            *_blocked_rows(walk, was, rows, before, after),
        ),
        title=_title(walk, number, read),
        caption=_caption(walk, place, after),
    )


def _continuations(
    walk: WalkData, place: int, prefixes: list[list[int]], next_log_probs: Tensor, after: Values
) -> Iterator[tuple[Cell, ...]]:
    sums = ["candidate_sums"] if "candidate_sums" in after else []
    names = ("candidate_log_probs", "candidate_parents", "candidate_ids", "candidate_outcomes", *sums)
    fields = (after[name][place].tolist() for name in names)
    for log_prob, parent, token, outcome, *ranking in zip(*fields, strict=True):
        if min(log_prob, *ranking, 0.0) > -math.inf:
            ids = [*prefixes[parent], token]
            share = math.exp(float(next_log_probs[parent, token]))
            yield log_prob, *ranking, share, _outcome_text(walk, place, outcome, ids, after), _tokens_text(walk, ids)


def _blocked_rows(walk: WalkData, was: int, rows: slice, before: Values, after: Values) -> Iterator[tuple[Cell, ...]]:
    """The continuations that would be candidates but for a rule."""
    if "processed_log_probs" not in after:
        return
    own, place = after["next_log_probs"][rows], rows.start // len(before["ids"][was])
    would = before["sums"][was][:, None] + own
    would = would.masked_fill(after["processed_log_probs"][rows] > -math.inf, -math.inf)
    looked_at = after["candidate_sums"][place]
    least = float(looked_at[looked_at > -math.inf].min()) if bool((looked_at > -math.inf).any()) else -math.inf
    best = would.flatten().topk(min(_TOP, would.numel()))
    for total, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        parent, token = divmod(index, own.shape[1])
        if total > -math.inf and total >= least:
            written = _tokens_text(walk, [*before["ids"][was][parent].tolist(), token])
            log_prob = float(before["log_probs"][was][parent] + own[parent, token])
            yield log_prob, "", math.exp(float(own[parent, token])), "blocked by a rule", written


def _outcome_text(walk: WalkData, place: int, outcome: int, ids: list[int], after: Values) -> str:
    if outcome == LIVE:
        return f"lives as {after['ids'][place].tolist().index(ids)}"
    if outcome != FINISHED:
        return "dropped"
    scores = {tuple(kept): score for kept, score in _finished_hypotheses(walk, place, after)}
    return f"ends, score {scores[tuple(ids)]:.3f}" if tuple(ids) in scores else "ends, too low to keep"


def _finished_hypotheses(walk: WalkData, place: int, after: Values) -> Iterator[tuple[list[int], float]]:
    for ids, score in zip(after["finished_ids"][place], after["finished_scores"][place].tolist(), strict=True):
        if score > -math.inf:
            yield ids[ids != walk.config.pad_id].tolist(), score


def _caption(walk: WalkData, place: int, after: Values) -> str:
    ended = [f"{score:.3f} {_tokens_text(walk, ids)}" for ids, score in _finished_hypotheses(walk, place, after)]
    so_far = f"ended so far, by score: {', '.join(ended)}" if ended else ""
    done = bool(after["done"][place])
    cut_short = "the output has its greatest length: living hypotheses are cut short" if done and not ended else ""
    return "; ".join(filter(None, [so_far, cut_short, "done" if done else ""]))


def _sample_table(walk: WalkData, row: int, sentence: int, now: Values) -> Table:
    """One sample's likeliest tokens with their intervals of [0, 1), and the token drawn."""
    drawn, uniform = int(now["drawn_ids"][row]), float(now["uniforms"][row])
    filtered = now["filtered_log_probs"][row].double().exp()
    above = (filtered.cumsum(0) / filtered.sum()).tolist()
    shares, probabilities = filtered.tolist(), now["next_log_probs"][row].exp().tolist()
    top = [number for number in filtered.topk(min(_TOP, len(shares))).indices.tolist() if shares[number]]
    rows = tuple(
        (walk.sentences.vocab[number], probabilities[number], shares[number],
         f"{abs(above[number] - shares[number]):.3f} to {above[number]:.3f}", "← drawn" if number == drawn else "")
        for number in (top if drawn in top else [*top, drawn])
    )  # fmt: skip
    written = now["sampled_ids"][row].tolist()
    ends = "ended" if drawn == walk.config.eos_id else "cut short: the output has its greatest length"
    done = [ends] if bool(now["done"][row]) else []
    return Table(
        ("token", "P", "P filtered", "holds", ""),
        rows,
        title=_title(walk, sentence, now["tgt_in_ids"][row, -1:].tolist()),
        caption="; ".join([f"u = {uniform:.3f}", f"now: {_tokens_text(walk, written)}", *done]),
    )


def _title(walk: WalkData, sentence: int, read: Sequence[int]) -> str:
    tokens = ", ".join(walk.sentences.vocab[number] for number in read)
    return f"{sentence}  {walk.sentences.sources[sentence]}  (read: {tokens})"


def _tokens_text(walk: WalkData, ids: Sequence[int]) -> str:
    return " ".join(walk.sentences.vocab[number] for number in ids)
