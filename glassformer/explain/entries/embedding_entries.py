"""The taps of text, masks and embeddings, and of logits and probabilities."""

import math

import torch
from torch import Tensor
from torch.nn.functional import embedding

from glassformer.explain.entries.derivatives import linear
from glassformer.explain.entries.entry import NOT_IN_PAPER, add, entry, vary
from glassformer.explain.entries.scope import Scope


def _decoder_ids(scope: Scope) -> Tensor:
    """The ids that the decoder reads: the search's at this step, or the text's."""
    return scope.at("search.tgt_in_ids" if scope.has("search.tgt_in_ids") else "text.tgt_in_ids")


def _derive(scope: Scope) -> Tensor | None:
    return scope.context.derived.get(scope.step.address)


# What is done to a text before the model, and undone behind it. The number of each character proves it.
_TYPED = "The text as it was typed, a number a character (Unicode); of several sentences the whole, for each."
add("text.typed", "Text as typed", _TYPED, "text", NOT_IN_PAPER)
_READ = "What the model reads of it: a sentence, without what its steps take off. Undone, they give the text again."
add("text.read", "Text as read", _READ, "text → steps → sentence", NOT_IN_PAPER, compute=_derive)
_SENTENCE = "What the tokens of the output say, with the codes of the sentence in their places."
add("answer.sentence", "Answer", _SENTENCE, "tokens → text", NOT_IN_PAPER, compute=_derive)
_PRINTED = "The answers to all sentences of the text, with what its steps have taken off: the translation."
add("answer.printed", "Text as printed", _PRINTED, "answers → steps, undone → text", NOT_IN_PAPER, compute=_derive)

# How a text becomes tokens. What they count is given: the tokenizer has no equation.
_NFC = (
    "One spelling for texts that look the same (Unicode NFC, NFD with text.decompose); the number counts its "
    "characters."
)
_PIECES = "The pieces of the text that are spelled one by one; the number counts them."
_MERGES = "The merges or look-ups that turn each pre-token into tokens; the number counts them."
for _side, _owner in (("src", "Source's"), ("tgt", "Target's")):
    add(f"text.{_side}_normalised", f"{_owner} normal form", _NFC, "text → NFC(text)", "5.1")
    add(f"text.{_side}_pre_tokens", f"{_owner} pre-tokens", _PIECES, "text → pre-tokens", "5.1")
    add(f"text.{_side}_spelling", f"{_owner} spelling", _MERGES, "pre-token → tokens", "5.1")
_CUT = "The tokenizer cuts each sentence into tokens; </s> ends it, <pad> fills it up to the longest."
add("text.src_tokens", "Source tokens", _CUT, "text → tokens", "5.1")


_NUMBERS = "Each token's number in the source vocabulary."
add("text.src_ids", "Source ids", _NUMBERS, "tokens → ids", "5.1", compute=_derive)
_AHEAD = "What each position has to predict: the target, then </s>; one position ahead of the decoder's input."
add("text.tgt_out_ids", "Target ids to predict", _AHEAD, "tgt_out = t₁ … tₙ </s>", "3.1", compute=_derive)


@entry("text.tgt_in_ids", "Target ids, shifted right", "tgt_in = <s> t₁ … tₙ", "3.1")
def _tgt_in_ids(scope: Scope) -> Tensor:
    """The decoder's input: <s>, then the target, so that each position sees only what comes before it."""
    config, out = scope.config, scope.at("text.tgt_out_ids")
    later = torch.cat([out.new_full((len(out), 1), config.bos_id), out[:, :-1]], dim=1)
    return later.masked_fill(out == config.pad_id, config.pad_id)


@entry("text.ntokens", "Tokens to predict", "Σ tgt_out ≠ <pad>", "5.1")
def _ntokens(scope: Scope) -> Tensor:
    """The training loss is the mean over these; padding does not count."""
    return (scope.at("text.tgt_out_ids") != scope.config.pad_id).sum()


@entry("model.src_mask", "Source mask", "src_ids ≠ <pad>", "3.2.3")
def _src_mask(scope: Scope) -> Tensor:
    """True where the source has a token, False where it has padding; the same for all heads and queries."""
    return (scope.at("text.src_ids") != scope.config.pad_id)[:, None, None, :]


@entry("model.causal_mask", "Causal mask", "key ≤ query", "3.2.3")
def _causal_mask(scope: Scope) -> Tensor:
    """True where a target position may look: at itself and at those before it."""
    ids = _decoder_ids(scope)
    cached = scope.context.decode.cache and scope.has("search.tgt_in_ids")
    start = scope.count("search.tgt_in_ids") - 1 if cached else 0
    n_queries = ids.shape[1]
    visible = torch.ones(1, 1, n_queries, start + n_queries, dtype=torch.bool, device=ids.device)
    return visible if n_queries == 1 else visible.tril(start)  # one query stands at the last key


@entry("embedding.embedded", "Token vectors", "E = W_emb[ids]", "3.4")
def _token_vectors(scope: Scope) -> Tensor:
    """Each id selects its row of the embedding matrix."""
    ids = scope.at("text.src_ids") if scope.module == "src_embedding" else _decoder_ids(scope)
    return embedding(ids, scope.weight("tokens.weight"))


@entry("embedding.scaled", "Scaled token vectors", "E · √d_model", "3.4")
def _scale(scope: Scope) -> Tensor:
    """Times √d_model, so that the vectors are about as large as the positions that are added next."""
    scale = math.sqrt(scope.config.d_model) if scope.config.scale_embedding else 1.0
    return scope.here("embedded") * scale


_UNSCALED = "This configuration leaves the vectors as they are (scale_embedding = false)."
vary("embedding.scaled", "scale_embedding", False, "E", _UNSCALED)


@entry("output_projection.logits", "Logits", "logits = x W_vocab", "3.4")
def _logits(scope: Scope) -> Tensor:
    """One number for each entry of the target vocabulary, at each position."""
    return linear(scope.at("decoder.output"), scope.weight("linear.weight"), scope.bias("linear"))


vary("output_projection.logits", "output_bias", True, "logits = x W_vocab + b")


@entry("output_projection.probabilities", "Probabilities of the next token", "P = softmax(logits)", "3.4")
def _probabilities(scope: Scope) -> Tensor:
    """The softmax turns the logits into probabilities."""
    return scope.here("logits").softmax(-1)


@entry("choice.next_ids", "Likeliest next token", "argmax P", "6.1")
def _next_ids(scope: Scope) -> Tensor:
    """At each position, the token that greedy search would choose after the tokens before it."""
    return scope.at("output_projection.probabilities").max(dim=-1)[1]


@entry("choice.next_probabilities", "Its probability", "max P", "6.1")
def _next_probabilities(scope: Scope) -> Tensor:
    """How sure the model is of that token."""
    return scope.at("output_projection.probabilities").max(dim=-1)[0]
