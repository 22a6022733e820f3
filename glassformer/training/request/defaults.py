"""Defaults that follow from the training pairs: docs/results.md."""

import math
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from babel import localedata

from glassformer.checkpoint import read_json
from glassformer.errors import CheckpointError, TextError
from glassformer.run_directory import RunDirectory, pick_device
from glassformer.settings import (
    DecodeConfig,
    RunConfig,
    TrainConfig,
    default_vocab_size,
    name_languages,
    named_model,
)
from glassformer.text.corpus.prepare import PreparedText
from glassformer.text.formats import find_format
from glassformer.training.objective.objective import cpu_has_bf16
from glassformer.training.request.data import FileSource, TrainingText

FEW_PAIRS = 20_000  # benchmarks/small_data.py has compared settings on no more than these
_NEARLY_ALL = 0.999  # of the pairs, whose targets the limit of length leaves twice the room that they need
_FEW_LOWER = 0.1  # of the pairs begin with a lower-case letter: they are sentences
_FEW_WORDLESS = 0.01  # of the sources; more of them teach something

# Why a default is what it is. The figures are from docs/results.md, Few pairs: those of Tatoeba and of Multi30k.
_REASONS = {
    "layers": "4 + 4 cost 0.9 and 1.4 BLEU on 2,000 pairs, 0.6 and 0.8 on 20,000",
    "dropout": "against learning few pairs by heart",
    "vocabulary": "one for each pair, from 512 to 8,000: a quarter of that cost 2.0 and 4.4 BLEU on 2,000 pairs",
    "batches": "1,024 cost 0.4 and 0.6 BLEU on 2,000 pairs",
    "BPE-dropout": "0.1 cost 1.1 and 3.6 BLEU on 2,000 pairs",
}


# What docs/results.md, The race, compares with Adam, for models with the norm before each sublayer.
RACED: dict[str, Any] = {"optimizer": "muon", "schedule": "constant", "warmup": 100}
_CURVE = {"schedule", "peak_rate", "warmup"}  # who sets one of them begins with the paper's curve
_PAPERS_WARMUP = 500  # by equation 3 its peak is 0.004 at d_model 128, and lower for wider models


def train_defaults(config: RunConfig, given: Collection[str], run: Path) -> RunConfig:
    """``config`` with the settings of ``RACED`` for those of its training that are not ``given``.

    A run that has begun keeps its own. Models with the norm after each sublayer train as the paper's do.
    """
    found = _settings_of(run)
    if not found and config.model.norm == "pre":
        found = {**RACED, "peak_rate": round((config.model.d_model * _PAPERS_WARMUP) ** -0.5, 4)}
        if config.train.sharding == "full":
            found["optimizer"] = "adam"  # a step of Muon needs whole matrices
        device = config.train.device
        if device in {"auto", "cpu"} and pick_device(device).type == "cpu" and cpu_has_bf16():
            found["precision"] = "bf16"
    taken = {*given, *(_CURVE if _CURVE & set(given) else ())}
    return replace(config, train=replace(config.train, **{key: found[key] for key in found.keys() - taken}))


def _settings_of(run: Path) -> dict[str, Any]:
    """What a run that has begun trains with, of the settings that ``train_defaults`` fills in."""
    place = RunDirectory(run)
    if not place.has_checkpoints:
        return {}
    with suppress(CheckpointError, KeyError, TypeError, AttributeError):  # a damaged run: train() says so
        saved = {**TrainConfig().to_mapping(), **read_json(place.config_file)["config"]["train"]}
        return {key: saved[key] for key in (*RACED, "peak_rate", "precision")}
    return {}


def default_model(source: TrainingText, run: Path) -> str:
    """``micro`` for up to 20,000 pairs, otherwise ``tiny``, or the run's own."""
    if not isinstance(source, FileSource):
        return "tiny"
    place = RunDirectory(run)
    if place.has_checkpoints:
        with suppress(CheckpointError, KeyError, TypeError, AttributeError):  # a damaged run: train() says so
            return _nearest_default(read_json(place.config_file)["config"]["model"])
    with suppress(TextError):  # a missing or damaged file: train() says so
        return "tiny" if any(islice(source.pairs(), FEW_PAIRS, None)) else "micro"
    return "micro"


def _nearest_default(model: dict[str, Any]) -> str:
    """The one of the two from which fewer settings of this model differ."""
    named = {name: named_model(name) for name in ("micro", "tiny")}
    return min(named, key=lambda name: sum(model.get(key) != value for key, value in named[name].items()))


