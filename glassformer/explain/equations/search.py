"""The equations of search and sampling: the search's own pure functions, applied to recorded states again.

State 0 is the start; step k reads, continues state k without the sentences that were done, and makes state k + 1.
"""

from dataclasses import fields

import torch
from torch import Tensor

from glassformer.decoding.filters import filtered
from glassformer.decoding.sampling import drawn
from glassformer.decoding.search import Continuations, SearchState, advance, continuations, is_done, start
from glassformer.decoding.steps import token_log_probs
from glassformer.explain.equations.entry import Equation, Table
from glassformer.explain.equations.scope import Scope


def _recorded(scope: Scope, call: int) -> SearchState:
    return SearchState(*(scope.at_call(f"search.{field.name}", call) for field in fields(SearchState)))


def _kept(scope: Scope, step: int) -> Tensor:
    """Places of the sentences, or samples, that were not done before this step."""
    return (~scope.at_call("search.done", step - 1)).nonzero().flatten()


def _begun(scope: Scope, step: int) -> SearchState:
    """The state that a step begins with."""
    state = _recorded(scope, step)
    return state.select(_kept(scope, step)) if step else state


def _advanced(scope: Scope, step: int) -> tuple[SearchState, Tensor]:
    """The state after a step, and the row that each living hypothesis continues."""
    state = _begun(scope, step)
    log_probs = scope.at_call("search.next_log_probs", step).view(*state.log_probs.shape, -1)
    return advance(state, log_probs, scope.setting.decode, scope.config.eos_id)


def _field(name: str) -> Equation:
    def equation(scope: Scope) -> Tensor | None:
        """A field of the state; of the first, the limits are given and the rest follows from them."""
        call = scope.step.call
        if call == 0:
            if name == "limits":
                return None
            limits = scope.at_call("search.limits", 0)
            state = start(limits.tolist(), scope.setting.decode, limits.device)
        else:
            state, _ = _advanced(scope, call - 1)
        value: Tensor = getattr(state, name)
        return value

    return equation


def _candidates(name: str) -> Equation:
    def equation(scope: Scope) -> Tensor:
        """The best continuations of the living hypotheses."""
        step = scope.step.call
        state = _begun(scope, step)
        log_probs = scope.at_call("search.next_log_probs", step).view(*state.log_probs.shape, -1)
        found: Continuations = continuations(state.log_probs, log_probs, 2 * scope.setting.decode.beam)
        value: Tensor = getattr(found, name)
        return value

    return equation


def _next_log_probs(scope: Scope) -> Tensor:
    return token_log_probs(scope.at("output_projection.logits")[:, -1], scope.config)


def _tgt_in_ids(scope: Scope) -> Tensor:
    """<s>, then what was appended last; without a cache all of it."""
    step, config = scope.step.call, scope.config
    if step == 0:
        return torch.full_like(scope.step.value, config.bos_id)
    if scope.setting.decode.sample:
        ids = scope.at_call("search.sampled_ids", step - 1)[_kept(scope, step)]
    else:
        ids = _begun(scope, step).ids.flatten(0, 1)
    if scope.setting.decode.cache:
        return ids[:, -1:]
    return torch.cat([ids.new_full((len(ids), 1), config.bos_id), ids], dim=1)


def _rows(scope: Scope) -> Tensor:
    """Which rows go on: of a beam the parents of what lives, of samples those that are not done."""
    step = scope.count("search.next_log_probs")
    options = scope.setting.decode
    if not options.sample:
        _, rows = _advanced(scope, step - 1)
        return rows[_kept(scope, step)].flatten()
    if step == 0:
        return torch.arange(len(scope.step.value), device=scope.step.value.device) // options.n_best
    return _kept(scope, step)


def _done(scope: Scope) -> Tensor:
    step, options = scope.step.call, scope.setting.decode
    if not options.sample:
        return is_done(_recorded(scope, step + 1), options)
    ids = scope.at("search.sampled_ids")
    limits = scope.at_call("search.limits", 0)
    for call in range(step):
        limits = limits[~scope.at_call("search.done", call)]
    return (ids[:, -1] == scope.config.eos_id) | (ids.shape[1] >= limits)


def _sampled_ids(scope: Scope) -> Tensor:
    step, new = scope.step.call, scope.at("search.drawn_ids")[:, None]
    if step == 0:
        return new
    return torch.cat([scope.at_call("search.sampled_ids", step - 1)[_kept(scope, step)], new], dim=1)


def _sampled_log_probs(scope: Scope) -> Tensor:
    step = scope.step.call
    new = scope.at("search.next_log_probs").gather(1, scope.at("search.drawn_ids")[:, None]).squeeze(1)
    if step == 0:
        return torch.zeros_like(new) + new
    return scope.at_call("search.sampled_log_probs", step - 1)[_kept(scope, step)] + new


SEARCH: Table = {
    **{field.name: _field(field.name) for field in fields(SearchState)},
    **{f"candidate_{name}": _candidates(name) for name in ("log_probs", "parents", "ids")},
    "tgt_in_ids": _tgt_in_ids,
    "next_log_probs": _next_log_probs,
    "rows": _rows,
    "done": _done,
    "filtered_log_probs": lambda scope: filtered(scope.at("search.next_log_probs"), scope.setting.decode),
    "drawn_ids": lambda scope: drawn(scope.at("search.filtered_log_probs"), scope.at("search.uniforms")),
    "sampled_ids": _sampled_ids,
    "sampled_log_probs": _sampled_log_probs,
}
