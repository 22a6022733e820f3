"""Names, lists of names, points in time, relative times and measures in any language: CLDR's words, from Babel."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from babel import Locale
from babel.dates import format_date, format_time, format_timedelta, get_datetime_format
from babel.lists import format_list
from babel.units import format_unit

LOCALES = ("en", "de", "fr", "ja")

DateStyle = Literal["full", "long", "medium"]
ListStyle = Literal["standard", "or"]
NameKind = Literal["territories", "languages", "months", "weekdays"]
Span = Literal["year", "month", "week", "day", "hour", "minute", "second"]

# Months and years as long as Babel takes them to be, so that whole numbers stay whole.
SPANS: dict[Span, timedelta] = {
    "year": timedelta(days=365), "month": timedelta(days=30), "week": timedelta(weeks=1), "day": timedelta(days=1),
    "hour": timedelta(hours=1), "minute": timedelta(minutes=1), "second": timedelta(seconds=1),
}  # fmt: skip


def normalize_spaces(text: str) -> str:
    """Text with single ordinary spaces: CLDR also has no-break and narrow spaces, which nobody types."""
    return " ".join(text.split())


def name_codes() -> dict[NameKind, list[str]]:
    """The codes of each kind of name that all ``LOCALES`` have, sorted.

    Codes of two letters exclude dialects and continents. XA, XB and ZZ are CLDR's test regions and unknown region.
    """
    parsed = [Locale.parse(locale) for locale in LOCALES]
    territories = set.intersection(*({str(code) for code in locale.territories} for locale in parsed))
    languages = set.intersection(*({str(code) for code in locale.languages} for locale in parsed))
    return {
        "territories": sorted(code for code in territories - {"XA", "XB", "ZZ"} if len(code) == 2),
        "languages": sorted(code for code in languages if len(code) == 2),
        "months": [str(month) for month in range(1, 13)],
        "weekdays": [str(weekday) for weekday in range(7)],
    }


def name(kind: NameKind, code: str, *, locale: Locale) -> str:
    """One name on its own: "Germany", "Basque", "March", "Monday"."""
    match kind:
        case "territories":
            return str(locale.territories[code])
        case "languages":
            return str(locale.languages[code])
        case "months":
            return str(locale.months["stand-alone"]["wide"][int(code)])
        case "weekdays":
            return str(locale.days["stand-alone"]["wide"][int(code)])


def name_list(kind: NameKind, codes: list[str], style: ListStyle, *, locale: Locale) -> str:
    """Names joined by "and" or by "or"."""
    return format_list([name(kind, code, locale=locale) for code in codes], style, locale=locale)


def moment(when: datetime, style: DateStyle, *, locale: Locale) -> str:
    """A date and the time of day without seconds."""
    day = format_date(when, style, locale=locale)
    clock = format_time(when, "short", locale=locale)
    # The pattern quotes its literal words, as in "{1} 'at' {0}".
    pattern = str(get_datetime_format(style, locale=locale)).replace("'", "")
    return pattern.format(clock, day)


def relative_time(number: int, span: Span, *, locale: Locale) -> str:
    """ "in 3 days", or "3 days ago" for a negative number."""
    # Without a threshold 24 hours would become a day.
    return format_timedelta(
        number * SPANS[span], granularity=span, threshold=float("inf"), add_direction=True, locale=locale
    )


def measure(number: Decimal, unit: str, *, locale: Locale) -> str:
    """A number of units in words, "5 kilometers"; ``unit`` is CLDR's identifier, such as "length-kilometer"."""
    words = format_unit(number, unit, "long", locale=locale)
    # In CLDR a language without a long form uses its short form; Babel writes the identifier instead.
    return format_unit(number, unit, "short", locale=locale) if unit in words else words
