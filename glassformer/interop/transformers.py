"""Hugging Face's MarianMT and Pegasus directories in, and out.

MarianMT norms after each sublayer, Pegasus before; else they are the same model. What is read is ``config.json``,
``generation_config.json``, ``model.safetensors`` and the tokenizer's files; nothing of ``transformers`` is imported.
"""

import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from glassformer.checkpoint import read_json
from glassformer.config import RunConfig
from glassformer.errors import CheckpointError, ConfigError, RunError, TokenizerError
from glassformer.files import open_to_read
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
    read_vocabularies,
)
from glassformer.text.sentencepiece import SentencePieceModel
from glassformer.text.tokenizer import CONTROL_TOKENS, Tokenizer
from glassformer.text.tokenizer_shapes import LARGEST_FILE

NORM_OF = {"MarianMTModel": "post", "PegasusForConditionalGeneration": "pre"}
ARCHITECTURE_OF = {norm: name for name, norm in NORM_OF.items()}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# Our names of sizes, and theirs.
_SIZES = {
    "d_model": "d_model", "n_heads": "encoder_attention_heads", "d_ff": "encoder_ffn_dim",
    "n_encoder_layers": "encoder_layers", "n_decoder_layers": "decoder_layers",
    "max_length": "max_position_embeddings",
}  # fmt: skip
WEIGHTS_FILE, PICKLED_FILE = "model.safetensors", "pytorch_model.bin"
_END = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}},
}
_WITHOUT_END = '"post_processor":null'
_WITH_END = f'"post_processor":{json.dumps(_END, separators=(",", ":"))}'
LARGEST_VOCABULARY = 64 * 2**20  # bytes of JSON

# What each of our names is called there, in the order of replacement.
_NAMES = (
    (".self_attention_add_norm.norm", ".self_attn_layer_norm"),
    (".cross_attention_add_norm.norm", ".encoder_attn_layer_norm"),
    (".feed_forward_add_norm.norm", ".final_layer_norm"),
    (".final_norm", ".layer_norm"),
    (".self_attention.", ".self_attn."),
    (".cross_attention.", ".encoder_attn."),
    (".feed_forward.w_1", ".fc1"),
    (".feed_forward.w_2", ".fc2"),
    (".w_q.", ".q_proj."), (".w_k.", ".k_proj."), (".w_v.", ".v_proj."), (".w_o.", ".out_proj."),
    (".gain", ".weight"),
)  # fmt: skip


def their_name(ours: str) -> str:
    """What a weight of an encoder or decoder is called there."""
    for here, there in _NAMES:
        ours = ours.replace(here, there)
    return f"model.{ours}"


def our_name(theirs: str) -> str:
    """The inverse of ``their_name``."""
    name = theirs.removeprefix("model.")
    for here, there in _NAMES[:-1]:
        name = name.replace(there, here)
    return f"{name.removesuffix('.weight')}.gain" if name.endswith("norm.weight") else name


def is_transformers(place: Path) -> bool:
    """Whether this is a directory of a model for Hugging Face's transformers."""
    config = place / "config.json"
    return config.is_file() and "model_type" in read_json(config)


def import_transformers(place: Path) -> ImportedModel:
    """Read a directory; ``ConfigError`` for a model that cannot be ours, ``CheckpointError`` for damaged files."""
    settings = read_json(place / "config.json")
    model = _model_settings(settings, f"{place}/config.json")
    raw = _read_weights(place)
    tie, named = _by_our_names(settings, raw)
    src, tgt, tokenizers = _read_tokenizers(place, settings)
    weights = order_weights(named, src, tgt, tie, str(place))
    model |= {
        "src_vocab": len(src.rows()), "tgt_vocab": len(tgt.rows()), "tie_embeddings": tie,
        "output_bias": OUT_BIAS in weights, "attention_bias": any(name.endswith("w_o.bias") for name in weights),
    }  # fmt: skip
    kind, joint = tokenizers[0].kind, tokenizers[0].digest == tokenizers[1].digest
    config = RunConfig.from_mapping(
        {
            "model": model,
            "text": {"tokenizer": kind, "vocab_size": model["src_vocab"], "joint": joint or tie == "all"},
            "decode": _decode_settings(place),
        }
    )
    check_weights(config.model, weights, str(place / WEIGHTS_FILE))
    return ImportedModel(config, weights, tokenizers, _describe(place, settings, src))


