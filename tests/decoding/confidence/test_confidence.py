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
from glassformer.decoding.confidence.confidence import FEATURES, Confidence, Weight, features
from glassformer.decoding.confidence.seen_text import NgramTable, SeenText
from glassformer.decoding.translation import REASONS, Doubt, Hypothesis
from glassformer.documents import FileTranslator
from glassformer.errors import CheckpointError, StorageError

ENGLISH = "I love you, too."
NONSENSE = "xqzv wkpj qqxz"
SEEN = SeenText.from_texts(NgramTable.from_texts([ENGLISH] * 2, 3), [ENGLISH] * 2, [ENGLISH])


def make(bias: float = 1.0, **weights: float) -> Confidence:
    """An estimate by the given weights, with the n-grams of one sentence."""
    return Confidence(
        good="chrF >= 50",
        seen=SEEN,
        length_ratio=0.0,
        weights={name: Weight(0.0, 1.0, weights.get(name, 0.0)) for name in FEATURES},
        bias=bias,
        doubtful=0.25,
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


def output(text: str, log_prob: float = -3.0) -> Hypothesis:
    return Hypothesis(text, ["a", "</s>"], [7, 2], log_prob, score=0.0, truncated=False)


def test_the_features_and_the_estimate_by_hand():
    source = "Love Pia ☃ Zoë"
    found = features(source, output("Zoë und"), SEEN.unseen(source), math.log(2))
    assert tuple(found) == FEATURES
    assert found["log_prob"] == -1.5
    assert 0.5 < found["unseen"] < 1
    assert found["unknown"] == 6  # P, i, a, the snow man, Z and ë
    assert found["lost"] == 1  # Pia, but neither Love, which was seen, nor Zoë, which was copied
    assert found["short"] == pytest.approx(math.log(2 * 24 / 17))
    assert found["long"] == 0
    hypothesis = output("I love you", log_prob=-4.0)
    assert make(bias=0.5, log_prob=0.75).judge(ENGLISH, [hypothesis])[0] == [pytest.approx(1 / (1 + math.exp(1.0)))]
    assert make(bias=900.0).judge(ENGLISH, [hypothesis])[0] == [1.0]


@pytest.mark.parametrize(
    ("source", "chance", "doubt"),
    [
        (ENGLISH, 0.9, None),
        (ENGLISH, 0.2, Doubt("unsure")),
        ("Ik hou van jou", 0.9, Doubt("language")),
        ("I love you, too 東.", 0.9, Doubt("characters", ("東",))),
        ("I love you too ♥", 0.9, None),  # which the output has
        ("Love you oye, uoy", 0.9, None),
        ("Love you oye, uoy", 0.2, Doubt("words", ("oye", "uoy"))),
        ("I love you, love you", 0.9, Doubt("length")),
        ("I love you, love oye", 0.2, Doubt("words", ("oye",))),
    ],
)
def test_the_first_reason_that_applies_is_given(source: str, chance: float, doubt: Doubt | None) -> None:
    bias = math.log(chance / (1 - chance))
    assert make(bias=bias).judge(source, [output("Ich auch ♥")]) == ([pytest.approx(chance)], doubt)


def test_a_doubt_in_words() -> None:
    assert Doubt("unsure").text == REASONS["unsure"]
    assert Doubt("characters", ("東", "\u202e")).text.endswith('does not know: "東", U+202E')
    assert Doubt("words", tuple("abcdefg")).text.endswith('hardly seen: "a", "b", "c", "d", "e" and 2 more')
    assert Doubt("words", ("{}",)).text.endswith(': "{}"')


def test_each_hypothesis_has_its_own_chance_and_a_text_that_of_its_worst_sentence(translator):
    found, blank = translator.translate([ENGLISH, " "], DecodeConfig(beam=4, n_best=3))
    assert [one.confidence for one in found.hypotheses] == translator.confidence.judge(ENGLISH, found.hypotheses)[0]
    for hypothesis in found.hypotheses:
        assert hypothesis.to_mapping()["confidence"] == hypothesis.confidence
    assert blank.hypotheses[0].confidence is None
    assert (blank.doubt, blank.warning) == (None, None)
    options = DecodeConfig(split_sentences=True)
    good, bad, both = translator.translate([ENGLISH, NONSENSE, f"{ENGLISH} {NONSENSE.title()}"], options)
    assert good.hypotheses[0].confidence > 0.8
    assert (good.doubt, good.warning) == (None, None)
    assert bad.doubt == both.doubt.__class__("language")
    assert bad.warning.startswith("the translation is probably wrong (confidence 0.0")
    assert both.doubt == bad.doubt
    assert both.hypotheses[0].confidence < 0.25
    assert both.to_mapping()["doubt"] == {"reason": "language", "named": [], "text": REASONS["language"]}


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
    assert chances[0] > 0.25 > chances[1]


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
        (lambda path: path.write_text(" " * 400_000), "more than 300,000 bytes"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "decode"),
        (changed(format=7), "found format 7, but this version reads 2"),
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
