"""Checks for mistakes that raise no error but keep a model from learning."""

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.model.checks import check_id_shape, check_id_values
from glassformer.model.masks import check_mask
from glassformer.settings import ModelConfig


def check_batch(
    config: ModelConfig, src_ids: Tensor, tgt_in_ids: Tensor, tgt_out_ids: Tensor, memory_mask: Tensor | None = None
) -> None:
    """Raise ``InputError`` for the first of these rules that src_ids (batch src) or the targets (batch tgt) break.

    Ids are integers within their vocabulary, and padding is to the right of all tokens. Each row of ``tgt_in_ids``
    begins with bos and is ``tgt_out_ids`` shifted right by one position. Only padding follows eos in ``tgt_out_ids``,
    and at least one row contains it. A ``memory_mask`` (batch 1 1 src) is False at padding, True at some tokens.
    """
    sides = {"src_ids": src_ids, "tgt_in_ids": tgt_in_ids, "tgt_out_ids": tgt_out_ids}
    for name, ids in sides.items():
        check_id_shape(name, ids)
    _check_axes(src_ids, tgt_in_ids, tgt_out_ids, config.bos_id)
    src, tgt_in, tgt_out = (ids.detach().cpu() for ids in sides.values())
    for name, ids, vocab in (
        ("src_ids", src, config.src_vocab),
        ("tgt_in_ids", tgt_in, config.tgt_vocab),
        ("tgt_out_ids", tgt_out, config.tgt_vocab),
    ):
        check_id_values(name, ids, vocab, config.pad_id)
        place = _first_index((ids[:, :-1] == config.pad_id) & (ids[:, 1:] != config.pad_id))
        if place:
            raise InputError(
                f"{name}{list(place)}: found padding (pad_id = {config.pad_id}) before a token, expected it to the "
                "right of all tokens. Pad on the right, and use pad_id for no token."
            )
    _check_tokens(src, tgt_out, config.pad_id)
    if torch.equal(tgt_in, tgt_out):
        raise InputError(
            "tgt_in_ids: found the same ids as in tgt_out_ids, expected them one position later, so that the model "
            "cannot copy what it must predict. From a target with bos and eos, pass tgt[:, :-1] and tgt[:, 1:]."
        )
    _check_end(tgt_out, config)
    _check_shift(tgt_in, tgt_out, config)
    if memory_mask is not None:
        check_mask("memory_mask", memory_mask, (len(src), 1, 1, src.shape[1]))
        _check_visible(memory_mask.detach().cpu()[:, 0, 0], src != config.pad_id)


def _check_axes(src_ids: Tensor, tgt_in_ids: Tensor, tgt_out_ids: Tensor, bos_id: int) -> None:
    if min(tgt_in_ids.shape) > 1 and bool((tgt_in_ids[0] == bos_id).all()):
        raise InputError(
            f"tgt_in_ids: found bos_id = {bos_id} along the first row, expected it along the first column: axes "
            "batch and tgt are exchanged. Transpose all ids: ids.T."
        )
    if tgt_in_ids.shape != tgt_out_ids.shape:
        raise InputError(
            f"tgt_in_ids: found {tuple(tgt_in_ids.shape)}, expected {tuple(tgt_out_ids.shape)} like tgt_out_ids: "
            "(batch, tgt). Slice one padded target twice: tgt[:, :-1] and tgt[:, 1:]."
        )
    if len(src_ids) != len(tgt_in_ids):
        raise InputError(
            f"src_ids: axis batch has {len(src_ids)} rows, tgt_in_ids has {len(tgt_in_ids)}, expected the "
            "same number. Give one target row for each source row, batch first."
        )


def _check_tokens(src: Tensor, tgt_out: Tensor, pad_id: int) -> None:
    has_src, has_tgt = ((ids != pad_id).any(dim=1) for ids in (src, tgt_out))
    if not has_tgt.any():
        raise InputError(
            f"tgt_out_ids: found only padding (pad_id = {pad_id}), expected tokens to learn. "
            "Leave empty targets out, and use pad_id for no token."
        )
    place = _first_index(has_tgt & ~has_src)
    if place:
        raise InputError(
            f"src_ids{list(place)}: found only padding (pad_id = {pad_id}), expected tokens: its target has some. "
            "Leave pairs with an empty side out."
        )


def _check_shift(tgt_in: Tensor, tgt_out: Tensor, config: ModelConfig) -> None:
    place = _first_index(tgt_in[:, :1] != config.bos_id)
    if place:
        raise InputError(
            f"tgt_in_ids{list(place)}: found id {int(tgt_in[place])}, expected bos_id = {config.bos_id} first in "
            "each row. Put it before each target: a search starts with it."
        )
    later, earlier = tgt_in[:, 1:], tgt_out[:, :-1]
    # The eos of a shorter target may be in tgt_in or may be padding there; no loss depends on it.
    end = (later == config.pad_id) & ((earlier == config.eos_id) | (earlier == config.pad_id))
    place = _first_index((later != earlier) & ~end)
    if place:
        row, position = place
        raise InputError(
            f"tgt_in_ids[{row}, {position + 1}]: found id {int(later[place])}, expected id {int(earlier[place])} of "
            f"tgt_out_ids[{row}, {position}]. From a target with bos and eos, pass tgt[:, :-1] and tgt[:, 1:]."
        )


def _check_end(tgt_out: Tensor, config: ModelConfig) -> None:
    ends = tgt_out == config.eos_id
    after_end = (ends.cumsum(dim=1) - ends.long()) > 0
    place = _first_index(after_end & (tgt_out != config.pad_id))
    if place:
        raise InputError(
            f"tgt_out_ids{list(place)}: found id {int(tgt_out[place])} after eos_id = {config.eos_id}, expected "
            f"pad_id = {config.pad_id}. Pad with the model's pad_id, or build the model with yours."
        )
    if not ends.any():
        raise InputError(
            f"tgt_out_ids: found no eos_id = {config.eos_id} in any row, expected one at the end of each target. "
            "Append it: a model that has not learned it never stops."
        )


def _check_visible(visible: Tensor, tokens: Tensor) -> None:
    if not (visible & tokens).any():
        raise InputError(
            f"memory_mask: found False at all {int(tokens.sum())} tokens of src_ids and True at "
            f"{int(visible.sum())} of {int((~tokens).sum())} padding positions, expected True = may attend. "
            "Invert it: ~memory_mask."
        )
    place = _first_index(visible & ~tokens)
    if place:
        raise InputError(
            f"memory_mask[{place[0]}, 0, 0, {place[1]}]: found True at padding, expected False there. "
            "Build it from the ids: (src_ids != pad_id)[:, None, None, :]."
        )


def _first_index(wrong: Tensor) -> tuple[int, ...]:
    """The index of the first True, or an empty tuple."""
    indices = wrong.nonzero()
    return tuple(indices[0].tolist()) if len(indices) else ()
