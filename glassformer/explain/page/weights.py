"""Configuration, weights and tokenizers for the page's worker.

Each weight has its smallest exact form: int8 rows with scales, float16, bfloat16 or float32.
"""

from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoint import weights_of
from glassformer.decoding import Translator
from glassformer.decoding.translation import REASONS
from glassformer.explain.page.text_rules import pack_rules
from glassformer.model import Transformer

MAX_PARAMETERS = 10_000_000
"""Larger models slow the page down; it then shows what was recorded."""

_SCALE = "scale/"  # as in a checkpoint
_INT8_LIMIT = 127


def count_parameters(model: Transformer) -> int:
    """A page's numbers of this model; tied matrices count once."""
    return sum(weight.numel() for weight in weights_of(model).values())


def pack_model(translator: Translator) -> dict[str, Any]:
    """The worker's argument for ``load``; a shared target tokenizer is None."""
    src, tgt, confidence = translator.src_tokenizer, translator.tgt_tokenizer, translator.confidence
    return {
        "config": translator.model.config.to_mapping(),
        "decode": translator.config.to_mapping(),
        "tokenizers": {"src": src.json, "tgt": None if tgt.digest == src.digest else tgt.json},
        "confidence": confidence and {
            "seen": confidence.seen.to_mapping(), "length_ratio": confidence.length_ratio, "bias": confidence.bias,
            "doubtful": confidence.doubtful, "reasons": REASONS,
            "weights": {name: vars(one) for name, one in confidence.weights.items()},
        },
        "plain_signs": translator.plain_signs,
        "languages": translator.languages,
        "rules": pack_rules(src, translator.config.src_language, translator.languages),
        "weights": pack_weights(translator.model),
    }  # fmt: skip


def pack_weights(model: Transformer) -> bytes:
    """A safetensors file of weights in their smallest exact form."""
    from safetensors.torch import save

    packed: dict[str, Tensor] = {}
    for name, weight in weights_of(model).items():
        packed |= _pack(name, weight.cpu().float().contiguous())
    return save(packed)


def _pack(name: str, weight: Tensor) -> dict[str, Tensor]:
    rows = _int8_rows(weight) if weight.ndim == 2 else None
    if rows is not None:
        return {name: rows[0], f"{_SCALE}{name}": rows[1]}
    for kind in (torch.float16, torch.bfloat16):
        if torch.equal(weight.to(kind).float(), weight):
            return {name: weight.to(kind)}
    return {name: weight}


def _int8_rows(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Int8 rows and scales that are exactly the weight, or None."""
    first = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / _INT8_LIMIT
    numbers, scales = torch.zeros_like(weight), first.clone()
    missing = torch.ones(len(weight), dtype=torch.bool)
    for towards in (first, torch.full_like(first, torch.inf), torch.zeros_like(first)):
        scale = torch.nextafter(first, towards)
        whole = (weight / scale[:, None]).round()
        fits = missing & (whole * scale[:, None] == weight).all(dim=1)
        numbers[fits], scales[fits] = whole[fits], scale[fits]
        missing &= ~fits
    return None if missing.any() else (numbers.to(torch.int8), scales)
