"""What a training of somebody's own text takes where nothing is set, and why: said in one line when it starts.

The values are defaults of the configuration, except the vocabulary, which follows from the number of pairs; the
reasons are what has been measured (docs/results.md says what has not been measured yet).
"""

from glassformer.config import NAMED_MODELS, RunConfig, TrainConfig

_TINY = NAMED_MODELS["tiny"]
# Why a default is what it is.
_REASONS = {
    "dropout": "against learning few pairs by heart",
    "vocabulary": "a sixth of the pairs, but from 512 to 8,000",
    "bpe_dropout": "0.1 cost 2.9 BLEU in 20 minutes on 29,000 pairs",
    "batch": "with 1,024, chrF was the same on 29,000 pairs",
}


def describe_settings(config: RunConfig, pairs: int) -> str:
    """The settings that matter most for few pairs, each with the reason if it is the default."""
    model, text, train = config.model, config.text, config.train
    usual = {
        "dropout": model.dropout == _TINY["dropout"],
        "vocabulary": not text.vocab_size,
        "bpe_dropout": text.tokenizer == "bpe" and not text.bpe_dropout,
        "batch": train.batch_tokens == TrainConfig().batch_tokens,
    }
    why = {name: f" ({reason})" if usual[name] else "" for name, reason in _REASONS.items()}
    vocabulary = "one vocabulary for both sides" if text.joint else "a vocabulary for each side"
    parts = [
        f"{model.n_encoder_layers} + {model.n_decoder_layers} layers of width {model.d_model}",
        f"dropout {model.dropout:g}{why['dropout']}",
        f"{vocabulary}, {model.tgt_vocab:,} entries{why['vocabulary']}",
        f"batches of {train.batch_tokens:,} tokens{why['batch']}",
        f"BPE-dropout {text.bpe_dropout:g}{why['bpe_dropout']}",
        f"label smoothing {train.label_smoothing:g}",
    ]
    return f"Chosen for {pairs:,} pairs: {'; '.join(parts)}. Set any of them with --set."
