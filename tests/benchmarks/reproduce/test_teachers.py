"""Teachers of both directions make more pairs of the same text, which the seeds learn."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import Silent, small_request

from benchmarks.reproduce.inputs import ReproduceRequest
from benchmarks.reproduce.report import make_report, report_lines
from benchmarks.reproduce.reproduce import ReproduceResult, reproduce
from glassformer.errors import RunError
from glassformer.text import read_lines

pytestmark = pytest.mark.slow

Done = tuple[ReproduceRequest, ReproduceResult]


def request_with_teachers(phrases: Path, run: Path) -> ReproduceRequest:
    request = small_request(phrases, run, seeds=(3,))
    return replace(request, variant=request.recipe.variant("taught"))


@pytest.fixture(scope="module")
def done(phrases: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    request = request_with_teachers(phrases, tmp_path_factory.mktemp("taught"))
    found = reproduce(request, Silent())
    assert isinstance(found, ReproduceResult)
    return request, found


def test_the_seeds_learn_what_teachers_taught_and_the_report_says_so(done, phrases):
    request, found = done
    assert found.diversification is not None
    assert {name: outcome.updates for name, outcome in found.diversification.teachers.items()} == {
        "forward": 4,
        "backward": 5,
    }
    assert request.teacher_training("forward").config.train.seed == 11
    _, data = request.seed_run(3).read_config()
    places = [request.run / "teachers/pairs" / name for name in ("train.src", "train.tgt")]
    assert [*data["files"].values()] == [
        *map(str, places),
        str(phrases / "val.tok.en.gz"),
        str(phrases / "val.tok.de.gz"),
    ]
    assert [len(list(read_lines(place))) for place in places] == [found.diversification.pairs] * 2
    report = make_report(*done)
    trainings = report["teachers"]["trainings"]
    assert {name: row["updates"] for name, row in trainings.items()} == {"forward": 4, "backward": 5}
    assert trainings["forward"]["changed"] == ["train.max_updates=4", "train.seed=11"]
    text = "\n".join(report_lines(report))
    assert f"With their translations there are {report['teachers']['pairs']:,} pairs." in text
    assert "The forward teacher (train.max_updates=4, train.seed=11): 4 updates, " in text


def test_seeds_that_were_trained_before_there_were_teachers_are_told_of_first(phrases: Path, tmp_path: Path) -> None:
    request = request_with_teachers(phrases, tmp_path)
    plain = replace(request, variant=None, overrides=("train.max_updates=2",))
    assert isinstance(reproduce(plain, Silent()), ReproduceResult)
    with pytest.raises(RunError, match="seed-3: holds a run that was trained without teachers"):
        reproduce(request, Silent())
    assert not request.teachers_directory.exists()
