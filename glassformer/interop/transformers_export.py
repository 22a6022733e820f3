"""A run for Hugging Face: post-norm as MarianMT, pre-norm as Pegasus.

Sines come first; targets start with <s>; no output has <pad> or <s>.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoint import weights_of
from glassformer.interop.ctranslate2 import check_choices
from glassformer.interop.generation_config import FILE, search_notes, search_settings
from glassformer.interop.imported_model import MARIAN_EPS, OUT, OUT_BIAS, SRC, TGT, separate
from glassformer.interop.new_directory import write_whole
from glassformer.interop.transformers import (
    ACTIVATION_OF,
    ARCHITECTURE_OF,
    WEIGHTS_FILE,
    to_transformers_name,
    with_end,
)
from glassformer.model.layers import ACTIVATIONS
from glassformer.model.transformer import Transformer
from glassformer.run_directory import LoadedRun
from glassformer.settings import ModelConfig
from glassformer.text.tokenizer.tokenizer import CONTROL_TOKENS, EOS_ID, UNK_ID

_EPS = 1e-5  # of its layer norms


def export_transformers(run: LoadedRun, directory: Path) -> list[str]:
    """Write the run to a new directory; or ``ConfigError``."""
    check_exportable(run.config.model)
    model, tokenizers = run.config.model, (run.src_tokenizer, run.tgt_tokenizer)
    with write_whole(directory, "--out") as temporary:
        save_file(export_weights(run.model), temporary / WEIGHTS_FILE, {"format": "pt"})
        _write_json(temporary / "config.json", model_settings(model))
        _write_json(temporary / FILE, search_settings(run.config.decode, model, padding_of(model)))
        _write_tokenizer(temporary, tokenizers[0].json, model)
        if tokenizers[0].digest != tokenizers[1].digest:
            (temporary / "target").mkdir()
            _write_tokenizer(temporary / "target", tokenizers[1].json, model)
    return _notes(run)


def check_exportable(config: ModelConfig) -> None:
    """Raise ``ConfigError`` for settings of neither MarianMT nor Pegasus."""
    target = ARCHITECTURE_OF[config.norm]
    width = config.d_model // config.n_heads
    known: dict[str, tuple[Any, ...]] = {
        "positions": ("sinusoidal",), "norm_eps": (_EPS, MARIAN_EPS), "d_k": (width,), "d_v": (width,),
        "tie_embeddings": ("all", "target", "none") if config.norm == "post" else ("all",),
        "d_model": (config.n_heads * width,), "pad_id": (0,), "bos_id": (1,), "eos_id": (2,),
        "activation": tuple(ACTIVATION_OF.values()), "autoregressive_sublayer": ("self_attention",),
    }  # fmt: skip
    check_choices(config, known, f"{target}, which it would become,", "It cannot be exported to transformers.")


def export_weights(model: Transformer) -> dict[str, Tensor]:
    """Weights by name and order there; missing biases are zeros."""
    config = model.config
    ours = separate(weights_of(model))
    src = ours.pop(SRC)
    tgt = ours.pop(TGT, src)
    out, bias = ours.pop(OUT, None), ours.pop(OUT_BIAS, torch.zeros(config.tgt_vocab))
    theirs = {to_transformers_name(name): value for name, value in ours.items()}
    for name in [name for name in theirs if name.endswith("_proj.weight")]:
        theirs.setdefault(name.replace("weight", "bias"), torch.zeros(len(theirs[name])))
    theirs["final_logits_bias"] = bias[None]
    if config.tie_embeddings == "all":
        theirs["model.shared.weight"] = src
    else:
        theirs |= {"model.encoder.embed_tokens.weight": src, "model.decoder.embed_tokens.weight": tgt}
    if out is not None:
        theirs["lm_head.weight"] = out
    if config.norm == "pre" or config.sinusoid != "paper":
        table = model.src_embedding.positions.table  # type: ignore[union-attr]  # checked to be sinusoidal
        sines_first = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
        theirs |= {f"model.{side}.embed_positions.weight": sines_first for side in ("encoder", "decoder")}
    return {name: value.contiguous().clone() for name, value in theirs.items()}


def _write_json(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_tokenizer(directory: Path, text: str, config: ModelConfig) -> None:
    (directory / "tokenizer.json").write_text(with_end(text), encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config.max_length,
        "pad_token": CONTROL_TOKENS[padding_of(config)], "eos_token": CONTROL_TOKENS[EOS_ID],
        "unk_token": CONTROL_TOKENS[UNK_ID], "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a typed </s> is text
    }  # fmt: skip
    _write_json(directory / "tokenizer_config.json", settings)


def padding_of(config: ModelConfig) -> int:
    """The padding id there; Pegasus starts targets with it."""
    return config.bos_id if config.norm == "pre" else config.pad_id


def model_settings(config: ModelConfig) -> dict[str, Any]:
    """Such a model's ``config.json``."""
    return {
        "architectures": [ARCHITECTURE_OF[config.norm]],
        "model_type": "marian" if config.norm == "post" else "pegasus",
        "is_encoder_decoder": True, "vocab_size": config.src_vocab, "decoder_vocab_size": config.tgt_vocab,
        "share_encoder_decoder_embeddings": config.tie_embeddings == "all",
        "tie_word_embeddings": config.tie_embeddings != "none", "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers, "decoder_layers": config.n_decoder_layers,
        "encoder_attention_heads": config.n_heads, "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff, "decoder_ffn_dim": config.d_ff,
        "activation_function": ACTIVATIONS[config.activation].transformers_names[0],
        "max_position_embeddings": config.max_length,
        "scale_embedding": config.scale_embedding, "dropout": config.dropout, "attention_dropout": 0.0,
        "activation_dropout": 0.0, "num_hidden_layers": config.n_encoder_layers, "static_position_embeddings": True,
        "normalize_before": config.norm == "pre", "normalize_embedding": False,
        "add_final_layer_norm": config.norm == "pre",
        "pad_token_id": padding_of(config), "bos_token_id": config.bos_id, "eos_token_id": config.eos_id,
        "decoder_start_token_id": config.bos_id, "forced_eos_token_id": None, "dtype": "float32",
    }  # fmt: skip


def _notes(run: LoadedRun) -> list[str]:
    notes = []
    if run.config.model.norm_eps != _EPS:
        notes.append(
            f"model.norm_eps is {run.config.model.norm_eps} here and {_EPS} there, which moves "
            "log-probabilities a little."
        )
    if run.config.decode.length_norm != "power" and run.config.decode.length_penalty:
        notes.append(
            "Hugging Face divides scores by length^α and has no other way. For the same outputs set "
            "decode.length_norm = power here."
        )
    if run.tgt_tokenizer.digest != run.src_tokenizer.digest:
        notes.append("The target's tokenizer is in target/; pipeline() knows only the source's.")
    return [*notes, *search_notes(run.config.decode)]
