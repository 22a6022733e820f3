"""Reads Hugging Face's MarianMT and Pegasus, without ``transformers``.

MarianMT has its norms after each sublayer, Pegasus before.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from babel.core import get_global
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from glassformer.checkpoint import read_json
from glassformer.errors import CheckpointError, ConfigError, RunError, TokenizerError
from glassformer.files import check_safetensors
from glassformer.interop.ctranslate2 import APPENDS_EOS
from glassformer.interop.generation_config import decode_settings, note_ids, read_ids
from glassformer.interop.imported_model import (
    OUT,
    OUT_BIAS,
    SINUSOIDS,
    SRC,
    TGT,
    UNKNOWN,
    UNUSED,
    ImportedModel,
    Vocabulary,
    check_ids,
    check_weights,
    extra_pieces,
    make_tokenizers,
    order_weights,
    read_settings,
    read_value,
    run_config,
)
from glassformer.model.layers import ACTIVATIONS
from glassformer.model.positions import angles
from glassformer.settings import name_languages
from glassformer.text.lines import without_surrogates
from glassformer.text.tokenizer.sentencepiece import SentencePieceModel
from glassformer.text.tokenizer.tokenizer import CONTROL_TOKENS, Tokenizer, Tokenizers

NORM_OF = {"MarianMTModel": "post", "PegasusForConditionalGeneration": "pre"}
ARCHITECTURE_OF = {norm: name for name, norm in NORM_OF.items()}
ACTIVATION_OF = {name: ours for ours, entry in ACTIVATIONS.items() for name in entry.transformers_names}
# Our names of sizes, and theirs.
_SIZES = {
    "d_model": "d_model", "n_heads": "encoder_attention_heads", "d_ff": "encoder_ffn_dim",
    "n_encoder_layers": "encoder_layers", "n_decoder_layers": "decoder_layers",
    "max_length": "max_position_embeddings",
}  # fmt: skip
WEIGHTS_FILE, PICKLED_FILE = "model.safetensors", "pytorch_model.bin"
_WITHOUT_END = '"post_processor":null'
_WITH_END = f'"post_processor":{json.dumps(APPENDS_EOS, separators=(",", ":"))}'
FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
MAX_UNUSED = 64  # rows without an entry: padding, and rounding up

# Our names there, in the order of replacement.
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


def to_transformers_name(ours: str) -> str:
    """The name of an encoder's or decoder's weight there."""
    for here, there in _NAMES:
        ours = ours.replace(here, there)
    return f"model.{ours}"


def our_name(theirs: str) -> str:
    """The inverse of ``to_transformers_name``."""
    name = theirs.removeprefix("model.")
    for here, there in _NAMES[:-1]:
        name = name.replace(there, here)
    return f"{name.removesuffix('.weight')}.gain" if name.endswith("norm.weight") else name


def is_transformers(place: Path) -> bool:
    """Whether this directory holds a model for transformers."""
    config = place / "config.json"
    return config.is_file() and "model_type" in read_json(config)


def import_transformers(place: Path, positions: str = "") -> ImportedModel:
    """Read a directory; ``ConfigError`` for another kind of model.

    ``positions`` "marian" gives it the sinusoids with which Marian trained; else they are those of its file, or the
    paper's.
    """
    settings = read_json(place / "config.json")
    model = _model_settings(settings, f"{place}/config.json")
    raw = _read_weights(place)
    sinusoid = _take_sinusoid(raw, f"{place}/{WEIGHTS_FILE}")
    if positions:
        sinusoid = SINUSOIDS[positions]
    tie, named = _by_our_names(settings, raw, place)
    src, tgt, tokenizers = _read_tokenizers(place, settings, (len(named[SRC]), len(named[TGT])))
    weights = order_weights(named, src, tgt, tie, str(place))
    model |= {
        "src_vocab": len(src.rows()), "tgt_vocab": len(tgt.rows()), "tie_embeddings": tie, "sinusoid": sinusoid,
        "output_bias": OUT_BIAS in weights, "attention_bias": any(name.endswith("w_o.bias") for name in weights),
    }  # fmt: skip
    decode, notes = decode_settings(place, tgt.eos, tgt.never)
    config = run_config(model, tokenizers, decode, str(place), _read_languages(place))
    check_weights(config.model, weights, str(place / WEIGHTS_FILE))
    start = {src.pad: "<pad>", src.eos: "</s>", src.unk: "<unk>"}.get(src.start, "<s>")
    source = {"path": str(place), "architecture": _architecture(settings), "starts_with": start}
    return ImportedModel(config, weights, tokenizers, source, [*note_ids(place), *notes])


def _read_languages(place: Path) -> str:
    """``text.languages`` by the tokenizer's settings, if named."""
    file = place / "tokenizer_config.json"
    found = read_json(file) if file.is_file() else {}
    src, tgt = (found.get(name) for name in ("source_lang", "target_lang"))
    if not isinstance(src, str) or not isinstance(tgt, str):
        return ""
    shorter = get_global("language_aliases")  # eng is en
    return name_languages(shorter.get(src, src), shorter.get(tgt, tgt))


