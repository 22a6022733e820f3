"""A phrasebook, English -> German, French or Japanese: real translation with one known right answer.

A phrase is a date, a time, a measure, an amount of money, a number, a name or a list of names, as a function of the
language. Both sides of a pair are CLDR's own words, which may change with the version of Babel.

Phrases are held out by their English text, the same ones for each target language. Names on their own are always in
the training data: no one can guess an unknown word, but lists of names can be composed.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from operator import attrgetter
from random import Random
from typing import Any, get_args

from babel import Locale
from babel.dates import format_date, format_skeleton, format_time
from babel.numbers import format_currency, format_decimal, format_percent

from glassformer.tasks import cldr
from glassformer.tasks.task import Task, divide, drop_ambiguous
from glassformer.text.corpus.corpus import Pair

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

# CLDR has a word for each of these in English, German, French and Japanese, but not for all units.
UNITS = (
    "length-kilometer", "length-meter", "length-centimeter", "length-millimeter", "length-mile", "length-yard",
    "length-foot", "length-inch", "length-light-year", "length-nautical-mile", "mass-kilogram", "mass-gram",
    "mass-tonne", "mass-pound", "mass-ounce", "mass-carat", "volume-liter", "volume-milliliter",
    "volume-cubic-meter", "volume-gallon", "volume-pint", "volume-tablespoon", "volume-teaspoon", "volume-barrel",
    "area-square-kilometer", "area-square-meter", "area-hectare", "area-acre", "area-square-mile",
    "speed-kilometer-per-hour", "speed-meter-per-second", "speed-mile-per-hour", "speed-knot",
    "temperature-celsius", "temperature-fahrenheit", "temperature-kelvin", "digital-byte", "digital-kilobyte",
    "digital-megabyte", "digital-gigabyte", "digital-terabyte", "power-watt", "power-kilowatt",
    "power-horsepower", "energy-kilojoule", "energy-kilocalorie", "energy-kilowatt-hour", "electric-volt",
    "electric-ampere", "frequency-hertz", "frequency-megahertz", "pressure-bar", "pressure-hectopascal",
    "duration-century", "duration-decade", "duration-year", "duration-month", "duration-week", "duration-day",
    "duration-hour", "duration-minute", "duration-second", "angle-degree", "graphics-pixel",
)  # fmt: skip
CURRENCIES = (
    "USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "NZD", "CNY", "INR", "KRW", "BRL", "MXN", "SEK", "NOK", "DKK",
    "PLN", "CZK", "HUF", "TRY", "ILS", "ZAR", "THB", "SGD", "HKD",
)  # fmt: skip
FIRST_DAY, DAYS = date(1950, 1, 1), 36_525

Phrase = Callable[..., str]
"""Something that every language can express: called with a ``locale``, it gives the words of that language."""


def phrasebook(language: str, seed: int) -> Task:
    """About 27,000 training pairs; the phrases and their order depend on the seed."""
    random = Random(seed)
    pairs = _translate(_phrases(random), language)
    random.shuffle(pairs)
    train, valid, test = divide(pairs, attrgetter("src"), valid=0.02, test=0.04)
    train = _translate(_names(), language) + train
    summary = f"English phrases -> {LANGUAGES[language]}, in the words of CLDR, {len(train):,} training pairs"
    settings = {**SETTINGS, "text": {**SETTINGS["text"], "languages": f"en-{language}"}}
    return Task(f"phrasebook-{language}", summary, train, valid, test, settings=settings)


def _translate(phrases: Iterable[Phrase], language: str) -> list[Pair]:
    locales = Locale.parse("en"), Locale.parse(language)
    return drop_ambiguous(
        Pair(*(cldr.normalize_spaces(phrase(locale=locale)) for locale in locales)) for phrase in phrases
    )


def _names() -> Iterator[Phrase]:
    """Every country, language, month and weekday on its own."""
    for kind, codes in cldr.name_codes().items():
        yield from (partial(cldr.name, kind, code) for code in codes)


def _phrases(random: Random) -> Iterator[Phrase]:
    """All other phrases: about 30,000, with a few duplicates."""
    yield from _days(random, 5_500)
    yield from _times()
    yield from _moments(random, 3_000)
    yield from _relative_times(60)
    yield from _measures(random, 80)
    yield from _amounts(random, 80)
    yield from _numbers(random, 1_000)
    yield from _name_lists(random, 6_000)


def _day(random: Random) -> date:
    return FIRST_DAY + timedelta(days=random.randrange(DAYS))


def _style(random: Random, day: date) -> cldr.DateStyle:
    # In English the medium and the long style of a date in May are the same, in other languages they differ.
    return random.choice(("full", "long")) if day.month == 5 else random.choice(get_args(cldr.DateStyle))


def _days(random: Random, count: int) -> Iterator[Phrase]:
    for _ in range(count):
        day = _day(random)
        yield partial(format_date, day, _style(random, day))
    for skeleton in ("yMMMM", "MMMMd", "MMMEd", "yMMMEd"):
        for _ in range(count // 10):
            day = datetime.combine(_day(random), time())
            yield partial(format_skeleton, skeleton, day, fuzzy=False)


def _times() -> Iterator[Phrase]:
    for minute in range(24 * 60):
        yield partial(format_time, time(*divmod(minute, 60)), "short")


def _moments(random: Random, count: int) -> Iterator[Phrase]:
    for _ in range(count):
        when = datetime.combine(_day(random), time(random.randrange(24), random.randrange(60)))
        yield partial(cldr.moment, when, _style(random, when))


def _relative_times(highest: int) -> Iterator[Phrase]:
    for span in get_args(cldr.Span):
        for number in range(1, highest + 1):
            yield partial(cldr.relative_time, number, span)
            yield partial(cldr.relative_time, -number, span)


def _measures(random: Random, each: int) -> Iterator[Phrase]:
    for unit in UNITS:
        yield partial(cldr.measure, Decimal(1), unit)
        for _ in range(each):
            low, high, divisor = random.choice(((2, 100, 1), (100, 10_000, 1), (1, 1_000, 10)))
            yield partial(cldr.measure, Decimal(random.randrange(low, high)) / divisor, unit)


def _amounts(random: Random, each: int) -> Iterator[Phrase]:
    for currency in CURRENCIES:
        for _ in range(each):
            yield partial(format_currency, _cents(random), currency)
            whole = Decimal(random.randrange(1, 10 ** random.randrange(2, 7)))
            yield partial(format_currency, whole, currency, format_type="name", currency_digits=False)


def _numbers(random: Random, count: int) -> Iterator[Phrase]:
    for _ in range(count):
        yield partial(format_decimal, random.choice((1, 100, -1)) * _cents(random))
        yield partial(format_percent, Decimal(random.randrange(1, 2_000)) / 1_000, "#,##0.#%")


def _cents(random: Random) -> Decimal:
    """An amount with at most two decimals, small ones as likely as large ones."""
    return Decimal(random.randrange(1, 10 ** random.randrange(3, 8))) / 100


def _name_lists(random: Random, count: int) -> Iterator[Phrase]:
    codes = cldr.name_codes()
    for _ in range(count):
        kind = random.choices(list(codes), weights=(6, 6, 1, 1))[0]
        chosen = random.sample(codes[kind], random.choice((2, 2, 3, 3, 4)))
        yield partial(cldr.name_list, kind, chosen, random.choice(get_args(cldr.ListStyle)))
