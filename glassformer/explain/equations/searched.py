"""What a search had before it at each of its steps, put together again from what was recorded.

State 0 is the start; step k reads, continues state k without the sentences that were done, and makes state k + 1.
"""

from dataclasses import fields

from torch import Tensor

from glassformer.decoding.beam import NextLogProbs, Plan, SearchState
from glassformer.decoding.beam_search import advance
from glassformer.decoding.constraints import ConstraintBatch
from glassformer.explain.equations.scope import Scope


def plan(scope: Scope) -> Plan:
    """What stayed the same from step to step."""
    return Plan.of(scope.setting.decode, scope.config, demanded(scope))


def demanded(scope: Scope) -> ConstraintBatch | None:
    """What was demanded of each source; None when nothing was."""
    if not scope.has("search.required_ids"):
        return None
    prefixes, required, banned = (
        scope.at_call(f"search.{name}", 0) for name in ("demanded_prefixes", "required_ids", "banned_ids")
    )
    return ConstraintBatch(prefixes, required, banned)


def recorded_state(scope: Scope, call: int) -> SearchState:
    """A state as it was recorded."""
    wanted = plan(scope)
    absent = {
        "sums": not wanted.has_rules,
        "covered": scope.setting.decode.coverage_penalty == 0.0,
    }
    names = [field.name for field in fields(SearchState) if not absent.get(field.name, False)]
    return SearchState(**{name: scope.at_call(f"search.{name}", call) for name in names})


def kept(scope: Scope, step: int) -> Tensor:
    """Places of the sentences, or samples, that were not done before this step."""
    return (~scope.at_call("search.done", step - 1)).nonzero().flatten()


def begun(scope: Scope, step: int) -> SearchState:
    """The state that a step begins with."""
    state = recorded_state(scope, step)
    return state.select(kept(scope, step)) if step else state


def said(scope: Scope, step: int, state: SearchState) -> NextLogProbs:
    """What the model and the rules said of the next ids, and where it was looked."""
    shape = state.log_probs.shape
    own = scope.at_call("search.next_log_probs", step).view(*shape, -1)
    left = scope.at_call("search.ruled_log_probs", step).view(*shape, -1) if plan(scope).has_rules else None
    attention = None if state.covered is None else scope.at_call("search.attention", step).view(*shape, -1)
    return NextLogProbs(own, left, attention)


def advanced(scope: Scope, step: int) -> tuple[SearchState, Tensor]:
    """The state after a step, and the row that each living hypothesis continues."""
    state = begun(scope, step)
    return advance(state, said(scope, step, state), plan(scope))
