"""A run directory: everything that a training writes, and how a trained model is loaded from it.

config.json                 every effective setting, and where the text came from
tokenizer.src.json, .tgt.json
metrics.jsonl, train.log    what the training logged
text/                       the encoded pairs, memory-mapped
latest/  history/  best/  best-loss/  final/
                            series of checkpoints: to resume; to average; the best so far, by train.metric and by
                            loss; to use
"""

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.checkpoint import (
    MANIFEST,
    checkpoints,
    load_weights,
    newest_valid,
    read_json,
    read_tensors,
    update_number,
    verify_checkpoint,
)
from glassformer.config import RunConfig
from glassformer.errors import CheckpointError, ConfigError, RunError, StorageError, TokenizerError
from glassformer.files import write_durably
from glassformer.text.tokenizer import Tokenizer
from glassformer.version import __version__

if TYPE_CHECKING:
    import torch

    from glassformer.model.transformer import Transformer

WEIGHTS = "model"
FREE_SPACE = "Free some space or correct the permissions, then run the same command again to continue."


def pick_device(name: str) -> "torch.device":
    """The device of that name; ``auto`` is the GPU if there is one. ``ConfigError`` if it is not available."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device).tolist()  # refuses meta, whose tensors have no values
    except (RuntimeError, AssertionError, ImportError) as error:
        raise ConfigError(f"device: {name!r} is not available here. Use auto, cpu or cuda.") from error
    return device


@dataclass(frozen=True)
class LoadedRun:
    """A trained model with its settings and tokenizers; the model is in eval mode, on its device."""

    config: RunConfig
    model: "Transformer"
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    checkpoint: Path


class RunDirectory:
    """The paths inside one run directory, and how its files are read and written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.json"
        self.text = path / "text"
        self.metrics_file = path / "metrics.jsonl"
        self.log_file = path / "train.log"
        self.latest, self.history = path / "latest", path / "history"
        self.best, self.best_loss, self.final = path / "best", path / "best-loss", path / "final"

    @property
    def exists(self) -> bool:
        """Whether a training has started here."""
        return self.config_file.is_file()

    def create(self) -> None:
        """Create the directory; ``StorageError`` if files cannot be written to it and read again."""
        try:
            os.fspath(self.path.absolute()).encode()
        except UnicodeEncodeError as error:
            raise StorageError(
                f"{str(self.path)!r}: is not UTF-8, as checkpoints need. Name another --run."
            ) from error
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".writable"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written: {error.strerror}. Name another --run.") from error

    def write_config(self, config: RunConfig, data: dict[str, Any]) -> None:
        """Save every effective setting, and what the run was trained on."""
        document = {"glassformer": __version__, "config": config.to_mapping(), "data": data}
        try:
            with write_durably(self.config_file) as file:
                json.dump(document, file, indent=1)
        except OSError as error:
            raise StorageError(f"{self.config_file}: cannot be written: {error.strerror}. {FREE_SPACE}") from error

    def read_config(self) -> tuple[RunConfig, dict[str, Any]]:
        """The settings and the data of the run; ``RunError`` if there is none here."""
        if not self.exists:
            raise RunError(
                f"{self.path}: is not a run directory: it has no config.json. "
                "Name one with --run, or make one: glassformer train --src A.en --tgt A.de --run DIR."
            )
        document = read_json(self.config_file)
        try:
            return RunConfig.from_mapping(document["config"]), document["data"]
        except ConfigError as error:
            raise ConfigError(f"{self.config_file}: {error}") from error
        except (KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{self.config_file}: is damaged: {error!r} is missing or invalid.") from error

    def write_tokenizers(self, src: Tokenizer, tgt: Tokenizer) -> None:
        """Save the two sides' tokenizers; a joint one is saved for each side."""
        src.save(self.path / "tokenizer.src.json")
        tgt.save(self.path / "tokenizer.tgt.json")

    def read_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The source's and the target's tokenizer."""
        return Tokenizer.load(self.path / "tokenizer.src.json"), Tokenizer.load(self.path / "tokenizer.tgt.json")

    def load(
        self, device: str = "auto", warn: Callable[[str], None] | None = None, checkpoint: Path | None = None
    ) -> LoadedRun:
        """The model of ``checkpoint``, or else of ``usable_checkpoint``."""
        from glassformer.model.transformer import Transformer

        config, _ = self.read_config()
        src_tokenizer, tgt_tokenizer = self.read_tokenizers()
        checkpoint = checkpoint or self.usable_checkpoint(warn or _warn_on_stderr)
        state = read_json(checkpoint / "state.json")
        for side, tokenizer in (("src", src_tokenizer), ("tgt", tgt_tokenizer)):
            if state.get(f"{side}_tokenizer") != tokenizer.digest:
                raise TokenizerError(
                    f"{self.path}/tokenizer.{side}.json: is not the tokenizer that {checkpoint} was trained with. "
                    "Put the original file back."
                )
        place = pick_device(device)
        model = Transformer(config.model)
        load_weights(model, read_tensors(checkpoint, WEIGHTS), checkpoint)
        return LoadedRun(config, model.to(place).eval(), src_tokenizer, tgt_tokenizer, checkpoint)

    def usable_checkpoint(self, warn: Callable[[str], None]) -> Path:
        """The checkpoint that ``load`` takes its weights from."""
        for series in self._series_by_preference():
            found = newest_valid(series, warn)
            if found is not None:
                return found
        raise RunError(
            f"{self.path}: has no valid checkpoint yet. Let `glassformer train` run until it saves its first one."
        )

    def _series_by_preference(self) -> list[Path]:
        """The final model comes first, unless the training has resumed since and validated better."""
        best, final = checkpoints(self.best), checkpoints(self.final)
        if best and final and update_number(best[-1]) > update_number(final[-1]):
            return [self.best, self.final, self.latest]
        return [self.final, self.best, self.latest]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory for one training at a time; the lock ends with the process, however it ends."""
        path = self.path / ".lock"
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                raise RunError(
                    f"{self.path}: is being trained by process {file.read().strip() or '?'}. "
                    "Wait for it, stop it, or name another --run."
                ) from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield


def load_run(path: Path, device: str = "auto") -> LoadedRun:
    """The model of a run directory, or of one checkpoint in it, such as ``runs/x/best/update-00000100``."""
    if not (path / MANIFEST).is_file():
        return RunDirectory(path).load(device)
    verify_checkpoint(path)
    return RunDirectory(path.resolve().parent.parent).load(device, checkpoint=path)


def _warn_on_stderr(message: str) -> None:
    sys.stderr.write(f"warning: {message}\n")
