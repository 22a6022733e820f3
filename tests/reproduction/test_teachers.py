"""Teachers of both directions make more pairs of the same text, which the seeds learn."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from reproduced import Silent, small_order

from glassformer.decoding.translator import Translator
from glassformer.reproduction.order import Order
from glassformer.reproduction.printed import report_lines
from glassformer.reproduction.report import make_report
from glassformer.reproduction.reproduce import Reproduced, reproduce
from glassformer.reproduction.teachers import teach
from glassformer.text import read_lines
from glassformer.training.progress import Progress
from glassformer.training.train import Outcome

Done = tuple[Order, Reproduced]


def taught_order(phrases: Path, run: Path) -> Order:
    order = small_order(phrases, run, seeds=(3,))
    return replace(order, variant=order.recipe.variant("taught"))


@pytest.fixture(scope="module")
def done(phrases: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    order = taught_order(phrases, tmp_path_factory.mktemp("taught"))
    found = reproduce(order, Silent())
    assert isinstance(found, Reproduced)
    return order, found


def lines(path: Path) -> list[str]:
    return list(read_lines(path))


def test_each_teacher_learns_its_direction_with_its_settings(done: Done, phrases: Path) -> None:
    order, found = done
    assert found.taught is not None
    assert {name: outcome.updates for name, outcome in found.taught.teachers.items()} == {"forward": 4, "backward": 5}
    files = {name: order.teacher_request(name).source.to_mapping()["files"] for name in ("forward", "backward")}
    places = {key: str(phrases / f"{key}.gz") for key in ("train.tok.en", "train.tok.de", "val.tok.en", "val.tok.de")}
    assert files["forward"] == [places[key] for key in ("train.tok.en", "train.tok.de", "val.tok.en", "val.tok.de")]
    assert files["backward"] == [places[key] for key in ("train.tok.de", "train.tok.en", "val.tok.de", "val.tok.en")]
    assert order.teacher_request("forward").config.train.seed == 11


def test_the_seeds_learn_the_text_and_what_the_teachers_make_of_it(done: Done, phrases: Path) -> None:
    order, found = done
    own = list(zip(lines(phrases / "train.tok.en.gz"), lines(phrases / "train.tok.de.gz"), strict=True))
    made = {}
    for direction, side in (("forward", 0), ("backward", 1)):
        with Translator.load(order.teacher_run(direction)) as teacher:
            options = order.teacher_request(direction).config.decode
            made[direction] = [one.text for one in teacher.translate([pair[side] for pair in own], options)]
    expected = [
        *((pair[0], text) for pair, text in zip(own, made["forward"], strict=True)),
        *((text, pair[1]) for pair, text in zip(own, made["backward"], strict=True)),
    ]
    learned = list(zip(*(lines(order.taught()[key]) for key in ("src", "tgt")), strict=True))
    assert learned[: len(own)] == own
    assert learned[len(own) :] == [pair for pair in dict.fromkeys(expected) if pair not in own and all(pair)]
    assert found.taught is not None
    assert found.taught.pairs == len(learned) > len(own)
    _, data = order.run_of(3).read_config()
    assert data["files"][:2] == [str(order.taught()[key].resolve()) for key in ("src", "tgt")]


def test_what_a_teacher_only_repeats_is_not_learned_twice(phrases: Path, tmp_path: Path) -> None:
    order = taught_order(phrases, tmp_path)
    own = {key: lines(order.texts[key]) for key in ("src", "tgt")}
    made = {"forward": ["", "a new one", *own["tgt"][2:]], "backward": [*own["src"][:-1], "another"]}
    teach(order, Silent())
    for direction, texts in made.items():
        kept = order.teacher_run(direction) / "train.translations"
        kept.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    display = Silent()
    teach(order, display)
    assert display.updates == []
    assert lines(order.taught()["src"]) == [*own["src"], own["src"][1], "another"]
    assert lines(order.taught()["tgt"]) == [*own["tgt"], "a new one", own["tgt"][-1]]


def test_called_again_it_teaches_and_trains_no_more(done: Done) -> None:
    order, found = done
    display = Silent()
    again = reproduce(order, display)
    assert isinstance(again, Reproduced)
    assert display.updates == []
    assert not [line for line in display.lines if line.startswith("It translates")]
    assert again.seeds[3].outputs == found.seeds[3].outputs


def test_a_teacher_that_is_stopped_stops_it_all(phrases: Path, tmp_path: Path) -> None:
    class Impatient(Silent):
        def progress(self, progress: Progress, *, due: bool) -> None:
            super().progress(progress, due=due)
            if progress.update == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    order = taught_order(phrases, tmp_path)
    stopped = reproduce(order, Impatient())
    assert isinstance(stopped, Outcome)
    assert "SIGTERM" in stopped.reason
    assert not order.run_of(3).path.exists()


def test_settings_by_hand_hold_for_teachers_too_but_for_their_own(phrases: Path, tmp_path: Path) -> None:
    order = replace(taught_order(phrases, tmp_path), overrides=("train.max_updates=9", "model.dropout=0.5"))
    train, model = (getattr(order.teacher_request("forward").config, name) for name in ("train", "model"))
    assert (train.max_updates, model.dropout) == (4, 0.5)
    config = order.request(3).config
    assert (config.train.max_updates, config.model.dropout) == (9, 0.5)


def test_the_report_says_what_the_teachers_cost(done: Done) -> None:
    report = make_report(*done)
    trainings = report["teachers"]["trainings"]
    assert {name: row["updates"] for name, row in trainings.items()} == {"forward": 4, "backward": 5}
    assert trainings["forward"]["changed"] == ["train.max_updates=4", "train.seed=11"]
    text = "\n".join(report_lines(report))
    assert f"With their translations there are {report['teachers']['pairs']:,} pairs." in text
    assert "The forward teacher (train.max_updates=4, train.seed=11): 4 updates, " in text
