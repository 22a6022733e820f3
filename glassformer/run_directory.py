"""A run directory: what a training writes, and how a trained model is loaded from it.

docs/design.md lists its files. Series of checkpoints: ``latest`` to resume from, ``history`` to average, ``best`` by
train.metric, ``best-loss`` by loss, ``final`` to use.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from glassformer.checkpoint import (
    MANIFEST,
    STATE,
    check_shapes,
    checkpoints,
    load_weights,
    newest_valid,
    read_chosen,
    read_json,
    read_tensors,
    recover_interrupted,
    update_number,
    verify_checkpoint,
)
from glassformer.errors import CheckpointError, ConfigError, RunError, StorageError, TokenizerError, check_type
from glassformer.files import (
    check_directory,
    lock_file,
    make_directory,
    open_to_append,
    real_path,
    remove_unfinished,
    storage_errors,
    write_durably,
)
from glassformer.settings import ModelConfig, RunConfig
from glassformer.text.tokenizer.tokenizer import Tokenizer, Tokenizers, is_tokenizer, load_tokenizers
from glassformer.version import __version__

if TYPE_CHECKING:
    import torch

    from glassformer.model.transformer import Transformer

logger = logging.getLogger(__name__)

_MAX_TABLE_BYTES = 2**28
WEIGHTS = "model"
MIX = "mix"  # in text/: the other text
MEMBER = "seed-"  # begins the names of an ensemble's runs, in one directory
DISTILLED = "distilled"  # translations for students
_WRITTEN_AT_START = (
    ".lock", DISTILLED, "metrics.jsonl", "train.log", "tensorboard", "text", "tokenizer.src.json",
    "tokenizer.tgt.json",
)  # fmt: skip


def find_members(place: Path) -> list[Path]:
    """The runs of the ensemble in a directory, or the directory itself."""
    members = [] if (place / "config.json").exists() else sorted(place.glob(f"{MEMBER}*"))
    return members or [place]


def pick_device(name: str) -> "torch.device":
    """The device of that name; ``auto`` is a GPU if there is one."""
    import torch

    check_type("device", name, str | torch.device, "a name: auto, cpu or cuda", ConfigError)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device).tolist()  # refuses meta, whose tensors have no values
    except (RuntimeError, AssertionError, ImportError) as error:
        here = "auto, cpu or cuda" if torch.cuda.is_available() else "auto or cpu: PyTorch finds no GPU"
        raise ConfigError(f"device: {name!r} is not available here, expected {here}.") from error
    return device


@dataclass(frozen=True)
class LoadedRun:
    """A trained model in eval mode, with its settings and tokenizers."""

    config: RunConfig
    model: "Transformer"
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    checkpoint: Path


class RunDirectory:
    """The paths in a run directory, and how its files are read and written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.json"
        self.text = path / "text"
        self.metrics_file = path / "metrics.jsonl"
        self.log_file = path / "train.log"
        self.confidence_file = path / "confidence.json"
        self.shortlist_file = path / "shortlist.json"
        self.report_file = path / "report.html"
        self.latest, self.history = path / "latest", path / "history"
        self.best, self.best_loss, self.final = path / "best", path / "best-loss", path / "final"
        self.series = (self.latest, self.history, self.best, self.best_loss, self.final)

    @property
    def exists(self) -> bool:
        """Whether a training has started here."""
        return self.config_file.is_file()

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is a checkpoint, valid or not."""
        return any(map(checkpoints, self.series))

    @property
    def is_trained(self) -> bool:
        """Whether it holds a final model."""
        return bool(checkpoints(self.final))

    def check_writable(self) -> None:
        """Raise ``RunError`` or ``StorageError`` for what a training must not write to."""
        with storage_errors(self.path, "Name another directory."):
            check_directory(self.path)
        self.refuse_links()
        if self.exists or not self.path.is_dir():
            return
        if self.has_checkpoints:
            raise RunError(
                f"{self.path}: holds checkpoints but no config.json, without which a training cannot continue. Put a "
                "copy of config.json back, or name another directory."
            )
        names = sorted(path.name for path in self.path.iterdir())
        if names and ".lock" not in names:  # a training's first file
            raise RunError(
                f"{self.path}: holds {', '.join(map(repr, names[:3]))}{' and more' if len(names) > 3 else ''}, "
                "which no training wrote; expected a run, or a new or empty directory. Name another one."
            )

    def refuse_links(self) -> None:
        """Raise ``RunError`` for a symbolic link in the run."""
        at_start = (self.path / name for name in _WRITTEN_AT_START)
        for path in (self.config_file, self.confidence_file, self.text / MIX, *self.series, *at_start):
            if path.is_symlink():
                raise RunError(
                    f"{path}: is a symbolic link, expected a part of the run itself. Replace the link by what it "
                    "leads to; the run as a whole may be a link."
                )

    def create(self) -> None:
        """Create the directory."""
        self.check_name()
        with storage_errors(self.path, "Name another directory."):
            make_directory(self.path)

    def check_name(self) -> None:
        """Raise ``StorageError`` for a name that is not UTF-8."""
        try:
            os.fspath(self.path.absolute()).encode()
        except UnicodeEncodeError as error:
            raise StorageError(
                f"{str(self.path)!r}: is not UTF-8, as checkpoints need. Name another directory."
            ) from error

    def write_config(self, config: RunConfig, data: dict[str, Any]) -> None:
        """Save every effective setting, and where the text came from."""
        document = {"glassformer": __version__, "config": config.to_mapping(), "data": data}
        with storage_errors(self.config_file), write_durably(self.config_file) as file:
            json.dump(document, file, indent=1)

    def read_config(self) -> tuple[RunConfig, dict[str, Any]]:
        """The settings of the run, and where its text came from."""
        if not self.exists:
            lacking = "has no config.json" if self.path.is_dir() else "does not exist"
            raise RunError(
                f"{self.path}: is not a run directory: it {lacking}, expected the directory of a training. "
                "Name one, or make one: glassformer train --src A.en --tgt A.de --run DIR."
            )
        document = read_json(self.config_file)
        try:
            return RunConfig.from_mapping(document["config"]), document["data"]
        except ConfigError as error:
            raise ConfigError(f"{self.config_file}: {error}") from error
        except (KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{self.config_file}: is damaged: {error!r} is missing or invalid.") from error

    def write_tokenizers(self, src: Tokenizer, tgt: Tokenizer) -> None:
        """Save the tokenizer of each side."""
        src.save(self._tokenizer_file("src"))
        tgt.save(self._tokenizer_file("tgt"))

    def read_tokenizers(self) -> Tokenizers:
        """The tokenizers of both sides; one object twice if they are the same."""
        return load_tokenizers(self._tokenizer_file("src"), self._tokenizer_file("tgt"))

    def _tokenizer_file(self, side: str) -> Path:
        return self.path / f"tokenizer.{side}.json"

    def check_state(self, config: RunConfig, checkpoint: Path, state: Mapping[str, Any]) -> None:
        """Refuse a config.json or a tokenizer that is not that of ``state``."""
        if "model" in state:
            self._check_model(config, checkpoint, state["model"])
        for side in ("src", "tgt"):
            self._check_tokenizer(side, checkpoint, str(state.get(f"{side}_tokenizer")))

    def _check_model(self, config: RunConfig, checkpoint: Path, sealed: Mapping[str, Any]) -> None:
        try:
            trained = ModelConfig.from_mapping(sealed).to_mapping()
        except (ConfigError, TypeError) as error:
            raise CheckpointError(f"{checkpoint}/{STATE}: model: {error}") from error
        found = config.model.to_mapping()
        changed = [
            f"model.{key}: {found[key]!r}, expected {value!r}"
            for key, value in trained.items()
            if found[key] != value
        ]
        if changed:
            raise CheckpointError(
                f"{self.config_file}: is not of the model that {checkpoint} was trained as ({'; '.join(changed)}). "
                "Put these values back; only the section decode may be edited."
            )

    def _check_tokenizer(self, side: str, checkpoint: Path, digest: str) -> None:
        path, copy = self._tokenizer_file(side), self.text / f"{side}.tokenizer.json"
        if is_tokenizer(path, digest):
            return
        try:
            Tokenizer.load(path)
            problem = f"{path}: is not the tokenizer that {checkpoint} was trained with."
        except TokenizerError as error:
            problem = str(error)
        if is_tokenizer(copy, digest):
            raise TokenizerError(f"{problem} An intact copy remains: cp {quote(str(copy))} {quote(str(path))}")
        raise TokenizerError(f"{problem} Put the original file back.")

    def recover_interrupted(self) -> None:
        """Clear up after a killed process; for the process that has locked the run."""
        with storage_errors(self.path):
            remove_unfinished(self.path)
            for series in self.series:
                recover_interrupted(series)

    def load(
        self, device: str = "auto", warn: Callable[[str], None] | None = None, checkpoint: Path | None = None
    ) -> LoadedRun:
        """The model of ``checkpoint``, or else of ``usable_checkpoint``."""
        config, _ = self.read_config()
        if checkpoint is not None:
            return self._load(config, device, checkpoint)
        said = cache(warn or logger.warning)  # says each line once
        return read_chosen(partial(self.usable_checkpoint, said), partial(self._load, config, device))

    def _load(self, config: RunConfig, device: str, checkpoint: Path) -> LoadedRun:
        from glassformer.model.transformer import Transformer

        self.check_state(config, checkpoint, read_json(checkpoint / STATE))
        src_tokenizer, tgt_tokenizer = self.read_tokenizers()
        _check_size(config.model, self.config_file, checkpoint)
        model = Transformer.without_values(config.model, "cpu")
        load_weights(model, read_tensors(checkpoint, WEIGHTS), checkpoint)
        for name, weight in model.named_parameters():
            if not all(bound.isfinite() for bound in weight.detach().aminmax()):
                raise CheckpointError(
                    f"{checkpoint}: {name} holds values that are not finite. Name another checkpoint."
                )
        return LoadedRun(config, model.to(pick_device(device)).eval(), src_tokenizer, tgt_tokenizer, checkpoint)

    def usable_checkpoint(self, warn: Callable[[str], None]) -> Path:
        """The checkpoint that ``load`` takes; ``warn`` if it replaces the final one."""
        best, final = checkpoints(self.best), checkpoints(self.final)
        order = [self.final, self.best, self.latest]
        if best and final and update_number(best[-1]) > update_number(final[-1]):  # resumed, and better since
            order = [self.best, self.final, self.latest]
        for series in order:
            found = newest_valid(series, warn)
            if found is None:
                continue
            if series != order[0]:
                warn(
                    f"{order[0]}: holds no model that can be used: the training has not ended, or it was lost. "
                    f"The newest of {series} stands in for it."
                )
            return found
        if self.has_checkpoints:
            raise CheckpointError(
                f"{self.path}: has no valid checkpoint to use: those that it has are damaged. Put back a copy of the "
                "run, or train in another directory."
            )
        raise RunError(
            f"{self.path}: has no valid checkpoint yet. Let `glassformer train` run until it saves its first one."
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory for one training; the lock ends with the process."""
        path = self.path / ".lock"
        with storage_errors(path):
            opened = open_to_append(path)
        with opened as file:
            try:
                lock_file(file)
            except OSError as error:
                file.seek(0)
                raise RunError(
                    f"{self.path}: is being trained by process {file.read(20).strip() or '?'}. "
                    "Wait for it, stop it, or name another directory."
                ) from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield


def _check_size(config: ModelConfig, where: Path, checkpoint: Path) -> None:
    """Refuse other sizes and enormous tables before memory is taken."""
    from glassformer.model.transformer import Transformer

    try:
        model = Transformer.without_values(config)
    except (RuntimeError, OverflowError) as error:
        raise CheckpointError(f"{where}: describes no model that can be made: {error}.") from error
    check_shapes(checkpoint, WEIGHTS, {name: tuple(weight.shape) for name, weight in model.named_parameters()})
    tables = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    if tables > _MAX_TABLE_BYTES:
        raise CheckpointError(
            f"{where}: model.max_length: found {config.max_length:,}, whose tables of positions take "
            f"{tables / 1e9:.1f} GB, expected at most {_MAX_TABLE_BYTES / 1e9:.1f} GB. Lower it."
        )


def load_run(path: Path, device: str = "auto") -> LoadedRun:
    """The model of a run directory, or of a checkpoint in one."""
    if not (path / MANIFEST).is_file():
        return RunDirectory(path).load(device)
    verify_checkpoint(path)
    return RunDirectory(real_path(path).parent.parent).load(device, checkpoint=path)
