"""Reads and writes generation_config.json, the search settings of Hugging Face."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from glassformer.checkpoint import read_json
from glassformer.errors import ConfigError
from glassformer.interop.imported_model import check_ids, describe_dropped, find_dropped, read_value
from glassformer.settings import DecodeConfig, ModelConfig

FILE = "generation_config.json"
_IDS = {"pad": "pad_token_id", "start": "decoder_start_token_id", "eos": "eos_token_id"}
_STOPPING: dict[Any, str] = {True: "beam", False: "heuristic", "never": "never"}
# Our filters of sampling, their names, and what they are there if a file does not say.
_FILTERS = {
    "temperature": ("temperature", 1.0), "top_k": ("top_k", 50), "top_p": ("top_p", 1.0), "min_p": ("min_p", 0.0),
    "typical_p": ("typical_p", 1.0),
}  # fmt: skip
# Their settings without an equal here, with the value that changes nothing.
_WITHOUT_EQUAL = {
    "num_beam_groups": 1, "encoder_no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1.0,
    "exponential_decay_length_penalty": None, "suppress_tokens": None, "begin_suppress_tokens": None,
    "sequence_bias": None, "forced_bos_token_id": None, "forced_decoder_ids": None, "force_words_ids": None,
    "constraints": None, "renormalize_logits": False, "guidance_scale": 1.0, "penalty_alpha": 0.0,
    "dola_layers": None, "stop_strings": None, "max_time": None, "watermarking_config": None, "token_healing": False,
    "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "top_h": None,
}  # fmt: skip
_WRITTEN = {
    "beam", "early_stopping", "n_best", "min_length", "no_repeat_ngram", "max_length_b", "cache", "sample", "seed",
    *_FILTERS,
}  # fmt: skip
# Our settings that have no equal there, with the value that changes nothing.
_NOT_WRITTEN = {
    knob.name: knob.default
    for knob in fields(DecodeConfig)
    if knob.metadata["acts_in"] in {"search", "sampling"} and knob.name not in _WRITTEN
} | {"max_length_a": 0.0, "split_sentences": False, "word_penalty": 0.0}


def read_generation(place: Path) -> dict[str, Any]:
    """What generation_config.json says; nothing if there is none."""
    return read_json(place / FILE) if (place / FILE).is_file() else {}


def read_ids(place: Path, settings: Mapping[str, Any], size: int) -> dict[str, Any]:
    """The ids of pad, start and end, as ``generate`` finds them."""
    ids: dict[str, Any] = dict.fromkeys(_IDS)
    for file, found in (("config.json", settings), (FILE, read_generation(place))):
        own = {part: _only(found[name]) for part, name in _IDS.items() if found.get(name) is not None}
        check_ids(own, size, f"{place}/{file}")
        ids |= own
    return ids


def _only(number: Any) -> Any:
    """The one id of a list of one, as newer directories may have it."""
    return number[0] if isinstance(number, list) and len(number) == 1 else number


def conflicting_ids(place: Path) -> dict[str, tuple[Any, Any]]:
    """The ids that config.json and generation_config.json state differently."""
    files = read_json(place / "config.json"), read_generation(place)
    pairs = {name: (_only(files[0].get(name)), _only(files[1].get(name))) for name in _IDS.values()}
    return {name: pair for name, pair in pairs.items() if None not in pair and pair[0] != pair[1]}


def note_ids(place: Path) -> list[str]:
    """A note on each of the ``conflicting_ids``."""
    return [
        f"{place}/{FILE}: {name} = {found!r} is taken, as in generate(), and not the {other!r} of config.json."
        for name, (other, found) in conflicting_ids(place).items()
    ]


def decode_settings(place: Path, eos: int, never: Collection[int]) -> tuple[dict[str, Any], list[str]]:
    """The section ``decode``, and notes; no output of ours has the ids ``never``."""
    found, where = {**read_json(place / "config.json"), **read_generation(place)}, f"{place}/{FILE}"
    decode: dict[str, Any] = {
        "beam": read_value(found, "num_beams", 1, where), "length_norm": "power", "max_length_a": 0.0,
        "n_best": read_value(found, "num_return_sequences", 1, where),
        "length_penalty": read_value(found, "length_penalty", 1.0, where),
        "early_stopping": _early_stopping(found, where),
        "no_repeat_ngram": read_value(found, "no_repeat_ngram_size", 0, where),
        "min_length": _new_length(found, "min", 1, where),
        "max_length_b": _new_length(found, "max", read_value(found, "max_position_embeddings", 512, where), where),
    }  # fmt: skip
    dropped = find_dropped(found, _WITHOUT_EQUAL) | _dropped_ids(found, eos, never)
    for part in (_repetition_penalty, _sampling):
        own, without = part(found, decode["beam"], where)
        decode, dropped = {**decode, **own}, {**dropped, **without}
    return decode, describe_dropped(dropped, where, "generate()")


def _repetition_penalty(found: Mapping[str, Any], beam: int, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ours and what is dropped: without a beam theirs divides logits."""
    value = {"repetition_penalty": read_value(found, "repetition_penalty", 1.0, where)}
    is_ours = beam > 1 and not found.get("do_sample") and value["repetition_penalty"] >= 1.0
    return (value, {}) if is_ours else ({}, {} if value["repetition_penalty"] == 1.0 else value)


