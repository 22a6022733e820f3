"""A model of Marian in: ``.npz`` or ``.bin``, its vocabularies and ``decoder.yml``, in a directory, a zip or by name.

Marian starts a target from zeros and has no padding: ours gets a <pad> and an <s> whose rows are zero.
"""

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from glassformer.errors import CheckpointError, ConfigError, RunError, StorageError, TokenizerError
from glassformer.interop.archives import open_archive, read_member
from glassformer.interop.imported_model import (
    EOS,
    MARIAN_EPS,
    PAD,
    SINUSOIDS,
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
from glassformer.interop.marian.lexicon import read_lexicon
from glassformer.interop.marian.model_file import ENDINGS, SETTINGS, read_model_file
from glassformer.interop.marian.text_files import read_entries, read_text, read_yaml
from glassformer.interop.marian.weights import (
    ACTIVATION_OF,
    EXPECTED,
    PLACES_OF_NORMS,
    SIZES,
    SUBLAYERS,
    name_weights,
    widest_ffn,
)
from glassformer.settings import ModelConfig
from glassformer.text.tokenizer.sentencepiece import SentencePieceModel
from glassformer.text.tokenizer.tokenizer import Tokenizer, Tokenizers

DECODER = "decoder.yml"
MAX_LENGTH = 1024  # positions; Marian itself has no limit
_UNPACKED = (*ENDINGS, ".yml", ".yaml", ".json", ".spm", ".s2t", ".gz", ".txt")
# What changes outputs there and has no equal here, with the value that changes nothing.
_WITHOUT_EQUAL = {"output-sampling": [], "force-decode": False}


@dataclass(frozen=True)
class _Files:
    """The files of a model; ``place`` names them in messages."""

    model: Path
    vocabularies: Sequence[Path]
    decoder: Mapping[str, Any]
    decoder_name: str
    place: Path
    shortlist: Path | None = None


def is_marian(place: Path) -> bool:
    """Whether this is a model of Marian: its file, a zip file, or a directory with a decoder.yml."""
    return place.suffix in (".zip", *ENDINGS) if place.is_file() else len(_decoders(place)) == 1


def _decoders(directory: Path) -> list[Path]:
    """The decoder.yml, or those that training wrote beside models, such as model.npz.decoder.yml."""
    own = directory / DECODER
    return [own] if own.is_file() else sorted(directory.glob(f"*.{DECODER}"))


def import_marian(
    place: Path, vocab: Sequence[Path] = (), positions: str = "marian", shortlist: Path | None = None
) -> ImportedModel:
    """Read a model; ``ConfigError`` for one that cannot be ours, ``CheckpointError`` for damaged files.

    ``vocab`` are the vocabularies of source and target, or of both, if they are not those of the decoder.yml.
    ``positions`` "paper" gives the model the sinusoids that other programs' conversions have. A ``shortlist`` is a
    file as Marian's option of that name has it.
    """
    if place.is_file() and place.suffix not in ENDINGS:
        with tempfile.TemporaryDirectory() as temporary:
            directory = Path(temporary)
            _unpack(place, directory)
            return _import(_find_files(directory, place, vocab, shortlist), positions)
    if place.is_dir():
        return _import(_find_files(place, place, vocab, shortlist), positions)
    return _import(_find_files(place.parent, place.parent, vocab, shortlist, place), positions)


def _unpack(place: Path, directory: Path) -> None:
    """Write the files of a release that are read to ``directory``."""
    try:
        with open_archive(place) as archive:
            for name in archive.namelist():
                if name.endswith(_UNPACKED):
                    (directory / PurePosixPath(name).name).write_bytes(read_member(archive, name))
    except OSError as error:
        raise StorageError(
            f"{place}: cannot be unpacked to {directory.parent}: {error.strerror}. Unpack it elsewhere and name the "
            "directory."
        ) from error


def _find_files(
    directory: Path, place: Path, vocab: Sequence[Path], shortlist: Path | None, model: Path | None = None
) -> _Files:
    decoders = _decoders(directory)
    own = directory / f"{model.name}.{DECODER}" if model else None
    path = own if own and own.is_file() else decoders[0] if len(decoders) == 1 else None
    if path is None and model is None:
        raise RunError(f"{place}: holds no {DECODER}, expected a release of Marian.")
    name = f"{place}/{path.name}" if path else ""
    decoder = read_yaml(read_text(path), name) if path else {}
    if model is None:
        models = _named_files(decoder, "models", directory, place, name)
        if len(models) > 1:
            raise ConfigError(f"{name}: models: found an ensemble of {len(models)}, expected one model.")
        model = models[0]
    if not vocab and path is None:
        raise RunError(f"{model}: stands beside no {DECODER}, which names its vocabularies. Add --vocab FILE.")
    vocabularies = list(vocab) or _named_files(decoder, "vocabs", directory, place, name)
    if len(vocabularies) > 2:
        raise ConfigError(f"{place}: found {len(vocabularies)} vocabularies, expected one of the source, one target.")
    given = decoder.get("shortlist")
    if shortlist is None and given:
        named = {"shortlist": given[:1] if isinstance(given, list) else given}
        (shortlist,) = _named_files(named, "shortlist", directory, place, name)
    return _Files(model, (vocabularies[0], vocabularies[-1]), decoder, name, place, shortlist)


def _named_files(decoder: Mapping[str, Any], key: str, directory: Path, place: Path, where: str) -> list[Path]:
    """The files that decoder.yml names; only their last names count, so that none leads out of the release."""
    names = decoder.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"{where}: {key}: found {names!r}, expected a list of files.")
    paths = [directory / PurePosixPath(name).name for name in names]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise RunError(f"{place}: has no {missing[0]}, which its {DECODER} names under {key}. Put it there.")
    return paths


