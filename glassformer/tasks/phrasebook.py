"""A phrasebook, English -> German, French or Japanese: real translation whose one right answer is known.

Both sides of a pair are CLDR's own words for the same meaning, by way of Babel; another version of Babel
brings another CLDR and may word some of them differently.

Held out are phrases by the content of their English source, the same ones for each target language. Bare
names (countries, languages, months, weekdays) are always trained on: no one can guess a word that is in no
dictionary, but lists of names can be put together. A source that has two translations is left out.
"""

from collections.abc import Iterable
from copy import deepcopy
from random import Random
from typing import Any

from babel import Locale

from glassformer.tasks.cldr import plain
from glassformer.tasks.phrases import Meaning, names, phrases
from glassformer.tasks.task import Task, divide, source, unambiguous
from glassformer.text.corpus import Pair

LANGUAGES = {"de": "German", "fr": "French", "ja": "Japanese"}

SETTINGS: dict[str, dict[str, Any]] = {
    "model": {
        "d_model": 128, "n_heads": 4, "d_ff": 512, "n_encoder_layers": 3, "n_decoder_layers": 3, "dropout": 0.1,
    },
    "text": {"tokenizer": "bpe", "vocab_size": 2000, "joint": True},
    "train": {
        "max_updates": 8000, "schedule": "inverse_sqrt", "warmup": 800, "peak_rate": 2e-3, "metric": "exact_match",
    },
}  # fmt: skip


def phrasebook(language: str, seed: int) -> Task:
    """Some 27,000 training pairs, in an order drawn from the seed."""
    random = Random(seed)
    drawn = _written(phrases(random), language)
    random.shuffle(drawn)
    held_out = divide(drawn, source, valid=0.02, test=0.04)
    train = _written(names(), language) + held_out.train
    return Task(
        name=f"phrasebook-{language}",
        summary=f"English phrases -> {LANGUAGES[language]}, in the words of CLDR, {len(train):,} training pairs",
        train=train,
        valid=held_out.valid,
        test=held_out.test,
        metric="exact_match",
        settings=deepcopy(SETTINGS),
        examples=[pair.src for pair in held_out.test[:6]],
    )


def _written(meanings: Iterable[Meaning], language: str) -> list[Pair]:
    english, other = Locale.parse("en"), Locale.parse(language)
    return unambiguous(Pair(plain(meaning(locale=english)), plain(meaning(locale=other))) for meaning in meanings)
