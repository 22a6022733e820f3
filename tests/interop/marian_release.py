"""A native Marian release with the weights of an imported run, written from Marian's side: what import_marian reads.

CTranslate2's own converter of Marian models reads it too.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoint import weights_of
from glassformer.interop.imported_model import EOS, OUT, OUT_BIAS, SRC, TGT, UNKNOWN, separate
from glassformer.interop.marian.model_file import SETTINGS
from glassformer.interop.marian.release import DECODER
from glassformer.interop.marian.weights import EXPECTED, PLACES_OF_NORMS, to_marian_name
from glassformer.model.layers import ACTIVATIONS
from glassformer.run_directory import LoadedRun
from glassformer.settings import ModelConfig
from glassformer.text.tokenizer.sentencepiece import UNREACHABLE
from glassformer.text.tokenizer.tokenizer import CONTROL_TOKENS, Tokenizer

MODEL, VOCABULARIES = "model.npz", ("source.vocab.yml", "target.vocab.yml")
_FIRST = 2  # the ids of <pad> and <s>, which Marian does not have, come before


def write_release(run: LoadedRun, directory: Path) -> None:
    """Write ``model.npz``, ``decoder.yml`` and the vocabularies of a run whose <s> has a row of zeros."""
    directory.mkdir(parents=True, exist_ok=True)
    np.savez(directory / MODEL, **_arrays(run))
    for name, tokenizer in zip(VOCABULARIES, (run.src_tokenizer, run.tgt_tokenizer), strict=True):
        (directory / name).write_text(_vocabulary(tokenizer), encoding="utf-8")
    (directory / DECODER).write_text(_decoder(run), encoding="utf-8")


def _arrays(run: LoadedRun) -> dict[str, Any]:
    config = run.config.model
    ours = separate(weights_of(run.model))
    src = ours.pop(SRC)
    tgt, out = ours.pop(TGT, src), ours.pop(OUT, None)
    bias = ours.pop(OUT_BIAS, torch.zeros(config.tgt_vocab))
    arrays = {
        to_marian_name(name, pre=config.norm == "pre"): _marian_array(name, value) for name, value in ours.items()
    }
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
        "transformer-decoder-autoreg": "self-attention",
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