def _describe(place: Path, settings: Mapping[str, Any], src: Vocabulary) -> dict[str, Any]:
    start = {src.pad: "<pad>", src.eos: "</s>", src.unk: "<unk>"}.get(src.start, "<s>")
    return {"path": str(place), "architecture": settings["architectures"][0], "starts_with": start}


def _model_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The section ``model`` without vocabularies and biases; ``ConfigError`` names what cannot be ours."""
    architecture = (settings.get("architectures") or [settings.get("model_type")])[0]
    if architecture not in NORM_OF:
        raise ConfigError(f"{where}: architectures: found {architecture!r}, expected {' or '.join(NORM_OF)}.")
    _check_pairs(settings, where)
    activation = settings.get("activation_function", "gelu")
    if activation not in ACTIVATIONS:
        raise ConfigError(
            f"{where}: activation_function: found {activation!r}, expected one of {', '.join(ACTIVATIONS)}."
        )
    return {
        **read_settings(settings, _SIZES, where, architecture),
        "norm": NORM_OF[architecture], "activation": ACTIVATIONS[activation],
        "scale_embedding": bool(settings.get("scale_embedding", False)), "dropout": settings.get("dropout", 0.1),
    }  # fmt: skip


def _check_pairs(settings: Mapping[str, Any], where: str) -> None:
    """Raise ``ConfigError`` for what a MarianMT may have and ours may not."""
    same = (("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim"))
    for one, other in same:
        if settings.get(one) != settings.get(other):
            raise ConfigError(
                f"{where}: {other}: found {settings.get(other)!r}, expected {settings.get(one)!r}, that of {one}."
            )
    expected = {"normalize_before": NORM_OF.get((settings.get("architectures") or [""])[0]) == "pre"}
    for name, wanted in {**expected, "normalize_embedding": False}.items():
        if settings.get(name, wanted) not in {wanted, None}:
            raise ConfigError(f"{where}: {name}: found {settings[name]!r}, expected {wanted!r}.")


def _read_weights(place: Path) -> dict[str, Tensor]:
    path = place / WEIGHTS_FILE
    if not path.is_file():
        raise RunError(_without_safetensors(place))
    from safetensors.torch import load_file

    try:
        open_to_read(path).close()
        return {name: value.float() for name, value in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.") from error


def _without_safetensors(place: Path) -> str:
    if not (place / PICKLED_FILE).is_file():
        return f"{place}: has no {WEIGHTS_FILE}, expected one. Name a directory that save_pretrained wrote."
    return (
        f"{place}: has {PICKLED_FILE}, which would be unpickled, and no {WEIGHTS_FILE}. Convert it with the "
        f"transformers of your own, if you trust the file: {conversion_command(place)}"
    )


def conversion_command(place: Path) -> str:
    """The command that writes safetensors next to a pickled file."""
    from shlex import quote

    code = (
        "import sys; from transformers import AutoModelForSeq2SeqLM as M; "
        "M.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])"
    )
    return f'python -c "{code}" {quote(str(place))}'


def _by_our_names(settings: Mapping[str, Any], raw: Mapping[str, Tensor]) -> tuple[str, dict[str, Tensor]]:
    """Which matrices are one, and the weights by our names."""
    raw = dict(raw)
    shared = raw.pop("model.shared.weight", None)
    src, tgt = (raw.pop(f"model.{side}.embed_tokens.weight", shared) for side in ("encoder", "decoder"))
    out, bias = raw.pop("lm_head.weight", None), raw.pop("final_logits_bias", None)
    positions = [raw.pop(f"model.{side}.embed_positions.weight", None) for side in ("encoder", "decoder")]
    if src is None or tgt is None:
        raise CheckpointError("model.shared.weight: found none, expected the embeddings.")
    _check_positions(positions)
    tied = settings.get("tie_word_embeddings", True)
    one = settings.get("share_encoder_decoder_embeddings", True)
    tie = "none" if not tied and out is not None else "all" if one else "target"
    named = {our_name(name): value for name, value in raw.items()} | {SRC: src, TGT: tgt}
    named[OUT] = tgt if tie != "none" or out is None else out
    if bias is not None:
        named[OUT_BIAS] = bias[0]
    return tie, named


def _check_positions(tables: list[Tensor | None]) -> None:
    """Raise ``ConfigError`` for a saved table of positions that is not the sinusoids with sines first."""
    import torch

    from glassformer.model.positions import angles

    for table in tables:
        if table is None:
            continue
        angle = angles(*table.shape)
        wanted = torch.cat([angle.sin(), angle.cos()], dim=1).float()
        if not torch.allclose(table, wanted, atol=1e-4):
            raise ConfigError(
                "model.*.embed_positions.weight: found another table than the sinusoids with all sines first, "
                "expected those."
            )


def _decode_settings(place: Path) -> dict[str, Any]:
    """The section ``decode`` of generation_config.json, or of config.json as older directories have it."""
    found = dict(read_json(place / "config.json"))
    if (place / "generation_config.json").is_file():
        found |= read_json(place / "generation_config.json")
    stopping = {True: "beam", False: "heuristic", "never": "never"}.get(found.get("early_stopping") or False)
    return {
        "beam": found.get("num_beams") or 1, "length_norm": "power", "early_stopping": stopping or "heuristic",
        "length_penalty": 1.0 if found.get("length_penalty") is None else found["length_penalty"],
        "no_repeat_ngram": found.get("no_repeat_ngram_size") or 0, "max_length_a": 0.0,  # theirs counts the start
        "max_length_b": (found.get("max_length") or found.get("max_position_embeddings") or 512) - 1,
    }  # fmt: skip


Tokenizers = tuple[Tokenizer, Tokenizer]


def _read_tokenizers(place: Path, settings: Mapping[str, Any]) -> tuple[Vocabulary, Vocabulary, Tokenizers]:
    """The vocabularies and tokenizers of both sides: from tokenizer.json as we write it, or from .spm files."""
    if (place / "tokenizer.json").is_file() and not (place / "source.spm").is_file():
        return _read_our_tokenizers(place, settings)
    missing = [name for name in ("source.spm", "target.spm", "vocab.json") if not (place / name).is_file()]
    if missing:
        raise TokenizerError(f"{place}: has no {', '.join(missing)}, expected source.spm, target.spm and vocab.json.")
    entries = [read_entries(place / "vocab.json")] * 2
    if (place / "target_vocab.json").is_file():
        entries = [entries[0], read_entries(place / "target_vocab.json")]
    sizes = settings.get("vocab_size"), settings.get("decoder_vocab_size") or settings.get("vocab_size")
    entries = [_fill(side, size) for side, size in zip(entries, sizes, strict=True)]
    spm = [SentencePieceModel.read(place / f"{side}.spm") for side in ("source", "target")]
    ids = [settings.get(f"{name}_token_id") for name in ("pad", "decoder_start", "eos")]
    unk = entries[0].index(CONTROL_TOKENS[3]) if CONTROL_TOKENS[3] in entries[0] else None
    parts = dict(zip(("pad", "start", "eos"), ids, strict=True))
    Vocabulary.check(entries[0], f"{place}/config.json", **parts, unk=unk)
    src, tgt = read_vocabularies(entries, spm, *_ids_of(parts), unk or 0)
    tokenizers = tuple(Tokenizer(one.tokenizer_json(side.names())) for one, side in zip(spm, (src, tgt), strict=True))
    return src, tgt, (tokenizers[0], tokenizers[1])


def _ids_of(parts: Mapping[str, int | None]) -> tuple[int, int, int]:
    pad, start, eos = (number for number in parts.values() if number is not None)
    return pad, start, eos


def _fill(entries: list[str], size: int | None) -> list[str]:
    """Entries up to the size of the matrix, whose last rows may have no entry."""
    return [*entries, *(f"<unused {number}>" for number in range(len(entries), size or 0))]


def _read_our_tokenizers(place: Path, settings: Mapping[str, Any]) -> tuple[Vocabulary, Vocabulary, Tokenizers]:
    src = load_tokenizer(place / "tokenizer.json")
    other = place / "target" / "tokenizer.json"
    tgt = load_tokenizer(other) if other.is_file() else src
    ids = [settings.get(f"{name}_token_id") for name in ("pad", "decoder_start", "eos")]
    if ids[0] not in {0, 1} or ids[1] not in range(4) or ids[2] != 2:
        raise TokenizerError(
            f"{place}/config.json: pad, decoder_start and eos_token_id: found {ids}, expected 0 or 1, 1, 2, those of "
            "tokenizer.json."
        )
    start = 1 if ids[1] is None else ids[1]
    sides = [
        Vocabulary([*CONTROL_TOKENS, *map(str, range(4, one.size))], pad=0, start=start, eos=2, unk=3, has_start=True)
        for one in (src, tgt)
    ]
    return sides[0], sides[1], (src, tgt)


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json without the step that appends </s>: the JSON of ours, to the letter."""
    try:
        with open_to_read(path) as file:
            text = file.read(LARGEST_FILE + 1).decode()
        return Tokenizer(_without_end(text))
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{path}: cannot be read: {error}. Expected a tokenizer's JSON.") from error
    except TokenizerError as error:
        raise TokenizerError(f"{path}: {error}") from error


