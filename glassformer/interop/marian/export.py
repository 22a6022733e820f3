"""A run as a model of Marian: ``model.npz``, its ``decoder.yml``, and ``.spm`` or ``.yml`` vocabularies.

Marian starts each target from zeros, ours from the vector of <s>. That vector is taken from all target embeddings and
given back by the biases of the first sublayer: what it computes is the same, and so are all probabilities.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoint import weights_of
from glassformer.errors import ConfigError
from glassformer.interop.ctranslate2 import check_choices
from glassformer.interop.imported_model import MARIAN_EPS, NEVER, OUT, OUT_BIAS, SRC, TGT, separate
from glassformer.interop.marian.model_file import SETTINGS, write_npz
from glassformer.interop.marian.weights import (
    ACTIVATION_OF,
    EXPECTED,
    OUT_BIAS_NAME,
    OUT_NAME,
    PLACES_OF_NORMS,
    SIZES,
    SUBLAYERS,
    to_marian_name,
)
from glassformer.interop.new_directory import write_whole
from glassformer.interop.sentencepiece_export import to_sentencepiece
from glassformer.model.layers import ACTIVATIONS
from glassformer.run_directory import LoadedRun
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text.tokenizer.tokenizer import BOS_ID, EOS_ID, Tokenizer

MODEL = "model.npz"
_SEARCH = {"early_stopping": "shrink", "length_norm": "power", "allow_unk": False}


def export_marian(run: LoadedRun, directory: Path) -> list[str]:
    """Write the run to a new directory; returns what a reader should know of it.

    Raises ``ConfigError`` for a setting that Marian does not have, ``RunError`` and ``StorageError``.
    """
    config = run.config.model
    check_exportable(config)
    tokenizers = [run.src_tokenizer, run.tgt_tokenizer]
    names, sides = _names(tokenizers), [_vocabulary(tokenizer) for tokenizer in tokenizers]
    if config.tie_embeddings == "all" and names[0] != names[1]:
        raise ConfigError("model.tie_embeddings: found 'all' with two tokenizers, but Marian has one matrix for one.")
    rows = [ids for _, ids in sides]
    with write_whole(directory, "--out") as temporary:
        for name, (data, _) in zip(names, sides, strict=True):
            (temporary / name).write_bytes(data)
        write_npz(temporary / MODEL, {**_arrays(run, rows), SETTINGS: _settings(config, list(map(len, rows)))})
        (temporary / f"{MODEL}.decoder.yml").write_text(_decoder(run.config.decode, names), encoding="utf-8")
    return _notes(run)


def check_exportable(config: ModelConfig) -> None:
    """Raise ``ConfigError`` for the first setting that Marian does not have."""
    width = config.d_model // config.n_heads
    known: dict[str, tuple[Any, ...]] = {
        "positions": ("sinusoidal",), "sinusoid": ("tensor2tensor",), "d_k": (width,), "d_v": (width,),
        "d_model": (config.n_heads * width,), "scale_embedding": (True,), "activation": tuple(ACTIVATION_OF.values()),
    }  # fmt: skip
    check_choices(config, known, "Marian", "Train with that one to export it to Marian.")


def _names(tokenizers: list[Tokenizer]) -> list[str]:
    src, tgt = (".yml" if tokenizer.kind == "whitespace" else ".spm" for tokenizer in tokenizers)
    if tokenizers[0].digest == tokenizers[1].digest:
        return [f"vocab{src}"] * 2
    return [f"source.vocab{src}", f"target.vocab{tgt}"]


def _vocabulary(tokenizer: Tokenizer) -> tuple[bytes, list[int]]:
    """A vocabulary's file, and our id of each of its entries."""
    if tokenizer.kind != "whitespace":
        made = to_sentencepiece(tokenizer, tokenizer)
        return made.data, made.source_ids
    ids = list(range(EOS_ID, tokenizer.size))
    lines = [f"{_quote(tokenizer.entry(number))}: {place}\n" for place, number in enumerate(ids)]
    return "".join(lines).encode(), ids


