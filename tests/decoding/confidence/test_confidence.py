"""Confidence: what it is computed from, that it reaches the user, and that its file is read with care."""

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer import DecodeConfig, Translator
from glassformer.bundled import BUNDLED
from glassformer.cli.main import app
from glassformer.decoding.confidence.confidence import DOUBTFUL, FEATURES, Confidence, Weight, features
from glassformer.decoding.confidence.ngrams import NgramTable
from glassformer.decoding.translation import Hypothesis
from glassformer.documents import FileTranslator
from glassformer.errors import CheckpointError, StorageError

ENGLISH = "I love you, too."
NONSENSE = "xqzv wkpj qqxz"


def make(bias: float = 1.0, **weights: float) -> Confidence:
    """An estimate by the given weights, with the n-grams of one sentence."""
    return Confidence(
        good="chrF >= 50",
        ngrams=NgramTable.from_texts([ENGLISH] * 2, 3),
        length_ratio=0.0,
        weights={name: Weight(0.0, 1.0, weights.get(name, 0.0)) for name in FEATURES},
        bias=bias,
        fitted_on={"sentences": 50, "good": 20, "foreign": 10},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled model, with an estimate that doubts what has unseen n-grams."""
    run = tmp_path_factory.mktemp("confident") / "run"
    shutil.copytree(BUNDLED, run)
    make(bias=2.0, unseen=-6.0).write(run / "confidence.json")
    return run


@pytest.fixture(scope="module")
def translator(run: Path) -> Translator:
    return Translator.load(run, device="cpu")


def test_the_features_by_hand() -> None:
    hypothesis = Hypothesis("ab", ["a", "</s>"], [7, 2], log_prob=-3.0, score=0.0, truncated=False)
    found = features("abcdefgh", ["a", "<unk>", "b", "</s>"], hypothesis, NgramTable.from_texts([], 2), math.log(2))
    assert found.keys() == FEATURES.keys()
    assert found["log_prob"] == -1.5
    assert found["unseen"] == 1.0
    assert found["unknown"] == 0.25
    assert found["short"] == pytest.approx(math.log(2 * 18 / 12))
    assert found["long"] == 0


def test_the_estimate_by_hand() -> None:
    hypothesis = Hypothesis("I love you", ["a", "</s>"], [7, 2], log_prob=-4.0, score=0.0, truncated=False)
    confidence = make(bias=0.5, log_prob=0.75)
    assert confidence.estimate(ENGLISH, ["a", "</s>"], hypothesis) == pytest.approx(1 / (1 + math.exp(1.0)))
    sure = make(bias=900.0)
    assert sure.estimate(ENGLISH, ["a"], hypothesis) == 1.0


def test_each_hypothesis_has_its_own_chance_and_a_blank_text_none(translator: Translator) -> None:
    found, blank = translator.translate([ENGLISH, " "], DecodeConfig(beam=4, n_best=3))
    for hypothesis in found.hypotheses:
        assert hypothesis.confidence == translator.confidence.estimate(ENGLISH, found.source_tokens, hypothesis)
        assert hypothesis.to_mapping()["confidence"] == hypothesis.confidence
    assert blank.hypotheses[0].confidence is None


def test_text_that_looks_foreign_is_doubted_for_that_reason(translator: Translator) -> None:
    good, bad, both = translator.translate([ENGLISH, NONSENSE, f"{ENGLISH} {ENGLISH}"])
    assert good.hypotheses[0].confidence > 0.8 > DOUBTFUL > bad.hypotheses[0].confidence
    assert translator.confidence.warning(good) is None
    assert "does not look like the text that the model learned from" in translator.confidence.warning(bad)
    split = translator.translate([both.source], DecodeConfig(split_sentences=True))[0]
    assert split.hypotheses[0].confidence == translator.confidence.estimate(
        split.source, split.source_tokens, split.hypotheses[0]
    )


def test_a_run_without_the_file_has_no_confidence(run: Path, tmp_path: Path) -> None:
    plain = Path(shutil.copytree(run, tmp_path / "plain"))
    (plain / "confidence.json").unlink()
    translator = Translator.load(plain, device="cpu")
    assert translator.confidence is None
    (found,) = translator.translate([ENGLISH])
    assert found.hypotheses[0].confidence is None
    assert "confidence" not in found.hypotheses[0].to_mapping()


@pytest.mark.slow
def test_translate_names_the_doubtful_lines_and_the_json_has_the_number(run: Path) -> None:
    arguments = ["translate", "--run", str(run), ENGLISH, NONSENSE]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: text 2: the translation is probably wrong (confidence 0.0")
    as_json = CliRunner().invoke(app, [*arguments, "--json"])
    assert as_json.stderr == ""
    chances = [json.loads(line)["hypotheses"][0]["confidence"] for line in as_json.stdout.splitlines()]
    assert chances[0] > DOUBTFUL > chances[1]


def test_a_file_of_texts_flags_the_doubtful_ones(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"{ENGLISH}\n{NONSENSE}\n")
    report = FileTranslator(translator).translate(tmp_path / "in.txt", tmp_path / "out.txt")
    assert [(flag.line, flag.remark.partition(" (")[0]) for flag in report.flagged if "wrong" in flag.remark] == [
        (2, "the translation is probably wrong")
    ]


def test_it_is_the_same_after_saving(tmp_path: Path) -> None:
    confidence = make(log_prob=0.25, unseen=-2.0)
    confidence.write(tmp_path / "confidence.json")
    assert Confidence.read(tmp_path / "confidence.json") == confidence
    assert Confidence.read(tmp_path / "none.json") is None


def changed(**values: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_text("{"), "Expecting property name"),
        (lambda path: path.write_text("[" * 100_000), "recursion"),
        (lambda path: path.write_text("[]"), "expected an object with"),
        (lambda path: path.write_text(" " * 300_000), "more than 200,000 bytes"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "decode"),
        (changed(format=7), "found format 7, but this version reads 1"),
        (changed(bias=0.7), "does not match its SHA-256 sum"),
        (changed(more=1), "does not match its SHA-256 sum"),
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_refused(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "confidence.json"
    make().write(path)
    spoil(path)
    with pytest.raises(CheckpointError, match=message) as caught:
        Confidence.read(path)
    assert "Delete it to translate without confidence" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bias": math.nan}, "bias: found nan, expected a number"),
        ({"length_ratio": math.inf}, "length_ratio: found inf"),
        ({"weights": {}}, "weights: expected values for log_prob"),
        ({"weights": dict.fromkeys(FEATURES, Weight(0.0, 0.0, 1.0))}, "scale: found 0.0, expected more than 0"),
    ],
)
def test_sealed_values_are_checked_all_the_same(tmp_path: Path, values: dict[str, object], message: str) -> None:
    path = tmp_path / "confidence.json"
    replace(make(), **values).write(path)
    with pytest.raises(CheckpointError, match=message):
        Confidence.read(path)


def test_a_link_is_not_written_and_a_pipe_not_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="cannot be written"):
        make().write(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="is a pipe or a device"):
        Confidence.read(tmp_path / "pipe")
