"""The taps of both ends: text, masks and embeddings; then logits, probabilities and the likeliest token."""

import math

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear

from glassformer.explain.tap_entries.entry import Entries, TapEntry, Variant
from glassformer.explain.tap_entries.scope import Scope


def _decoder_ids(scope: Scope) -> Tensor:
    """The ids that the decoder reads: those of the search at this step, or the text's."""
    return scope.at("search.tgt_in_ids" if scope.has("search.tgt_in_ids") else "text.tgt_in_ids")


def _tgt_in_ids(scope: Scope) -> Tensor:
    """tgt_out one position later, with <s> in front; the positions of </s> and of padding become padding."""
    config, out = scope.config, scope.at("text.tgt_out_ids")
    later = torch.cat([out.new_full((len(out), 1), config.bos_id), out[:, :-1]], dim=1)
    return later.masked_fill(out == config.pad_id, config.pad_id)


def _causal_mask(scope: Scope) -> Tensor:
    """key <= query, where the last query is at the last key."""
    ids = _decoder_ids(scope)
    cached = scope.context.decode.cache and scope.has("search.tgt_in_ids")
    start = scope.count("search.tgt_in_ids") - 1 if cached else 0
    n_queries = ids.shape[1]
    return torch.ones(1, 1, n_queries, start + n_queries, dtype=torch.bool, device=ids.device).tril(start)


def _embed(scope: Scope) -> Tensor:
    ids = scope.at("text.src_ids") if scope.module == "src_embedding" else _decoder_ids(scope)
    return embedding(ids, scope.weight("tokens.weight"))


def _scale(scope: Scope) -> Tensor:
    scale = math.sqrt(scope.config.d_model) if scope.config.scale_embedding else 1.0
    return scope.here("embedded") * scale


def _logits(scope: Scope) -> Tensor:
    return linear(scope.at("decoder.output"), scope.weight("linear.weight"), scope.bias("linear"))


def _text_entries(side: str, owner: str) -> dict[str, TapEntry]:
    """The taps of how a text becomes tokens. What they count is given: the tokenizer has no equation."""
    return {
        f"{side}_normalised": TapEntry(
            f"{owner} normal form",
            "One spelling for texts that look the same (Unicode NFC); the number counts its characters.",
            "text → NFC(text)",
            "5.1",
        ),
        f"{side}_pre_tokens": TapEntry(
            f"{owner} pre-tokens",
            "The pieces of the text that are spelled one by one; the number counts them.",
            "text → pre-tokens",
            "5.1",
        ),
        f"{side}_spelling": TapEntry(
            f"{owner} spelling",
            "The merges or look-ups that turn each pre-token into tokens; the number counts them.",
            "pre-token → tokens",
            "5.1",
        ),
    }


EMBEDDING: Entries = {
    "text": {
        **_text_entries("src", "Source's"),
        **_text_entries("tgt", "Target's"),
        "src_tokens": TapEntry(
            "Source tokens",
            "The tokenizer cuts each sentence into tokens; </s> ends it, <pad> fills it up to the longest.",
            "text → tokens",
            "5.1",
        ),
        "src_ids": TapEntry(
            "Source ids",
            "Each token's number in the source vocabulary.",
            "tokens → ids",
            "5.1",
            compute=lambda scope: scope.context.derived_ids.get(scope.step.address),
        ),
        "tgt_out_ids": TapEntry(
            "Target ids to predict",
            "What each position has to predict: the target, then </s>; one position ahead of the decoder's input.",
            "tgt_out = t₁ … tₙ </s>",
            "3.1",
        ),
        "tgt_in_ids": TapEntry(
            "Target ids, shifted right",
            "The decoder's input: <s>, then the target, so that each position sees only what comes before it.",
            "tgt_in = <s> t₁ … tₙ",
            "3.1",
            compute=_tgt_in_ids,
        ),
        "ntokens": TapEntry(
            "Tokens to predict",
            "The training loss is the mean over these; padding does not count.",
            "Σ tgt_out ≠ <pad>",
            "5.1",
            compute=lambda scope: (scope.at("text.tgt_out_ids") != scope.config.pad_id).sum(),
        ),
    },
    "model": {
        "src_mask": TapEntry(
            "Source mask",
            "True where the source has a token, False where it has padding; the same for all heads and queries.",
            "src_ids ≠ <pad>",
            "3.2.3",
            compute=lambda scope: (scope.at("text.src_ids") != scope.config.pad_id)[:, None, None, :],
        ),
        "causal_mask": TapEntry(
            "Causal mask",
            "True where a target position may look: at itself and at those before it.",
            "key ≤ query",
            "3.2.3",
            compute=_causal_mask,
        ),
    },
    "embedding": {
        "embedded": TapEntry(
            "Token vectors",
            "Each id selects its row of the embedding matrix.",
            "E = W_emb[ids]",
            "3.4",
            compute=_embed,
        ),
        "scaled": TapEntry(
            "Scaled token vectors",
            "Times √d_model, so that the vectors are about as large as the positions that are added next.",
            "E · √d_model",
            "3.4",
            compute=_scale,
            variants=(
                Variant(
                    "scale_embedding",
                    False,
                    "E",
                    "This configuration leaves the vectors as they are (scale_embedding = false).",
                ),
            ),
        ),
    },
    "output_projection": {
        "logits": TapEntry(
            "Logits",
            "One number for each entry of the target vocabulary, at each position.",
            "logits = x W_vocab",
            "3.4",
            compute=_logits,
            variants=(Variant("output_bias", True, "logits = x W_vocab + b"),),
        ),
        "probabilities": TapEntry(
            "Probabilities of the next token",
            "The softmax turns the logits into probabilities.",
            "P = softmax(logits)",
            "3.4",
            compute=lambda scope: scope.here("logits").softmax(-1),
        ),
    },
    "choice": {
        "next_ids": TapEntry(
            "Likeliest next token",
            "At each position, the token that greedy search would choose after the tokens before it.",
            "argmax P",
            "6.1",
            compute=lambda scope: scope.at("output_projection.probabilities").max(dim=-1)[1],
        ),
        "next_probabilities": TapEntry(
            "Its probability",
            "How sure the model is of that token.",
            "max P",
            "6.1",
            compute=lambda scope: scope.at("output_projection.probabilities").max(dim=-1)[0],
        ),
    },
}
