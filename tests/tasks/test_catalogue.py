"""What every task promises, whatever it is about."""

import copy
import hashlib
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace

import pytest

from glassformer.config import RunConfig
from glassformer.errors import ConfigError
from glassformer.settings import apply_overrides
from glassformer.tasks import TASK_NAMES, load_task
from glassformer.tasks.catalogue import ALIASES
from glassformer.tasks.task import divide, source, target, unambiguous
from glassformer.text.corpus import Pair

every_task = pytest.mark.parametrize("name", TASK_NAMES)


def test_the_names_are_those_that_other_parts_rely_on():
    assert TASK_NAMES == (
        "dates",
        "phrasebook-de",
        "phrasebook-fr",
        "phrasebook-ja",
        "scan-simple",
        "scan-length",
        "scan-addprim_jump",
    )


@every_task
def test_a_task_is_named_as_it_was_asked_for_and_tells_its_size(name, generated):
    task = generated(name)
    assert task.name == name
    assert "->" in task.summary
    assert f"{len(task.train):,}" in task.summary
    assert "\n" not in task.summary


def test_an_alias_is_the_task_that_it_stands_for(generated):
    assert load_task("scan") == generated("scan-simple")
    assert ALIASES["phrasebook"] == "phrasebook-de"


def test_an_unknown_name_is_refused_with_the_nearest_and_all_known():
    with pytest.raises(ConfigError, match=r"'date'\. Did you mean 'dates'\?") as refused:
        load_task("date")
    assert all(name in str(refused.value) for name in (*TASK_NAMES, "phrasebook for", "scan for"))


@every_task
def test_no_source_stands_in_two_splits(name, generated):
    task = generated(name)
    train, valid, test = ({pair.src for pair in split} for split in (task.train, task.valid, task.test))
    assert len(valid) == len(task.valid) > 300
    assert len(test) == len(task.test) >= 1000
    assert not train & valid
    assert not train & test
    assert not valid & test


@every_task
def test_a_source_has_one_target(name, generated):
    task = generated(name)
    targets = defaultdict(set)
    for src, tgt in task.train + task.valid + task.test:
        targets[src].add(tgt)
    assert {src: tgts for src, tgts in targets.items() if len(tgts) > 1} == {}


@every_task
def test_no_text_is_empty_or_spaced_in_an_unusual_way(name, generated):
    task = generated(name)
    texts = {text for pair in task.train + task.valid + task.test for text in pair}
    assert [
        text for text in texts if not text or text != " ".join(text.split(" ")) or not _plainly_spaced(text)
    ] == []


def _plainly_spaced(text):
    return all(character == " " or not character.isspace() for character in text) and "  " not in text


@every_task
def test_examples_are_a_few_sources_that_training_never_shows(name, generated):
    task = generated(name)
    assert len(set(task.examples)) == len(task.examples) >= 3
    assert not set(task.examples) & {pair.src for pair in task.train}


@every_task
def test_the_recommended_settings_make_a_run(name, generated):
    task = generated(name)
    config = RunConfig.from_mapping(task.settings)
    assert config.train.metric == task.metric == "exact_match"
    # Separate vocabularies differ in size, and then no one matrix can serve both.
    assert config.text.joint or config.model.tie_embeddings != "all"


@pytest.mark.parametrize("name", ["dates", "phrasebook-ja", "scan-length"])
def test_another_seed_gives_other_pairs_but_trains_on_nothing_that_was_held_out(name, generated):
    first, second = generated(name, seed=1), generated(name, seed=2)
    assert first.train != second.train
    key = target if name == "dates" else source
    for held_out, train in ((first, second), (second, first)):
        assert not {key(pair) for pair in held_out.valid + held_out.test} & {key(pair) for pair in train.train}


def test_pairs_do_not_depend_on_the_process(generated):
    """Sets of strings are ordered differently in each process, and phrases are drawn from sets of names."""
    program = (
        "import hashlib; from glassformer.tasks import load_task; task = load_task('phrasebook-fr');"
        "print(hashlib.sha256(repr(task).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    other = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    assert other.stdout.strip() == hashlib.sha256(repr(generated("phrasebook-fr")).encode()).hexdigest()


@pytest.mark.parametrize("name", ["dates", "scan-length"])
def test_the_same_seed_gives_the_same_task_although_settings_of_the_first_were_overridden(name):
    first = load_task(name)
    before = copy.deepcopy(first.settings)
    apply_overrides(first.settings, ["train.max_updates=1"])
    again = load_task(name, seed=1)
    assert again.settings == before != first.settings
    assert replace(again, settings=first.settings) == first


def test_divide_keeps_the_order_and_holds_out_about_the_shares_asked_for():
    pairs = [Pair(f"source {number}", "same") for number in range(10_000)]
    train, valid, test = divide(pairs, source, valid=0.1, test=0.2)
    assert sorted(train + valid + test) == sorted(pairs)
    assert 800 < len(valid) < 1200
    assert 1800 < len(test) < 2200
    number = {pair: place for place, pair in enumerate(pairs)}
    for split in (train, valid, test):
        assert split == sorted(split, key=number.__getitem__)


def test_divide_by_target_holds_out_all_sources_of_a_target_together():
    pairs = [Pair(f"{way} {number}", str(number)) for number in range(300) for way in ("one", "two")]
    train, valid, test = divide(pairs, target, valid=0.2, test=0.2)
    targets = [{pair.tgt for pair in split} for split in (train, valid, test)]
    assert all(targets)
    assert sum(map(len, targets)) == 300


def test_unambiguous_drops_what_has_two_readings_and_what_is_said_twice():
    pairs = [Pair("b", "1"), Pair("a", "1"), Pair("b", "1"), Pair("c", "1"), Pair("c", "2")]
    assert unambiguous(pairs) == [Pair("b", "1"), Pair("a", "1")]
