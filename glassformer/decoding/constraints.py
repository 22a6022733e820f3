"""Lexical constraints: sequences of ids that an output must hold, and a beam divided among those on their way there.

Dynamic beam allocation, Post and Vilar 2018 (arXiv 1804.06609). A hypothesis stands in the bank of as many ids as it
has of the required sequences: of those that occur, and of the one that it is in the midst of. The beam is divided
among the banks, so that what the model likes and what is demanded both live on. Two choices are ours:

- How far a hypothesis is follows from its ids alone: a sequence is met when it occurs, wherever and with whatever
  overlap, and the midst of one is the longest beginning of an unmet one that ends the ids.
- The best of the furthest bank is always among those that live on. Each step brings it one id further, so that
  everything is met as soon as there were steps for it, unless a rule forbids one of the ids.

``phrases`` (rows phrase tgt) are padded with ``pad_id`` along both. Knows nothing of models.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

Ids = Int[Tensor, "rows step"]
Phrases = Int[Tensor, "rows phrase tgt"]


def met(ids: Ids, phrases: Phrases, pad_id: int) -> Bool[Tensor, "rows phrase"]:
    """Which phrases occur in the ids of their row; one without ids always does."""
    padding = phrases == pad_id
    if not phrases.numel() or not ids.numel():
        return padding.all(dim=2)
    windows = pad(ids, (0, phrases.shape[2] - 1), value=pad_id).unfold(1, phrases.shape[2], 1)
    equal = (windows[:, None] == phrases[:, :, None]) | padding[:, :, None]
    return equal.all(dim=3).any(dim=2) | padding.all(dim=2)


def all_met(ids: Ids, phrases: Phrases, pad_id: int) -> Bool[Tensor, "rows"]:
    """Whether every phrase occurs in the ids of its row."""
    return met(ids, phrases, pad_id).all(dim=1)


def ending(ids: Ids, phrases: Phrases, pad_id: int) -> Bool[Tensor, "rows phrase"]:
    """Which phrases end the ids of their row; one without ids always does."""
    return begun(ids, phrases, pad_id) == (phrases != pad_id).sum(dim=2)


def begun(ids: Ids, phrases: Phrases, pad_id: int) -> Int[Tensor, "rows phrase"]:
    """How many ids the longest beginning of each phrase has that ends the ids of its row."""
    step, lengths = ids.shape[1], torch.zeros(phrases.shape[:2], dtype=torch.int64, device=ids.device)
    for length in range(1, min(phrases.shape[2], step) + 1):
        equal = (ids[:, None, step - length :] == phrases[:, :, :length]).all(dim=2)
        lengths[equal & (phrases[:, :, length - 1] != pad_id)] = length
    return lengths


def bank(ids: Ids, phrases: Phrases, pad_id: int) -> Int[Tensor, "rows"]:
    """How many ids of the required phrases each row has."""
    done, lengths = met(ids, phrases, pad_id), (phrases != pad_id).sum(dim=2)
    in_the_midst = begun(ids, phrases, pad_id).masked_fill(done, 0).amax(dim=1)
    return (lengths * done).sum(dim=1) + in_the_midst


def wanted(ids: Ids, phrases: Phrases, pad_id: int) -> tuple[Int[Tensor, "rows phrase"], Bool[Tensor, "rows phrase"]]:
    """The id that would bring each phrase further, and whether the phrase is unmet, so that it should."""
    following = begun(ids, phrases, pad_id).clamp(max=phrases.shape[2] - 1)
    return phrases.gather(2, following[:, :, None]).squeeze(2), ~met(ids, phrases, pad_id)


def banked(
    keys: Float[Tensor, "sentences beam vocab"],
    ids: Int[Tensor, "sentences beam step"],
    required: Int[Tensor, "sentences phrase tgt"],
    pad_id: int,
    beam: int,
) -> Int[Tensor, "sentences candidates"]:
    """The ``2 beam`` continuations to look at, in the order in which they take places, as places in beam · vocab."""
    vocab = keys.shape[2]
    index, pool = _pool(keys, ids, required, pad_id, 2 * beam)
    parents = (index // vocab)[:, :, None].expand(-1, -1, ids.shape[2])
    candidates = torch.cat([ids.gather(1, parents), (index % vocab)[:, :, None]], dim=2)
    phrases = required.repeat_interleave(index.shape[1], dim=0)
    banks = bank(candidates.flatten(0, 1), phrases, pad_id).view(index.shape)
    n_banks = (required != pad_id).sum(dim=(1, 2)) + 1
    order = allocated(pool, banks, n_banks, beam)[:, : min(2 * beam, keys[0].numel())]
    return index.gather(1, order)


def _pool(
    keys: Tensor, ids: Tensor, required: Tensor, pad_id: int, count: int
) -> tuple[Int[Tensor, "sentences pool"], Float[Tensor, "sentences pool"]]:
    """The best continuations, each hypothesis's best, and all that bring a phrase further; their places and keys.

    One that is there twice has key -inf at its second place.
    """
    sentences, beam, vocab = keys.shape
    flat = keys.flatten(1)
    first = torch.arange(beam, device=keys.device) * vocab
    phrases = required.repeat_interleave(beam, dim=0)
    further, unmet = (found.view(sentences, beam, -1) for found in wanted(ids.flatten(0, 1), phrases, pad_id))
    best = flat.topk(min(count, flat.shape[1]), dim=1).indices
    # A phrase that is met asks for nothing: the best continuation stands in, which is there already.
    asked = torch.where(unmet, first[:, None] + further, best[:, :1, None]).flatten(1)
    index = torch.cat([best, first + keys.argmax(dim=2), asked], dim=1)
    again = (index[:, :, None] == index[:, None, :]).tril(-1).any(dim=2)
    return index, flat.gather(1, index).masked_fill(again, -math.inf)


def allocated(
    keys: Float[Tensor, "sentences pool"],
    banks: Int[Tensor, "sentences pool"],
    n_banks: Int[Tensor, "sentences"],
    beam: int,
) -> Int[Tensor, "sentences pool"]:
    """The order in which continuations take places: those whose bank has room, and then the others; each by key.

    A bank has room for beam / banks, rounded down. The best of the furthest bank comes first; -inf comes last.
    """
    possible = keys > -math.inf
    by_key = keys.argsort(dim=1, descending=True, stable=True)
    ordered, possible = banks.gather(1, by_key), possible.gather(1, by_key)
    rank_in_bank = (ordered[:, None, :] == ordered[:, :, None]).tril(-1).sum(dim=2)
    furthest = ordered == ordered.masked_fill(~possible, -1).amax(dim=1, keepdim=True)
    turn = torch.where(rank_in_bank < (beam // n_banks)[:, None], 1, 2)
    turn = torch.where(furthest & (rank_in_bank == 0) & (n_banks > 1)[:, None], 0, turn)
    return by_key.gather(1, torch.where(possible, turn, 3).argsort(dim=1, stable=True))
