"""Dates written out in 20 languages -> ISO 8601: "tirsdag den 7. marts 2023" -> "2023-03-07".

Babel writes them by the rules of CLDR. The training data has no date of the test split in any language or style.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import cycle, islice
from operator import attrgetter
from random import Random
from typing import Any, Literal, get_args

from babel.dates import format_date

from glassformer.tasks.task import Task, divide, drop_ambiguous
from glassformer.text.corpus.corpus import Pair

# All of them write Gregorian dates with the digits 0-9, unlike ar, fa and th, for example.
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "cs", "sv",
             "da", "fi", "hu", "tr", "ru", "uk", "el", "ja", "zh", "ko")  # fmt: skip

Style = Literal["full", "long", "medium"]
STYLES: tuple[Style, ...] = get_args(Style)
FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
TRAIN_PAIRS, VALID_PAIRS, TEST_PAIRS = 20_000, 500, 1_000
GENERATED_PAIRS = 24_000  # more than the splits need: a split by content is never exact

SETTINGS: dict[str, dict[str, Any]] = {
    "model": {
        "d_model": 96, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.0,
        "norm": "pre",
    },
    "text": {"tokenizer": "characters", "joint": True},
    "train": {
        "optimizer": "adam", "precision": "auto", "cooldown": 0.25,
        "batch_tokens": 1536, "bucket": 12, "max_updates": 5000, "schedule": "inverse_sqrt", "warmup": 200,
        "peak_rate": 3e-3, "label_smoothing": 0.0, "metric": "exact_match", "validate_every": 150, "stop_at": 100.0,
    },
}  # fmt: skip


def dates(seed: int) -> Task:
    """20,000 / 500 / 1,000 pairs, the languages and styles in turn."""
    pairs = drop_ambiguous(islice(_generate(Random(seed)), GENERATED_PAIRS))
    train, valid, test = divide(pairs, attrgetter("tgt"), valid=0.03, test=0.05)
    summary = f"dates written in {len(LANGUAGES)} languages -> ISO 8601, {TRAIN_PAIRS:,} training pairs"
    return Task("dates", summary, train[:TRAIN_PAIRS], valid[:VALID_PAIRS], test[:TEST_PAIRS], settings=SETTINGS)


def _generate(random: Random) -> Iterator[Pair]:
    for language, style in cycle((language, style) for style in STYLES for language in LANGUAGES):
        day = FIRST + timedelta(days=random.randrange((LAST - FIRST).days + 1))
        yield Pair(normalize_spaces(format_date(day, style, locale=language)), day.isoformat())


def normalize_spaces(text: str) -> str:
    """Text with single ordinary spaces: nobody types CLDR's narrow ones."""
    return " ".join(text.split())
