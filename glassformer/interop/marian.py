"""A native Marian release in: ``decoder.yml``, ``.npz``, vocabularies and ``.spm`` files, in a directory or a zip.

Marian starts a target from zeros and has no padding: ours gets a <pad> and an <s> whose rows are zero.
"""

import importlib
import json
import math
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import CheckpointError, ConfigError, RunError, StorageError, TokenizerError
from glassformer.files import read_bounded
from glassformer.interop.archives import open_archive, read_arrays, read_member
from glassformer.interop.imported_model import (
    EOS,
    OUT,
    OUT_BIAS,
    PAD,
    SRC,
    TGT,
    UNKNOWN,
    ImportedModel,
    Vocabulary,
    check_weights,
    describe_dropped,
    extra_pieces,
    find_dropped,
    make_tokenizers,
    order_weights,
    read_settings,
    read_value,
    run_config,
)
from glassformer.interop.transformers import order_entries
from glassformer.model.layers import ACTIVATIONS
from glassformer.model.transformer import Transformer
from glassformer.settings import ModelConfig
from glassformer.text.tokenizer.sentencepiece import SentencePieceModel

SETTINGS, DECODER = "special:model.yml", "decoder.yml"
MAX_LENGTH = 1024  # positions; Marian itself has no limit
LARGEST_TEXT = 64 * 2**20  # bytes of a vocabulary
_LARGEST_YAML = 2**18  # characters of settings; a release has some 10,000
# What each of our parts is called there, and the attention's and the norm's own parts.
BLOCKS = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
NORMS = {"self_attention": "self_Wo", "cross_attention": "context_Wo", "feed_forward": "ffn_ffn"}
ACTIVATION_OF = {entry.marian_name: ours for ours, entry in ACTIVATIONS.items() if entry.marian_name}
# Our names of sizes, and theirs.
_SIZES = {
    "d_model": "dim-emb", "n_heads": "transformer-heads", "d_ff": "transformer-dim-ffn",
    "n_encoder_layers": "enc-depth", "n_decoder_layers": "dec-depth",
}  # fmt: skip
EXPECTED = {
    "type": "transformer", "transformer-decoder-autoreg": "self-attention", "transformer-no-projection": False,
    "transformer-train-position-embeddings": False, "transformer-ffn-depth": 2, "lemma-dim-emb": 0,
    "transformer-tied-layers": [], "right-left": False, "ulr": False,
}  # fmt: skip
PLACES_OF_NORMS = {
    "post": {"transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-top": ""},
    "pre": {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"},
}
_YAML_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|U(00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})|(.))")
_YAML_SIGNS = dict(zip("0aveN_LP", "\0\a\v\x1b\x85\xa0\u2028\u2029", strict=True))
# What changes outputs there and has no equal here, with the value that changes nothing.
_WITHOUT_EQUAL = {"word-penalty": 0, "shortlist": [], "output-sampling": [], "force-decode": False}


def is_marian(place: Path) -> bool:
    """Whether this is a release of Marian: a zip file, or a directory with a decoder.yml."""
    return place.suffix == ".zip" if place.is_file() else (place / DECODER).is_file()


def import_marian(place: Path) -> ImportedModel:
    """Read a release; ``ConfigError`` for a model that cannot be ours, ``CheckpointError`` for damaged files."""
    if place.is_dir():
        return _import_directory(place, place)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        _unpack(place, directory)
        if not (directory / DECODER).is_file():
            raise RunError(f"{place}: holds no {DECODER}, expected a release of Marian.")
        return _import_directory(directory, place)


def _unpack(place: Path, directory: Path) -> None:
    """Write the files of a release that are read to ``directory``."""
    try:
        with open_archive(place) as archive:
            for name in archive.namelist():
                if name.endswith((".npz", ".yml", ".spm")):
                    (directory / PurePosixPath(name).name).write_bytes(read_member(archive, name))
    except OSError as error:
        raise StorageError(
            f"{place}: cannot be unpacked to {directory.parent}: {error.strerror}. Unpack it elsewhere and name the "
            "directory."
        ) from error