def _model_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    architecture = _architecture(settings)
    if not isinstance(architecture, str) or architecture not in NORM_OF:
        raise ConfigError(f"{where}: architectures: found {architecture!r}, expected {' or '.join(NORM_OF)}.")
    _check_pairs(settings, where)
    activation = settings.get("activation_function", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATION_OF:
        raise ConfigError(
            f"{where}: activation_function: found {activation!r}, expected one of {', '.join(ACTIVATION_OF)}."
        )
    return {
        **read_settings(settings, _SIZES, where, architecture),
        "norm": NORM_OF[architecture], "activation": ACTIVATION_OF[activation],
        "scale_embedding": read_value(settings, "scale_embedding", False, where),
        "dropout": settings.get("dropout", 0.1),
    }  # fmt: skip


def _architecture(settings: Mapping[str, Any]) -> Any:
    found = settings.get("architectures") or settings.get("model_type")
    return found[0] if isinstance(found, list) else found


def _check_pairs(settings: Mapping[str, Any], where: str) -> None:
    """Raise ``ConfigError`` for what MarianMT may have and ours not."""
    same = (("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim"))
    for one, other in same:
        if settings.get(one) != settings.get(other):
            raise ConfigError(
                f"{where}: {other}: found {settings.get(other)!r}, expected {settings.get(one)!r}, that of {one}."
            )
    expected = {"normalize_before": NORM_OF[_architecture(settings)] == "pre", "normalize_embedding": False}
    for name, wanted in expected.items():
        if settings.get(name, wanted) not in (wanted, None):
            raise ConfigError(f"{where}: {name}: found {settings[name]!r}, expected {wanted!r}.")


def _read_weights(place: Path) -> dict[str, Tensor]:
    path = place / WEIGHTS_FILE
    if not path.is_file():
        raise RunError(_without_safetensors(place))
    try:
        check_safetensors(path)
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}. Copy it again.") from error
    for name, value in found.items():
        if value.dtype not in FLOATS:
            raise CheckpointError(
                f"{path}: {name}: found numbers of type {str(value.dtype).removeprefix('torch.')}, expected "
                "float16, bfloat16, float32 or float64."
            )
    return {name: value.float() for name, value in found.items()}


def _without_safetensors(place: Path) -> str:
    if not (place / PICKLED_FILE).is_file():
        return f"{place}: has no {WEIGHTS_FILE}, expected one. Name a directory that save_pretrained wrote."
    code = (
        "import sys; from transformers import AutoModelForSeq2SeqLM as M; "
        "M.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])"
    )
    return (
        f"{place}: has {PICKLED_FILE}, which would be unpickled, and no {WEIGHTS_FILE}. Convert it with the "
        f'transformers of your own, if you trust the file: python -c "{code}" {quote(str(place))}'
    )


