"""A native Marian release in: ``decoder.yml``, ``.npz``, vocabularies and ``.spm`` files, in a directory or a zip.

Marian starts a target from a vector of zeros and has no padding in its vocabulary: ours gets a <pad> and an <s> whose
rows are zero. Its own sinusoids are read as those of its converters, with the paper's frequencies, all sines first.
"""

import importlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.config import ModelConfig, RunConfig
from glassformer.errors import CheckpointError, ConfigError, RunError, TokenizerError
from glassformer.files import open_to_read
from glassformer.interop.archives import open_archive, read_arrays, read_member
from glassformer.interop.imported_model import (
    OUT,
    OUT_BIAS,
    SRC,
    TGT,
    ImportedModel,
    Vocabulary,
    check_weights,
    order_weights,
    read_settings,
)
from glassformer.interop.transformers import order_entries
from glassformer.model.transformer import Transformer
from glassformer.text.sentencepiece import SentencePieceModel
from glassformer.text.tokenizer import CONTROL_TOKENS, Tokenizer

SETTINGS, DECODER = "special:model.yml", "decoder.yml"
MAX_LENGTH = 1024  # positions; Marian itself has no limit
EOS, UNKNOWN = CONTROL_TOKENS[2:]
LARGEST_TEXT = 64 * 2**20  # bytes of a vocabulary or of settings
# What each of our parts is called there, and the attention's and the norm's own parts.
BLOCKS = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
NORMS = {"self_attention": "self_Wo", "cross_attention": "context_Wo", "feed_forward": "ffn_ffn"}
_ACTIVATIONS = {"relu": "relu", "swish": "swish"}
# Our names of sizes, and theirs.
_SIZES = {
    "d_model": "dim-emb", "n_heads": "transformer-heads", "d_ff": "transformer-dim-ffn",
    "n_encoder_layers": "enc-depth", "n_decoder_layers": "dec-depth",
}  # fmt: skip
EXPECTED = {
    "type": "transformer", "transformer-decoder-autoreg": "self-attention", "transformer-no-projection": False,
    "transformer-train-position-embeddings": False, "transformer-ffn-depth": 2, "lemma-dim-emb": 0,
}  # fmt: skip
PLACES_OF_NORMS = {
    "post": {"transformer-preprocess": "", "transformer-postprocess": "dan"},
    "pre": {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"},
}


def is_marian(place: Path) -> bool:
    """Whether this is a release of Marian: a zip file, or a directory with a decoder.yml."""
    return place.suffix == ".zip" if place.is_file() else (place / DECODER).is_file()


def import_marian(place: Path) -> ImportedModel:
    """Read a release; ``ConfigError`` for a model that cannot be ours, ``CheckpointError`` for damaged files."""
    if place.is_dir():
        return _import_directory(place, place)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        with open_archive(place) as archive:
            for name in archive.namelist():
                if name.endswith((".npz", ".yml", ".spm")):
                    (directory / PurePosixPath(name).name).write_bytes(read_member(archive, name))
        if not (directory / DECODER).is_file():
            raise RunError(f"{place}: holds no {DECODER}, expected a release of Marian.")
        return _import_directory(directory, place)


def _import_directory(directory: Path, place: Path) -> ImportedModel:
    decoder = read_yaml(_read(directory / DECODER), f"{place}/{DECODER}")
    paths = {name: _files(decoder, name, directory, place) for name in ("models", "vocabs")}
    arrays = read_arrays(paths["models"][0])
    where = f"{place}/{paths['models'][0].name}"
    if SETTINGS not in arrays:
        raise CheckpointError(f"{where}: has no {SETTINGS}, expected the settings of a Marian model.")
    settings = read_yaml(arrays[SETTINGS].tobytes().rstrip(b"\0").decode(), where)
    entries = [read_vocabulary(path) for path in (paths["vocabs"][0], paths["vocabs"][-1])]
    spm = [SentencePieceModel.read(_spm(directory, side, place)) for side in ("source", "target")]
    src, tgt = _vocabularies(entries, spm, place)
    model = _model_settings(settings, where) | {"src_vocab": len(src.rows()), "tgt_vocab": len(tgt.rows())}
    tie, named = _by_our_names(arrays, ModelConfig(**model, tie_embeddings="none"), where)
    weights = order_weights(named, src, tgt, tie, where)
    model |= {"tie_embeddings": tie, "attention_bias": any(name.endswith("w_o.bias") for name in weights)}
    tokenizers = [Tokenizer(one.tokenizer_json(side.names())) for one, side in zip(spm, (src, tgt), strict=True)]
    joint = tie == "all" or tokenizers[0].digest == tokenizers[1].digest
    config = RunConfig.from_mapping(
        {
            "model": model,
            "text": {"tokenizer": "unigram", "vocab_size": model["src_vocab"], "joint": joint},
            "decode": _decode_settings(decoder),
        }
    )
    check_weights(config.model, weights, where)
    source = {"path": str(place), "architecture": "Marian", "starts_with": "a vector of zeros"}
    return ImportedModel(config, weights, (tokenizers[0], tokenizers[1]), source)


def _read(path: Path) -> str:
    try:
        with open_to_read(path) as file:
            data = file.read(LARGEST_TEXT + 1)
        if len(data) > LARGEST_TEXT:
            raise CheckpointError(f"{path}: has more than {LARGEST_TEXT:,} bytes.")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.") from error


def read_yaml(text: str, where: str) -> dict[str, Any]:
    """The settings in a YAML text; ``CheckpointError`` if it holds none, ``RunError`` without ``pyyaml``."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise RunError(
            f"{where}: is YAML, and pyyaml is not installed. Install it: pip install 'glassformer[import]'"
        ) from error
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CheckpointError(f"{where}: cannot be read as YAML: {str(error).splitlines()[0]}.") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{where}: found {type(values).__name__}, expected settings.")
    return values


def _files(decoder: Mapping[str, Any], key: str, directory: Path, place: Path) -> list[Path]:
    """The files that decoder.yml names; only their last names count, so that none leads out of the release."""
    names = decoder.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"{place}/{DECODER}: {key}: found {names!r}, expected a list of files.")
    if key == "models" and len(names) > 1:
        raise ConfigError(f"{place}/{DECODER}: models: found an ensemble of {len(names)}, expected one model.")
    paths = [directory / PurePosixPath(name).name for name in names]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise RunError(f"{place}: has no {missing[0]}, which its {DECODER} names under {key}. Put it there.")
    return paths


def _spm(directory: Path, side: str, place: Path) -> Path:
    path = directory / f"{side}.spm"
    if not path.is_file():
        raise RunError(f"{place}: has no {path.name}, expected source.spm and target.spm next to {DECODER}.")
    return path


def read_vocabulary(path: Path) -> list[str]:
    """The entries of a vocab.yml in the order of their ids: one ``"entry": id`` a line."""
    found: dict[str, Any] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        entry, colon, digits = line.rpartition(":")
        if not line.strip():
            continue
        try:
            name = json.loads(entry) if entry.startswith('"') else _read_plain(entry)
            if not colon or name in found:
                raise ValueError("an entry is there twice" if colon else "found no colon")
            found[name] = int(digits)
        except ValueError as error:
            raise TokenizerError(f'{path}:{number}: found {line[:40]!r}, expected "entry": id ({error}).') from error
    return order_entries(found, str(path))


def _read_plain(entry: str) -> str:
    return entry[1:-1].replace("''", "'") if entry.startswith("'") and entry.endswith("'") else entry


def _vocabularies(
    entries: list[list[str]], spm: list[SentencePieceModel], place: Path
) -> tuple[Vocabulary, Vocabulary]:
    """With a <pad> after the last entry, which is also what a target starts with."""
    for side in entries:
        missing = [name for name in (EOS, UNKNOWN) if name not in side]
        if missing:
            raise TokenizerError(f"{place}: the vocabulary has no {missing[0]}, expected {EOS} and {UNKNOWN}.")
    known, pads = set(entries[0]), [len(side) for side in entries]
    extra = tuple(piece for piece in spm[0].scores if piece not in known and piece not in CONTROL_TOKENS)
    joint = entries[0] == entries[1]
    src, tgt = (
        Vocabulary([*side, CONTROL_TOKENS[0]], pad, pad, side.index(EOS), side.index(UNKNOWN), more, adds_pad=True)
        for side, pad, more in zip(entries, pads, (extra, extra if joint else ()), strict=True)
    )
    return src, tgt


def _model_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The section ``model`` without vocabularies; ``ConfigError`` names what cannot be ours."""
    norm = "pre" if settings.get("transformer-preprocess") == "n" else "post"
    expected = EXPECTED | PLACES_OF_NORMS[norm]
    for name, value in expected.items():
        if settings.get(name, value) != value:
            raise ConfigError(f"{where}: {name}: found {settings[name]!r}, expected {value!r}.")
    if "n" in settings.get("transformer-postprocess-emb", "d"):
        raise ConfigError(f"{where}: transformer-postprocess-emb: found a norm after the embeddings, expected 'd'.")
    activation = settings.get("transformer-ffn-activation", "swish")
    if activation not in _ACTIVATIONS:
        raise ConfigError(
            f"{where}: transformer-ffn-activation: found {activation!r}, expected one of {', '.join(_ACTIVATIONS)}."
        )
    return {
        **read_settings(settings, _SIZES, where, "transformer"), "max_length": MAX_LENGTH, "norm": norm,
        "activation": activation, "attention_bias": True, "output_bias": True,
        "dropout": settings.get("transformer-dropout", 0.1),
    }  # fmt: skip


def their_name(ours: str, *, pre: bool) -> str:
    """What a weight of an encoder or decoder is called there."""
    stack, *middle, part, leaf = ours.split(".")
    if part == "final_norm":
        return f"{stack}_top_ln_{_norm_part(leaf)}"
    _, number, block = middle[:3]
    scope = f"{stack}_l{int(number) + 1}"
    if part == "norm":
        end = f"ln_{_norm_part(leaf)}{'_pre' if pre else ''}"
        return f"{scope}_{NORMS[block.removesuffix('_add_norm')]}_{end}"
    return f"{scope}_{BLOCKS[block]}_{'W' if leaf == 'weight' else 'b'}{part.removeprefix('w_')}"


def _norm_part(leaf: str) -> str:
    return "scale" if leaf == "gain" else "bias"


def parameter_names(config: ModelConfig) -> list[str]:
    """Our names of the weights of both stacks."""
    with torch.device("meta"):
        return [name for name, _ in Transformer(config).named_parameters() if name.startswith(("encoder", "decoder"))]


def _by_our_names(arrays: Mapping[str, Any], config: ModelConfig, where: str) -> tuple[str, dict[str, Tensor]]:
    """Which matrices are one, and the weights by our names, with the zero rows of <pad>."""
    embeddings = [arrays.get(f"{side}_Wemb", arrays.get("Wemb")) for side in ("encoder", "decoder")]
    if any(matrix is None for matrix in embeddings):
        raise CheckpointError(f"{where}: has no Wemb, expected the embeddings.")
    src, tgt = (_add_row(_tensor(matrix)) for matrix in embeddings)
    out = arrays.get("decoder_ff_logit_out_Wt")
    if out is None and "decoder_ff_logit_out_W" in arrays:
        out = arrays["decoder_ff_logit_out_W"].T
    bias = arrays.get("decoder_ff_logit_out_b")
    tie = "none" if out is not None else "all" if "Wemb" in arrays else "target"
    named = {SRC: src, TGT: tgt, OUT: tgt if out is None else _add_row(_tensor(out))}
    named[OUT_BIAS] = torch.zeros(len(tgt)) if bias is None else torch.cat([_tensor(bias).flatten(), torch.zeros(1)])
    for ours in parameter_names(config):
        theirs = their_name(ours, pre=config.norm == "pre")
        if theirs not in arrays:
            raise CheckpointError(f"{where}: has no {theirs}, expected a weight for {ours}.")
        value = _tensor(arrays[theirs])
        named[ours] = value.t().contiguous() if ours.endswith("weight") else value.flatten()
    return tie, named


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=np.float32))


def _add_row(matrix: Tensor) -> Tensor:
    return torch.cat([matrix, torch.zeros(1, matrix.shape[1])])


def _decode_settings(decoder: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``decode`` of decoder.yml: Marian divides by length^normalize."""
    normalize = decoder.get("normalize") or 0.0
    return {
        "beam": decoder.get("beam-size") or 12, "length_norm": "power", "length_penalty": float(normalize),
        "early_stopping": "never", "max_length_a": 3.0,
    }  # fmt: skip
