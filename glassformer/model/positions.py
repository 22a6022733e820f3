"""How order enters: the paper's table or a learned one added to embeddings, or relative, rotary and ALiBi positions
inside self-attention. Section 3.5; Shaw et al. 2018 (arXiv 1803.02155); Su et al. 2021 (arXiv 2104.09864); Press et
al. 2022 (arXiv 2108.12409).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.settings import ModelConfig
from glassformer.trace import tap


class Positions(NamedTuple):
    """Where the queries and the keys of self-attention stand in their sequence, counted from 0."""

    queries: Int[Tensor, "query"]
    keys: Int[Tensor, "key"]

    @classmethod
    def from_length(cls, n_positions: int, device: torch.device) -> "Positions":
        """Those of a whole sequence."""
        every = torch.arange(n_positions, device=device)
        return cls(every, every)


def frequencies(width: int, sinusoid: str = "paper") -> Float[Tensor, "half"]:
    """1 / 10000^(2i / width) for i = 0 ... width / 2 - 1, in radians per position.

    Differs from the paper: those of "tensor2tensor", the authors' own code, are 1 / 10000^(2i / (width - 2)).
    """
    last = width if sinusoid == "paper" else max(width - 2, 1)
    return 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / last)


def angles(n_positions: int, width: int, sinusoid: str = "paper") -> Float[Tensor, "position half"]:
    """position · frequency, in radians, computed in double precision."""
    return torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies(width, sinusoid)


def has_values() -> bool:
    """Whether a new tensor has values; on the device meta a model has shapes only."""
    return torch.get_default_device().type != "meta"


class SinusoidalPositions(nn.Module):
    """The paper's table: PE(pos, 2i) = sin, PE(pos, 2i + 1) = cos of pos / 10000^(2i / d_model), interleaved.

    ``config.sinusoid`` chooses the ``frequencies``.
    """

    table: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        table = torch.empty(config.max_length, config.d_model)
        if has_values():
            angle = angles(config.max_length, config.d_model, config.sinusoid)
            table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()
        self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Int[Tensor, "position"]) -> Float[Tensor, "position d_model"]:
        """The vector of each position."""
        return self.table.index_select(0, positions)


class LearnedPositions(nn.Module):
    """One learned vector for each position up to the maximum length."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(config.max_length, config.d_model))
        nn.init.normal_(self.table, std=config.d_model**-0.5)

    def forward(self, positions: Int[Tensor, "position"]) -> Float[Tensor, "position d_model"]:
        """The vector of each position."""
        return self.table.index_select(0, positions)


class RelativePositions(nn.Module):
    """A learned vector for each distance, clipped at ± relative_clip, added to keys and to values."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.clip = config.relative_clip
        self.key_table = nn.Parameter(torch.empty(2 * self.clip + 1, config.d_k))
        self.value_table = nn.Parameter(torch.empty(2 * self.clip + 1, config.d_v))
        nn.init.xavier_uniform_(self.key_table)
        nn.init.xavier_uniform_(self.value_table)

    def _between(self, positions: Positions) -> Int[Tensor, "query key"]:
        """The table's row for the distance from each query to each key."""
        distances = positions.keys[None, :] - positions.queries[:, None]
        return distances.clamp(-self.clip, self.clip) + self.clip

    def products(
        self, q: Float[Tensor, "batch heads query d_k"], positions: Positions
    ) -> Float[Tensor, "batch heads query key"]:
        """q · a_K for each query and key: the second term of equation 5 of Shaw et al."""
        vectors = self.key_table[self._between(positions)]
        vectors = tap(self, "relative_keys", vectors, "query key d_k")
        products = torch.einsum("bhqd,qkd->bhqk", q, vectors)
        return tap(self, "relative_products", products, "batch heads query key")

    def heads(
        self, weights: Float[Tensor, "batch heads query key"], positions: Positions
    ) -> Float[Tensor, "batch heads query d_v"]:
        """Σ weights · a_V over the keys: the second term of equation 3 of Shaw et al."""
        vectors = self.value_table[self._between(positions)]
        vectors = tap(self, "relative_values", vectors, "query key d_v")
        heads = torch.einsum("bhqk,qkd->bhqd", weights, vectors)
        return tap(self, "relative_heads", heads, "batch heads query d_v")


class AlibiPositions(nn.Module):
    """Subtract slope · distance from each score: the farther a key, the less a query attends to it.

    The slopes of n heads are the geometric sequence 2^(-8 / n), 2^(-16 / n) ... 2^-8 of Press et al., for every n.
    The distance is symmetric, for the encoder; in the decoder the mask hides all keys after the query.
    """

    slopes: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        slopes = torch.empty(config.n_heads)
        if has_values():
            numbers = torch.arange(1, config.n_heads + 1, dtype=torch.float64)
            slopes = (2.0 ** (-8.0 * numbers / config.n_heads)).float()
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, positions: Positions) -> Float[Tensor, "heads query key"]:
        """The bias of each query and key in each head."""
        distances = (positions.keys[None, :] - positions.queries[:, None]).abs()
        biases = -self.slopes[:, None, None] * distances
        return tap(self, "biases", biases, "heads query key")


class RotaryPositions(nn.Module):
    """Turn each pair (2i, 2i + 1) of a query or key by position / 10000^(2i / d_k) radians."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        cos, sin = torch.empty(2, config.max_length, config.d_k // 2)
        if has_values():
            angle = angles(config.max_length, config.d_k)
            cos, sin = angle.cos().float(), angle.sin().float()
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(
        self, x: Float[Tensor, "batch heads position d_k"], positions: Int[Tensor, "position"]
    ) -> Float[Tensor, "batch heads position d_k"]:
        """``x`` with the pairs of each position turned: (even + i odd) · (cos + i sin)."""
        cos, sin = self.cos.index_select(0, positions), self.sin.index_select(0, positions)
        if cos.dtype not in _COMPLEX or torch.compiler.is_compiling():
            # There are no such complex numbers, or no compiler for them: the same product, written out.
            even, odd = x[..., 0::2], x[..., 1::2]
            return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
        x = x.to(torch.promote_types(x.dtype, cos.dtype)).contiguous()
        pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


_COMPLEX = (torch.float32, torch.float64)
