"""SCAN (Lake and Baroni 2018, arXiv 1711.00350): commands -> action sequences, a test of compositionality.

"jump left twice" means I_TURN_LEFT I_JUMP I_TURN_LEFT I_JUMP. The grammar (figures 6 and 7) gives all 20,910 pairs.
Three of the paper's splits follow from it:

- ``simple``: a random fifth is the test. No rule gives the published split; here it is the fifth with the lowest
  hashes, so that the sizes are the published ones and the pairs are not. The seed chooses another fifth.
- ``length``: train on up to 22 actions, test on 24 to 48. As published.
- ``addprim_jump``: train on all commands without "jump" and on the bare command "jump", repeated to be a tenth of the
  training pairs; test on all other commands with "jump". As published.

SCAN has no validation set. A part of the official training set is split off by the hash of the command; the bare
"jump" stays in training, the only place to learn it.
"""

from collections.abc import Iterator
from operator import attrgetter
from random import Random
from typing import Any, Literal, get_args

from glassformer.tasks.task import Task, divide
from glassformer.text.corpus.corpus import Pair, source_fraction

PRIMITIVES = {"walk": ("I_WALK",), "look": ("I_LOOK",), "run": ("I_RUN",), "jump": ("I_JUMP",)}
TURNS = {"left": ("I_TURN_LEFT",), "right": ("I_TURN_RIGHT",)}

Actions = tuple[str, ...]


def commands() -> Iterator[tuple[str, Actions]]:
    """All 20,910 commands, each once."""
    once = list(_sentences())
    yield from once
    for first, first_actions in once:
        for second, second_actions in once:
            yield f"{first} and {second}", first_actions + second_actions
            yield f"{first} after {second}", second_actions + first_actions


def _sentences() -> Iterator[tuple[str, Actions]]:
    for phrase, actions in _phrases():
        yield phrase, actions
        yield f"{phrase} twice", 2 * actions
        yield f"{phrase} thrice", 3 * actions


def _phrases() -> Iterator[tuple[str, Actions]]:
    yield from PRIMITIVES.items()
    # "turn" alone is no command: it needs a direction.
    for verb, actions in {**PRIMITIVES, "turn": ()}.items():
        for side, turn in TURNS.items():
            yield f"{verb} {side}", turn + actions
            yield f"{verb} opposite {side}", 2 * turn + actions
            yield f"{verb} around {side}", 4 * (turn + actions)


SplitName = Literal["simple", "length", "addprim_jump"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)

SIMPLE_TEST_PAIRS = 4_182
LONGEST_TRAINED = 22
JUMP = Pair("jump", "I_JUMP")
JUMP_COPIES = 1_467
VALID_SHARE = 0.03

SETTINGS: dict[str, dict[str, Any]] = {
    "model": {
        "d_model": 128, "n_heads": 8, "d_ff": 256, "n_encoder_layers": 3, "n_decoder_layers": 3, "dropout": 0.1,
        "tie_embeddings": "target",
    },
    "text": {"tokenizer": "words", "joint": False},
    "train": {
        "max_updates": 3000, "schedule": "inverse_sqrt", "warmup": 500, "peak_rate": 1e-3, "label_smoothing": 0.0,
        "metric": "exact_match", "average_last": 1,
    },
}  # fmt: skip


def scan(split: SplitName, seed: int) -> Task:
    """One split, in a random order that depends on the seed."""
    official_train, test = official_split(split, seed=seed)
    others = (pair for pair in official_train if pair != JUMP)
    train, valid, _ = divide(others, attrgetter("src"), valid=VALID_SHARE, test=0.0)
    train += [pair for pair in official_train if pair == JUMP]
    random = Random(seed)
    for pairs in (train, valid, test):
        random.shuffle(pairs)
    summary = f"commands -> action sequences, SCAN's {split} split, {len(train):,} training pairs"
    return Task(f"scan-{split}", summary, train, valid, test, settings=SETTINGS)


def official_split(split: SplitName, *, seed: int = 1) -> tuple[list[Pair], list[Pair]]:
    """Training and test pairs, in the grammar's order; only ``simple`` depends on the seed."""
    pairs = [Pair(command, " ".join(actions)) for command, actions in commands()]
    match split:
        case "simple":
            lowest = sorted(pairs, key=lambda pair: source_fraction(f"{seed} {pair.src}"))[:SIMPLE_TEST_PAIRS]
            chosen = {pair.src for pair in lowest}
            return _split_off(pairs, [pair.src in chosen for pair in pairs])
        case "length":
            return _split_off(pairs, [len(pair.tgt.split()) > LONGEST_TRAINED for pair in pairs])
        case "addprim_jump":
            train, test = _split_off(pairs, ["jump" in pair.src.split() for pair in pairs])
            return train + JUMP_COPIES * [JUMP], [pair for pair in test if pair != JUMP]


def _split_off(pairs: list[Pair], is_test: list[bool]) -> tuple[list[Pair], list[Pair]]:
    train = [pair for pair, test in zip(pairs, is_test, strict=True) if not test]
    return train, [pair for pair, test in zip(pairs, is_test, strict=True) if test]
