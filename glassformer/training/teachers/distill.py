"""Distillation: a small student learns what its teacher, a trained run, writes for the sources of the teacher's text.

Kim and Rush 2016 (arXiv 1606.07947): the teacher's beam search is more regular than people, so that a decoder of one
layer is enough (Kasai et al. 2021, arXiv 2006.10369). The student starts from the teacher's weights, with evenly
spaced layers (Shleifer and Rush 2020, arXiv 2010.13002).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from glassformer.bundled import BUNDLED
from glassformer.errors import ConfigError, RunError
from glassformer.files import make_directory, refuse_link, storage_errors
from glassformer.model.transformer import Transformer
from glassformer.run_directory import DISTILLED, RunDirectory
from glassformer.settings import LIMITS, ModelConfig, RunConfig
from glassformer.settings.section import apply_overrides
from glassformer.text.columns import Columns
from glassformer.text.corpus.corpus import Pair
from glassformer.training.reporting.run_log import Display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource, TaskSource, TrainingText
from glassformer.training.request.fine_tuning import TOKENIZER_SETTINGS, InitialModel
from glassformer.training.teachers.diversify import split_pairs
from glassformer.training.teachers.teacher import Teacher
from glassformer.training.train import Outcome, train
from glassformer.world import ALONE, World

# Between fine-tuning and training from nothing: whole layers are missing.
STUDENT_RATE: dict[str, Any] = {"schedule": "inverse_sqrt", "peak_rate": 1e-3, "warmup": 200}
# Settings of the teacher's own training, which say nothing of how a student should be trained.
_TEACHERS_OWN = (*LIMITS, "freeze", "mix", "r_drop", "device", "sharding", "on_divergence", "tensorboard")
_FIXED = {"text": TOKENIZER_SETTINGS, "model": ("src_vocab", "tgt_vocab", "pad_id", "bos_id", "eos_id")}
_LAYERS = {"encoder": "n_encoder_layers", "decoder": "n_decoder_layers"}


@dataclass(frozen=True)
class Student(InitialModel):
    """A student's start: tokenizers, search and weights of its teacher."""

    # It learns what its teacher writes: what people write becomes less probable while the translations improve.
    loss_is_comparable = False
    fixed = _FIXED
    fixed_by = "the teacher's tokenizers have. Leave it out."

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The teacher's, apart from how long and how fast it was trained."""
        settings = self.run.config.to_mapping()
        training = {name: value for name, value in settings["train"].items() if name not in _TEACHERS_OWN}
        return {**settings, "train": {**training, **STUDENT_RATE}}

    def config(self, *, decoder_layers: int, encoder_layers: int | None, overrides: Sequence[str]) -> RunConfig:
        """The settings of a student, by default with the teacher's layers."""
        changes: dict[str, dict[str, Any]] = {"model": {"n_decoder_layers": decoder_layers}}
        if encoder_layers is not None:
            changes["model"]["n_encoder_layers"] = encoder_layers
        apply_overrides(changes, overrides)
        settings = self.settings
        for section, values in changes.items():
            settings.setdefault(section, {}).update(values)
        config = RunConfig.from_mapping(settings)
        self.check(config)
        return config

    def initialise(self, model: Transformer) -> None:
        """Copy the teacher's weights as far as they fit."""
        theirs = self.run.model.state_dict()
        sources = teacher_layers(model.config, self.run.config.model)
        with torch.no_grad():
            for name, weight in model.state_dict().items():
                origin = theirs.get(_address_in_teacher(name, sources))
                if origin is not None and origin.shape == weight.shape:
                    weight.copy_(origin)


def teacher_layers(student: ModelConfig, teacher: ModelConfig) -> dict[str, list[int]]:
    """The teacher's layer that each of the student's starts from."""
    found = {}
    for stack, field in _LAYERS.items():
        wanted, given = getattr(student, field), getattr(teacher, field)
        step = (given - 1) / max(1, wanted - 1) if wanted <= given else 1
        found[stack] = [round(layer * step) for layer in range(min(wanted, given))]
    return found


def _address_in_teacher(name: str, sources: Mapping[str, Sequence[int]]) -> str:
    """The teacher's address of the student's weight ``name``, if any."""
    stack, *rest = name.split(".")
    if stack not in sources or rest[0] != "layers":
        return name
    layer = int(rest[1])
    return ".".join((stack, "layers", str(sources[stack][layer]), *rest[2:])) if layer < len(sources[stack]) else ""


