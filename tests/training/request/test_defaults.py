"""What follows from the training pairs: the limit of length, what is copied, the language of the sources."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.settings import DecodeConfig, TextConfig, TrainConfig
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.prepare import PreparedText, prepare
from glassformer.training.request import defaults
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.request.defaults import RACED, decode_defaults

NOWHERE = FileSource(Path("pairs.tsv"), Path("pairs"))
WORDLESS = [Pair(f"{number}", "ab" * 8) for number in range(9)]


def text_of(directory: Path, pairs: list[Pair]) -> PreparedText:
    settings = TextConfig(tokenizer="characters", vocab_size=60)
    return prepare(lambda: iter(pairs), lambda: iter(pairs[:1]), settings, directory, source="s", report=str)


@pytest.mark.parametrize(
    ("pairs", "ratio", "more"),
    [
        ([Pair("abcd", "abcd" * 4)] * 99, 4.0, 50),
        ([Pair("abcdefgh", "abc")] * 99, 1.0, 50),
        ([Pair("ab" * 20, "ab" * 20)] * 99 + [Pair("ab" * 20, "ab" * 60)], 1.1, 160),
    ],
)
def test_a_longest_output_is_longer_than_the_training_targets(tmp_path, pairs, ratio, more):
    found = decode_defaults(DecodeConfig(), text_of(tmp_path / "p", pairs), NOWHERE)
    assert (found.max_length_a, found.max_length_b) == (ratio, more)
    for src, tgt in pairs:
        assert len(tgt) + 1 <= found.max_length_a * len(src) + found.max_length_b
    asked = DecodeConfig(max_length_a=2.0, max_length_b=9)
    assert decode_defaults(asked, text_of(tmp_path / "p", pairs), NOWHERE) == asked


def test_texts_without_a_letter_are_copied_unless_the_training_translates_them(tmp_path):
    words = [Pair("abcd", "ab" * 8)] * 991
    assert decode_defaults(DecodeConfig(), text_of(tmp_path / "a", words + WORDLESS), NOWHERE).copy_wordless
    assert not decode_defaults(DecodeConfig(), text_of(tmp_path / "b", words[:500] + WORDLESS), NOWHERE).copy_wordless


@pytest.mark.parametrize(
    ("name", "turned", "language"),
    [("train.en", False, "en"), ("train.lc.pt_BR.gz", False, "pt-BR"), ("train.txt", False, ""), ("en", True, "de")],
)
def test_the_ending_of_a_name_may_say_the_language(tmp_path, name, turned, language):
    text = text_of(tmp_path / "p", [Pair("ab", "ab")] * 9)
    source = FileSource(Path(name), Path("train.de"), turned=turned)
    assert decode_defaults(DecodeConfig(), text, source).src_language == language


def test_a_file_of_pairs_may_say_the_language(tmp_path):
    file = tmp_path / "pairs.tmx"
    units = "".join(f"<tuv xml:lang='{code}'><seg>ab</seg></tuv>" for code in ("fr-CA", "de"))
    file.write_text(
        f"<tmx version='1.4'><header srclang='fr-CA'/><body><tu>{units}</tu></body></tmx>", encoding="utf-8"
    )
    text = text_of(tmp_path / "p", [Pair("ab", "ab")] * 9)
    assert decode_defaults(DecodeConfig(), text, FileSource(file)).src_language.lower() == "fr-ca"
    assert decode_defaults(DecodeConfig(), text, FileSource(file, turned=True)).src_language == "de"


def train_of(run: Path, *overrides: str, **more: Any) -> TrainConfig:
    return TrainRequest.make(run=run, data={"pairs": "a.tsv"}, overrides=overrides, **more).config.train


def test_a_training_takes_what_won_the_race_for_what_is_not_set(tmp_path, monkeypatch):
    monkeypatch.setattr(defaults, "cpu_has_bf16", lambda: True)
    run = tmp_path / "run"
    plain = train_of(run, "train.device=cpu", "train.max_minutes=3")
    assert {name: getattr(plain, name) for name in RACED} == RACED
    assert (plain.peak_rate, plain.precision) == (0.004, "bf16")
    assert train_of(run, model="small").peak_rate == 0.0028, "wider models have a lower peak"
    assert train_of(run, "train.sharding=full").optimizer == "adam"
    own = train_of(run, "train.precision=float32", "train.cooldown=0.1", "train.optimizer=adam")
    assert own == replace(plain, device="auto", max_minutes=0.0, precision="float32", cooldown=0.1, optimizer="adam")
    for curve in ("train.warmup=700", "train.schedule=noam"):  # who sets the curve begins with the paper's
        own = train_of(run, curve)
        assert (own.schedule, own.peak_rate, own.optimizer) == ("noam", 0, "muon")
    assert train_of(run, model="base") == replace(TrainConfig(), warmup=4000), "norm after each sublayer"
    paper = train_of(run, preset="paper")
    assert (paper.optimizer, paper.schedule, paper.warmup, paper.cooldown) == ("adam", "noam", 4000, 0)
    monkeypatch.setattr(defaults, "cpu_has_bf16", lambda: False)
    assert train_of(run, "train.device=cpu").precision == "auto"


def test_a_run_that_began_before_the_race_goes_on_as_it_began(tmp_path):
    began = TrainConfig(warmup=500).to_mapping()
    for name in ("optimizer", "precision"):
        del began[name]
    run = tmp_path / "run"
    (run / "latest" / "update-00000007").mkdir(parents=True)
    (run / "config.json").write_text(json.dumps({"config": {"train": began}}), encoding="utf-8")
    assert train_of(run) == TrainConfig(warmup=500)
    assert train_of(run, "train.max_minutes=3") == TrainConfig(warmup=500, max_minutes=3.0)
