"""A phrasebook in CLDR's own words, English -> German, French or Japanese: one known right answer for each phrase.

A phrase is a date, a time, a measure, an amount of money, a number, or some names. Phrases are held out by their
English text. Single names are always in the training data: nobody can guess an unknown word.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from operator import attrgetter
from random import Random
from typing import Any, Literal

from babel import Locale
from babel.dates import format_date, format_skeleton, format_time, format_timedelta, get_datetime_format
from babel.lists import format_list
from babel.numbers import format_currency, format_decimal, format_percent
from babel.units import format_unit

from glassformer.tasks.dates import STYLES, Style, normalize_spaces
from glassformer.tasks.task import Task, divide, drop_ambiguous
from glassformer.text.corpus.corpus import Pair

LANGUAGES = {"de": "German", "fr": "French", "ja": "Japanese"}
SETTINGS: dict[str, dict[str, Any]] = {
    "model": {
        "d_model": 128, "n_heads": 4, "d_ff": 512, "n_encoder_layers": 3, "n_decoder_layers": 3, "dropout": 0.1,
    },
    "text": {"tokenizer": "bpe", "vocab_size": 2000, "joint": True},
    "train": {
        "optimizer": "adam", "precision": "auto", "cooldown": 0.25,
        "max_updates": 8000, "schedule": "inverse_sqrt", "warmup": 800, "peak_rate": 2e-3, "metric": "exact_match",
    },
}  # fmt: skip

# CLDR has a word for each of these in all four languages, but not for all units.
UNITS = """
length-kilometer length-meter length-centimeter length-millimeter length-mile length-yard length-foot length-inch
length-light-year length-nautical-mile mass-kilogram mass-gram mass-tonne mass-pound mass-ounce mass-carat
volume-liter volume-milliliter volume-cubic-meter volume-gallon volume-pint volume-tablespoon volume-teaspoon
volume-barrel area-square-kilometer area-square-meter area-hectare area-acre area-square-mile
speed-kilometer-per-hour speed-meter-per-second speed-mile-per-hour speed-knot temperature-celsius
temperature-fahrenheit temperature-kelvin digital-byte digital-kilobyte digital-megabyte digital-gigabyte
digital-terabyte power-watt power-kilowatt power-horsepower energy-kilojoule energy-kilocalorie energy-kilowatt-hour
electric-volt electric-ampere frequency-hertz frequency-megahertz pressure-bar pressure-hectopascal duration-century
duration-decade duration-year duration-month duration-week duration-day duration-hour duration-minute duration-second
angle-degree graphics-pixel
"""
CURRENCIES = "USD EUR GBP JPY CHF CAD AUD NZD CNY INR KRW BRL MXN SEK NOK DKK PLN CZK HUF TRY ILS ZAR THB SGD HKD"
# As long as Babel takes them to be.
Span = Literal["year", "month", "week", "day", "hour", "minute", "second"]
SPANS: dict[Span, timedelta] = {
    "year": timedelta(days=365), "month": timedelta(days=30), "week": timedelta(weeks=1), "day": timedelta(days=1),
    "hour": timedelta(hours=1), "minute": timedelta(minutes=1), "second": timedelta(seconds=1),
}  # fmt: skip
FIRST_DAY, DAYS = date(1950, 1, 1), 36_525

Phrase = Callable[..., str]  # of a locale


def phrasebook(language: str, seed: int) -> Task:
    """About 27,000 training pairs."""
    random, codes = Random(seed), name_codes()
    pairs = _translate(_phrases(random, codes), language)
    random.shuffle(pairs)
    train, valid, test = divide(pairs, attrgetter("src"), valid=0.02, test=0.04)
    names = (partial(name, kind, code) for kind, some in codes.items() for code in some)
    train = _translate(names, language) + train
    summary = f"English phrases -> {LANGUAGES[language]}, in the words of CLDR, {len(train):,} training pairs"
    settings = {**SETTINGS, "text": {**SETTINGS["text"], "languages": f"en-{language}"}}
    return Task(f"phrasebook-{language}", summary, train, valid, test, settings=settings)


def _translate(phrases: Iterable[Phrase], language: str) -> list[Pair]:
    locales = Locale.parse("en"), Locale.parse(language)
    return drop_ambiguous(Pair(*(normalize_spaces(phrase(locale=one)) for one in locales)) for phrase in phrases)


def _phrases(random: Random, codes: dict[str, list[str]]) -> Iterator[Phrase]:
    """About 30,000, single names excluded."""
    yield from _dates(random)
    for minute in range(24 * 60):
        yield partial(format_time, time(*divmod(minute, 60)), "short")
    for _ in range(3_000):
        when = datetime.combine(_day(random), time(random.randrange(24), random.randrange(60)))
        yield partial(moment, when, _style(random, when))
    for span in SPANS:
        for number in range(1, 61):
            yield partial(relative_time, number, span)
            yield partial(relative_time, -number, span)
    yield from _measures_and_amounts(random)
    for _ in range(1_000):
        yield partial(format_decimal, random.choice((1, 100, -1)) * _cents(random))
        yield partial(format_percent, Decimal(random.randrange(1, 2_000)) / 1_000, "#,##0.#%")
    for _ in range(6_000):
        kind = random.choices(list(codes), weights=(6, 6, 1, 1))[0]
        chosen = random.sample(codes[kind], random.choice((2, 2, 3, 3, 4)))
        yield partial(name_list, kind, chosen, random.choice(("standard", "or")))


def _dates(random: Random) -> Iterator[Phrase]:
    for _ in range(5_500):
        day = _day(random)
        yield partial(format_date, day, _style(random, day))
    for skeleton in ("yMMMM", "MMMMd", "MMMEd", "yMMMEd"):
        for _ in range(550):
            yield partial(format_skeleton, skeleton, datetime.combine(_day(random), time()), fuzzy=False)


def _measures_and_amounts(random: Random) -> Iterator[Phrase]:
    for unit in UNITS.split():
        yield partial(measure, Decimal(1), unit)
        for _ in range(80):
            low, high, divisor = random.choice(((2, 100, 1), (100, 10_000, 1), (1, 1_000, 10)))
            yield partial(measure, Decimal(random.randrange(low, high)) / divisor, unit)
    for currency in CURRENCIES.split():
        for _ in range(80):
            yield partial(format_currency, _cents(random), currency)
            whole = Decimal(random.randrange(1, 10 ** random.randrange(2, 7)))
            yield partial(format_currency, whole, currency, format_type="name", currency_digits=False)


def _day(random: Random) -> date:
    return FIRST_DAY + timedelta(days=random.randrange(DAYS))


def _style(random: Random, day: date) -> Style:
    # In English the medium and the long style of a date in May are the same.
    return random.choice(("full", "long")) if day.month == 5 else random.choice(STYLES)


def _cents(random: Random) -> Decimal:
    """An amount with at most two decimals, small ones as likely as large ones."""
    return Decimal(random.randrange(1, 10 ** random.randrange(3, 8))) / 100


def name_codes() -> dict[str, list[str]]:
    """The codes of names that all four languages have, sorted."""
    locales = [Locale.parse(code) for code in ("en", *LANGUAGES)]
    codes = {
        kind: set.intersection(*({str(code) for code in getattr(one, kind) if len(code) == 2} for one in locales))
        for kind in ("territories", "languages")
    }
    return {
        "territories": sorted(codes["territories"] - {"XA", "XB", "ZZ"}),
        "languages": sorted(codes["languages"]),
        "months": [str(month) for month in range(1, 13)],
        "days": [str(weekday) for weekday in range(7)],
    }


def name(kind: str, code: str, *, locale: Locale) -> str:
    """One name on its own: "Germany", "Basque", "March", "Monday"."""
    names = getattr(locale, kind)
    return str(names["stand-alone"]["wide"][int(code)] if kind in {"months", "days"} else names[code])


def name_list(kind: str, codes: list[str], style: Literal["standard", "or"], *, locale: Locale) -> str:
    """Names joined by "and" (``style`` "standard") or by "or"."""
    return format_list([name(kind, code, locale=locale) for code in codes], style, locale=locale)


def moment(when: datetime, style: Style, *, locale: Locale) -> str:
    """A date and the time of day without seconds."""
    pattern = str(get_datetime_format(style, locale=locale)).replace("'", "")
    return pattern.format(format_time(when, "short", locale=locale), format_date(when, style, locale=locale))


def relative_time(number: int, span: Span, *, locale: Locale) -> str:
    """ "in 3 days", or "3 days ago" for a negative number."""
    difference = number * SPANS[span]
    return format_timedelta(difference, span, threshold=float("inf"), add_direction=True, locale=locale)


def measure(number: Decimal, unit: str, *, locale: Locale) -> str:
    """A number of units in words, "5 kilometers"; ``unit`` is CLDR's identifier."""
    words = format_unit(number, unit, "long", locale=locale)
    # Babel writes the identifier where CLDR uses the short form.
    return format_unit(number, unit, "short", locale=locale) if unit in words else words
