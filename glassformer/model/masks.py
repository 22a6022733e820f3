"""The two masks: bool, True = may attend, broadcastable to (batch, heads, query, key). Born here alone.

They are applied in one place, ``attention.masked``. A mask that someone else made is held here to the same rule,
once, at the model's door. Section 3.2.3 of the paper.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from glassformer.errors import InputError
from glassformer.trace import is_tracing


def padding_mask(ids: Int[Tensor, "batch key"], pad_id: int) -> Bool[Tensor, "batch 1 1 key"]:
    """True where a position holds a token, False where it holds padding."""
    return (ids != pad_id)[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 query key"]:
    """True where a query may look: at itself and before. The last query stands at the last key."""
    return torch.ones(1, 1, n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)


def unless_all(mask: Bool[Tensor, "#batch 1 #query #key"]) -> Bool[Tensor, "#batch 1 #query #key"] | None:
    """The mask, or None where it hides nothing, so that nobody need apply it: the result is the same, bit for bit.

    While a trace records, and where looking would cost a wait, the mask stays.
    """
    if torch.compiler.is_compiling() or is_tracing() or mask.device.type != "cpu":
        return mask
    return None if bool(mask.all()) else mask


def check_mask(name: str, mask: object, sizes: tuple[int, int, int, int]) -> None:
    """Refuse what is not bool, or not of the ``sizes`` (batch, heads, query, src); heads and query may also be 1."""
    if not isinstance(mask, Tensor):
        raise InputError(
            f"{name}: found {type(mask).__name__}, expected a tensor of torch.bool, True = may attend. "
            "Give the mask that encode returned with the memory."
        )
    if mask.dtype != torch.bool:
        raise InputError(
            f"{name}: found {mask.dtype}, expected torch.bool, True = may attend. "
            "Of 0 and -inf, which others add to the scores, give mask == 0; of 1 and 0 give mask.bool()."
        )
    if mask.ndim != 4:
        raise InputError(
            f"{name}: found {tuple(mask.shape)}, expected {_form(sizes)}, True = may attend. "
            "Of (batch, src) give mask[:, None, None, :]; and where True means padding, as in torch, give ~mask."
        )
    for axis, found, expected in zip(("batch", "heads", "query", "src"), mask.shape, sizes, strict=True):
        shared = axis in ("heads", "query") and found == 1
        if found != expected and not shared:
            raise InputError(
                f"{name}: axis {axis} has {found}{' rows' if axis == 'batch' else ''}, expected {_form(sizes)}. "
                "Give the mask that encode returned with this memory."
            )


def _form(sizes: tuple[int, int, int, int]) -> str:
    return f"(batch {sizes[0]}, 1, 1, src {sizes[3]})"