def _import(files: _Files, positions: str) -> ImportedModel:
    arrays = read_model_file(files.model)
    where = f"{files.place}/{files.model.name}"
    settings = _read_settings(arrays, where)
    sides = [read_entries(path) for path in files.vocabularies]
    entries = [side for side, _ in sides]
    sizes = len(entries[0]), len(entries[1])
    if settings.get("dim-vocabs") not in (None, list(sizes)):
        raise CheckpointError(
            f"{where}: dim-vocabs: found {settings['dim-vocabs']!r:.100}, but the vocabularies have {list(sizes)} "
            "entries. Expected the same: put the vocabularies of this model there."
        )
    spm = _tokenizer_models(files, [model for _, model in sides])
    src, tgt = _vocabularies(entries, spm[0], files.place)
    model = _model_settings(settings, where) | {"src_vocab": len(src.rows()), "tgt_vocab": len(tgt.rows())}
    model |= {"d_ff": widest_ffn(arrays, model["d_ff"]), "sinusoid": SINUSOIDS[positions]}
    try:
        config_before_tying = ModelConfig(**model, tie_embeddings="none")
    except ConfigError as error:
        raise ConfigError(f"{where}: as a run's settings: {error}") from error
    tie, named = name_weights(arrays, settings, config_before_tying, sizes, where)
    weights = order_weights(named, src, tgt, tie, where)
    model |= {"tie_embeddings": tie, "attention_bias": any(name.endswith("w_o.bias") for name in weights)}
    tokenizers = _tokenizers(spm, (src, tgt))
    decode, notes = _decode_settings(files.decoder, files.decoder_name)
    config = run_config(model, tokenizers, decode, str(files.place))
    check_weights(config.model, weights, where)
    source = {"path": str(files.place), "architecture": "Marian", "starts_with": "a vector of zeros"}
    shortlist = None
    if files.shortlist is not None:
        given = files.decoder.get("shortlist")
        limits = given[1:4] if isinstance(given, list) else []
        shared = files.vocabularies[0] == files.vocabularies[1]
        shortlist = read_lexicon(files.shortlist, limits, (src, tgt), tokenizers, shared=shared)
        engine = "CTranslate2, which has no SSRU" if config.model.autoregressive_sublayer == "ssru" else "CTranslate2"
        notes = [*notes, f"its shortlist is kept. PyTorch computes all tokens, and a shortlist acts in {engine}."]
    return ImportedModel(config, weights, tokenizers, source, notes, shortlist)


def _read_settings(arrays: Mapping[str, Any], where: str) -> dict[str, Any]:
    if SETTINGS not in arrays:
        raise CheckpointError(f"{where}: has no {SETTINGS}, expected the settings of a Marian model.")
    try:
        text = arrays[SETTINGS].tobytes().rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{where}: {SETTINGS}: is not UTF-8: {error}. Expected settings.") from error
    return read_yaml(text, f"{where}: {SETTINGS}")