def _by_our_names(
    settings: Mapping[str, Any], raw: Mapping[str, Tensor], place: Path
) -> tuple[str, dict[str, Tensor]]:
    """Which matrices are one, and weights by our names."""
    raw, where = dict(raw), f"{place}/{WEIGHTS_FILE}"
    tied, one = (
        read_value(settings, name, True, f"{place}/config.json")
        for name in ("tie_word_embeddings", "share_encoder_decoder_embeddings")
    )
    src, tgt = _embeddings(raw, one, where)
    _check_vocab_sizes(settings, (len(src), len(tgt)), f"{place}/config.json")
    out, bias = raw.pop("lm_head.weight", None), raw.pop("final_logits_bias", None)
    if tied:
        _require_copy("lm_head.weight", out, tgt, f"{where}: tie_word_embeddings is true")
    elif out is None:
        raise CheckpointError(f"{where}: has no lm_head.weight, expected one: tie_word_embeddings is false.")
    if bias is not None and tuple(bias.shape) != (1, len(tgt)):
        raise CheckpointError(
            f"{where}: final_logits_bias: found the shape {tuple(bias.shape)}, expected (1, {len(tgt)})."
        )
    named = {our_name(name): value for name, value in raw.items()} | {SRC: src, TGT: tgt}
    named[OUT] = tgt if out is None else out
    if bias is not None:
        named[OUT_BIAS] = bias[0]
    return "none" if not tied else "all" if one else "target", named


def _embeddings(raw: dict[str, Tensor], one: bool, where: str) -> tuple[Tensor, Tensor]:
    """Both sides' embeddings, out of ``raw``; ``one`` must be equal."""
    shared = raw.pop("model.shared.weight", None)
    names = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    src, tgt = (raw.pop(name, shared) for name in names)
    if src is None or tgt is None:
        raise CheckpointError(f"{where}: has no model.shared.weight, expected the embeddings.")
    if one:
        why = f"{where}: share_encoder_decoder_embeddings is true"
        _require_copy(names[0], src, tgt if shared is None else shared, why)
        _require_copy(names[1], tgt, src, why)
    for name, table in zip(names, (src, tgt), strict=True):
        if table.ndim != 2:
            raise CheckpointError(f"{where}: {name}: found the shape {tuple(table.shape)}, expected a matrix.")
    return src, tgt


def _require_copy(name: str, found: Tensor | None, wanted: Tensor, why: str) -> None:
    if found is not None and not torch.equal(found, wanted):
        raise CheckpointError(f"{why}, but {name} is another matrix than the one it shares. Expected a copy.")


def _check_vocab_sizes(settings: Mapping[str, Any], rows: tuple[int, int], where: str) -> None:
    sizes = {"vocab_size": settings.get("vocab_size"), "decoder_vocab_size": settings.get("decoder_vocab_size")}
    if sizes["decoder_vocab_size"] is None:
        sizes["decoder_vocab_size"] = sizes["vocab_size"]
    for (name, size), count in zip(sizes.items(), rows, strict=True):
        if type(size) is not int or size != count:
            raise ConfigError(f"{where}: {name}: found {size!r}, expected {count}, the rows of the embedding.")


def _take_sinusoid(raw: dict[str, Tensor], where: str) -> str:
    """Which sinusoids the saved tables are, all sines first; ``ConfigError`` if they are none."""
    found = {"paper"}
    tables = [raw.pop(f"model.{side}.embed_positions.weight", None) for side in ("encoder", "decoder")]
    for table in (table for table in tables if table is not None):
        found = {sinusoid for sinusoid in SINUSOIDS.values() if _is_table(table, sinusoid)}
        if not found:
            raise ConfigError(
                f"{where}: model.*.embed_positions.weight: found another table than the sinusoids with all sines "
                "first, expected those."
            )
    return min(found)


def _is_table(table: Tensor, sinusoid: str) -> bool:
    if table.ndim != 2 or table.shape[1] % 2:
        return False
    rows, width = table.shape
    angle = angles(rows, width, sinusoid)
    wanted = torch.cat([angle.sin(), angle.cos()], dim=1).float()
    return any(torch.allclose(table, wanted.to(dtype).float(), atol=1e-4) for dtype in FLOATS)