def _import_directory(directory: Path, place: Path) -> ImportedModel:
    decoder = read_yaml(_read(directory / DECODER), f"{place}/{DECODER}")
    paths = {name: _files(decoder, name, directory, place) for name in ("models", "vocabs")}
    arrays = read_arrays(paths["models"][0])
    where = f"{place}/{paths['models'][0].name}"
    if SETTINGS not in arrays:
        raise CheckpointError(f"{where}: has no {SETTINGS}, expected the settings of a Marian model.")
    try:
        text = arrays[SETTINGS].tobytes().rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{where}: {SETTINGS}: is not UTF-8: {error}. Expected settings.") from error
    settings = read_yaml(text, f"{where}: {SETTINGS}")
    entries = [read_vocabulary(path) for path in (paths["vocabs"][0], paths["vocabs"][-1])]
    spm = [SentencePieceModel.read(_spm(directory, side, place)) for side in ("source", "target")]
    src, tgt = _vocabularies(entries, spm[0], place)
    sizes = len(entries[0]), len(entries[1])
    if settings.get("dim-vocabs") not in (None, list(sizes)):
        raise CheckpointError(
            f"{where}: dim-vocabs: found {settings['dim-vocabs']!r:.100}, but the vocabularies have {list(sizes)} "
            "entries. Expected the same: put the vocabularies of this model there."
        )
    model = _model_settings(settings, where) | {"src_vocab": len(src.rows()), "tgt_vocab": len(tgt.rows())}
    try:
        config_before_tying = ModelConfig(**model, tie_embeddings="none")
    except ConfigError as error:
        raise ConfigError(f"{where}: as a run's settings: {error}") from error
    tie, named = _by_our_names(arrays, config_before_tying, sizes, where)
    weights = order_weights(named, src, tgt, tie, where)
    model |= {"tie_embeddings": tie, "attention_bias": any(name.endswith("w_o.bias") for name in weights)}
    tokenizers = make_tokenizers(spm, (src, tgt))
    decode, notes = _decode_settings(decoder, f"{place}/{DECODER}")
    config = run_config(model, tokenizers, decode, str(place))
    check_weights(config.model, weights, where)
    source = {"path": str(place), "architecture": "Marian", "starts_with": "a vector of zeros"}
    return ImportedModel(config, weights, tokenizers, source, notes)


def _read(path: Path) -> str:
    try:
        return read_bounded(path, LARGEST_TEXT).decode()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}. Copy it again.") from error


def read_yaml(text: str, where: str) -> dict[str, Any]:
    """The settings in a YAML text; ``CheckpointError`` for aliases, a few lines of which could fill any memory."""
    if len(text) > _LARGEST_YAML:
        raise CheckpointError(
            f"{where}: has {len(text):,} characters, expected settings of at most {_LARGEST_YAML:,}."
        )
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise RunError(
            f"{where}: is YAML, and pyyaml is not installed. Install it in the clone: pip install '.[import]'"
        ) from error
    try:
        aliases = [token for token in yaml.scan(text, yaml.SafeLoader) if isinstance(token, yaml.AliasToken)]
        if aliases:
            line = aliases[0].start_mark.line + 1
            raise yaml.YAMLError(f"line {line}: found the alias *{aliases[0].value}, expected none")
        values = yaml.safe_load(text)
    # The library converts a value of a named type, such as !!int x, without looking at it first.
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{where}: cannot be read as YAML: {reason:.200}.") from error
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
    for number, line in enumerate(_read(path).split("\n"), 1):
        entry, colon, digits = line.rpartition(":")
        if not line.strip():
            continue
        try:
            name = entry
            if entry.startswith('"'):  # YAML has escapes that JSON does not have
                name = str(json.loads(_YAML_ESCAPE.sub(_escape_as_json, entry), strict=False))
            elif entry.startswith("'") and entry.endswith("'"):
                name = entry[1:-1].replace("''", "'")
            if not colon or name in found:
                raise ValueError("an entry is there twice" if colon else "found no colon")
            found[name] = int(digits)
        except ValueError as error:
            raise TokenizerError(f'{path}:{number}: found {line[:40]!r}, expected "entry": id ({error}).') from error
    return order_entries(found, str(path))


def _escape_as_json(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2]
    character = chr(int(digits, 16)) if digits else _YAML_SIGNS.get(escape[3])
    return escape[0] if character is None else json.dumps(character)[1:-1]


def _vocabularies(entries: list[list[str]], spm: SentencePieceModel, place: Path) -> tuple[Vocabulary, Vocabulary]:
    """With a <pad> after the last entry, which is also what a target starts with."""
    for side in entries:
        missing = [name for name in (EOS, UNKNOWN) if name not in side]
        if missing:
            raise TokenizerError(f"{place}: the vocabulary has no {missing[0]}, expected {EOS} and {UNKNOWN}.")
    sides = [
        Vocabulary([*side, PAD], len(side), len(side), side.index(EOS), side.index(UNKNOWN), extra, adds_pad=True)
        for side, extra in zip(entries, extra_pieces(entries, spm), strict=True)
    ]
    return sides[0], sides[1]