def decode_defaults(decode: DecodeConfig, text: PreparedText, source: TrainingText) -> DecodeConfig:
    """The settings of decoding that follow from the training pairs, where they have not been set.

    max_length_a is the ratio of target to source tokens, max_length_b twice what 99.9 % of the pairs need beyond it.
    """
    src, tgt = (np.asarray(side.lengths, np.int64) - 1 for side in (text.train.src_side, text.train.tgt_side))
    ratio = max(1.0, math.ceil(10 * tgt.sum() / max(1, src.sum())) / 10)
    more = float(np.quantile(tgt - ratio * src, _NEARLY_ALL, method="higher"))
    found: dict[str, Any] = {
        "max_length_a": min(ratio, 100.0),
        "max_length_b": max(DecodeConfig().max_length_b, 10 * math.ceil(2 * more / 10)),
        "copy_wordless": text.counts.get("wordless", 0) < _FEW_WORDLESS * len(src),
        "match_style": text.counts.get("lower_starts", len(src)) < _FEW_LOWER * len(src),
        "src_language": _languages_of_files(source)[0],
    }
    default = DecodeConfig()
    return replace(
        decode, **{name: value for name, value in found.items() if getattr(decode, name) == getattr(default, name)}
    )


def language_settings(source: TrainingText) -> dict[str, dict[str, Any]]:
    """``text.languages``, if the files of pairs name both sides' language."""
    with suppress(TextError):  # a missing or damaged file: train() says so
        languages = name_languages(*_languages_of_files(source))
        if languages:
            return {"text": {"languages": languages}}
    return {}


def _languages_of_files(source: TrainingText) -> tuple[str, str]:
    """The languages of both sides by the files' names, if known."""
    if not isinstance(source, FileSource):
        return "", ""
    if source.tgt is None:
        read = find_format(source.src, packed=True).languages
        languages = read(source.src) if read is not None else []
        src, tgt = languages if len(languages) == 2 else ("", "")
    else:
        src, tgt = _language_of_ending(source.src), _language_of_ending(source.tgt)
    return (tgt, src) if source.turned else (src, tgt)


def _language_of_ending(path: Path) -> str:
    name = path.name.removesuffix(".gz").rpartition(".")[2].replace("_", "-")
    return name if localedata.exists(name.partition("-")[0]) else ""


def describe_settings(config: RunConfig, pairs: int, *, init: bool = False, reasons: bool = False) -> str:
    """The settings that matter most for few pairs; with ``reasons``, why the defaults are what they are."""
    model, text, train, decode = config.model, config.text, config.train, config.decode
    default = named_model(_nearest_default(model.to_mapping()))
    is_micro = default == named_model("micro") and model.n_encoder_layers == model.n_decoder_layers == 2
    has_own_size = (
        text.kinds == ("bpe", "bpe") and not text.vocab_size and model.tgt_vocab >= default_vocab_size(pairs)
    )
    sides = "one vocabulary for both sides"
    if not text.joint:
        sides = f"a vocabulary for each side, so that model.tie_embeddings is {model.tie_embeddings!r}"
    limit = f"outputs of at most {decode.max_length_a:g} times the source's tokens + {decode.max_length_b}"
    settings = {  # each with whether it is the default
        "layers": (f"{model.n_encoder_layers} + {model.n_decoder_layers} layers of width {model.d_model}", is_micro),
        "dropout": (f"dropout {model.dropout:g}", model.dropout == default["dropout"]),
        "vocabulary": (f"{sides}, {model.tgt_vocab:,} entries", has_own_size),
        "batches": (f"batches of {train.batch_tokens:,} tokens", train.batch_tokens == TrainConfig().batch_tokens),
        "BPE-dropout": (f"BPE-dropout {text.bpe_dropout:g}", not text.bpe_dropout),
        "limit": (limit, False),
        "smoothing": (f"label smoothing {train.label_smoothing:g}", False),
    }
    if "bpe" not in text.kinds:
        del settings["BPE-dropout"]
    if init:
        found = "; ".join(value for value, _ in settings.values())
        return f"Settings: {found}. Layers and vocabulary are of the first model."
    is_of_sentences = "bpe" in text.kinds  # of which the reasons are
    if text.joined:
        settings["joined"] = (
            f"{text.joined} copies of each pair joined with another, from the pairs themselves",
            False,
        )
    parts = [
        value + (f" ({_REASONS[name]})" if is_own and is_of_sentences and reasons else "")
        for name, (value, is_own) in settings.items()
    ]
    return f"Chosen for {pairs:,} pairs: {'; '.join(parts)}. Set any of them with --set."