def _tokenizer_models(
    files: _Files, spm: Sequence[SentencePieceModel | None]
) -> tuple[SentencePieceModel | None, SentencePieceModel | None]:
    """The .spm of source and target, which are the vocabularies or stand beside them; none for plain words."""
    directory = files.vocabularies[0].parent
    found = [directory / f"{side}.spm" for side in ("source", "target")]
    src, tgt = (
        SentencePieceModel.read(path) if own is None and path.is_file() else own
        for own, path in zip(spm, found, strict=True)
    )
    if (src is None) != (tgt is None):
        raise RunError(f"{files.place}: has a .spm for one side only, expected source.spm and target.spm.")
    return src, tgt


def _tokenizers(spm: Sequence[SentencePieceModel | None], sides: tuple[Vocabulary, Vocabulary]) -> Tokenizers:
    models = [one for one in spm if one is not None]
    if models:
        return make_tokenizers(models, sides)
    src, tgt = (Tokenizer.from_words(side.names()) for side in sides)
    return src, tgt


def _vocabularies(
    entries: list[list[str]], spm: SentencePieceModel | None, place: Path
) -> tuple[Vocabulary, Vocabulary]:
    """With a <pad> after the last entry, which is also what a target starts with."""
    for side in entries:
        missing = [name for name in (EOS, UNKNOWN) if name not in side]
        if missing:
            raise TokenizerError(f"{place}: the vocabulary has no {missing[0]}, expected {EOS} and {UNKNOWN}.")
    extras = ((), ()) if spm is None else extra_pieces(entries, spm)
    sides = [
        Vocabulary([*side, PAD], len(side), len(side), side.index(EOS), side.index(UNKNOWN), extra, adds_pad=True)
        for side, extra in zip(entries, extras, strict=True)
    ]
    return sides[0], sides[1]


def _model_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The section ``model`` without vocabularies; ``ConfigError`` names what cannot be ours."""
    norm = "pre" if "n" in str(settings.get("transformer-preprocess")) else "post"
    for name, value in (EXPECTED | PLACES_OF_NORMS[norm] | {"transformer-postprocess-emb": "d"}).items():
        found, wanted = settings.get(name, value), value
        if isinstance(found, str) and "process" in name:
            found, wanted = found.replace("d", ""), value.replace("d", "")
        if found != wanted:
            raise ConfigError(f"{where}: {name}: found {settings[name]!r}, expected {value!r}.")
    if settings.get("transformer-decoder-ffn-depth", 0) not in (0, 2):
        found = settings["transformer-decoder-ffn-depth"]
        raise ConfigError(f"{where}: transformer-decoder-ffn-depth: found {found!r}, expected 0 or 2.")
    sublayer, cell = settings.get("transformer-decoder-autoreg", "self-attention"), settings.get("dec-cell")
    if sublayer not in tuple(SUBLAYERS) or (sublayer == "rnn" and cell != "ssru"):
        raise ConfigError(
            f"{where}: transformer-decoder-autoreg: found {sublayer!r} with the dec-cell {cell!r}, expected "
            "'self-attention', or 'rnn' with 'ssru'."
        )
    activation = settings.get("transformer-ffn-activation", "swish")
    if not isinstance(activation, str) or activation not in ACTIVATION_OF:
        raise ConfigError(
            f"{where}: transformer-ffn-activation: found {activation!r}, expected one of {', '.join(ACTIVATION_OF)}."
        )
    return {
        **read_settings(settings, SIZES, where, "transformer"), "max_length": MAX_LENGTH, "norm": norm,
        "autoregressive_sublayer": SUBLAYERS[sublayer], "activation": ACTIVATION_OF[activation],
        "norm_eps": MARIAN_EPS, "attention_bias": True, "output_bias": True,
        "dropout": settings.get("transformer-dropout", 0.1),
    }  # fmt: skip


def _decode_settings(decoder: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """The section ``decode`` of decoder.yml, and notes on what is not in it.

    Marian divides by length^normalize, and takes at most a factor times the source's tokens, whose </s> it counts.
    """
    beam, factor = read_value(decoder, "beam-size", 12, where), read_value(decoder, "max-length-factor", 3.0, where)
    decode = {
        "beam": beam, "length_norm": "power", "length_penalty": read_value(decoder, "normalize", 0.0, where),
        "word_penalty": read_value(decoder, "word-penalty", 0.0, where),
        "early_stopping": "shrink", "max_length_a": factor,
        "max_length_b": max(1, math.ceil(factor)) if abs(factor) < 1000 else 1,  # more is refused with max_length_a
        "allow_unk": read_value(decoder, "allow-unk", False, where),
        "n_best": beam if read_value(decoder, "n-best", False, where) else 1,
    }  # fmt: skip
    return decode, describe_dropped(find_dropped(decoder, _WITHOUT_EQUAL), where, "marian-decoder")
