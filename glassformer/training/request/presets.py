"""Presets: settings that belong together, under one name for ``--preset``, or chosen by the pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from glassformer.errors import ConfigError, nearest
from glassformer.settings import default_vocab_size
from glassformer.text.columns import FEATURE
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.units import Lines, find_units

Settings = Mapping[str, Mapping[str, Any]]

SAMPLE = 1000  # pairs by which the preset is chosen
_FEWEST_WORDS = 100  # different sources; fewer say nothing of a text
_ENOUGH_WORDS = 5000  # pairs, with copies that join two of them


@dataclass(frozen=True)
class Preset:
    """Settings by section, and in one line what they are for."""

    summary: str
    settings: Settings


_PAPER = {
    "optimizer": "adam", "precision": "auto", "schedule": "noam", "peak_rate": 0.0, "warmup": 4000, "cooldown": 0.0,
    "clip_norm": 0.0,
}  # fmt: skip
PRESETS = {
    "paper": Preset(
        "the paper's training: Adam, the rate of equation 3 with 4,000 updates of warm-up, no cooldown, no clipping",
        {"train": _PAPER},
    ),
    "sentences": Preset("pairs of sentences: the defaults", {}),
    # Measured by benchmarks/sequences.py: docs/sequences.md has the figures.
    "words": Preset(
        "words to sounds, lemmas to forms, old to new spelling",
        {
            "model": {
                "d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 2, "n_decoder_layers": 2,
                "norm": "pre", "dropout": 0.3, "positions": "relative", "relative_clip": 4,
            },
            "train": {
                "optimizer": "adam", "precision": "auto", "cooldown": 0.25,
                "batch_tokens": 512, "schedule": "inverse_sqrt", "peak_rate": 1e-3, "warmup": 300,
                "label_smoothing": 0.1, "metric": "exact_match", "max_updates": 3000, "validate_every": 500,
                "valid_translations": 1000, "patience": 0,
            },
            "decode": {"beam": 5, "keep_codes": False},
        },
    ),
}  # fmt: skip


class Choice(NamedTuple):
    """The name of a preset, its settings, and a line that says why it was chosen."""

    name: str | None
    settings: Settings
    reason: str


# In place of those of the preset, where the pairs need no copies.
_MANY_WORDS = {"batch_tokens": 1024, "max_updates": 8000}
NO_CHOICE = Choice(None, {}, "")


def choose_preset(name: str | None, pairs: Sequence[Pair]) -> Choice:
    """The preset of that name, or the one that suits ``pairs``.

    Of words, the pairs decide how they are cut. Raises ``ConfigError`` for an unknown name.
    """
    if name is not None and (not isinstance(name, str) or name not in PRESETS):
        raise ConfigError(
            f"--preset: there is no preset {name!r}.{nearest(str(name), PRESETS)} Known: {', '.join(PRESETS)}."
        )
    are_words = "sentences" not in find_units(pairs) and len({pair.src for pair in pairs[:SAMPLE]}) >= _FEWEST_WORDS
    chosen = name or ("words" if are_words else "sentences")
    settings = dict(PRESETS[chosen].settings)
    if chosen == "words":
        settings["text"] = _words_text(pairs)
        if len(pairs) >= _ENOUGH_WORDS:
            settings["train"] = {**settings["train"], **_MANY_WORDS}
    return Choice(chosen, settings, _reason(chosen, pairs, is_named=name is not None))


def _reason(name: str, pairs: Sequence[Pair], *, is_named: bool) -> str:
    """Why it was chosen; nothing of what is taken without a word."""
    if is_named or name == "sentences":
        return f"Preset {name}: {PRESETS[name].summary}." if is_named else ""
    lines = Lines.count(pair.src for pair in pairs)
    return (
        f"Preset words: {100 * lines.one_word:.0f} % of the sources are one word or the symbols of one, with "
        f"{lines.length:g} characters in the median. --preset sentences takes the settings for sentences."
    )


def _words_text(pairs: Sequence[Pair]) -> dict[str, Any]:
    """How words are cut: into symbols on spaces, else into characters, of which features stay whole."""
    src, tgt = find_units(pairs)
    kinds = {"src_tokenizer": src, "tgt_tokenizer": tgt}
    texts = [side for pair in pairs[:SAMPLE] for side in pair]
    return {
        "joint": False,
        **{key: "symbols" if unit == "symbols" else "characters" for key, unit in kinds.items()},
        "marked": any(FEATURE.search(text) for text in texts),
        "decompose": 4 * sum(map(_has_hangul, texts)) > len(texts),
        "joined": min(5, _ENOUGH_WORDS // max(1, len(pairs))),
        "vocab_size": max(2000, default_vocab_size(len(pairs))),
    }


def _has_hangul(text: str) -> bool:
    return any("\uac00" <= sign <= "\ud7a3" for sign in text)