def _sampling(found: Mapping[str, Any], beam: int, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ours and what is dropped: theirs may also sample in a beam search."""
    if not read_value(found, "do_sample", False, where):
        return {}, {}
    if beam > 1:
        return {}, {"do_sample": True}
    filters = {ours: read_value(found, theirs, value, where) for ours, (theirs, value) in _FILTERS.items()}
    return {"sample": True, **filters}, {}


def _early_stopping(found: Mapping[str, Any], where: str) -> str:
    value = found.get("early_stopping") or False
    if not isinstance(value, bool | str) or value not in _STOPPING:
        raise ConfigError(f"{where}: early_stopping: found {value!r}, expected true, false or 'never'.")
    return _STOPPING[value]


def _new_length(found: Mapping[str, Any], bound: str, default: int, where: str) -> int:
    """Their min_length counts the start; min_new_tokens does not, and wins."""
    counted = read_value(found, f"{bound}_length", default, where)
    return read_value(found, f"{bound}_new_tokens", max(counted - 1, 0), where)


def _dropped_ids(found: Mapping[str, Any], eos: int, never: Collection[int]) -> dict[str, Any]:
    """The forbidden and forced ids that our search lacks."""
    dropped = {}
    banned, forced = found.get("bad_words_ids") or [], found.get("forced_eos_token_id")
    if not isinstance(banned, list) or any(word not in [[number] for number in never] for word in banned):
        dropped["bad_words_ids"] = banned
    if forced not in (None, eos, [eos]):
        dropped["forced_eos_token_id"] = forced
    return dropped


def search_settings(options: DecodeConfig, config: ModelConfig, padding: int) -> dict[str, Any]:
    """The ``generation_config.json`` of a run's search."""
    written = {
        "num_beams": 1 if options.sample else options.beam, "length_penalty": options.length_penalty,
        "early_stopping": {ours: theirs for theirs, ours in _STOPPING.items()}.get(options.early_stopping, "never"),
        "no_repeat_ngram_size": options.no_repeat_ngram,
        "max_length": config.max_length if options.max_length_a else min(options.max_length_b + 1, config.max_length),
        "bad_words_ids": [[config.pad_id], [config.bos_id]],
        "pad_token_id": padding, "bos_token_id": config.bos_id, "eos_token_id": config.eos_id,
        "decoder_start_token_id": config.bos_id, "forced_eos_token_id": None,
    }  # fmt: skip
    if options.min_length:
        written["min_length"] = options.min_length + 1
    if options.n_best > 1:
        written["num_return_sequences"] = options.n_best
    if _penalizes_repetition_alike(options):
        written["repetition_penalty"] = options.repetition_penalty
    if options.sample:
        written |= {theirs: getattr(options, ours) for ours, (theirs, _) in _FILTERS.items()} | {"do_sample": True}
    return written


def search_notes(options: DecodeConfig) -> list[str]:
    """What of the run's search Hugging Face does not have, by name."""
    idle = {knob.name for knob in fields(options) if knob.metadata["acts_in"] == "sampling" and not options.sample}
    written = {"repetition_penalty"} if _penalizes_repetition_alike(options) else set()
    names = [
        f"decode.{name} = {getattr(options, name)!r}"
        for name, value in _NOT_WRITTEN.items()
        if name not in idle | written and getattr(options, name) != value
    ]
    if options.early_stopping == "shrink":
        names.append("decode.early_stopping = 'shrink'")
    return [f"Not written, because Hugging Face does not have it: {', '.join(names)}."] if names else []


def _penalizes_repetition_alike(options: DecodeConfig) -> bool:
    """Whether Hugging Face multiplies log-probabilities; without a beam it divides logits."""
    return options.beam > 1 and not options.sample and options.repetition_penalty > 1.0
