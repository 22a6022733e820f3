"""The equations of both ends: ids and masks, embeddings and positions; logits, probabilities, the plain choice."""

import math

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear

from glassformer.explain.equations.entry import Table
from glassformer.explain.equations.scope import Scope


def _ids(scope: Scope) -> Tensor:
    """The ids that an embedding looks up: the text's, or those that a search has the decoder read."""
    if scope.module == "src_embedding":
        return scope.at("text.src_ids")
    return scope.at("search.tgt_in_ids" if scope.has("search.tgt_in_ids") else "text.tgt_in_ids")


def _embedded(scope: Scope) -> Tensor:
    return embedding(_ids(scope), scope.weight("tokens.weight"))


def _scaled(scope: Scope) -> Tensor:
    scale = math.sqrt(scope.config.d_model) if scope.config.scale_embedding else 1.0
    return scope.here("embedded") * scale


def _start(scope: Scope) -> int:
    """The position of the first id: with a cache, one more at each step."""
    growing = scope.module == "tgt_embedding" and scope.setting.decode.cache
    return max(0, scope.count("search.tgt_in_ids") - 1) if growing else 0


def _position_vectors(scope: Scope) -> Tensor:
    start = _start(scope)
    return scope.weight("positions.table")[start : start + scope.here("embedded").shape[1]]


def _causal_mask(scope: Scope) -> Tensor:
    """key <= query, where the last query stands at the last key."""
    ids = scope.at("search.tgt_in_ids" if scope.has("search.tgt_in_ids") else "text.tgt_in_ids")
    cached = scope.setting.decode.cache and scope.has("search.tgt_in_ids")
    start = scope.count("search.tgt_in_ids") - 1 if cached else 0
    n_queries = ids.shape[1]
    return torch.ones(1, 1, n_queries, start + n_queries, dtype=torch.bool, device=ids.device).tril(start)


def _logits(scope: Scope) -> Tensor:
    return linear(scope.at("decoder.output"), scope.weight("linear.weight"), scope.bias("linear"))


def _probabilities_max(scope: Scope) -> tuple[Tensor, Tensor]:
    best, ids = scope.at("output_projection.probabilities").max(dim=-1)
    return best, ids


def _tgt_in_ids(scope: Scope) -> Tensor:
    """tgt_out one place later, <s> in front; what stood at </s> or behind the end is padding."""
    config, out = scope.config, scope.at("text.tgt_out_ids")
    later = torch.cat([out.new_full((len(out), 1), config.bos_id), out[:, :-1]], dim=1)
    return later.masked_fill(out == config.pad_id, config.pad_id)


ENDS: dict[str, Table] = {
    "text": {
        "src_ids": lambda scope: scope.setting.derived.get(scope.step.address),
        "tgt_in_ids": _tgt_in_ids,
        "ntokens": lambda scope: (scope.at("text.tgt_out_ids") != scope.config.pad_id).sum(),
    },
    "model": {
        "src_mask": lambda scope: (scope.at("text.src_ids") != scope.config.pad_id)[:, None, None, :],
        "causal_mask": _causal_mask,
    },
    "embedding": {
        "embedded": _embedded,
        "scaled": _scaled,
        "position_vectors": _position_vectors,
        "with_positions": lambda scope: scope.here("scaled") + scope.here("position_vectors"),
    },
    "output_projection": {
        "logits": _logits,
        "probabilities": lambda scope: scope.here("logits").softmax(-1),
    },
    "choice": {
        "next_ids": lambda scope: _probabilities_max(scope)[1],
        "next_probabilities": lambda scope: _probabilities_max(scope)[0],
    },
}
