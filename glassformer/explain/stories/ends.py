"""The stories of both ends: text, masks and embeddings going in; logits, probabilities and the choice coming out."""

from glassformer.explain.stories.entry import Story, Table, Variant

_TEXT: Table = {
    **{
        f"{side}_{name}": Story(f"{whose} {title}", sentence, equation, "5.1")
        for side, whose in (("src", "Source's"), ("tgt", "Target's"))
        for name, title, sentence, equation in (
            (
                "normalised",
                "normal form",
                "One way of writing for what looks the same (Unicode NFC); here, how many characters that is.",
                "text → NFC(text)",
            ),
            (
                "pre_tokens",
                "pre-tokens",
                "The pieces that are spelled each on its own; here, how many.",
                "text → pre-tokens",
            ),
            (
                "spelling",
                "spelling",
                "The merges or look-ups that make tokens of each pre-token; here, how many.",
                "pre-token → tokens",
            ),
        )
    },
    "src_tokens": Story(
        "Source tokens",
        "The tokenizer cuts each sentence into tokens; </s> ends it, <pad> fills it up to the longest.",
        "text → tokens",
        "5.1",
    ),
    "src_ids": Story("Source ids", "Each token's number in the source vocabulary.", "tokens → ids", "5.1"),
    "tgt_in_ids": Story(
        "Target ids, shifted right",
        "What the decoder is given: <s>, then the target, so that each position sees only what came before.",
        "tgt_in = <s> t₁ … tₙ",
        "3.1",
    ),
    "tgt_out_ids": Story(
        "Target ids to predict",
        "What each position is to say: the target, then </s>; one place ahead of the decoder's input.",
        "tgt_out = t₁ … tₙ </s>",
        "3.1",
    ),
    "ntokens": Story(
        "Tokens to predict",
        "Over these the training loss is averaged; padding does not count.",
        "Σ tgt_out ≠ <pad>",
        "5.1",
    ),
}

_MODEL: Table = {
    "src_mask": Story(
        "Source mask",
        "True where the source holds a token, False where it is padding; the same for all heads and queries.",
        "src_ids ≠ <pad>",
        "3.2.3",
    ),
    "causal_mask": Story(
        "Causal mask", "True where a target position may look: at itself and before.", "key ≤ query", "3.2.3"
    ),
}

_EMBEDDING: Table = {
    "embedded": Story("Token vectors", "Each id takes its row of the embedding matrix.", "E = W_emb[ids]", "3.4"),
    "scaled": Story(
        "Scaled token vectors",
        "Times √d_model, so that the vectors are of a size with the positions added next.",
        "E · √d_model",
        "3.4",
    ),
    "position_vectors": Story(
        "Position vectors",
        "Sines and cosines of many wavelengths: a different pattern for each position, the same for each sentence.",
        "PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(…)",
        "3.5",
    ),
    "with_positions": Story(
        "Token plus position", "What it is and where it stands, in one vector.", "x = E · √d_model + PE", "3.5"
    ),
}

_OUTPUT: Table = {
    "logits": Story(
        "Logits", "One number for each entry of the target vocabulary, at each position.", "logits = x W_vocab", "3.4"
    ),
    "probabilities": Story(
        "Probabilities of the next token", "Softmax makes shares of the logits.", "P = softmax(logits)", "3.4"
    ),
}

_CHOICE: Table = {
    "next_ids": Story(
        "Most probable next token",
        "At each position, the token that greedy search would take after what stands before.",
        "argmax P",
        "6.1",
    ),
    "next_probabilities": Story("Its probability", "How sure the model is of that token.", "max P", "6.1"),
}

ENDS: dict[str, Table] = {
    "text": _TEXT,
    "model": _MODEL,
    "embedding": _EMBEDDING,
    "output_projection": _OUTPUT,
    "choice": _CHOICE,
}

ENDS_VARIANTS: tuple[Variant, ...] = (
    Variant(
        ("embedding",),
        "scaled",
        "scale_embedding",
        False,
        "E",
        "This configuration leaves the vectors as they are (scale_embedding = false).",
    ),
    Variant(
        ("embedding",),
        "position_vectors",
        "positions",
        "learned",
        "PE = W_pos[pos]",
        "A learned vector for each position, the same for each sentence.",
    ),
    Variant(("embedding",), "with_positions", "scale_embedding", False, "x = E + PE"),
    Variant(("output_projection",), "logits", "output_bias", True, "logits = x W_vocab + b"),
)
