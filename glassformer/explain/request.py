"""What `glassformer trace` was asked for, as one library call: which walk, over which texts, of which run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.config import RunConfig, flag
from glassformer.decoding import Translator
from glassformer.errors import ConfigError
from glassformer.explain.edits import parse_edits
from glassformer.explain.generation import walk_generation
from glassformer.explain.training_step import walk_training
from glassformer.explain.walk import Walk, walk, walk_through
from glassformer.run_directory import RunDirectory


@dataclass(frozen=True)
class Walked:
    """The walk that was asked for; ``plain`` is the same without its edits, where it has some."""

    walk: Walk
    translator: Translator
    plain: Walk | None = None


@dataclass(frozen=True, kw_only=True)
class WalkRequest:
    """A walk of a trained model. ``options`` hold what ``generate`` decodes with, where they were given."""

    run: Path
    sources: Sequence[str]
    targets: Sequence[str] | None = None
    generate: bool = False
    training: bool = False
    verify: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    edits: Sequence[str] = ()
    only: str = "*"
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.targets is not None and len(self.targets) != len(self.sources):
            raise ConfigError(
                f"--tgt: found {len(self.targets)}, expected one for each of the {len(self.sources)} texts, or none."
            )
        modes = {
            "--generate": self.generate, "--training": self.training, "--edit": bool(self.edits),
        }  # fmt: skip
        asked = [name for name, given in modes.items() if given]
        if len(asked) > 1:
            raise ConfigError(f"trace: found {' and '.join(asked)}, expected one of them. Make a walk of each.")
        if self.edits and self.verify:
            raise ConfigError(
                "trace: found --edit and --verify, but an edited step follows from no equation. Drop one."
            )
        if self.only != "*" and (self.edits or self.verify):
            raise ConfigError(
                "trace: found --only, but --verify and --edit go by the whole pass. Drop it, or make a walk of each."
            )
        if self.training and self.targets is None:
            raise ConfigError("--training: found no --tgt, expected the target of each TEXT, which the step learns.")
        if self.generate and self.targets is not None:
            raise ConfigError("--generate: found --tgt, but a generation writes its own target. Drop one of them.")
        if self.options and not self.generate:
            names = ", ".join(map(flag, self.options))
            raise ConfigError(f"{names}: found without --generate, which alone searches or samples. Add it.")

    def make(self) -> Walked:
        """Load the run and walk; raises what loading and walking raise."""
        run = RunDirectory(self.run).load(self.device)
        translator = Translator(run.model, run.src_tokenizer, run.tgt_tokenizer, run.config.decode)
        if self.generate:
            return Walked(self._generation(translator), translator)
        if self.training:
            return Walked(self._training(translator, run.config), translator)
        plain = walk(translator, self.sources, self.targets, only=self.only)
        if not self.edits:
            return Walked(plain, translator)
        edits = parse_edits(self.edits, plain, translator)
        return Walked(walk_through(translator, plain.sentences, edits=edits), translator, plain)

    def _generation(self, translator: Translator) -> Walk:
        options = translator.config.updated(self.options)
        return walk_generation(translator, self.sources, options, only=self.only)

    def _training(self, translator: Translator, config: RunConfig) -> Walk:
        targets = self.targets or ()
        return walk_training(translator, self.sources, targets, config.train, run=self.run, only=self.only)
