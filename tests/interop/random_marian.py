"""Small MarianMT directories and Marian releases with random weights, made by the programs that own these formats."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.interop.imported_model import ImportedModel
from glassformer.model import Transformer
from glassformer.settings import ModelConfig, RunConfig
from glassformer.text.tokenizer.tokenizer import Tokenizer

transformers = pytest.importorskip("transformers")
sentencepiece = pytest.importorskip("sentencepiece")
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

SYLLABLES = ["ba", "do", "ki", "lu", "me", "no", "ra", "si", "tu", "we", "zo", "schl", "ße", "ü", "é", "'s"]
SIZES = {
    "d_model": 24, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 3, "decoder_attention_heads": 3,
    "encoder_ffn_dim": 31, "decoder_ffn_dim": 31, "max_position_embeddings": 60,
}  # fmt: skip


def sentences(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 3))) for _ in range(150)]
    return [" ".join(chance.choices(words, k=chance.randint(2, 9))).capitalize() + "." for _ in range(count)]


@cache
def spm_bytes(seed: int, size: int = 120) -> bytes:
    import io

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(400, seed)), model_writer=model, vocab_size=size, minloglevel=2
    )
    return model.getvalue()


def pieces(data: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    places = range(processor.get_piece_size())
    return [
        processor.id_to_piece(at) for at in places if not processor.is_control(at) and not processor.is_unknown(at)
    ]


def joint_vocabulary(size: int = 0, missing: int = 3) -> list[str]:
    """The pieces of both sides as opus-mt orders them, with others up to ``size``; the last of the source are missing."""
    found = [*pieces(spm_bytes(1))[: -missing or None], *pieces(spm_bytes(2))]
    entries = ["</s>", "<unk>", *dict.fromkeys(found), ">>deu<<"]
    return [*entries, *(f"▁{number}" for number in range(size - len(entries) - 1)), "<pad>"]


def write_spm(directory: Path) -> None:
    for name, seed in (("source", 1), ("target", 2)):
        (directory / f"{name}.spm").write_bytes(spm_bytes(seed))


def write_marian(directory: Path, *, seed: int = 1, size: int = 0, **changes: Any) -> Any:
    """A MarianMT directory as ``save_pretrained`` writes it, and its model."""
    entries = joint_vocabulary(size)
    pad = len(entries) - 1
    settings = {
        **SIZES, "vocab_size": len(entries), "pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad,
        "forced_eos_token_id": 0, "activation_function": "swish", "scale_embedding": True, "dropout": 0.1, **changes,
    }  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(transformers.MarianConfig(**settings)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.normal_(std=0.3)
            if name.endswith(("shared.weight", "embed_tokens.weight")):
                weight[-1] = 0.0
        model.final_logits_bias.normal_()
    model.generation_config.bad_words_ids = [[pad]]
    model.generation_config.num_beams = 3
    model.generation_config.max_length = 20
    model.save_pretrained(directory)
    (directory / "vocab.json").write_text(json.dumps({entry: at for at, entry in enumerate(entries)}))
    write_spm(directory)
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "eng", "target_lang": "deu", "tokenizer_class": "MarianTokenizer"})
    )
    return model


def write_run(directory: Path, seed: int = 1, joint: bool = True, lowercase: bool = False, **changes: Any) -> None:
    """A run with random weights and a trained BPE tokenizer for both sides, or one for each."""
    torch.manual_seed(seed)
    src = Tokenizer.train("bpe", sentences(300, 1), 300, lowercase=lowercase)
    tgt = src if joint else Tokenizer.train("bpe", sentences(300, 2), 290, lowercase=lowercase)
    sizes = {
        "src_vocab": src.size, "tgt_vocab": tgt.size, "d_model": 24, "n_heads": 3, "d_ff": 31, "n_encoder_layers": 2,
        "n_decoder_layers": 1, "max_length": 60,
    }  # fmt: skip
    model = ModelConfig(**{**sizes, **changes})
    made = Transformer(model)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    config = RunConfig.from_mapping(
        {
            "model": model.to_mapping(),
            "text": {"joint": joint, "lowercase": lowercase},
            "decode": {
                "length_norm": "power", "early_stopping": "heuristic", "max_length_a": 0, "max_length_b": 20,
            },
        }
    )  # fmt: skip
    weights = {name: weight.detach() for name, weight in made.named_parameters()}
    ImportedModel(config, weights, (src, tgt)).write(directory)
