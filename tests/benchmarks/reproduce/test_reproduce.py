"""From a recipe to a report: trained, stopped and gone on with, written down without any text."""

import json
import os
import signal
import statistics
from pathlib import Path
from typing import Any

import pytest
from small_recipe import Silent, small_request

from benchmarks.reproduce import report as reports
from benchmarks.reproduce.evaluate import find_scoring
from benchmarks.reproduce.inputs import ReproduceRequest
from benchmarks.reproduce.report import make_report, report_lines, write_report
from benchmarks.reproduce.reproduce import ReproduceResult, reproduce
from glassformer.checkpoint import checkpoints, read_json
from glassformer.decoding.translator import Translator
from glassformer.text import read_lines
from glassformer.training.reporting.run_log import TrainProgress
from glassformer.training.train import Outcome

Done = tuple[ReproduceRequest, ReproduceResult]
DOCS = Path(__file__).parents[3] / "docs"


pytestmark = pytest.mark.slow  # most of them need a training of two seeds


@pytest.fixture(scope="module")
def report(small_result: Done) -> dict[str, Any]:
    return make_report(*small_result)


def records(run: Path, key: str) -> list[dict[str, float]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if key in record]


def test_each_seed_is_trained_once_in_its_own_run(small_result):
    request, found = small_result
    assert list(found.seeds) == [1, 2]
    for seed, result in found.seeds.items():
        config, _ = request.seed_run(seed).read_config()
        assert (config.train.seed, result.outcome.updates) == (seed, 30)
        assert len(result.outputs["held_out"]) == 20
        kept = list(read_lines(request.seed_run(seed).path / "held_out.translations"))
        assert kept == result.outputs["held_out"]
    assert found.seeds[1].outcome.final != found.seeds[2].outcome.final
    display = Silent()
    again = reproduce(request, display)
    assert isinstance(again, ReproduceResult)
    assert display.updates == []
    assert again.ensemble == found.ensemble
    for seed, one in again.seeds.items():
        assert one.outputs == found.seeds[seed].outputs
        assert one.outcome.elapsed_s == found.seeds[seed].outcome.elapsed_s


def test_all_seeds_translate_together_too(small_result: Done, report: dict[str, Any], phrases: Path) -> None:
    request, found = small_result
    sources, references = (list(read_lines(phrases / f"test.tok.{language}.gz")) for language in ("en", "de"))
    with Translator.load([request.seed_run(seed).path for seed in request.seeds]) as translator:
        expected = [one.text for one in translator.translate(sources)]
    assert found.ensemble == {"held_out": expected}
    assert list(read_lines(request.run / "held_out.translations")) == expected
    assert expected not in [result.outputs["held_out"] for result in found.seeds.values()]
    test = report["tests"]["held_out"]
    assert test["ensemble"].keys() == test["ways"].keys()
    score = find_scoring("tokenised").score(expected, references).score
    assert test["ensemble"]["tokenised"]["score"] == score
    assert f"their ensemble: tokenised {score:.2f}, " in "\n".join(report_lines(report))


def test_stopped_it_says_so_and_goes_on_where_it_stood(phrases: Path, small_result: Done, tmp_path: Path) -> None:
    class Impatient(Silent):
        def on_update(self, progress: TrainProgress, *, due: bool) -> None:
            super().on_update(progress, due=due)
            if progress.update == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    request = small_request(phrases, tmp_path, seeds=(1,))
    stopped = reproduce(request, Impatient())
    assert isinstance(stopped, Outcome)
    assert "SIGTERM" in stopped.reason
    display = Silent()
    done = reproduce(request, display)
    assert isinstance(done, ReproduceResult)
    assert display.updates == list(range(5, 31))
    assert done.seeds[1].outputs == small_result[1].seeds[1].outputs
    assert done.ensemble == {}


def test_the_figures_follow_from_what_was_logged_and_written(small_result, report, phrases):
    request, found = small_result
    test = report["tests"]["held_out"]
    references = list(read_lines(phrases / "test.tok.de.gz"))
    for seed in (1, 2):
        way = find_scoring("tokenised").score(found.seeds[seed].outputs["held_out"], references)
        assert test["ways"]["tokenised"]["seeds"][str(seed)]["score"] == way.score
        training, run = report["trainings"][str(seed)], request.seed_run(seed).path
        assert training["averaged"] == ("averaged" in read_json(checkpoints(run / "final")[-1] / "state.json"))
        assert training["elapsed_s"] >= records(run, "loss")[-1]["elapsed_s"]
        assert training["target_tokens_per_s"] == training["target_tokens"] / training["elapsed_s"]
    for way in test["ways"].values():
        scores = [row["score"] for row in way["seeds"].values()]
        assert (way["mean"], way["deviation"]) == (statistics.fmean(scores), statistics.stdev(scores))
    assert test["sentences"] == len(references) == 20
    assert test["bootstrap"]["pairs"][0]["difference"] == pytest.approx(
        test["ways"]["tokenised"]["seeds"]["1"]["score"] - test["ways"]["tokenised"]["seeds"]["2"]["score"]
    )
    assert report["settings"]["train"]["max_updates"] == 30
    assert report["files"].keys() == set(request.files)


def test_without_moses_rules_the_ways_that_need_them_are_left_out_in_words(small_result, monkeypatch):
    monkeypatch.setattr(reports, "load_moses", lambda language: None)
    test = make_report(*small_result)["tests"]["held_out"]
    assert list(test["ways"]) == ["tokenised", "pieces", "sentences", "chrF"]
    assert test["left_out"] == "Left out: caseless, cased, which need pip install sacremoses."
    assert test["rules"] is None


def test_the_evidence_holds_every_figure_and_no_text(small_result, report, phrases, tmp_path):
    request, found = small_result
    write_report(request, report, tmp_path / "evidence")
    kept = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "evidence").iterdir()}
    assert kept.keys() == {"report.json", "seed-1.metrics.jsonl", "seed-2.metrics.jsonl"}
    assert json.loads(kept["report.json"]) == json.loads((request.run / "report.json").read_text()) == report
    together = "".join(kept.values())
    assert str(phrases) not in together
    sentences = [*read_lines(phrases / "test.de"), *read_lines(phrases / "test.tok.de.gz")]
    assert not [
        text
        for text in (*sentences, *found.seeds[1].outputs["held_out"], *found.ensemble["held_out"])
        if len(text) > 8 and text in together
    ]