def _quote(name: str) -> str:
    """The name between quotes as both JSON and YAML read it, which takes more characters for the end of a line."""
    text = json.dumps(name, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _arrays(run: LoadedRun, rows: list[list[int]]) -> dict[str, Any]:
    config = run.config.model
    ours = separate(_with_biases(weights_of(run.model), config))
    _move_start(ours, config)
    src, bias = ours.pop(SRC), ours.pop(OUT_BIAS)
    tgt = ours.pop(TGT, src)
    bias[[config.pad_id, BOS_ID]] = NEVER
    bias = bias[rows[1]]
    seen: set[int] = set()
    for place, number in enumerate(rows[1]):
        if number in seen:
            bias[place] = NEVER  # another spelling of an entry, which only sources have
        seen.add(number)
    found = {OUT_BIAS_NAME: bias[None]}
    if OUT in ours:
        found[OUT_NAME] = ours.pop(OUT)[rows[1]].t()
    if config.tie_embeddings == "all":
        found["Wemb"] = src[rows[0]]
    else:
        found |= {"encoder_Wemb": src[rows[0]], "decoder_Wemb": tgt[rows[1]]}
    for name, value in ours.items():
        found[to_marian_name(name, pre=config.norm == "pre")] = value.t() if value.ndim == 2 else value[None]
    return {name: value.contiguous().numpy() for name, value in found.items()}


def _with_biases(weights: dict[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """The weights with zeros for the biases that Marian has and the run has not."""
    found = {name: value.detach().float().clone() for name, value in weights.items()}
    for name in [name for name in found if ".w_" in name and "ssru" not in name and name.endswith("weight")]:
        found.setdefault(name.replace("weight", "bias"), torch.zeros(len(found[name])))
    found.setdefault(OUT_BIAS, torch.zeros(config.tgt_vocab))
    return found


def _move_start(weights: dict[str, Tensor], config: ModelConfig) -> None:
    """Take the vector of <s> from the target's embeddings and add it, scaled, behind them; see the module."""
    embedding = weights[TGT if TGT in weights else SRC]
    start = embedding[BOS_ID].clone()
    if not start.any():
        return
    if config.norm == "pre" or config.autoregressive_sublayer == "ssru":
        raise ConfigError(
            "the vector of <s>: found one that is not zero, but Marian starts from zeros. Only a post-norm model "
            "with self-attention can do without: train with model.norm = post."
        )
    embedding -= start
    added = start * config.d_model**0.5
    for stack in ("decoder", "encoder") if config.tie_embeddings == "all" else ("decoder",):
        layer = f"{stack}.layers.0.self_attention"
        for part in ("w_q", "w_k", "w_v"):
            weights[f"{layer}.{part}.bias"] += weights[f"{layer}.{part}.weight"] @ added
        weights[f"{layer}.w_o.bias"] += added


def _settings(config: ModelConfig, sizes: list[int]) -> Any:
    values = {
        **EXPECTED, **PLACES_OF_NORMS[config.norm], "transformer-postprocess-emb": "d",
        **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()}, "dim-vocabs": sizes,
        "transformer-ffn-activation": ACTIVATIONS[config.activation].marian_name,
        "transformer-decoder-autoreg": {ours: theirs for theirs, ours in SUBLAYERS.items()}[
            config.autoregressive_sublayer
        ],
        "dec-cell": "ssru" if config.autoregressive_sublayer == "ssru" else "gru",
        "tied-embeddings-all": config.tie_embeddings == "all", "tied-embeddings": config.tie_embeddings == "target",
        "tied-embeddings-src": False, "transformer-tied-layers": [], "transformer-guided-alignment-layer": "last",
        "transformer-decoder-dim-ffn": 0, "transformer-decoder-ffn-depth": 0, "version": "v1.12.42",
    }  # fmt: skip
    text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())
    return np.frombuffer(text.encode() + b"\0", dtype=np.int8)


def _decoder(options: DecodeConfig, names: list[str]) -> str:
    values = {
        "relative-paths": True, "models": [MODEL], "vocabs": names, "beam-size": options.beam,
        "normalize": options.length_penalty if options.length_norm == "power" else 0.0,
        "word-penalty": options.word_penalty, "allow-unk": options.allow_unk,
    }  # fmt: skip
    if options.max_length_a:
        values["max-length-factor"] = options.max_length_a
    if 1 < options.n_best == options.beam:
        values["n-best"] = True
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())


def _notes(run: LoadedRun) -> list[str]:
    notes, eps = [], run.config.model.norm_eps
    if eps != MARIAN_EPS:
        notes.append(f"model.norm_eps is {eps} here and {MARIAN_EPS} there, which moves log-probabilities a little.")
    options = run.config.decode
    other = [f"decode.{name} = {value}" for name, value in _SEARCH.items() if getattr(options, name) != value]
    if other:
        notes.append(f"Marian searches with {', '.join(other)}. For the same outputs set that here.")
    return notes
