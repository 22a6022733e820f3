"""A small recipe over the phrasebook task, with lower-cased and tokenised text, and its result."""

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from small_recipe import Silent, small_request

from benchmarks.reproduce.inputs import ReproduceRequest
from benchmarks.reproduce.reproduce import ReproduceResult, reproduce
from glassformer.tasks import load_task
from glassformer.text import Pair

RECIPE = """
[recipe]
title = "Phrases, lower-cased"
form = "tokenised"
language = "de"
folder = "phrases"
origin = "https://example.org/phrases"
hint = "fetch them"
licence = "none"

[[recipe.tests]]
name = "held_out"
src = "test.tok.en.gz"
tokenised = "test.tok.de.gz"
raw = "test.de"

[[recipe.tests.published]]
system = "A guess"
score = 12.5
way = "tokenised"
source = "nobody"

[[recipe.variants]]
name = "shorter"
why = "half the updates"
changes = ["train.max_updates=15", "model.norm=post"]

[[recipe.variants]]
name = "taught"
why = "three times the pairs"
changes = ["train.max_updates=6"]
forward = ["train.max_updates=4", "train.seed=11"]
backward = ["train.max_updates=5"]

[data]
src = "train.tok.en.gz"
tgt = "train.tok.de.gz"
valid_src = "val.tok.en.gz"
valid_tgt = "val.tok.de.gz"

[model]
d_model = 32
n_heads = 2
d_ff = 48
n_encoder_layers = 1
n_decoder_layers = 1
dropout = 0.0

[text]
vocab_size = 500

[train]
batch_tokens = 512
schedule = "inverse_sqrt"
peak_rate = 1e-2
warmup = 20
validate_every = 15
valid_translations = 5
max_updates = 30
log_every = 10

[decode]
beam = 2
max_length_b = 10
"""


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+|[^\w\s]", text.lower()))


def write(path: Path, lines: Iterable[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture(scope="session")
def phrases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the recipe phrases.toml and its data."""
    home = tmp_path_factory.mktemp("phrases")
    task = load_task("phrasebook-de")
    parts: dict[str, list[Pair]] = {"train": task.train[2000:2600], "val": task.valid[:20], "test": task.test[:20]}
    for part, pairs in parts.items():
        for side, language in enumerate(("en", "de")):
            write(home / f"{part}.tok.{language}.gz", (words(pair[side]) for pair in pairs))
    write(home / "test.de", (pair.tgt for pair in parts["test"]))
    (home / "phrases.toml").write_text(RECIPE, encoding="utf-8")
    return home


@pytest.fixture(scope="session")
def small_result(phrases: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ReproduceRequest, ReproduceResult]:
    """The request and its result, trained once for all tests."""
    request = small_request(phrases, tmp_path_factory.mktemp("runs"))
    found = reproduce(request, Silent())
    assert isinstance(found, ReproduceResult)
    return request, found
