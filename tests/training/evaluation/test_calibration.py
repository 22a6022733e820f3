"""The fit of the confidence: what it learns from examples, and that a training and `average` keep it in the run."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from recorded import Lines

from glassformer import Translator
from glassformer.decoding.confidence.confidence import FEATURES, Confidence
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig, TextConfig
from glassformer.tasks import load_task
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.prepare import PreparedText, prepare
from glassformer.training.evaluation import calibration
from glassformer.training.evaluation.calibration import fit_confidence, keep_confidence
from glassformer.training.loop.averaging import average_run
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

MakeConfig = Callable[..., RunConfig]
PHRASES = 60


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(device="cpu", engine="torch")


@pytest.fixture(scope="module")
def phrases(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> PreparedText:
    """Phrases that the bundled model knows, as training and as validation text."""
    task, text = load_task("phrasebook-de"), TextConfig(vocab_size=translator.src_tokenizer.size)
    valid = Random(3).sample(task.valid, PHRASES)
    both = translator.src_tokenizer, translator.src_tokenizer
    return prepare(
        lambda: iter(task.train), lambda: iter(valid), text, tmp_path_factory.mktemp("text") / "text",
        source="phrases", report=lambda _: None, tokenizers=lambda: both,
    )  # fmt: skip


@pytest.fixture(scope="module")
def fitted(translator: Translator, phrases: PreparedText) -> Confidence:
    found = fit_confidence(translator, phrases, "chrf")
    assert found is not None
    return found


def chances(translator: Translator, confidence: Confidence, texts: list[str]) -> list[float]:
    translations = translator.translate(texts)
    return [confidence.judge(one.read, one.hypotheses)[0][0] for one in translations]


@pytest.mark.slow
def test_it_trusts_what_the_model_knows_and_doubts_other_languages_and_nonsense(translator, phrases, fitted):
    assert (fitted.good, fitted.fitted_on["sentences"]) == ("chrF >= 50", PHRASES)
    assert 0 < fitted.fitted_on["foreign"] <= PHRASES
    known = chances(translator, fitted, [pair.src for pair in phrases.valid_text[:20]])
    strange = chances(translator, fitted, ["¿Dónde está la estación de tren?", "qwertz uiop", "hjkl hjkl hjkl xcvb"])
    assert np.median(known) > 0.7
    assert max(strange) < 0.5


@pytest.mark.slow
def test_a_task_with_one_right_answer_is_judged_by_exact_match(translator: Translator, phrases: PreparedText) -> None:
    found = fit_confidence(translator, phrases, "exact_match")
    assert found is not None
    outputs = translator.translate([pair.src for pair in phrases.valid_text])
    right = sum(one.text == pair.tgt for one, pair in zip(outputs, phrases.valid_text, strict=True))
    assert (found.good, found.fitted_on["good"]) == ("exact match", right)


def test_the_regression_finds_what_made_the_examples() -> None:
    chance = np.random.default_rng(1)
    values = chance.normal(size=(4000, len(FEATURES)))
    odds = 0.5 + 1.5 * values[:, 0] - 0.75 * values[:, 4]
    weights, bias = calibration._fit(values, chance.random(4000) < 1 / (1 + np.exp(-odds)), 0)
    found = {name: one.weight for name, one in weights.items()}
    assert found["log_prob"] == pytest.approx(1.5, abs=0.15)
    assert found["short"] == pytest.approx(-0.75, abs=0.15)
    assert max(abs(found[name]) for name in ("unseen", "unknown", "lost", "long")) < 0.15
    assert bias == pytest.approx(0.5, abs=0.15)


def test_no_weight_speaks_for_what_is_unseen_or_against_a_probable_output() -> None:
    chance = np.random.default_rng(1)
    values = chance.normal(size=(500, len(FEATURES)))
    weights, _ = calibration._fit(values, values[:, 1] - values[:, 0] - 0.1 * values[:, 5] > 0, 0)
    assert (weights["log_prob"].weight, weights["unseen"].weight) == (0.0, 0.0)
    assert weights["long"].weight < 0


def test_one_good_translation_in_twenty_is_doubted_but_none_that_is_probably_good() -> None:
    assert calibration._choose_threshold(np.linspace(0, 1, 1001) ** 0.5) == pytest.approx(0.05**0.5, abs=0.01)
    assert calibration._choose_threshold(np.full(100, 0.9)) == 0.5
    assert calibration._choose_threshold(np.full(100, 0.1)) == 0.2
    assert calibration._choose_threshold(np.array([])) == 0.2


@pytest.mark.parametrize("good", [True, False])
def test_one_sided_examples_give_no_certainty(good: bool) -> None:
    values = np.random.default_rng(1).normal(size=(50, len(FEATURES)))
    weights, bias = calibration._fit(values, np.full(50, good), 0)
    assert (bias > 0) == good
    assert abs(bias) < 5
    assert all(np.isfinite([one.mean, one.scale, one.weight]).all() for one in weights.values())


@pytest.mark.slow
def test_sources_in_the_language_of_the_targets_are_not_taken_for_foreign(phrases: PreparedText) -> None:
    pairs = [Pair(pair.src, pair.src) for pair in phrases.valid_text]
    seen = calibration._read_seen_text(phrases, pairs)
    foreign = set(calibration._foreign_texts(pairs, seen.ngrams))
    assert len({pair.src for pair in pairs} & foreign) <= PHRASES // 20  # the strangest of the sources themselves


@pytest.mark.slow
def test_too_few_sentences_fit_nothing(translator, phrases, monkeypatch, tmp_path):
    monkeypatch.setattr(calibration, "SENTENCES", 10)
    assert fit_confidence(translator, phrases, "chrf") is None
    run, lines = RunDirectory(tmp_path), Lines()
    run.confidence_file.write_text("that of an earlier model")
    keep_confidence(run, None, lines.log)
    assert not run.confidence_file.exists()
    assert lines.lines[0].startswith("Confidence: not fitted")


@pytest.mark.slow
def test_a_training_fits_it_and_average_fits_it_anew(tmp_path: Path, small_config: MakeConfig) -> None:
    words = ["".join(Random(number).choices("abcdef", k=5)) for number in range(200)]
    for side, texts in {"src": words, "tgt": [word[::-1].upper() for word in words]}.items():
        (tmp_path / f"a.{side}").write_text("\n".join(texts[:150]) + "\n")
        (tmp_path / f"v.{side}").write_text("\n".join(texts[150:]) + "\n")
    places = (tmp_path / name for name in ("a.src", "a.tgt", "v.src", "v.tgt"))
    lines, run = Lines(), RunDirectory(tmp_path / "run")
    train(TrainRequest(run.path, FileSource(*places), small_config()), lines)
    assert any(line.startswith("Confidence: fitted on 50 validation translations") for line in lines.lines)
    (found,) = Translator.load(run.path, device="cpu").translate(["abcde"])
    assert 0 <= found.hypotheses[0].confidence <= 1
    run.confidence_file.write_text("{}")
    average_run(run.path, 2, lines.log)
    assert Confidence.read(run.confidence_file) is not None