def _model_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The section ``model`` without vocabularies; ``ConfigError`` names what cannot be ours."""
    norm = "pre" if settings.get("transformer-preprocess") == "n" else "post"
    expected = EXPECTED | PLACES_OF_NORMS[norm]
    for name, value in expected.items():
        if settings.get(name, value) != value:
            raise ConfigError(f"{where}: {name}: found {settings[name]!r}, expected {value!r}.")
    after = settings.get("transformer-postprocess-emb", "d")
    if after not in ("d", ""):
        raise ConfigError(f"{where}: transformer-postprocess-emb: found {after!r}, expected 'd'.")
    activation = settings.get("transformer-ffn-activation", "swish")
    if not isinstance(activation, str) or activation not in ACTIVATION_OF:
        raise ConfigError(
            f"{where}: transformer-ffn-activation: found {activation!r}, expected one of {', '.join(ACTIVATION_OF)}."
        )
    return {
        **read_settings(settings, _SIZES, where, "transformer"), "max_length": MAX_LENGTH, "norm": norm,
        "activation": ACTIVATION_OF[activation], "attention_bias": True, "output_bias": True,
        "dropout": settings.get("transformer-dropout", 0.1),
    }  # fmt: skip


def to_marian_name(ours: str, *, pre: bool) -> str:
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


def _by_our_names(
    arrays: Mapping[str, Any], config: ModelConfig, sizes: tuple[int, int], where: str
) -> tuple[str, dict[str, Tensor]]:
    """Which matrices are one, and the weights by our names; ``sizes`` are the entries, without <pad>.

    Raises ``CheckpointError`` for an array that is missing, of another shape, or not known.
    """
    rest = {name: array for name, array in arrays.items() if name != SETTINGS}
    tie, named = _vocabulary_weights(rest, sizes, where)
    for ours, _ in Transformer.without_values(config).named_parameters():
        if not ours.startswith(("encoder", "decoder")):
            continue
        theirs = to_marian_name(ours, pre=config.norm == "pre")
        if theirs not in rest:
            raise CheckpointError(f"{where}: has no {theirs}, expected a weight for {ours}.")
        value = _tensor(rest.pop(theirs), f"{where}: {theirs}")
        named[ours] = value.flatten()
        if ours.endswith("weight"):
            named[ours] = _matrix(value, f"{where}: {theirs}").t().contiguous()
    if rest:
        names = ", ".join(sorted(rest)[:3])
        raise CheckpointError(
            f"{where}: holds {names}{' and more' if len(rest) > 3 else ''}, which no model of these settings has. "
            "Expected no other arrays."
        )
    return tie, named


def _vocabulary_weights(rest: dict[str, Any], sizes: tuple[int, int], where: str) -> tuple[str, dict[str, Tensor]]:
    """Which matrices are one, and the weights with a row for each entry, taken out of ``rest``."""
    sides = [f"{side}_Wemb" if f"{side}_Wemb" in rest else "Wemb" for side in ("encoder", "decoder")]
    missing = [name for name in sides if name not in rest]
    if missing:
        raise CheckpointError(f"{where}: has no {missing[0]}, expected the embeddings.")
    src, tgt = (_rows(rest[name], size, f"{where}: {name}") for name, size in zip(sides, sizes, strict=True))
    for name in set(sides):
        del rest[name]
    tie, out = "all" if sides[0] == sides[1] else "target", tgt
    for name in ("decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W"):
        if name in rest:
            array = rest.pop(name)
            tie, out = "none", _rows(array if name.endswith("Wt") else array.T, sizes[1], f"{where}: {name}")
    named = {SRC: src, TGT: tgt, OUT: out, OUT_BIAS: torch.zeros(len(tgt))}
    if "decoder_ff_logit_out_b" in rest:
        name = "decoder_ff_logit_out_b"
        named[OUT_BIAS] = _rows(rest.pop(name).reshape(-1, 1), sizes[1], f"{where}: {name}").flatten()
    return tie, named


def _rows(array: Any, size: int, where: str) -> Tensor:
    """A matrix with a row for each of ``size`` entries, and one of zeros for <pad>."""
    matrix = _matrix(_tensor(array, where), where)
    if len(matrix) != size:
        raise CheckpointError(
            f"{where}: found {len(matrix):,} rows, expected {size:,}, one for each entry of the vocabulary."
        )
    return torch.cat([matrix, torch.zeros(1, matrix.shape[1])])


def _matrix(value: Tensor, where: str) -> Tensor:
    if value.ndim != 2:
        raise CheckpointError(f"{where}: found the shape {tuple(value.shape)}, expected a matrix.")
    return value


def _tensor(array: Any, where: str) -> Tensor:
    """The array in float32; ``CheckpointError`` unless it holds real numbers with a fraction."""
    if array.dtype.kind != "f":
        raise CheckpointError(f"{where}: found numbers of type {array.dtype}, expected float16, float32 or float64.")
    with np.errstate(over="ignore"):  # what is infinite in float32 is refused with all that is not finite
        return torch.from_numpy(np.array(array, dtype=np.float32))


def _decode_settings(decoder: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """The section ``decode`` of decoder.yml, and notes on what is not in it.

    Marian divides by length^normalize, and takes at most a factor times the source's tokens, whose </s> it counts.
    """
    beam, factor = read_value(decoder, "beam-size", 12, where), read_value(decoder, "max-length-factor", 3.0, where)
    decode = {
        "beam": beam, "length_norm": "power", "length_penalty": read_value(decoder, "normalize", 0.0, where),
        "early_stopping": "never", "max_length_a": factor,
        "max_length_b": max(1, math.ceil(factor)) if abs(factor) < 1000 else 1,  # more is refused with max_length_a
        "n_best": beam if read_value(decoder, "n-best", False, where) else 1,
    }  # fmt: skip
    return decode, describe_dropped(find_dropped(decoder, _WITHOUT_EQUAL), where, "marian-decoder")
