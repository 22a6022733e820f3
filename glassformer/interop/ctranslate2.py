"""A model and its tokenizers as a CTranslate2 directory.

Three things are always written, because CTranslate2 would have something else in their place: the table of positions,
the tokens of all ids, and an output bias so low for <pad> and <s> that no output holds them.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.checkpoint import MANIFEST
from glassformer.errors import ConfigError
from glassformer.files import sha256, sync, write_durably
from glassformer.interop.new_directory import write_whole
from glassformer.settings import ModelConfig
from glassformer.text.tokenizer.tokenizer import CONTROL_TOKENS, EOS_ID, UNK_ID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from glassformer.interop.shortlist import Shortlist
    from glassformer.model import Transformer
    from glassformer.run_directory import LoadedRun

QUANTIZATIONS = ("int8", "int8_float32", "int8_bfloat16", "int8_float16", "int16", "float16", "bfloat16", "float32")
TOKENIZER_FILES = ("source_tokenizer.json", "target_tokenizer.json")
MODEL, VOCABULARY_MAP = "model.bin", "vmap.txt"
NEEDED = "CTranslate2 is not installed. Install it in the clone: pip install '.[fast]'"
Vocabularies = tuple[Sequence[str], Sequence[str]]
_BANNED = -1e4  # as a logit; float16 has it too
_EOS = CONTROL_TOKENS[EOS_ID]
APPENDS_EOS = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": _EOS, "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {_EOS: {"id": _EOS, "ids": [EOS_ID], "tokens": [_EOS]}},
}
"""The last step of a tokenizer of the ``tokenizers`` library that ends each text with </s>."""


def is_ctranslate2(place: Path) -> bool:
    """Whether a place holds a CTranslate2 model."""
    return (place / MODEL).is_file()


def export_ctranslate2(
    run: "LoadedRun",
    directory: Path,
    quantization: str | None = None,
    origin: Mapping[str, Any] | None = None,
    shortlist: "Shortlist | None" = None,
) -> list[str]:
    """Write a run's model and tokenizers to ``directory``, which is new or empty; whole or not at all. No notes.

    A ``shortlist`` becomes a vocabulary map; ``origin`` says in the manifest what it was made of. Raises
    ``ConfigError`` for settings that CTranslate2 does not have, ``RunError`` and ``StorageError``.
    """
    check_supported(run.model.config, quantization)
    tokenizers = (run.src_tokenizer, run.tgt_tokenizer)
    vocabularies = (run.src_tokenizer.entries(), run.tgt_tokenizer.entries())
    with write_whole(directory, "--out") as temporary:
        convert(run.model, vocabularies, temporary, quantization=quantization)
        if shortlist is not None:
            (temporary / VOCABULARY_MAP).write_text(shortlist.to_vocabulary_map(vocabularies), encoding="utf-8")
        for name, tokenizer in zip(TOKENIZER_FILES, tokenizers, strict=True):
            text = json.dumps(json.loads(tokenizer.json) | {"post_processor": APPENDS_EOS}, ensure_ascii=False)
            (temporary / name).write_text(text, encoding="utf-8")
        files = sorted(temporary.iterdir())
        for path in files:
            sync(path)
        with write_durably(temporary / MANIFEST) as stream:  # after the rest: where it is, the rest is on disk
            json.dump({"files": {path.name: sha256(path) for path in files}, "of": origin}, stream, indent=1)
    return []


def check_supported(config: ModelConfig, quantization: str | None = None) -> None:
    """Raise ``ConfigError`` unless CTranslate2 computes what these settings say."""
    expected: dict[str, Collection[Any]] = {
        "positions": ("sinusoidal", "learned", "relative", "rotary"), "d_v": (config.d_k,),
        "autoregressive_sublayer": ("self_attention",),
    }  # fmt: skip
    check_choices(config, expected, "CTranslate2", "Use the torch engine, which has all.")
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ConfigError(
            f"quantization: found {quantization!r}, expected one of {', '.join(QUANTIZATIONS)}. Choose one."
        )


def check_choices(config: ModelConfig, choices: Mapping[str, Collection[Any]], program: str, advice: str) -> None:
    """Raise ``ConfigError`` for the first setting with another value than the ``choices`` that ``program`` has."""
    for name, values in choices.items():
        if getattr(config, name) not in values:
            raise ConfigError(
                f"model.{name}: found {getattr(config, name)!r}, but {program} has only "
                f"{' or '.join(map(repr, values))}. {advice}"
            )


def convert(
    model: "Transformer",
    vocabularies: Vocabularies,
    directory: Path,
    *,
    quantization: str | None = None,
    banned: Collection[int] = (),
    source_rows: Sequence[int] | None = None,
) -> None:
    """Write a CTranslate2 model with these tokens of source and target over what is there, without tokenizers.

    No output holds the ids that are ``banned``, <pad> and <s>. ``source_rows`` is for a source vocabulary that is
    not ours: our id of each of its tokens; then CTranslate2 adds </s>, and else the caller.
    """
    try:
        from ctranslate2.converters import Converter
    except ImportError as error:
        raise ConfigError(NEEDED) from error

    class FromGlassformer(Converter):  # type: ignore[misc]  # CTranslate2 has no types
        def _load(self) -> Any:
            specification = _specification(model, vocabularies, banned)
            if source_rows is not None:
                embeddings = specification.encoder.embeddings[0]
                embeddings.weight = embeddings.weight[list(source_rows)]
                specification.config.add_source_eos = True
            return specification

    FromGlassformer().convert(str(directory), quantization=quantization, force=True)


def read_arrays(model: "Transformer", vocabularies: Vocabularies) -> "dict[str, NDArray[np.float32]]":
    """The vectors and matrices that ``convert`` writes of a model, in float32, by CTranslate2's names."""
    specification = _specification(model, vocabularies, ())
    specification.validate()
    arrays = {name: variable.numpy() for name, variable in specification.variables().items()}
    return {name: array for name, array in arrays.items() if array.ndim}


