"""20,000 generated texts with codes: nothing is lost, doubled, crossed or glued without a flag, and flags are few."""

from pathlib import Path

import pytest

from benchmarks.generated_texts import FORMATS, Format, translate_generated
from benchmarks.word_translator import Ordinary, Permuting


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.ending)
def test_generated_texts_keep_their_codes_and_few_are_flagged(form: Format, tmp_path: Path) -> None:
    outcome = translate_generated(form, 1, 3200, tmp_path, Ordinary(1, "x"))
    assert not outcome.silent
    assert len(outcome.needless) <= 0.02 * outcome.texts


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.ending)
def test_a_few_generated_texts_do(form: Format, tmp_path: Path) -> None:
    outcome = translate_generated(form, 2, 100, tmp_path, Ordinary(2, "x"))
    assert not outcome.silent
    assert len(outcome.needless) <= 3


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.ending)
def test_whatever_the_order_of_the_words_nothing_is_lost_without_a_flag(form: Format, tmp_path: Path) -> None:
    assert not translate_generated(form, 3, 150, tmp_path, Permuting(3, "x")).silent