@dataclass(frozen=True)
class DistilledSource:
    """The sources of a text with the teacher's translations."""

    text: TrainingText
    teacher: Teacher
    student: Path
    display: Display

    def pairs(self) -> Iterator[Pair]:
        """A new stream of each source once, with its translation, without those that were cut or are empty."""
        return iter(self._pairs)

    def valid(self) -> Iterator[Pair] | None:
        """A new stream of the validation pairs."""
        valid = self.text.valid()
        return self._held_out() if valid is None else valid

    def fingerprint(self) -> str:
        """That of the text, with the teacher's weights and search."""
        return f"distilled {self._key}"

    def to_mapping(self) -> dict[str, Any]:
        """The teacher, and where its sources come from."""
        text = {**self.text.to_mapping(), "fingerprint": self.text.fingerprint()}
        return {"teacher": str(self.teacher.run.resolve()), "written_by": self.teacher.to_mapping(), "text": text}

    def describe(self) -> str | None:
        """What was detected in the text."""
        return self.text.describe()

    def _held_out(self) -> Iterator[Pair]:
        """Reads the text only when the first pair is needed."""
        yield from self._split[1]

    @cached_property
    def _key(self) -> str:
        return self.teacher.key(self.text.fingerprint())

    @cached_property
    def _split(self) -> tuple[list[Pair], list[Pair]]:
        config, _ = RunDirectory(self.teacher.run).read_config()
        return split_pairs(list(self.text.pairs()), config.text)

    @cached_property
    def _pairs(self) -> list[Pair]:
        pairs = self._split[0] if self.text.valid() is None else self.text.pairs()
        sources = list(dict.fromkeys(pair.src for pair in pairs if not pair.blank))
        translations = self.teacher.translate(sources, self._file(), self.display)
        found = [pair for pair in map(Pair, sources, translations) if not pair.blank]
        if not found:
            raise RunError(
                f"{self.teacher.run}: no translation of it is complete, expected a teacher that ends its outputs. "
                "Train it longer, or raise decode.max_length_b."
            )
        if len(found) < len(sources):
            self.display.log(
                f"{len(sources) - len(found):,} of {len(sources):,} translations are empty or were cut by the length "
                "limit (decode.max_length_a, decode.max_length_b); these are left out."
            )
        return found

    def _file(self) -> Path:
        run = self.teacher.run
        writable = os.access(run, os.W_OK) and run.resolve() != BUNDLED.resolve()
        place = (run if writable else self.student) / DISTILLED
        with storage_errors(place, "Name another --run."):
            refuse_link(place)
            make_directory(place)
        return place / f"translations-{self._key}.jsonl"


def recorded_source(run: Path) -> TrainingText:
    """The text that a run, or its teacher, was trained on, or ``RunError``."""
    _, data = RunDirectory(run).read_config()
    data = data.get("text", data)
    advice = "Name the text to distil with: PAIRS, or --src and --tgt."
    if "task" in data:
        return TaskSource.load(str(data["task"]))
    files = data.get("files")
    if not isinstance(files, dict) or "src" not in files:
        raise RunError(f"{run}: does not say which text it was trained on. {advice}")
    missing = [name for name in files.values() if not Path(name).is_file()]
    if missing:
        raise RunError(f"{run}: was trained on {missing[0]}, which is not there now. {advice}")
    source = FileSource(
        **{name: Path(place) for name, place in files.items()},
        turned=bool(data.get("turned")),
        languages=tuple(data["languages"]) if "languages" in data else None,
        columns=Columns.read(data),
    )
    if source.fingerprint() != data.get("fingerprint"):
        raise RunError(f"{run}: was trained on {files['src']}, which has changed since. {advice}")
    return source


def distill(
    run: Path,
    teacher: Teacher,
    student: Student,
    config: RunConfig,
    display: Display,
    *,
    world: World = ALONE,
    text: TrainingText | None = None,
    force: bool = False,
) -> Outcome:
    """Train ``student`` in ``run`` on what ``teacher`` writes; resumable."""
    if run.resolve() == teacher.run.resolve():
        raise ConfigError(f"--run: found {run}, the teacher's own run, expected another directory.")
    source = DistilledSource(recorded_source(teacher.run) if text is None else text, teacher, run, display)
    layers = teacher_layers(config.model, student.run.config.model)
    display.log(
        f"The student's layers start from the teacher's: in the encoder from {layers['encoder']}, in the decoder "
        f"from {layers['decoder']}, counted from 0."
    )
    return train(TrainRequest(run, source, config, init=student, force=force), display, world)
