"""The equations of search and sampling: the search's own pure functions, applied to recorded states again.

State 0 is the start; step k reads, continues state k without the sentences that were done, and makes state k + 1.
"""

from dataclasses import fields

import torch
from torch import Tensor

from glassformer.decoding.beam import Continuations, Plan, SearchState, expand_beam, outcomes, rules_leave, start
from glassformer.decoding.beam_search import initial_coverage, is_done
from glassformer.decoding.filters import filter_log_probs, has_processors, process_log_probs
from glassformer.decoding.sampling import draw_ids
from glassformer.decoding.steps import mean_of_heads, token_log_probs
from glassformer.explain.equations.entry import Equation, Table
from glassformer.explain.equations.scope import Scope
from glassformer.explain.equations.searched import advanced, begun, demanded, kept, plan, recorded_state, said


def _field(name: str) -> Equation:
    def equation(scope: Scope) -> Tensor | None:
        """A field of the state; of the first, the limits are given and the rest follows from them."""
        call = scope.step.call
        if call == 0:
            return None if name == "limits" else getattr(_first(scope), name)
        state, _ = advanced(scope, call - 1)
        value: Tensor = getattr(state, name)
        return value

    return equation


def _first(scope: Scope) -> SearchState:
    """The start, from the limits alone, and with coverage from which source positions are padding."""
    limits, wanted = scope.at_call("search.limits", 0), plan(scope)
    covered = None
    if scope.setting.decode.coverage_penalty > 0.0:
        covered = initial_coverage(scope.at("src_mask")[:, 0, 0]).repeat_interleave(wanted.groups, dim=0)
    return start(limits.tolist(), wanted.options, limits.device, has_sums=wanted.has_rules, covered=covered)


def _looked_at(scope: Scope, step: int) -> tuple[Continuations, Plan]:
    state, wanted = begun(scope, step), plan(scope)
    return expand_beam(state, said(scope, step, state), wanted), wanted


def _candidates(name: str) -> Equation:
    def equation(scope: Scope) -> Tensor:
        """The continuations of the living hypotheses that are looked at."""
        value: Tensor = getattr(_looked_at(scope, scope.step.call)[0], name)
        return value

    return equation


def _outcomes(scope: Scope) -> Tensor:
    best, wanted = _looked_at(scope, scope.step.call)
    return outcomes(best.ranking, best.ids == scope.config.eos_id, wanted.options.beam)


def _ruled_log_probs(scope: Scope) -> Tensor:
    """What the rules make of the model's distributions, given the ids of each row."""
    step, options, own = scope.step.call, scope.setting.decode, scope.at("search.next_log_probs")
    if not options.sample:
        return rules_leave(own, begun(scope, step), plan(scope))
    ids = torch.empty(len(own), 0, dtype=torch.int64, device=own.device)
    if step:
        ids = scope.at_call("search.sampled_ids", step - 1)[kept(scope, step)]
    wanted = demanded(scope)
    if wanted is not None:
        samples = torch.arange(len(scope.at_call("search.limits", 0)), device=own.device)
        for call in range(step):
            samples = samples[~scope.at_call("search.done", call)]
        wanted = wanted.select(samples // options.n_best)
    return process_log_probs(own, ids, options, wanted, scope.config)


def _attention(scope: Scope) -> Tensor:
    last = scope.config.n_decoder_layers - 1
    return mean_of_heads(scope.at(f"decoder.layers.{last}.cross_attention.weights"))


def _next_log_probs(scope: Scope) -> Tensor:
    return token_log_probs(scope.at("output_projection.logits")[:, -1], scope.config)


def _tgt_in_ids(scope: Scope) -> Tensor:
    """<s>, then what was appended last; without a cache all of it."""
    step, config = scope.step.call, scope.config
    if step == 0:
        return torch.full_like(scope.step.value, config.bos_id)
    if scope.setting.decode.sample:
        ids = scope.at_call("search.sampled_ids", step - 1)[kept(scope, step)]
    else:
        ids = begun(scope, step).ids.flatten(0, 1)
    if scope.setting.decode.cache:
        return ids[:, -1:]
    return torch.cat([ids.new_full((len(ids), 1), config.bos_id), ids], dim=1)


def _rows(scope: Scope) -> Tensor:
    """Which rows go on: of a beam the parents of what lives, of samples those that are not done."""
    step = scope.count("search.next_log_probs")
    options = scope.setting.decode
    if step == 0:  # a row for each sample, or each group, of a source
        copies = options.n_best if options.sample else options.beam_groups
        return torch.arange(len(scope.step.value), device=scope.step.value.device) // copies
    if not options.sample:
        _, rows = advanced(scope, step - 1)
        return rows[kept(scope, step)].flatten()
    return kept(scope, step)


def _done(scope: Scope) -> Tensor:
    step, options = scope.step.call, scope.setting.decode
    if not options.sample:
        return is_done(recorded_state(scope, step + 1), plan(scope).options)
    ids = scope.at("search.sampled_ids")
    limits = scope.at_call("search.limits", 0)
    for call in range(step):
        limits = limits[~scope.at_call("search.done", call)]
    return (ids[:, -1] == scope.config.eos_id) | (ids.shape[1] >= limits)


def _filtered_log_probs(scope: Scope) -> Tensor:
    options = scope.setting.decode
    has = has_processors(options, demanded(scope))
    return filter_log_probs(scope.at("search.ruled_log_probs" if has else "search.next_log_probs"), options)


def _sampled_ids(scope: Scope) -> Tensor:
    step, new = scope.step.call, scope.at("search.drawn_ids")[:, None]
    if step == 0:
        return new
    return torch.cat([scope.at_call("search.sampled_ids", step - 1)[kept(scope, step)], new], dim=1)


def _sampled_log_probs(scope: Scope) -> Tensor:
    step = scope.step.call
    new = scope.at("search.next_log_probs").gather(1, scope.at("search.drawn_ids")[:, None]).squeeze(1)
    if step == 0:
        return torch.zeros_like(new) + new
    return scope.at_call("search.sampled_log_probs", step - 1)[kept(scope, step)] + new


SEARCH: Table = {
    **{field.name: _field(field.name) for field in fields(SearchState)},
    **{f"candidate_{field.name}": _candidates(field.name) for field in fields(Continuations)},
    "candidate_outcomes": _outcomes,
    "ruled_log_probs": _ruled_log_probs,
    "attention": _attention,
    "tgt_in_ids": _tgt_in_ids,
    "next_log_probs": _next_log_probs,
    "rows": _rows,
    "done": _done,
    "filtered_log_probs": _filtered_log_probs,
    "drawn_ids": lambda scope: draw_ids(scope.at("search.filtered_log_probs"), scope.at("search.uniforms")),
    "sampled_ids": _sampled_ids,
    "sampled_log_probs": _sampled_log_probs,
}