def _read_tokenizers(
    place: Path, settings: Mapping[str, Any], rows: tuple[int, int]
) -> tuple[Vocabulary, Vocabulary, Tokenizers]:
    """Both sides' vocabularies and tokenizers, from tokenizer.json or .spm."""
    parts = read_ids(place, settings, min(rows))
    if (place / "tokenizer.json").is_file() and not (place / "source.spm").is_file():
        return _read_our_tokenizers(place, parts)
    missing = [name for name in ("source.spm", "target.spm", "vocab.json") if not (place / name).is_file()]
    if missing:
        raise TokenizerError(f"{place}: has no {', '.join(missing)}, expected source.spm, target.spm and vocab.json.")
    paths = [place / "vocab.json"] * 2
    if (place / "target_vocab.json").is_file():
        paths = [place / "vocab.json", place / "target_vocab.json"]
    entries = [
        _fill(order_entries(read_json(path), str(path)), count, path) for path, count in zip(paths, rows, strict=True)
    ]
    parts["unk"] = entries[0].index(UNKNOWN) if UNKNOWN in entries[0] else None
    for side in entries:
        check_ids(parts, len(side), f"{place}/vocab.json")
    spm = [SentencePieceModel.read(place / f"{side}.spm") for side in ("source", "target")]
    parts = {name: number or 0 for name, number in parts.items()}
    sides = zip(entries, extra_pieces(entries, spm[0]), strict=True)
    src, tgt = (Vocabulary(side, **parts, extra=extra) for side, extra in sides)
    for one, path in zip((src, tgt), paths, strict=True):
        one.check_names(str(path))
    return src, tgt, make_tokenizers(spm, (src, tgt))


def _fill(entries: list[str], rows: int, path: Path) -> list[str]:
    if not rows - MAX_UNUSED <= len(entries) <= rows:
        raise TokenizerError(
            f"{path}: has {len(entries):,} entries, expected {rows:,}, one for each row of the embedding."
        )
    return [*entries, *(f"{UNUSED}{number}>" for number in range(len(entries), rows))]


def _read_our_tokenizers(place: Path, parts: Mapping[str, Any]) -> tuple[Vocabulary, Vocabulary, Tokenizers]:
    src = load_tokenizer(place / "tokenizer.json")
    other = place / "target" / "tokenizer.json"
    tgt = load_tokenizer(other) if other.is_file() else src
    for name, known in {"pad": (0, 1), "start": (0, 1, 2, 3), "eos": (2,)}.items():
        if type(parts[name]) is not int or parts[name] not in known:
            raise TokenizerError(
                f"{place}: the id of {name} in config.json or generation_config.json: found {parts[name]!r}, "
                f"expected {' or '.join(map(str, known))}, those of tokenizer.json."
            )
    sides = [
        Vocabulary(
            [*CONTROL_TOKENS, *map(str, range(4, one.size))], pad=0, start=parts["start"], eos=2, unk=3,
            has_start=True,
        )
        for one in (src, tgt)
    ]  # fmt: skip
    return sides[0], sides[1], (src, tgt)


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json without the step that appends </s>: our JSON."""
    return Tokenizer.load(path, _without_end)


def _without_end(text: str) -> str:
    if _WITH_END in text:
        return text.replace(_WITH_END, _WITHOUT_END, 1)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return text  # the tokenizer says what is wrong
    if isinstance(values, dict) and values.get("post_processor") == APPENDS_EOS:
        values["post_processor"] = None
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return text


def with_end(text: str) -> str:
    """Our tokenizer's JSON with Hugging Face's step that appends </s>."""
    return text.replace(_WITHOUT_END, _WITH_END, 1)


def order_entries(vocab: Mapping[str, Any], where: str) -> list[str]:
    """The entries by id; ``TokenizerError`` unless ids are 0, 1, 2 ..."""
    if not all(type(number) is int for number in vocab.values()):
        raise TokenizerError(f"{where}: found an entry without a whole number, expected the id of each entry.")
    entries = sorted(vocab, key=vocab.__getitem__)
    if [vocab[entry] for entry in entries] != list(range(len(entries))):
        raise TokenizerError(f"{where}: found other ids than 0, 1, 2 and so on, expected one for each entry.")
    odd = [entry for entry in entries if without_surrogates(entry) != entry]
    if odd:
        raise TokenizerError(
            f"{where}: the entry {odd[0]!r} holds half a character, a lone surrogate; expected text."
        )
    return entries