def _without_end(text: str) -> str:
    if _WITH_END in text:
        return text.replace(_WITH_END, _WITHOUT_END, 1)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return text  # the tokenizer says what is wrong with it
    if isinstance(values, dict) and values.get("post_processor") == _END:
        values["post_processor"] = None
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return text


def with_end(text: str) -> str:
    """The JSON of a tokenizer of ours with the step that appends </s>, which Hugging Face has in its tokenizers."""
    return text.replace(_WITHOUT_END, _WITH_END, 1)


def read_entries(path: Path) -> list[str]:
    """The entries of a vocab.json in the order of their ids, which must be 0, 1, 2 and so on."""
    if path.stat().st_size > LARGEST_VOCABULARY:
        raise TokenizerError(f"{path}: has more than {LARGEST_VOCABULARY:,} bytes, expected a vocabulary.")
    vocab = read_json(path)
    return order_entries(vocab, str(path))


def order_entries(vocab: Mapping[str, Any], where: str) -> list[str]:
    """The entries in the order of their ids; ``TokenizerError`` unless these are 0, 1, 2 and so on."""
    if not all(type(number) is int for number in vocab.values()):
        raise TokenizerError(f"{where}: found an entry without a whole number, expected the id of each entry.")
    entries = sorted(vocab, key=vocab.__getitem__)
    if [vocab[entry] for entry in entries] != list(range(len(entries))):
        raise TokenizerError(f"{where}: found other ids than 0, 1, 2 and so on, expected one for each entry.")
    return entries


