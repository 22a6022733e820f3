"""What the published figure rests on, where Multi30k is at hand: its words, its pieces, its rules."""

from pathlib import Path

import pytest

from benchmarks.reproduce.evaluate import convert_form, find_scoring, load_moses, score_all
from benchmarks.reproduce.inputs import find_files
from benchmarks.reproduce.recipe import read_recipe
from glassformer.errors import TextError
from glassformer.text import Tokenizer, plan_batches, read_lines

Lines = dict[str, list[str]]


@pytest.fixture(scope="module")
def multi30k() -> Lines:
    """The lines of each file, by its name without .lc.norm.tok and .gz for the tokenised ones."""
    recipe = read_recipe("multi30k-en-de")
    try:
        files: dict[str, Path] = find_files(recipe)
    except TextError:
        pytest.skip("Multi30k is not here")
    return {name.removesuffix(".gz"): list(read_lines(path)) for name, path in files.items()}


def test_the_references_have_the_published_number_of_words(multi30k: Lines) -> None:
    references = multi30k["test_2016_flickr.lc.norm.tok.de"]
    found = find_scoring("tokenised").score(references, references)
    assert (len(references), found.reference_words) == (1000, 12_103)
    assert found.score == pytest.approx(100)


@pytest.mark.slow
def test_joint_pieces_give_every_line_back_and_fill_about_110_batches(multi30k: Lines) -> None:
    sides = [multi30k[f"train.lc.norm.tok.{language}"] for language in ("en", "de")]
    tokenizer = Tokenizer.train("bpe", [*sides[0], *sides[1]], 10_260)
    assert tokenizer.size == 10_260
    for lines in (*sides, multi30k["test_2016_flickr.lc.norm.tok.de"]):
        assert [tokenizer.to_text(ids) for ids in tokenizer.to_ids_batch(lines)] == lines
    lengths = [[len(ids) + 1 for ids in tokenizer.to_ids_batch(lines)] for lines in sides]
    assert 100 < len(plan_batches(*lengths, 4096, seed=1, epoch=1, bucket=2)) < 125


def test_moses_rules_are_those_that_the_data_were_made_with(multi30k: Lines) -> None:
    moses = load_moses("de")
    if moses is None:
        pytest.skip("sacremoses is not installed")
    raw, tokenised = multi30k["test_2016_flickr.de"], multi30k["test_2016_flickr.lc.norm.tok.de"]
    assert convert_form("raw", raw, moses) == {"tokenised": tokenised}
    back = score_all(convert_form("tokenised", tokenised, moses), {"raw": raw})
    assert back["caseless"].score > 99.9
    assert back["cased"].score < 25
