"""The taps of positions. Section 3.5; Shaw et al. 2018 (arXiv 1803.02155); Su et al. 2021 (arXiv 2104.09864)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.explain.entries.entry import add, entry, vary
from glassformer.explain.entries.scope import Scope

_SELF = "encoder_self_attention|decoder_self_attention"
_SHAW = "Shaw et al. 2018, 3.2"
_ROPE = "Su et al. 2021, 3.2"
_WAVELENGTH = 10_000.0


def _angles(start: int, stop: int, width: int, last: int) -> NDArray[np.float64]:
    """pos / 10000^(2i / last) in radians, a row a position from ``start``."""
    return np.arange(start, stop)[:, None] / _WAVELENGTH ** (np.arange(0, width, 2) / last)


def _rotate(scope: Scope) -> Tensor:
    """Each pair (2i, 2i + 1), as a complex number, times e^(i · angle)."""
    x = scope.here(scope.step.name.removesuffix("_rotated"))
    start = _first_new_position(scope)
    angles = _angles(start, start + x.shape[2], scope.config.d_k, scope.config.d_k)
    cos, sin = (torch.from_numpy(wave(angles)).to(x.device, x.dtype) for wave in (np.cos, np.sin))
    pairs = torch.view_as_complex(x.contiguous().view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


def _first_new_position(scope: Scope) -> int:
    """The position of the first new key: after those in the cache."""
    cached = f"{scope.module}.k_cached"
    generates = scope.context.decode.cache and scope.has("search.tgt_in_ids") and scope.module.startswith("decoder")
    return int(scope.at(cached).shape[2]) if generates and scope.has(cached) else 0


def _distances(scope: Scope) -> Tensor:
    """From each query to each key; both end at one position."""
    attention = scope.module.rpartition(".")[0]
    n_queries, n_keys = scope.at(f"{attention}.products").shape[2:]
    keys = torch.arange(n_keys, device=scope.step.value.device)
    return keys[None, :] - keys[n_keys - n_queries :][:, None]


def _distance_vectors(scope: Scope, table: str) -> Tensor:
    clip = scope.config.relative_clip
    return scope.weight(table)[_distances(scope).clamp(-clip, clip) + clip]


_TURNED = "Each pair of numbers is turned by an angle that grows with the position."
add(f"{_SELF}.q_rotated", "Queries turned by their position", _TURNED, "Q′ = R(pos) Q", _ROPE, compute=_rotate)
_TURNED = "Turned like the queries, so that a product depends on the distance alone."
add(f"{_SELF}.k_rotated", "Keys turned by their position", _TURNED, "K′ = R(pos) K", _ROPE, compute=_rotate)

_PE = "PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(…)"


@entry("embedding.position_vectors", "Position vectors", _PE, "3.5")
def _position_vectors(scope: Scope) -> Tensor:
    """Sines and cosines of many wavelengths: another pattern for each position, the same in each sentence."""
    # Vectors of the positions read now; with a cache, generation reads one position later at each step.
    cached = scope.module == "tgt_embedding" and scope.context.decode.cache
    start = max(0, scope.count("search.tgt_in_ids") - 1) if cached else 0
    embedded = scope.here("embedded")
    stop = start + embedded.shape[1]
    if scope.config.positions == "learned":
        return scope.weight("positions.table")[start:stop]
    width = scope.config.d_model
    last = width if scope.config.sinusoid == "paper" else max(width - 2, 1)
    angles = _angles(start, stop, width, last)
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(angles), -1)
    return torch.from_numpy(waves).to(embedded.device, embedded.dtype)


_LEARNED = "A learned vector for each position, the same in each sentence."
_T2T = "PE(pos, 2i) = sin(pos / 10000^(2i/(d_model − 2))), PE(pos, 2i+1) = cos(…)"
_AS_THERE = "Sines and cosines with the frequencies of the authors' own code, tensor2tensor, which Marian has, too."
vary("embedding.position_vectors", "sinusoid", "tensor2tensor", _T2T, _AS_THERE)
vary("embedding.position_vectors", "positions", "learned", "PE = W_pos[pos]", _LEARNED)


@entry("embedding.with_positions", "Token plus position", "x = E · √d_model + PE", "3.5")
def _with_positions(scope: Scope) -> Tensor:
    """Which token it is and where it is, in one vector."""
    return scope.here("scaled") + scope.here("position_vectors")


vary("embedding.with_positions", "scale_embedding", False, "x = E + PE")


@entry("relative.relative_keys", "A key for each distance", "a_K[key − query]", _SHAW)
def _relative_keys(scope: Scope) -> Tensor:
    """A learned vector for the distance from query to key, the same for all heads."""
    return _distance_vectors(scope, "key_table")


@entry("relative.relative_products", "Query times distance", "S_rel = Q · a_K", _SHAW)
def _relative_products(scope: Scope) -> Tensor:
    """How well each query agrees with each distance."""
    q = scope.at(f"{scope.module.removesuffix('.relative')}.q")
    return torch.einsum("bhqd,qkd->bhqk", q, scope.here("relative_keys"))


@entry("relative.relative_values", "A value for each distance", "a_V[key − query]", _SHAW)
def _relative_values(scope: Scope) -> Tensor:
    """A learned vector that is added to each value."""
    return _distance_vectors(scope, "value_table")


@entry("relative.relative_heads", "What the distances add", "A · a_V", _SHAW)
def _relative_heads(scope: Scope) -> Tensor:
    """The mean of the distances' values, weighted by the attention weights."""
    weights = scope.at(f"{scope.module.removesuffix('.relative')}.weights")
    return torch.einsum("bhqk,qkd->bhqd", weights, scope.here("relative_values"))


@entry("alibi.biases", "A bias for each distance", "B = −2^(−8i/h) · |key − query|", "Press et al. 2022, 3")
def _alibi_biases(scope: Scope) -> Tensor:
    """Falls with the distance from query to key, in each head at its own slope; not learned."""
    value, n_heads = scope.step.value, scope.config.n_heads
    slopes = torch.tensor([2.0 ** (-8.0 * head / n_heads) for head in range(1, n_heads + 1)], device=value.device)
    return -slopes.to(value.dtype)[:, None, None] * _distances(scope).abs()
