"""Which model a training keeps: the candidates, how long judging them takes, and the choice."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from recorded import Lines

from glassformer.checkpoint import checkpoints, read_json, read_tensors
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig, TrainConfig
from glassformer.training.evaluation.evaluation import score
from glassformer.training.evaluation.results import Example, Scores, Validation
from glassformer.training.loop.averaging import average_weights
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.model_selection import (
    Contender,
    Verdict,
    best_verdict,
    judge,
    list_contenders,
    verdict_lines,
)
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train
from glassformer.world import ALONE

MakeConfig = Callable[..., RunConfig]
Corpus = tuple[Path, Path]


def state_of(run: Path) -> TrainState:
    return TrainState.read(checkpoints(run / "latest")[-1])


def candidates_of(run: Path, average_last: int) -> list[Contender]:
    return list_contenders(RunDirectory(run), state_of(run), TrainConfig(average_last=average_last), pytest.fail)


@pytest.fixture(scope="module")
def long_run(
    corpus: Corpus, small_config: MakeConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Lines]:
    """A training of twelve validations, and what it said."""
    run, lines = tmp_path_factory.mktemp("selection") / "run", Lines()
    train(
        TrainRequest(
            run,
            FileSource(*corpus),
            small_config(max_updates=120, average_last=10, metric="chrf", valid_translations=3, seed=2),
        ),
        lines,
    )
    return run, lines


@pytest.mark.slow
def test_the_best_of_averages_and_single_checkpoints_becomes_the_final_model(long_run):
    run, _ = long_run
    found = candidates_of(run, 10)
    averages = [len(one.checkpoints) for one in found if len(one.checkpoints) > 1]
    assert averages == [10, 5, 3]
    singles = [one.checkpoints[0].name for one in found if len(one.checkpoints) == 1]
    state = state_of(run)
    expected = dict.fromkeys(f"update-{update:08}" for update in (state.best_update, 120, state.best_loss_update))
    assert singles == list(expected)
    assert [len(one.checkpoints) for one in candidates_of(run, 5) if len(one.checkpoints) > 1] == [5, 3]
    assert all(len(one.checkpoints) == 1 for one in candidates_of(run, 1))
    run, lines = long_run
    rows = [line for line in lines.lines if line.startswith("  ") and "chrF" in line]
    found = candidates_of(run, 10)
    assert [row.split("  chrF")[0].strip() for row in rows] == [one.name for one in found]
    scores = [float(row.split("chrF")[1].split()[0]) for row in rows]
    (kept,) = [index for index, row in enumerate(rows) if row.endswith("<- kept")]
    assert scores[kept] == max(scores) > min(scores)
    final = checkpoints(run / "final")[-1]
    expected = average_weights(found[kept].checkpoints)
    for name, weight in read_tensors(final, "model").items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=0)
    assert read_json(final / "state.json").get("averaged", 1) == len(found[kept].checkpoints)


@pytest.mark.slow
def test_patience_counts_validations_that_improve_neither_metric_nor_loss(long_run: tuple[Path, Lines]) -> None:
    run, _ = long_run
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    validations = [one for one in records if "valid_loss" in one]
    best, best_loss, stale = {"valid_chrf": -1.0, "update": 0}, {"valid_loss": 1e9, "update": 0}, 0
    for one in validations:
        stale += 1
        if one["valid_chrf"] > best["valid_chrf"]:
            best, stale = one, 0
        if one["valid_loss"] < best_loss["valid_loss"]:
            best_loss, stale = one, 0
    state = state_of(run)
    assert (state.best_update, state.best) == (best["update"], best["valid_chrf"])
    assert (state.best_loss_update, state.best_loss) == (best_loss["update"], best_loss["valid_loss"])
    assert state.stale_validations == stale
    since_best = sum(one["update"] > best["update"] for one in validations)
    assert since_best > stale  # the loss went on improving, or else this run shows nothing


@pytest.mark.slow
def test_counters_of_an_earlier_version_are_read(long_run: tuple[Path, Lines], tmp_path: Path) -> None:
    counters = read_json(checkpoints(long_run[0] / "latest")[-1] / "state.json")["counters"]
    for name in ("best_loss", "best_loss_update"):
        del counters[name]
    (tmp_path / "state.json").write_text(json.dumps({"counters": counters}))
    state = TrainState.read(tmp_path)
    assert (state.update, state.best_loss, state.best_loss_update) == (120, None, 0)


def validation(chrf: float, loss: float = 1.0) -> Validation:
    scores = Scores({"bleu": 0.0, "chrf": chrf, "exact_match": 0.0}, {}, 1)
    return Validation(1, loss, scores, (("", "", ""),), 0.0)


class Measure:
    """Takes some time for each sentence, on a clock of its own, and remembers how many it was asked for."""

    def __init__(self, seconds_a_sentence: float) -> None:
        self.seconds_a_sentence, self.now = seconds_a_sentence, 0.0
        self.calls: list[tuple[str, int]] = []

    def __call__(self, candidate: Contender, sentences: int) -> Validation:
        self.calls.append((candidate.name, sentences))
        self.now += self.seconds_a_sentence * sentences
        return validation(50.0)


FOUR = [Contender(name, ()) for name in "abcd"]


def judge_by(measure: Measure, sentences: int, budget_s: float) -> str:
    """The names of those that were judged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.training.loop.model_selection.time.monotonic", lambda: measure.now)
        return "".join(one.candidate.name for one in judge(FOUR, measure, sentences, budget_s, ALONE))


