"""Write SCAN (Lake and Baroni 2018, arXiv 1711.00350): commands -> action sequences, a test of compositionality.

    python benchmarks/scan.py --split length --out scan
    glassformer train scan/train.tsv --valid scan/valid.tsv --config scan/settings.toml --run runs/scan
    glassformer evaluate scan/test.tsv --run runs/scan --beam 1

"jump left twice" means I_TURN_LEFT I_JUMP I_TURN_LEFT I_JUMP. The grammar (figures 6 and 7) gives all 20,910 pairs,
and two of the paper's splits, as published:

- ``length``: train on up to 22 actions, test on 24 to 48.
- ``addprim_jump``: train on all commands without "jump" and on the bare command "jump", repeated to be a tenth of the
  training pairs; test on all other commands with "jump".

SCAN has no validation set. A part of the official training set is split off by the hash of the command; the bare
"jump" stays in training, the only place to learn it.
"""

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from random import Random

from smoke import new_parser, parse_options

from glassformer.tasks.task import Splits, divide
from glassformer.text.corpus.corpus import Pair

PRIMITIVES = {"walk": ("I_WALK",), "look": ("I_LOOK",), "run": ("I_RUN",), "jump": ("I_JUMP",)}
TURNS = {"left": ("I_TURN_LEFT",), "right": ("I_TURN_RIGHT",)}
SPLITS = ("length", "addprim_jump")
LONGEST_TRAINED = 22
JUMP, JUMP_COPIES = Pair("jump", "I_JUMP"), 1_467
VALID_SHARE = 0.03
SETTINGS = """
[model]
d_model = 128
n_heads = 8
d_ff = 256
n_encoder_layers = 3
n_decoder_layers = 3
dropout = 0.1
tie_embeddings = "target"

[text]
tokenizer = "words"
joint = false

[train]
optimizer = "adam"
precision = "float32"
max_updates = 3000
schedule = "inverse_sqrt"
warmup = 500
peak_rate = 1e-3
cooldown = 0.25
label_smoothing = 0.0
metric = "exact_match"
average_last = 1
"""

Actions = tuple[str, ...]


def commands() -> Iterator[tuple[str, Actions]]:
    """All 20,910 commands, each once."""
    sentences = []
    for phrase, actions in _phrases():
        sentences += [(phrase, actions), (f"{phrase} twice", 2 * actions), (f"{phrase} thrice", 3 * actions)]
    yield from sentences
    for first, first_actions in sentences:
        for second, second_actions in sentences:
            yield f"{first} and {second}", first_actions + second_actions
            yield f"{first} after {second}", second_actions + first_actions


def _phrases() -> Iterator[tuple[str, Actions]]:
    yield from PRIMITIVES.items()
    # "turn" alone is no command: it needs a direction.
    for verb, actions in {**PRIMITIVES, "turn": ()}.items():
        for side, turn in TURNS.items():
            yield f"{verb} {side}", turn + actions
            yield f"{verb} opposite {side}", 2 * turn + actions
            yield f"{verb} around {side}", 4 * (turn + actions)


def scan(split: str, seed: int = 1) -> Splits:
    """The pairs for training, validation and the test, in a random order that depends on the seed."""
    official_train, test = official_split(split)
    others = (pair for pair in official_train if pair != JUMP)
    train, valid, _ = divide(others, attrgetter("src"), valid=VALID_SHARE, test=0.0)
    train += [pair for pair in official_train if pair == JUMP]
    random = Random(seed)
    for pairs in (train, valid, test):
        random.shuffle(pairs)
    return train, valid, test


def write(split: str, directory: Path, seed: int = 1) -> None:
    """Write train.tsv, valid.tsv, test.tsv and settings.toml."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, pairs in zip(("train", "valid", "test"), scan(split, seed), strict=True):
        (directory / f"{name}.tsv").write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs))
    (directory / "settings.toml").write_text(SETTINGS)


def official_split(split: str) -> tuple[list[Pair], list[Pair]]:
    """Training and test pairs, in the grammar's order."""
    train, test = list[Pair](), list[Pair]()
    for command, actions in commands():
        is_test = len(actions) > LONGEST_TRAINED if split == "length" else "jump" in command.split()
        (test if is_test else train).append(Pair(command, " ".join(actions)))
    if split == "length":
        return train, test
    return train + JUMP_COPIES * [JUMP], [pair for pair in test if pair != JUMP]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--split", choices=SPLITS, default="length")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files are written")
    parser.add_argument("--seed", type=int, default=1)
    options = parse_options(parser, "--out {scratch}/scan")
    write(options.split, options.out, options.seed)
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
