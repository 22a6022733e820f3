"""A language pair whose targets are several times as long as the sources, by characters: nothing is cut silently."""

import random
from itertools import islice, product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer import Translator
from glassformer.cli.main import app
from glassformer.run_directory import RunDirectory

SETTINGS = [
    "text.tokenizer=characters", "model.d_model=64", "model.d_ff=128", "model.n_heads=4", "model.dropout=0",
    "train.batch_tokens=2048", "train.schedule=inverse_sqrt", "train.peak_rate=0.004", "train.warmup=60",
    "train.validate_every=200",
]  # fmt: skip
SUBJECTS = [("我", "I"), ("你", "you"), ("他", "he")]
VERBS = [("喜欢", "like"), ("看见", "see")]
OBJECTS = [("狗", "the dog"), ("猫", "the cat"), ("鱼", "the fish"), ("茶", "the green tea"), ("房子", "the house")]


def sentences(seed: int) -> "list[tuple[str, str]]":
    """Sentences of one to six clauses, in Chinese and in English."""
    chance, clauses = random.Random(seed), list(product(SUBJECTS, VERBS, OBJECTS))
    while True:
        chosen = chance.choices(clauses, k=chance.randint(1, 6))
        chinese, english = (
            ["".join(w[0] for w in one) for one in chosen],
            [" ".join(w[1] for w in one) for one in chosen],
        )
        yield "，".join(chinese) + "。", " and then ".join(english) + "."


@pytest.mark.slow
def test_the_limit_follows_from_the_pairs_and_a_lower_one_is_said(tmp_path: Path) -> None:
    pairs, run = tmp_path / "pairs.tsv", tmp_path / "run"
    made = list(islice(sentences(1), 700))
    pairs.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in made), encoding="utf-8")
    options = [part for setting in SETTINGS for part in ("--set", setting)]
    command = ["train", str(pairs), "--run", str(run), "--model", "micro", "--max-updates", "200", *options]
    assert CliRunner().invoke(app, command).exit_code == 0
    decode = RunDirectory(run).read_config()[0].decode
    assert 4.3 < decode.max_length_a < 5.0
    longest = [src for src, tgt in islice(sentences(2), 200) if len(tgt) > len(src) + 80][:20]
    with Translator.load(run) as translator:
        found = translator.translate(longest)
        assert sum(one.limit_warning is not None for one in found) <= 2
        limited = translator.translate(longest, translator.config.with_changes({"max_length_a": 1.0}))
        assert sum(one.limit_warning is not None for one in limited) >= 15
    texts, lower = ["--run", str(run), *longest[:2]], ["--max-length-a", "1", "--max-length-b", "3"]
    assert CliRunner().invoke(app, ["translate", *texts, *lower]).stderr.count("the length limit cut") == 2
