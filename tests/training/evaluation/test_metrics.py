"""The register of metrics, what reads it, and scores of text that looks tokenised."""

import logging

import pytest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from glassformer.settings import TrainConfig
from glassformer.training.evaluation.evaluation import score, tokenised_warning
from glassformer.training.evaluation.metrics import METRICS, Metric
from glassformer.training.evaluation.results import Validation
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.stopping import stop_reason
from glassformer.training.reporting.run_log import validation_line

TOKENISED = [f"ein mann schläft {number} ." for number in range(150)]


def test_tokenised_references_are_warned_of_once_in_our_own_words(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert score(TOKENISED, TOKENISED)["bleu"] == pytest.approx(100)
    assert not caplog.records
    assert "look tokenised" in tokenised_warning(TOKENISED)


@pytest.mark.parametrize("references", [[], ["Ein Mann schläft."] * 3, ["Ein Mann .", "Eine Frau."]])
def test_other_references_are_not_warned_of(references: list[str]) -> None:
    assert not tokenised_warning(references)


def test_no_line_is_held_in_memory_once_it_is_scored():
    """sacrebleu caches what it splits, by object: a training that validates often would grow by megabytes an hour."""
    for text in ("a b", "犬が寝ている。"):
        score([text, "c"], [text, "c"])
        for kind in (Tokenizer13a, TokenizerRegexp, TokenizerChar):
            assert kind.__call__.cache_info().currsize == 0


def test_letters_written_in_two_ways_are_one_and_texts_without_spaces_count_characters():
    decomposed = "fu\u0308r Ka\u0308se"
    assert score(["für Käse"], [decomposed])["exact_match"] == 100.0
    assert score([decomposed], ["für Käse"])["chrf"] == pytest.approx(100.0)
    for text in ("犬が寝ている。", "ฉันหิวมาก", "ຂ້ອຍຫິວ", "ខ្ញុំឃ្លាន", "ငါဗိုက်ဆာတယ်", "ང་གྲོད་ཁོག་ལྟོགས་སོང་།"):
        found = score([text], [text])
        assert "tok:char" in found.signatures["bleu"]
        assert found["bleu"] == pytest.approx(100.0)
    assert "tok:13a" in score(["A dog."], ["A dog."]).signatures["bleu"]


def test_each_metric_is_a_choice_of_the_setting_and_the_loss_is_one_more():
    computed = {name: metric for name, metric in METRICS.items() if metric.compute is not None}
    assert {*computed, "loss"} == set(TrainConfig.choices("metric"))
    for name, metric in computed.items():
        assert metric.name == name
        best = 100.0 if metric.higher_is_better else 0.0
        assert metric.compute(["a b c d e"], ["a b c d e"])[0] == pytest.approx(best)


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new metric, of which less is better: the share of outputs that are not their references."""
    error_rate = Metric(
        "error_rate", "errors", "outputs that are wrong", higher_is_better=False, unit=" %",
        compute=lambda outputs, references: (100.0 - METRICS["exact_match"].compute(outputs, references)[0], ""),
    )  # fmt: skip
    monkeypatch.setitem(METRICS, "error_rate", error_rate)


def test_a_new_metric_is_one_entry(errors: None, capsys: pytest.CaptureFixture[str]):
    from glassformer.cli.evaluate import _print_scores

    scores = score(["a", "b"], ["a", "c"])
    found = Validation(1, 0.5, scores, (), 0.0)
    assert scores["error_rate"] == 50.0
    assert scores.to_mapping()["error_rate"] == 50.0
    assert validation_line(found, best=False).endswith("exact 50.0 %  errors 50.0 %")
    assert found.value("error_rate") == -50.0
    _print_scores(scores)
    assert "exact    50.00 %  of 2 sentences\nerrors   50.00 %  of 2 sentences\n" in capsys.readouterr().out


@pytest.mark.parametrize(("best", "ends"), [(-6.0, False), (-5.0, True), (-4.0, True)])
def test_a_metric_of_which_less_is_better_ends_a_training_from_above(best, ends, errors: None):
    settings = TrainConfig(stop_at=5.0)
    object.__setattr__(settings, "metric", "error_rate")
    reason = stop_reason(settings, TrainState(best=best), 0.0)
    assert (reason == f"error_rate reached {-best:.1f} (train.stop_at)") is ends
