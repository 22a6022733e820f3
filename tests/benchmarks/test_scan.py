"""SCAN, checked against another interpreter, which rewrites the text of the command."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from glassformer.text.corpus.corpus import Pair
from glassformer.text.tokenizer.tokenizer import Tokenizer

with pytest.MonkeyPatch.context() as patch:  # the benchmarks import one another by their names alone
    patch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    _scan = import_module("scan")
commands, official_split, scan = _scan.commands, _scan.official_split, _scan.scan

# One level of the grammar after the other, innermost first; "+" joins what has been rewritten into one word.
REWRITES = [
    (r"turn around (\w+)", r"\1+\1+\1+\1"),
    (r"turn opposite (\w+)", r"\1+\1"),
    (r"turn (\w+)", r"\1"),
    (r"(\w+) around (\w+)", r"\2+\1+\2+\1+\2+\1+\2+\1"),
    (r"(\w+) opposite (\w+)", r"\2+\2+\1"),
    (r"(walk|look|run|jump) (left|right)", r"\2+\1"),
    (r"(\S+) twice", r"\1+\1"),
    (r"(\S+) thrice", r"\1+\1+\1"),
    (r"(\S+) after (\S+)", r"\2+\1"),
    (r"(\S+) and (\S+)", r"\1+\2"),
]
PHRASE = r"((walk|look|run|jump)( (opposite |around )?(left|right))?|turn (opposite |around )?(left|right))"
SENTENCE = rf"{PHRASE}( twice| thrice)?"
COMMAND = re.compile(rf"{SENTENCE}( (and|after) {SENTENCE})?")


def rewrite(command):
    for pattern, replacement in REWRITES:
        command = re.sub(pattern, replacement, command)
    return [
        f"I_TURN_{word.upper()}" if word in ("left", "right") else f"I_{word.upper()}" for word in command.split("+")
    ]


@pytest.fixture(scope="module")
def everything():
    return list(commands())


def test_the_grammar_makes_every_command_once(everything):
    sources = {command for command, _ in everything}
    assert len(sources) == len(everything) == 20_910
    assert all(COMMAND.fullmatch(source) for source in sources)
    # What the pattern allows: 4 + 5 * 3 * 2 phrases, each once, twice or thrice, then alone or two of them joined.
    assert (4 + 30) * 3 + 2 * ((4 + 30) * 3) ** 2 == 20_910


@pytest.mark.slow
def test_every_command_means_what_rewriting_gives(everything):
    assert [command for command, actions in everything if list(actions) != rewrite(command)] == []


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        ("jump", "I_JUMP"),
        ("jump left", "I_TURN_LEFT I_JUMP"),
        ("turn opposite right", "I_TURN_RIGHT I_TURN_RIGHT"),
        ("turn left twice", "I_TURN_LEFT I_TURN_LEFT"),
        ("jump around right", "I_TURN_RIGHT I_JUMP I_TURN_RIGHT I_JUMP I_TURN_RIGHT I_JUMP I_TURN_RIGHT I_JUMP"),
        ("jump opposite left and walk thrice", "I_TURN_LEFT I_TURN_LEFT I_JUMP I_WALK I_WALK I_WALK"),
        (
            "jump opposite left after walk around left",
            "I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK I_TURN_LEFT I_TURN_LEFT I_JUMP",
        ),
    ],
)
def test_the_examples_of_the_paper(command, actions, everything):
    assert " ".join(dict(everything)[command]) == actions


@pytest.mark.parametrize(
    ("split", "train_lines", "test_lines"), [("length", 16_990, 3_920), ("addprim_jump", 14_670, 7_706)]
)
def test_the_official_splits_have_the_published_sizes(split, train_lines, test_lines, everything):
    train, test = official_split(split)
    assert (len(train), len(test)) == (train_lines, test_lines)
    assert {pair.src for pair in train} | {pair.src for pair in test} == {command for command, _ in everything}
    assert not {pair.src for pair in train} & {pair.src for pair in test}


def test_splits_test_on_longer_sequences_or_on_combinations_of_jump():
    train, test = (Counter(len(pair.tgt.split()) for pair in part) for part in official_split("length"))
    assert max(train) == 22
    assert sorted(test) == [24, 25, 26, 27, 28, 30, 32, 33, 36, 40, 48]
    train, test = official_split("addprim_jump")
    assert {pair for pair in train if "jump" in pair.src} == {Pair("jump", "I_JUMP")}
    assert train.count(Pair("jump", "I_JUMP")) == 1_467
    assert all("jump" in pair.src for pair in test)


@pytest.mark.parametrize("split", ["length", "addprim_jump"])
def test_training_and_validation_together_are_the_official_training_set(split):
    train, valid, test = scan(split, seed=2)
    official_train, official_test = official_split(split)
    assert Counter(train + valid) == Counter(official_train)
    assert sorted(test) == sorted(official_test)
    assert Pair("jump", "I_JUMP") not in valid


def test_every_split_trains_on_every_word_and_every_action():
    for split in ("length", "addprim_jump"):
        train, _, _ = scan(split)
        assert len({word for pair in train for word in pair.src.split()}) == 13
        assert len({action for pair in train for action in pair.tgt.split()}) == 6


@pytest.mark.slow
def test_a_tokenizer_of_words_restores_every_command_and_every_action(everything):
    commands_, actions_ = ([pair[side] for pair in everything] for side in (0, 1))
    actions_ = [" ".join(actions) for actions in actions_]
    for texts, words in ((commands_, 13), (actions_, 6)):
        tokenizer = Tokenizer.train("words", texts, 100)
        assert tokenizer.size == 4 + words
        assert [text for text in texts if tokenizer.to_text(tokenizer.to_ids(text)) != text] == []
