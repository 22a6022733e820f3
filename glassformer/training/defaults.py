"""What a training of somebody's own text takes where nothing is set, and why: said in one line when it starts.

The values are defaults of the configuration, except the vocabulary, which follows from the number of pairs. The
reasons are what has been measured; docs/results.md says what has not been measured yet.
"""

from glassformer.config import NAMED_MODELS, RunConfig, TrainConfig

# Why a default is what it is. The figures are from docs/results.md, Multi30k in minutes.
_REASONS = {
    "dropout": "against learning few pairs by heart",
    "vocabulary": "a sixth of the pairs, but from 512 to 8,000",
    "batches": "with 1,024, chrF was the same on 29,000 pairs",
    "BPE-dropout": "0.1 cost 2.9 BLEU in 20 minutes on 29,000 pairs",
}


def describe_settings(config: RunConfig, pairs: int) -> str:
    """The settings that matter most for few pairs, each with its reason if it is the default."""
    model, text, train = config.model, config.text, config.train
    is_default = {
        "dropout": model.dropout == NAMED_MODELS["tiny"]["dropout"],
        "vocabulary": text.tokenizer == "bpe" and not text.vocab_size,
        "batches": train.batch_tokens == TrainConfig().batch_tokens,
        "BPE-dropout": not text.bpe_dropout,
    }
    sides = "one vocabulary for both sides" if text.joint else "a vocabulary for each side"
    settings = {
        "layers": f"{model.n_encoder_layers} + {model.n_decoder_layers} layers of width {model.d_model}",
        "dropout": f"dropout {model.dropout:g}",
        "vocabulary": f"{sides}, {model.tgt_vocab:,} entries",
        "batches": f"batches of {train.batch_tokens:,} tokens",
        "BPE-dropout": f"BPE-dropout {text.bpe_dropout:g}" if text.tokenizer == "bpe" else "",
        "smoothing": f"label smoothing {train.label_smoothing:g}",
    }
    parts = [
        value + (f" ({_REASONS[name]})" if is_default.get(name) else "") for name, value in settings.items() if value
    ]
    return f"Chosen for {pairs:,} pairs: {'; '.join(parts)}. Set any of them with --set."
