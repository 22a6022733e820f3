"""Phrases that CLDR writes in two languages, checked against arithmetic and against a few stable sentences."""

import re
from collections import defaultdict
from datetime import datetime

import pytest
from babel import Locale

from glassformer.tasks.cldr import LOCALES, moment, name, name_codes, name_list, plain, relative_time
from glassformer.tasks.phrases import UNITS

EN, DE, FR, JA = map(Locale, LOCALES)
LANGUAGES = ("de", "fr", "ja")
every_language = pytest.mark.parametrize("language", LANGUAGES)


def all_pairs(task):
    return task.train + task.valid + task.test


@every_language
def test_there_are_more_than_twenty_thousand_pairs_to_learn_from(language, generated):
    task = generated(f"phrasebook-{language}")
    assert len(task.train) > 20_000
    assert len(task.valid) > 400
    assert len(task.test) > 900


def test_the_same_phrases_are_held_out_for_each_language(generated):
    tasks = [generated(f"phrasebook-{language}") for language in LANGUAGES]
    for one in tasks:
        for other in tasks:
            assert not {pair.src for pair in one.train} & {pair.src for pair in other.test + other.valid}


@every_language
def test_no_identifier_stands_where_a_language_lacks_a_word(language, generated):
    """Babel writes "3 volume-cup" where CLDR has no word."""
    texts = [text for pair in all_pairs(generated(f"phrasebook-{language}")) for text in pair]
    found = {text for text in texts for unit in UNITS if unit in text}
    assert found == set()


def test_no_two_draws_disagree_on_a_translation(generated):
    """English writes long and medium dates of May alike; were both drawn, no one could know which is meant."""
    targets = defaultdict(set)
    for seed in (1, 2):
        for src, tgt in all_pairs(generated("phrasebook-ja", seed=seed)):
            targets[src].add(tgt)
    assert len(targets) > 40_000
    assert {src: tgts for src, tgts in targets.items() if len(tgts) > 1} == {}


@every_language
def test_every_name_is_trained_on_unless_it_names_two_things(language, generated):
    readings = defaultdict(set)
    for kind, codes in name_codes().items():
        for code in codes:
            readings[plain(name(kind, code, locale=EN))].add(plain(name(kind, code, locale=Locale(language))))
    single = {src: tgts.pop() for src, tgts in readings.items() if len(tgts) == 1}
    assert len(single) > 400
    assert single.items() <= set(generated(f"phrasebook-{language}").train)


@pytest.mark.parametrize(("language", "shape"), [("de", "{:%H:%M}"), ("fr", "{:%H:%M}"), ("ja", "{0.hour}:{0:%M}")])
def test_every_time_of_the_day_goes_from_twelve_hours_to_twenty_four(language, shape, generated):
    times = [
        pair for pair in all_pairs(generated(f"phrasebook-{language}")) if re.fullmatch(r"\d+:\d\d [AP]M", pair.src)
    ]
    assert len(times) == 24 * 60
    for src, tgt in times:
        assert tgt == shape.format(datetime.strptime(src, "%I:%M %p"))


def test_japanese_long_dates_are_year_month_day(generated):
    # May is left out: its short name is its long one.
    dates = [
        pair for pair in all_pairs(generated("phrasebook-ja")) if re.fullmatch(r"[A-Z][a-z]{3,} \d+, \d{4}", pair.src)
    ]
    assert len(dates) > 1000
    for src, tgt in dates:
        day = datetime.strptime(src, "%B %d, %Y")
        assert tgt == f"{day.year}年{day.month}月{day.day}日"


def test_german_numbers_swap_comma_and_point(generated):
    numbers = [pair for pair in all_pairs(generated("phrasebook-de")) if re.fullmatch(r"-?[\d,.]+", pair.src)]
    assert len(numbers) > 500
    assert any("," in src and "." in src for src, _ in numbers)
    for src, tgt in numbers:
        assert tgt == src.translate(str.maketrans(",.", ".,"))


@every_language
def test_amounts_and_measures_keep_their_digits(language, generated):
    """1,234.5 pounds are 1 234,5 livres: the same digits, whatever stands between them."""
    measures = [
        pair
        for pair in all_pairs(generated(f"phrasebook-{language}"))
        if re.fullmatch(r"[\d,.]+ [A-Za-z -]+", pair.src)
    ]
    assert len(measures) > 5_000
    for src, tgt in measures:
        if not re.search(r" [AP]M$", src):
            assert re.findall(r"\d", src) == re.findall(r"\d", tgt), (src, tgt)


def test_a_few_phrases_that_no_version_of_cldr_words_differently():
    assert relative_time(3, "day", locale=EN) == "in 3 days"
    assert relative_time(3, "day", locale=DE) == "in 3 Tagen"
    assert plain(relative_time(-2, "week", locale=FR)) == "il y a 2 semaines"
    assert name_list("territories", ["DE", "FR", "JP"], "standard", locale=EN) == "Germany, France, and Japan"
    assert name_list("territories", ["DE", "FR", "JP"], "standard", locale=DE) == "Deutschland, Frankreich und Japan"
    assert name_list("languages", ["de", "fr"], "or", locale=FR) == "allemand ou français"
    assert name_list("weekdays", ["0", "6"], "or", locale=JA) == "月曜日または日曜日"
    assert name("months", "3", locale=DE) == "März"


@pytest.mark.parametrize(("number", "span"), [(24, "hour"), (60, "second"), (12, "month"), (60, "week"), (1, "year")])
def test_a_span_of_time_is_said_in_the_unit_it_was_counted_in(number, span):
    for sign, words in ((1, f"in {number} {span}"), (-1, f"{number} {span}s ago")):
        assert relative_time(sign * number, span, locale=EN).rstrip("s") == words.replace("1 years", "1 year").rstrip(
            "s"
        )


def test_a_moment_is_a_date_and_a_time_without_quotation_marks():
    when = datetime(2031, 8, 9, 16, 5)
    for locale in (EN, DE, FR, JA):
        text = plain(moment(when, "long", locale=locale))
        assert "2031" in text
        assert ":05" in text
        assert not set("'{}") & set(text)
        assert (":05 PM" in text) == (locale == EN)


def test_spaces_that_nobody_types_become_plain_ones():
    assert plain(" 3:30\u202fPM \u00a05\u3000€ ") == "3:30 PM 5 €"
