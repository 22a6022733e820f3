"""One call from a recipe to translated test sets, with a training for each seed. Called again, it goes on.

    DIR/teachers/ ...      where there are teachers: see ``diversify``
    DIR/seed-1/ ...        a run directory for each seed, with its translations of each test set
    DIR/*.translations     those of all seeds as one ensemble
    DIR/report.json        every figure, without any text

Knows nothing of scores.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.checkpoint import newest_valid, read_json
from glassformer.config import DecodeConfig
from glassformer.decoding.translator import Translator
from glassformer.errors import RunError
from glassformer.reproduction.inputs import Order
from glassformer.run_directory import RunDirectory
from glassformer.text.corpus import write_texts
from glassformer.text.lines import read_lines
from glassformer.training.arguments import TrainRequest
from glassformer.training.checkpointing import TrainState
from glassformer.training.data import FileSource
from glassformer.training.diversify import DiversifyResult, diversify
from glassformer.training.run_log import Display
from glassformer.training.train import Outcome, train


@dataclass(frozen=True)
class SeedResult:
    """A finished training and its ``outputs`` for each test set, by name; ``translating_s`` seconds for all of them.

    ``averaged`` says whether the model is the mean of the last checkpoints; if not, it is the best single one.
    """

    outcome: Outcome
    state: TrainState
    averaged: bool
    parameters: int
    outputs: dict[str, list[str]]
    translating_s: float


@dataclass(frozen=True)
class Reproduced:
    """What came of each seed, and what all of them as one ensemble make of each test set, by name.

    Of one seed there is no ``ensemble``. Their vocabularies are the same, for the text does not depend on the seed.
    ``taught`` is None where there are no teachers.
    """

    seeds: dict[int, SeedResult]
    ensemble: dict[str, list[str]]
    taught: DiversifyResult | None = None


def reproduce(order: Order, display: Display) -> Reproduced | Outcome:
    """Train and translate for every seed; the outcome of a training that was stopped by a signal, where one was."""
    requests = {seed: order.request(seed) for seed in order.seeds}  # a mistake is told before the teachers' long work
    if order.teachers and not order.teachers_place.exists():
        _refuse_seeds_without_teachers(order)
    taught = _taught(order, display) if order.teachers else None
    if isinstance(taught, Outcome):
        return taught
    results = {}
    for seed, asked in requests.items():
        request = replace(asked, source=taught.source) if taught else asked
        display.log(f"Seed {seed}, in {request.run}.")
        outcome = train(request.run, request.source, request.config, display)
        if outcome.final is None:
            return outcome
        results[seed] = _translated(order, request, outcome, display)
    return Reproduced(results, _together(order, display) if len(results) > 1 else {}, taught)


def _refuse_seeds_without_teachers(order: Order) -> None:
    if begun := [seed for seed in order.seeds if order.run_of(seed).exists]:
        raise RunError(
            f"{order.run_of(begun[0]).path}: holds a run without teachers, expected none before theirs. "
            "Name another --run."
        )


def _taught(order: Order, display: Display) -> DiversifyResult | Outcome:
    requests = {direction: order.teacher_request(direction) for direction in order.teachers}
    source = next(iter(requests.values())).source
    assert isinstance(source, FileSource)  # a recipe names files
    configs = {direction: request.config for direction, request in requests.items()}
    return diversify(order.teachers_place, source, configs, display)


def _translated(order: Order, request: TrainRequest, outcome: Outcome, display: Display) -> SeedResult:
    began = time.monotonic()
    with Translator.load(request.run, device=request.config.train.device) as translator:
        outputs = _outputs(order, translator, request.config.decode, request.run, display)
        parameters = sum(weight.numel() for weight in translator.model.parameters())
    state = _last_state(request.run, display)
    used = RunDirectory(request.run).usable_checkpoint(display.log)
    averaged = bool(read_json(used / "state.json").get("averaged"))
    return SeedResult(outcome, state, averaged, parameters, outputs, time.monotonic() - began)


def _together(order: Order, display: Display) -> dict[str, list[str]]:
    config = order.request(order.seeds[0]).config
    runs = [order.run_of(seed).path for seed in order.seeds]
    display.log(f"The {len(runs)} seeds as one ensemble.")
    with Translator.load(runs, device=config.train.device) as translator:
        return _outputs(order, translator, config.decode, order.run, display)


def _outputs(
    order: Order, translator: Translator, options: DecodeConfig, place: Path, display: Display
) -> dict[str, list[str]]:
    """The translations of each test set, also kept in ``place``."""
    outputs = {}
    for test in order.recipe.tests:
        sources = list(read_lines(order.files[test.src]))
        display.log(f"Translating {test.name}, {len(sources):,} sentences.")
        found = translator.translate(sources, options)
        outputs[test.name] = [translation.text for translation in found]
        write_texts(place / f"{test.name}.translations", outputs[test.name])
    return outputs


def _last_state(run: Path, display: Display) -> TrainState:
    newest = newest_valid(RunDirectory(run).latest, display.log)
    return TrainState() if newest is None else TrainState.read(newest)
