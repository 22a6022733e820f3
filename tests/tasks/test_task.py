"""What holds for every task."""

import hashlib
import os
import subprocess
import sys
from collections import defaultdict
from operator import attrgetter

import pytest

from glassformer.errors import ConfigError
from glassformer.settings import RunConfig
from glassformer.settings.section import apply_overrides
from glassformer.tasks import TASKS, load_task
from glassformer.tasks.task import divide, drop_ambiguous
from glassformer.text.corpus.corpus import Pair

every_task = pytest.mark.parametrize("name", TASKS)


def test_the_names_of_the_tasks():
    assert tuple(TASKS) == ("dates", "phrasebook-de", "phrasebook-fr", "phrasebook-ja")


@pytest.mark.slow
@every_task
def test_a_task_has_its_name_and_its_size_in_the_summary(name, get_task):
    task = get_task(name)
    assert task.name == name
    assert "->" in task.summary
    assert f"{len(task.train):,}" in task.summary
    assert "\n" not in task.summary


def test_an_unknown_name_is_refused_with_the_nearest_and_all_known():
    with pytest.raises(ConfigError, match=r"'date'\. Did you mean 'dates'\?") as refused:
        load_task("date")
    assert all(name in str(refused.value) for name in TASKS)


@every_task
@pytest.mark.slow
def test_no_source_is_in_two_splits(name, get_task):
    task = get_task(name)
    train, valid, test = ({pair.src for pair in split} for split in (task.train, task.valid, task.test))
    assert len(valid) == len(task.valid) > 300
    assert len(test) == len(task.test) >= 1000
    assert not train & valid
    assert not train & test
    assert not valid & test


@every_task
def test_a_source_has_one_target(name, get_task):
    task = get_task(name)
    targets = defaultdict(set)
    for src, tgt in task.train + task.valid + task.test:
        targets[src].add(tgt)
    assert {src: tgts for src, tgts in targets.items() if len(tgts) > 1} == {}


@every_task
def test_no_text_is_empty_or_has_unusual_spaces(name, get_task):
    task = get_task(name)
    texts = {text for pair in task.train + task.valid + task.test for text in pair}
    assert [
        text for text in texts if not text or text != " ".join(text.split(" ")) or not _plainly_spaced(text)
    ] == []


def _plainly_spaced(text):
    return all(character == " " or not character.isspace() for character in text) and "  " not in text


@every_task
def test_the_recommended_settings_make_a_run(name, get_task):
    task = get_task(name)
    config = RunConfig.from_mapping(task.settings)
    assert config.train.metric == "exact_match"
    # Separate vocabularies differ in size and cannot share one matrix.
    assert config.text.joint or config.model.tie_embeddings != "all"


@pytest.mark.parametrize("name", ["dates", "phrasebook-ja"])
@pytest.mark.slow
def test_another_seed_gives_other_pairs_but_trains_on_nothing_that_was_held_out(name, get_task):
    first, second = get_task(name, seed=1), get_task(name, seed=2)
    assert first.train != second.train
    key = attrgetter("tgt" if name == "dates" else "src")
    for held_out, train in ((first, second), (second, first)):
        assert not {key(pair) for pair in held_out.valid + held_out.test} & {key(pair) for pair in train.train}


@pytest.mark.slow
def test_pairs_do_not_depend_on_the_process(get_task):
    """Sets of strings are ordered differently in each process, and phrases are drawn from sets of names."""
    program = (
        "import hashlib; from glassformer.tasks import load_task; task = load_task('phrasebook-fr');"
        "print(hashlib.sha256(repr(task).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    other = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    assert other.stdout.strip() == hashlib.sha256(repr(get_task("phrasebook-fr")).encode()).hexdigest()


@pytest.mark.slow
def test_overriding_the_settings_of_a_task_leaves_the_next_one_as_it_was(get_task):
    for name in ("dates", "phrasebook-de"):
        task = load_task(name)
        apply_overrides(task.settings, ["train.max_updates=1"])
        assert load_task(name).settings == get_task(name).settings != task.settings


def test_the_same_seed_gives_the_same_task(get_task):
    for name in ("dates", "phrasebook-de"):
        assert load_task(name, seed=1) == get_task(name)


def test_pairs_are_divided_by_shares_and_targets_and_ambiguous_ones_dropped():
    pairs = [Pair(f"source {number}", "same") for number in range(10_000)]
    train, valid, test = divide(pairs, attrgetter("src"), valid=0.1, test=0.2)
    assert sorted(train + valid + test) == sorted(pairs)
    assert 800 < len(valid) < 1200
    assert 1800 < len(test) < 2200
    number = {pair: place for place, pair in enumerate(pairs)}
    for split in (train, valid, test):
        assert split == sorted(split, key=number.__getitem__)
    pairs = [Pair(f"{way} {number}", str(number)) for number in range(300) for way in ("one", "two")]
    train, valid, test = divide(pairs, attrgetter("tgt"), valid=0.2, test=0.2)
    targets = [{pair.tgt for pair in split} for split in (train, valid, test)]
    assert all(targets)
    assert sum(map(len, targets)) == 300
    pairs = [Pair("b", "1"), Pair("a", "1"), Pair("b", "1"), Pair("c", "1"), Pair("c", "2")]
    assert drop_ambiguous(pairs) == [Pair("b", "1"), Pair("a", "1")]
