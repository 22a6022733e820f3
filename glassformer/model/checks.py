"""The model's door: ids, memory, mask and cache are held to what it takes, and refused in words if they do not fit.

Shapes and types cost nothing to look at. Values are looked at on a CPU alone, where that costs no wait, and never
while a graph is compiled.
"""

from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import InputError, check_type
from glassformer.model.cache import DecoderCache
from glassformer.model.masks import Mask, check_mask
from glassformer.settings import ModelConfig

_TYPES = (torch.int64, torch.int32)
_ADVICE_BY_AXES = {
    1: "Give one sentence as a batch of one: ids[None].",
    3: "The model embeds ids itself: instead of one-hot vectors give vectors.argmax(-1).",
}


def check_ids(
    name: str, ids: Tensor, embedding: nn.Embedding, config: ModelConfig, cache: DecoderCache | None = None
) -> None:
    """Refuse ids that ``embedding`` cannot look up, or that stand beyond the positions there are."""
    check_id_shape(name, ids)
    stop = ids.shape[1] if cache is None else cache.length_with(ids.shape[1])
    if stop > config.max_length:
        raise InputError(
            f"{name}: found {stop} positions, but model.max_length is {config.max_length}. "
            "Shorten the text, or build the model with a larger max_length."
        )
    _check_device(name, ids, embedding.weight)
    check_id_values(name, ids, embedding.num_embeddings, config.pad_id)


def check_id_shape(name: str, ids: Any) -> None:
    """Refuse what is no tensor (batch, positions) of whole numbers."""
    advice = "Make one of rows of one length: torch.tensor(rows)"
    check_type(name, ids, Tensor, f"a tensor (batch, positions) of ids. {advice}")
    if ids.ndim != 2:
        advice = _ADVICE_BY_AXES.get(ids.ndim, "Give one row of ids for each sentence.")
        raise InputError(
            f"{name}: found {tuple(ids.shape)}, expected (batch, positions) of torch.int64 ids. {advice}"
        )
    if ids.dtype not in _TYPES:
        raise InputError(
            f"{name}: found {ids.dtype}, expected (batch, positions) of torch.int64 ids. Convert them: ids.long()."
        )


def check_id_values(name: str, ids: Tensor, vocab: int, pad_id: int) -> None:
    """Refuse ids that no entry of the vocabulary belongs to, where looking at values costs no wait."""
    if torch.compiler.is_compiling() or ids.device.type != "cpu" or ids.numel() == 0:
        return
    low, high = (int(bound) for bound in ids.aminmax())
    if low >= 0 and high < vocab:
        return
    wrong = low if low < 0 else high
    row, position = (ids == wrong).nonzero()[0].tolist()
    advice = (
        f"No id is negative: pad with pad_id = {pad_id}."
        if low < 0
        else "The tokenizer and the model do not belong together, or source and target are exchanged: "
        "use the tokenizers that the model was made for."
    )
    raise InputError(f"{name}[{row}, {position}]: found id {wrong}, expected ids from 0 to {vocab - 1}. {advice}")


def check_pair(src_ids: Tensor, tgt_in_ids: Tensor) -> None:
    """Refuse a source and a target of different batches. What is no tensor of two axes is left to ``check_ids``."""
    sides = (src_ids, tgt_in_ids)
    if not all(isinstance(ids, Tensor) and ids.ndim == 2 for ids in sides) or len(src_ids) == len(tgt_in_ids):
        return
    advice = "Give one target row for each source row, batch first."
    if src_ids.shape[1] == tgt_in_ids.shape[1]:
        advice = f"Both have {src_ids.shape[1]} columns, as (positions, batch) would: transpose both, ids.T."
    raise InputError(
        f"src_ids, and so their memory: axis batch has {len(src_ids)} rows, tgt_in_ids has {len(tgt_in_ids)}, "
        f"expected the same number. {advice}"
    )


def check_memory(
    tgt_in_ids: Tensor, memory: Tensor, memory_mask: Tensor | Mask, cache: DecoderCache | None, config: ModelConfig
) -> None:
    """Refuse a memory, a mask or a cache that is not about the sentences of ``tgt_in_ids``."""
    advice = "encode returns two things: memory, memory_mask = model.encode(src_ids)"
    check_type("memory", memory, Tensor, f"a tensor (batch, src, d_model). {advice}")
    if memory.ndim != 3 or memory.shape[2] != config.d_model:
        raise InputError(
            f"memory: found {tuple(memory.shape)}, expected (batch, src, d_model = {config.d_model}). "
            "Give the memory that encode of this very model returned."
        )
    (rows, n_tgt), n_src = tgt_in_ids.shape, memory.shape[1]
    _check_rows("memory", memory.shape[0], rows)
    visible = memory_mask.visible if isinstance(memory_mask, Mask) else memory_mask
    check_mask("memory_mask", visible, (rows, config.n_heads, n_tgt, n_src))
    _check_device("memory_mask", visible, memory)
    if cache is not None and cache.rows is not None:
        _check_rows("cache", cache.rows, rows)
        held = cache.layers[0].cross_attention.length
        if held != n_src:
            raise InputError(
                f"cache: holds {held} source positions, memory has {n_src}, expected the same number. "
                "It was begun with other sources: begin each batch with model.new_cache()."
            )


def check_cache(cache: DecoderCache | None, config: ModelConfig) -> None:
    """Refuse what is no cache, or that of a decoder with more layers or fewer, or other ones."""
    if cache is None:
        return
    advice = "Make one for each batch and give it at every step: cache = model.new_cache()"
    check_type("cache", cache, DecoderCache, f"a DecoderCache or None. {advice}")
    found, expected = len(cache.layers), config.n_decoder_layers
    if found != expected or cache.sublayer != config.autoregressive_sublayer:
        raise InputError(
            f"cache: found {found} layers with {cache.sublayer}, expected {expected} with "
            f"{config.autoregressive_sublayer}, as the decoder has. Make it with this model's new_cache()."
        )


def _check_rows(name: str, found: int, rows: int) -> None:
    if found != rows:
        raise InputError(
            f"{name}: axis batch has {found} rows, tgt_in_ids has {rows}, expected the same number. "
            "Give one target row for each source row, batch first; reorder cache, memory and mask together."
        )


def _check_device(name: str, given: Tensor, owner: Tensor) -> None:
    # Weights on meta do not exist yet, or are offloaded: there is no device to compare with.
    if given.device != owner.device and owner.device.type != "meta":
        raise InputError(
            f"{name}: found on {given.device}, expected on {owner.device}, where the model is. "
            f"Move one of them: {name}.to({str(owner.device)!r})."
        )
