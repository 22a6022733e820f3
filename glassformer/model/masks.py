"""Masks: which keys each query may attend to. bool, True = may attend, broadcastable to (batch, heads, query, key).

They are made here alone and applied in one place, ``attention.mask_scores``. A mask that a caller made is checked
once, at the model's door. Section 3.2.3 of the paper.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from glassformer.errors import InputError, check_type
from glassformer.model.packing import Packing
from glassformer.trace import is_tracing


class Mask(NamedTuple):
    """A mask, and what is known of it, so that the layers need not look at its values.

    ``hides`` is False where every key is visible to every query: then nothing is applied, and the result is the
    same, bit for bit. ``has_empty_rows`` is False where each query may attend to some key. ``packing`` says where
    the queries and keys of a batch without padding stand; the mask itself is always that of the padded batch.
    """

    visible: Bool[Tensor, "#batch #heads #query #key"]
    hides: bool = True
    has_empty_rows: bool = True
    packing: Packing | None = None

    @classmethod
    def from_visible(cls, visible: Bool[Tensor, "#batch #heads #query #key"]) -> "Mask":
        """Look at the values once: not on a GPU, where that costs a wait, nor in a graph, which takes any mask.

        Nor while a trace records, which shows how the mask is applied. Then it is applied whatever it holds.
        """
        if torch.compiler.is_compiling() or is_tracing() or visible.device.type != "cpu":
            return cls(visible)
        if bool(visible.all()):
            return cls(visible, hides=False, has_empty_rows=False)
        return cls(visible, has_empty_rows=not bool(visible.any(dim=-1).all()))

    @classmethod
    def from_known(cls, visible: Bool[Tensor, "#batch #heads #query #key"], *, hides: bool) -> "Mask":
        """A mask whose maker knows so much of it that nobody need look."""
        return cls(visible) if is_tracing() else cls(visible, hides, has_empty_rows=False)

    def reorder(self, rows: Int[Tensor, "new_batch"]) -> "Mask":
        """Row i becomes what row ``rows[i]`` was; rows may be dropped or repeated."""
        return self._replace(visible=self.visible.index_select(0, rows))


def padding_mask(ids: Int[Tensor, "batch key"], pad_id: int) -> Bool[Tensor, "batch 1 1 key"]:
    """True where a position holds a token, False where it holds padding."""
    return (ids != pad_id)[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 query key"]:
    """True where a query may look: at itself and before. The last query stands at the last key."""
    visible = torch.ones(1, 1, n_queries, n_keys, dtype=torch.bool, device=device)
    return visible if n_queries == 1 else visible.tril(n_keys - n_queries)


def check_mask(name: str, mask: Any, sizes: tuple[int, int, int, int]) -> None:
    """Refuse what is not bool, or not of the ``sizes`` (batch, heads, query, src); heads and query may also be 1."""
    advice = "Give the mask that encode returned with the memory"
    check_type(name, mask, Tensor, f"a tensor of torch.bool, True = may attend. {advice}")
    if mask.dtype != torch.bool:
        raise InputError(
            f"{name}: found {mask.dtype}, expected torch.bool, True = may attend. "
            "If it holds 0 and -inf, to be added to scores, pass mask == 0; if 1 and 0, pass mask.bool()."
        )
    if mask.ndim != 4:
        raise InputError(
            f"{name}: found {tuple(mask.shape)}, expected {_form(sizes)}, True = may attend. "
            "Give (batch, src) as mask[:, None, None, :]; if True means padding, as in torch, give ~mask."
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
