"""An imported run as a native Marian model again: the inverse of ``import_marian``.

Marian starts a target from zeros and has no padding. So only a run whose <s> has a row of zeros can go there, such as
one that came from there.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoint import weights_of
from glassformer.config import DecodeConfig, ModelConfig
from glassformer.errors import ConfigError
from glassformer.interop.imported_model import (
    EOS,
    OUT,
    OUT_BIAS,
    SRC,
    TGT,
    UNKNOWN,
    check_choices,
    describe_unwritten,
    separate,
)
from glassformer.interop.marian import ACTIVATION_OF, DECODER, EXPECTED, PLACES_OF_NORMS, SETTINGS, their_name
from glassformer.interop.new_directory import write_whole
from glassformer.model.layers import ACTIVATIONS
from glassformer.run_directory import LoadedRun
from glassformer.text.sentencepiece import UNREACHABLE
from glassformer.text.tokenizer import CONTROL_TOKENS, Tokenizer

MODEL, VOCABULARIES = "model.npz", ("source.vocab.yml", "target.vocab.yml")
_FIRST = 2  # the ids of <pad> and <s>, which Marian does not have, come before


def export_marian(run: LoadedRun, directory: Path) -> list[str]:
    """Write ``model.npz``, ``decoder.yml`` and the vocabularies; returns what a reader should know of it.

    Raises ``ConfigError`` that names what Marian does not have.
    """
    _check_exportable(run)
    with write_whole(directory, "--out") as temporary:
        np.savez(temporary / MODEL, **_arrays(run))
        for name, tokenizer in zip(VOCABULARIES, (run.src_tokenizer, run.tgt_tokenizer), strict=True):
            (temporary / name).write_text(_vocabulary(tokenizer), encoding="utf-8")
        (temporary / DECODER).write_text(_decoder(run), encoding="utf-8")
    note = "The .spm files that cut text into pieces are those of the release; they are not written again."
    return [note, *_search_notes(run.config.decode)]


def _check_exportable(run: LoadedRun) -> None:
    config = run.config.model
    width = config.d_model // config.n_heads
    known: dict[str, tuple[Any, ...]] = {
        "positions": ("sinusoidal",), "activation": tuple(ACTIVATION_OF.values()), "d_k": (width,), "d_v": (width,),
        "scale_embedding": (True,), "norm_eps": (1e-5,),
    }  # fmt: skip
    check_choices(config, known, "Marian", "It cannot be exported to marian.")
    if bool(run.model.tgt_embedding.tokens.weight[config.bos_id].any()):
        raise ConfigError(
            "model.bos_id: the row of <s> is not zero, but Marian starts a target from zeros. Use --to transformers "
            "or --to ctranslate2."
        )


def _arrays(run: LoadedRun) -> dict[str, Any]:
    config = run.config.model
    ours = separate(weights_of(run.model))
    src = ours.pop(SRC)
    tgt, out = ours.pop(TGT, src), ours.pop(OUT, None)
    bias = ours.pop(OUT_BIAS, torch.zeros(config.tgt_vocab))
    arrays = {their_name(name, pre=config.norm == "pre"): _marian_array(name, value) for name, value in ours.items()}
    for name in [name for name in arrays if name[-2:] in {"Wq", "Wk", "Wv", "Wo"}]:
        arrays.setdefault(f"{name[:-2]}b{name[-1]}", np.zeros((1, arrays[name].shape[1]), dtype=np.float32))
    arrays["decoder_ff_logit_out_b"] = bias[None, _FIRST:].numpy()
    if config.tie_embeddings == "all":
        arrays["Wemb"] = src[_FIRST:].numpy()
    else:
        arrays |= {"encoder_Wemb": src[_FIRST:].numpy(), "decoder_Wemb": tgt[_FIRST:].numpy()}
    if out is not None:
        arrays["decoder_ff_logit_out_W"] = out[_FIRST:].t().numpy()
    text = "".join(f"{name}: {_yaml(value)}\n" for name, value in _settings(config).items())
    arrays[SETTINGS] = np.frombuffer(text.encode() + b"\0", dtype=np.int8)
    return arrays


def _marian_array(name: str, value: Tensor) -> Any:
    """Marian's matrices are (into, out), its vectors rows."""
    return (value.t() if value.ndim == 2 else value[None]).contiguous().numpy()


def _settings(config: ModelConfig) -> dict[str, Any]:
    return {
        **EXPECTED, **PLACES_OF_NORMS[config.norm],
        "transformer-postprocess-emb": "d",
        "dim-emb": config.d_model, "transformer-heads": config.n_heads, "transformer-dim-ffn": config.d_ff,
        "enc-depth": config.n_encoder_layers, "dec-depth": config.n_decoder_layers,
        "dim-vocabs": [config.src_vocab - _FIRST, config.tgt_vocab - _FIRST],
        "transformer-ffn-activation": ACTIVATIONS[config.activation].marian_name,
        "transformer-dropout": config.dropout,
        "tied-embeddings-all": config.tie_embeddings == "all", "tied-embeddings": config.tie_embeddings == "target",
        "tied-embeddings-src": False, "transformer-guided-alignment-layer": "last",
    }  # fmt: skip


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _vocabulary(tokenizer: Tokenizer) -> str:
    """The entries from </s> on with their ids, as Marian writes them."""
    library = tokenizer.entries()
    names = [EOS, UNKNOWN, *(_entry(entry) for entry in library[len(CONTROL_TOKENS) :])]
    return "".join(f"{_quote(name)}: {number}\n" for number, name in enumerate(names))


def _entry(entry: str) -> str:
    name = entry.removeprefix(UNREACHABLE)
    return name[1:] if name.startswith("▁>>") and name.endswith("<<") else name


def _quote(name: str) -> str:
    """The name between quotes as both JSON and YAML read it, which takes more characters for the end of a line."""
    text = json.dumps(name, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _decoder(run: LoadedRun) -> str:
    options = run.config.decode
    normalize = options.length_penalty if options.length_norm == "power" else 0.0
    length = f"max-length-factor: {options.max_length_a}\n" if options.max_length_a else ""
    n_best = "n-best: true\n" if 1 < options.n_best == options.beam else ""
    return (
        f"models: [{MODEL}]\nvocabs: [{', '.join(VOCABULARIES)}]\nrelative-paths: true\n"
        f"beam-size: {options.beam}\nnormalize: {normalize}\n{length}{n_best}"
    )


def _search_notes(options: DecodeConfig) -> list[str]:
    """What of the run's search Marian does not have, by name."""
    written = {"max_length_a"} | ({"n_best"} if options.n_best == options.beam else set())
    neutral = {"early_stopping": "never", "max_length_b": max(1, math.ceil(options.max_length_a))}
    if options.length_penalty:
        neutral["length_norm"] = "power"
    return describe_unwritten(options, written, "Marian", **neutral)
