"""The two masks: bool, True = may attend, broadcastable to (batch, heads, query, key). Born here alone.

They are applied in one place, ``attention.masked``. Section 3.2.3 of the paper.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(ids: Int[Tensor, "batch key"], pad_id: int) -> Bool[Tensor, "batch 1 1 key"]:
    """True where a position holds a token, False where it holds padding."""
    return (ids != pad_id)[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 query key"]:
    """True where a query may look: at itself and before. The last query stands at the last key."""
    return torch.ones(1, 1, n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)