def download(name: str, say: Callable[[str], None]) -> Path:
    """The directory of a model of the Hugging Face hub; its safetensors may be in a pull request, ``refs/pr/*``.

    Raises ``RunError`` without ``huggingface_hub`` or without the network.
    """
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise RunError(
            f"{name}: is no directory, and huggingface_hub, which would fetch it, is not installed. Install it: "
            "pip install 'glassformer[import]'"
        ) from error
    wanted = ["*.json", "*.spm", WEIGHTS_FILE]
    try:
        revision = _revision_with_safetensors(hub, name)
        say(f"fetching {name}, revision {revision} ...")
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=wanted))
    except Exception as error:  # the library raises errors of several others
        raise RunError(
            f"{name}: is no directory, and cannot be fetched from the hub: {str(error).splitlines()[0]} "
            "Check the name and the network, or download it elsewhere and name its directory."
        ) from error


def _revision_with_safetensors(hub: Any, name: str) -> str:
    """The first of main and the pull requests whose files include safetensors; main if none."""
    api = hub.HfApi()
    requests = [ref.ref for ref in api.list_repo_refs(name, include_pull_requests=True).pull_requests or ()]
    for revision in ("main", *requests):
        if WEIGHTS_FILE in api.list_repo_files(name, revision=revision):
            return str(revision)
    return "main"