def _specification(model: "Transformer", vocabularies: Vocabularies, banned: Collection[int]) -> Any:
    from ctranslate2.specs import transformer_spec

    (src, tgt), config, shape = vocabularies, model.config, _shape(model.config)
    encoder = transformer_spec.TransformerEncoderSpec(config.n_encoder_layers, config.n_heads, **shape)
    decoder = transformer_spec.TransformerDecoderSpec(
        config.n_decoder_layers, config.n_heads, alignment_layer=-1, alignment_heads=config.n_heads, **shape
    )
    specification = transformer_spec.TransformerSpec(encoder, decoder)
    _fill_side(encoder, encoder.embeddings[0], model.src_embedding, model.encoder)
    _fill_side(decoder, decoder.embeddings, model.tgt_embedding, model.decoder)
    decoder.projection.weight = _array(model.output_projection.linear.weight)
    decoder.projection.bias = _output_bias(model, banned)
    specification.register_source_vocabulary(list(src))
    specification.register_target_vocabulary(list(tgt))
    settings = specification.config
    settings.bos_token = settings.decoder_start_token = tgt[config.bos_id]
    settings.eos_token, settings.unk_token = tgt[config.eos_id], tgt[UNK_ID]
    settings.layer_norm_epsilon = config.norm_eps
    return specification


def _shape(config: ModelConfig) -> dict[str, Any]:
    """What CTranslate2 has to know of the layers of either side."""
    from ctranslate2.specs.common_spec import Activation

    from glassformer.model.layers import ACTIVATIONS

    number = ACTIVATIONS[config.activation].ctranslate2_number
    if number is None:
        raise ConfigError(
            f"model.activation: found {config.activation!r}, which CTranslate2 does not have. Use the torch engine."
        )
    shape: dict[str, Any] = {"pre_norm": config.norm == "pre", "activation": Activation(number)}
    if config.positions == "relative":
        shape["relative_position"] = True
    if config.positions == "rotary":
        shape |= {"rotary_dim": config.d_k, "rotary_interleave": True, "rotary_base": 10_000.0}
    if config.heads_d_k != config.d_model:
        shape["head_dim"] = config.d_k
    return shape


def _output_bias(model: "Transformer", banned: Collection[int]) -> "NDArray[Any]":
    """The output bias, zeros if the model has none, and very low for pad, bos and ``banned``."""
    import numpy as np

    bias = model.output_projection.linear.bias
    array = np.zeros(model.config.tgt_vocab, np.float32) if bias is None else _array(bias).copy()
    array[[model.config.pad_id, model.config.bos_id, *banned]] = _BANNED
    return array


def _fill_side(side: Any, embeddings: Any, embedding: Any, stack: Any) -> None:
    embeddings.weight = _array(embedding.tokens.weight)
    side.scale_embeddings = embedding.scale != 1.0
    if embedding.positions is not None:
        side.position_encodings.encodings = _array(embedding.positions.table)
    if stack.final_norm is not None:
        _fill_norm(side.layer_norm, stack.final_norm)
    for spec, layer in zip(side.layer, stack.layers, strict=True):
        ours = layer.self_attention
        _fill_linear(spec.self_attention.linear[0], ours.w_q, ours.w_k, ours.w_v)
        _fill_linear(spec.self_attention.linear[1], ours.w_o)
        _fill_norm(spec.self_attention.layer_norm, layer.self_attention_add_norm.norm)
        if ours.relative is not None:
            spec.self_attention.relative_position_keys = _array(ours.relative.key_table)
            spec.self_attention.relative_position_values = _array(ours.relative.value_table)
        if hasattr(layer, "cross_attention"):
            ours = layer.cross_attention
            _fill_linear(spec.attention.linear[0], ours.w_q)
            _fill_linear(spec.attention.linear[1], ours.w_k, ours.w_v)
            _fill_linear(spec.attention.linear[2], ours.w_o)
            _fill_norm(spec.attention.layer_norm, layer.cross_attention_add_norm.norm)
        _fill_linear(spec.ffn.linear_0, layer.feed_forward.w_1)
        _fill_linear(spec.ffn.linear_1, layer.feed_forward.w_2)
        _fill_norm(spec.ffn.layer_norm, layer.feed_forward_add_norm.norm)


def _fill_linear(spec: Any, *linears: "nn.Linear") -> None:
    """One matrix of several, laid one below the other."""
    import numpy as np

    spec.weight = np.concatenate([_array(linear.weight) for linear in linears])
    biases = [_array(linear.bias) for linear in linears if linear.bias is not None]
    if biases:
        spec.bias = np.concatenate(biases)


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.gain), _array(norm.bias)


def _array(tensor: Any) -> "NDArray[Any]":
    array: NDArray[Any] = tensor.detach().cpu().float().contiguous().numpy()
    return array
