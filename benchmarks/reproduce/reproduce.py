"""From a recipe to translated test sets, with a training for each seed; called again, it continues.

DIR/teachers/ ...      if the recipe has teachers: see ``diversify``
DIR/seed-1/ ...        a run directory for each seed, with its translations of each test set
DIR/*.translations     the translations of all seeds as one ensemble
DIR/report.json        every figure, without any text
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.reproduce.inputs import ReproduceRequest
from glassformer.checkpoint import newest_valid, read_json
from glassformer.decoding.translator import Translator
from glassformer.errors import RunError
from glassformer.run_directory import RunDirectory
from glassformer.text.corpus.corpus import write_texts
from glassformer.text.lines import read_lines
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.reporting.run_log import Display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.teachers.diversify import DiversifyResult, diversify
from glassformer.training.train import Outcome, train


@dataclass(frozen=True)
class SeedResult:
    """A finished training and its ``outputs`` for each test set, by name; all of them took ``translating_s`` seconds.

    ``averaged`` says whether the model is the mean of the last checkpoints; if not, it is the best single one.
    """

    outcome: Outcome
    state: TrainState
    averaged: bool
    parameters: int
    outputs: dict[str, list[str]]
    translating_s: float


@dataclass(frozen=True)
class ReproduceResult:
    """The result of each seed, and the outputs of all seeds as one ensemble for each test set, by name.

    ``ensemble`` is empty for a single seed. All seeds have the same vocabulary, because it depends on the text only.
    ``diversification`` is None if there are no teachers.
    """

    seeds: dict[int, SeedResult]
    ensemble: dict[str, list[str]]
    diversification: DiversifyResult | None = None


def reproduce(request: ReproduceRequest, display: Display) -> ReproduceResult | Outcome:
    """Train and translate for every seed; returns the outcome of a training if a signal stopped it."""
    trainings = {seed: request.seed_training(seed) for seed in request.seeds}  # a mistake is found before long work
    if request.teachers and not request.teachers_directory.exists():
        _refuse_seeds_without_teachers(request)
    diversification = _diversify(request, display) if request.teachers else None
    if isinstance(diversification, Outcome):
        return diversification
    results = {}
    for seed, own in trainings.items():
        training = replace(own, source=diversification.source) if diversification else own
        display.log(f"Seed {seed}, in {training.run}.")
        outcome = train(training, display)
        if outcome.final is None:
            return outcome
        results[seed] = _seed_result(request, training, outcome, display)
    ensemble = _translate_with_ensemble(request, display) if len(results) > 1 else {}
    return ReproduceResult(results, ensemble, diversification)


def _refuse_seeds_without_teachers(request: ReproduceRequest) -> None:
    if started := [seed for seed in request.seeds if request.seed_run(seed).exists]:
        raise RunError(
            f"{request.seed_run(started[0]).path}: holds a run that was trained without teachers, expected no run "
            "before the teachers are trained. Name another --run."
        )


def _diversify(request: ReproduceRequest, display: Display) -> DiversifyResult | Outcome:
    trainings = {direction: request.teacher_training(direction) for direction in request.teachers}
    source = next(iter(trainings.values())).source
    assert isinstance(source, FileSource)  # a recipe names files
    configs = {direction: training.config for direction, training in trainings.items()}
    return diversify(request.teachers_directory, source, configs, display)


def _seed_result(request: ReproduceRequest, training: TrainRequest, outcome: Outcome, display: Display) -> SeedResult:
    began = time.monotonic()
    with Translator.load(training.run, device=training.config.train.device) as translator:
        outputs = _translate(request, translator, training.run, display)
        parameters = sum(weight.numel() for weight in translator.model.parameters())
    run = RunDirectory(training.run)
    newest = newest_valid(run.latest, display.log)
    state = TrainState() if newest is None else TrainState.read(newest)
    averaged = bool(read_json(run.usable_checkpoint(display.log) / "state.json").get("averaged"))
    return SeedResult(outcome, state, averaged, parameters, outputs, time.monotonic() - began)


def _translate_with_ensemble(request: ReproduceRequest, display: Display) -> dict[str, list[str]]:
    config = request.seed_training(request.seeds[0]).config
    runs = [request.seed_run(seed).path for seed in request.seeds]
    display.log(f"The {len(runs)} seeds as one ensemble.")
    with Translator.load(runs, device=config.train.device) as translator:
        return _translate(request, translator, request.run, display)


def _translate(
    request: ReproduceRequest, translator: Translator, directory: Path, display: Display
) -> dict[str, list[str]]:
    """The translations of each test set, which are also written to ``directory``."""
    outputs = {}
    for test in request.recipe.tests:
        sources = list(read_lines(request.files[test.src]))
        display.log(f"Translating {test.name}, {len(sources):,} sentences.")
        outputs[test.name] = [found.text for found in translator.translate(sources)]
        write_texts(directory / f"{test.name}.translations", outputs[test.name])
    return outputs