def test_time_decides_how_many_sentences_and_candidates_are_judged():
    measure = Measure(0.01)
    assert judge_by(measure, 1000, 60.0) == "abcd"
    assert measure.calls == [("a", 100), *((name, 1000) for name in "abcd")]
    measure = Measure(0.01)
    assert judge_by(measure, 70, 60.0) == "abcd"
    assert measure.calls == [(name, 70) for name in "abcd"]
    measure = Measure(0.01)
    assert judge_by(measure, 1000, 17.0) == "abcd"  # 100 sentences take 1 s: 16 s are left for four times 400
    assert measure.calls == [("a", 100), *((name, 400) for name in "abcd")]
    measure = Measure(0.01)
    assert judge_by(measure, 1000, 3.5) == "abc"
    assert measure.calls == [(name, 100) for name in "abc"]
    assert judge_by(Measure(0.01), 1000, 0.5) == "a"


def test_the_first_of_equals_is_kept_and_those_that_were_not_judged_are_said():
    verdicts = judge(FOUR, Measure(0.01), 10, 60.0, ALONE)
    assert verdict_lines(verdicts, verdicts[0], "bleu", not_judged=3)[5].startswith("  3 more could be kept")
    assert not any("more could" in line for line in verdict_lines(verdicts, verdicts[0], "bleu"))
    verdicts = judge(FOUR, Measure(0.01), 10, 60.0, ALONE)
    assert best_verdict(verdicts, "chrf", ALONE, loss_is_comparable=True).candidate.name == "a"
    values = iter([validation(50, 3.0), validation(40, 2.0), validation(60, 2.5), validation(60, 2.5)])
    verdicts = judge(FOUR, lambda *_: next(values), 10, 60.0, ALONE)
    assert best_verdict(verdicts, "loss", ALONE, loss_is_comparable=True).candidate.name == "b"
    assert best_verdict(verdicts, "chrf", ALONE, loss_is_comparable=True).candidate.name == "c"


def verdict(name: str, right: int, loss: float, of: int = 100) -> Verdict:
    """A candidate that translates so many of its sentences rightly, the first ones, and leaves out a word elsewhere."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    texts = [f"{words[number % 10]} {words[number // 10]} houses stand by the sea" for number in range(of)]
    outputs = [text if number < right else text.replace("stand ", "") for number, text in enumerate(texts)]
    examples = tuple(Example(text, output, text) for text, output in zip(texts, outputs, strict=True))
    return Verdict(Contender(name, ()), Validation(1, loss, score(outputs, texts), (("", "", ""),), 0.0, examples))


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_what_few_sentences_cannot_tell_apart_is_decided_by_the_loss(metric: str) -> None:
    best, near, far = verdict("best", 52, 2.1), verdict("near", 51, 2.0), verdict("far", 10, 1.0)
    verdicts = [far, best, near]
    assert best_verdict(verdicts, metric, ALONE, loss_is_comparable=True) is near
    assert best_verdict(verdicts, metric, ALONE, loss_is_comparable=False) is best
    first = [far, near, best]
    assert best_verdict(first, metric, ALONE, loss_is_comparable=False) is near
    assert "the first of those that are as good" in verdict_lines(first, near, metric, loss_is_comparable=False)[-1]
    assert "so the lower loss decides" in verdict_lines(verdicts, near, metric)[-1]
    assert best_verdict([far, best], metric, ALONE, loss_is_comparable=True) is best
    assert "<- kept" in verdict_lines([far, best], best, metric)[-1]
    assert (
        best_verdict(
            [verdict("one", 1, 2.0, of=1), verdict("none", 0, 1.0, of=1)], metric, ALONE, loss_is_comparable=True
        ).candidate.name
        == "one"
    )
