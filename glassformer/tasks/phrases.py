"""Phrases as meanings: dates, times, measures, amounts of money, numbers, names and lists, before any language.

A meaning is a function of the language alone, so that two languages write the very same thing. Knows nothing
of pairs, splits or tasks.
"""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Protocol, get_args

from babel import Locale
from babel.dates import format_date, format_skeleton, format_time
from babel.numbers import format_currency, format_decimal, format_percent

from glassformer.tasks.cldr import (
    DateStyle,
    ListStyle,
    Span,
    measure,
    moment,
    name,
    name_codes,
    name_list,
    relative_time,
)

# Chosen because CLDR has a word for each in English, German, French and Japanese; for some others it has not.
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


class Meaning(Protocol):
    """Something that every language can write."""

    def __call__(self, *, locale: Locale) -> str:
        """The text in one language."""


def names() -> Iterator[Meaning]:
    """Every country, language, month and weekday on its own."""
    for kind, codes in name_codes().items():
        yield from (partial(name, kind, code) for code in codes)


def phrases(random: Random) -> Iterator[Meaning]:
    """Everything that is more than a bare name: some 30,000 meanings, of which a few are drawn twice."""
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


def _style(random: Random, day: date) -> DateStyle:
    # English abbreviates May to May, so that medium could not be told from long, which other languages tell apart.
    return random.choice(("full", "long")) if day.month == 5 else random.choice(get_args(DateStyle))


def _days(random: Random, count: int) -> Iterator[Meaning]:
    for _ in range(count):
        day = _day(random)
        yield partial(format_date, day, _style(random, day))
    for skeleton in ("yMMMM", "MMMMd", "MMMEd", "yMMMEd"):
        for _ in range(count // 10):
            day = datetime.combine(_day(random), time())
            yield partial(format_skeleton, skeleton, day, fuzzy=False)


def _times() -> Iterator[Meaning]:
    for minute in range(24 * 60):
        yield partial(format_time, time(*divmod(minute, 60)), "short")


def _moments(random: Random, count: int) -> Iterator[Meaning]:
    for _ in range(count):
        when = datetime.combine(_day(random), time(random.randrange(24), random.randrange(60)))
        yield partial(moment, when, _style(random, when))


def _relative_times(most: int) -> Iterator[Meaning]:
    for span in get_args(Span):
        for number in range(1, most + 1):
            yield partial(relative_time, number, span)
            yield partial(relative_time, -number, span)


def _measures(random: Random, each: int) -> Iterator[Meaning]:
    for unit in UNITS:
        yield partial(measure, Decimal(1), unit)
        for _ in range(each):
            low, high, divisor = random.choice(((2, 100, 1), (100, 10_000, 1), (1, 1_000, 10)))
            yield partial(measure, Decimal(random.randrange(low, high)) / divisor, unit)


def _amounts(random: Random, each: int) -> Iterator[Meaning]:
    for currency in CURRENCIES:
        for _ in range(each):
            yield partial(format_currency, _cents(random), currency)
            whole = Decimal(random.randrange(1, 10 ** random.randrange(2, 7)))
            yield partial(format_currency, whole, currency, format_type="name", currency_digits=False)


def _numbers(random: Random, count: int) -> Iterator[Meaning]:
    for _ in range(count):
        yield partial(format_decimal, random.choice((1, 100, -1)) * _cents(random))
        yield partial(format_percent, Decimal(random.randrange(1, 2_000)) / 1_000, "#,##0.#%")


def _cents(random: Random) -> Decimal:
    """An amount with at most two decimals, small ones as likely as large ones."""
    return Decimal(random.randrange(1, 10 ** random.randrange(3, 8))) / 100


def _name_lists(random: Random, count: int) -> Iterator[Meaning]:
    codes = name_codes()
    for _ in range(count):
        kind = random.choices(list(codes), weights=(6, 6, 1, 1))[0]
        chosen = random.sample(codes[kind], random.choice((2, 2, 3, 3, 4)))
        yield partial(name_list, kind, chosen, random.choice(get_args(ListStyle)))
