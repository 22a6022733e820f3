"""Fine-tuning: a training that starts from a model, at a low rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from glassformer.bundled import find_run
from glassformer.checkpoint import tensors_sha256
from glassformer.errors import ConfigError
from glassformer.files import real_path
from glassformer.model.transformer import Transformer
from glassformer.run_directory import WEIGHTS, LoadedRun, RunDirectory, load_run
from glassformer.settings import ModelConfig, RunConfig
from glassformer.text.corpus.prepare import read_prepared
from glassformer.text.tokenizer.tokenizer import EOS_ID, Tokenizers

FINE_TUNING_RATE: dict[str, Any] = {"schedule": "inverse_sqrt", "peak_rate": 5e-4, "warmup": 100}
# How the tokenizers were made.
TOKENIZER_SETTINGS = (
    "tokenizer", "src_tokenizer", "tgt_tokenizer", "marked", "decompose", "vocab_size", "joint", "lowercase",
)  # fmt: skip
# A model's weights depend on all of its settings but one.
_FIXED = {
    "model": [field.name for field in fields(ModelConfig) if field.name != "dropout"],
    "text": TOKENIZER_SETTINGS,
}


@dataclass(frozen=True)
class InitialModel:
    """The model that a training starts from; ``recorded`` is from config.json."""

    run: LoadedRun
    recorded: dict[str, str] | None = None
    loss_is_comparable: ClassVar[bool] = True
    """Whether the loss on validation text tells how good a translator is."""
    fixed: ClassVar[Mapping[str, Sequence[str]]] = _FIXED
    fixed_by: ClassVar[str] = "the model of --init has. Leave it out, or train without --init."
    """What a training cannot change, and, to end an error with, why not."""

    @classmethod
    def load(cls, name: str | Path) -> Self:
        """A run directory, a checkpoint in one, or ``bundled``."""
        return cls(load_run(find_run(name), "cpu"))

    @classmethod
    def load_for(cls, run: Path, name: str | Path) -> Self:
        """The model ``name`` for a training in ``run``, or, if it has changed, that of ``run``."""
        begun = RunDirectory(run)
        begun.check_writable()
        if not (begun.exists and begun.has_checkpoints):
            return cls.load(name)
        recorded = begun.read_config()[1].get("init")
        if not isinstance(recorded, dict) or {"checkpoint", "sha256"} - recorded.keys():
            return cls.load(name)
        place = find_run(name)
        if place.exists():
            found = cls.load(name)
            is_same_run = real_path(place) == Path(recorded["checkpoint"]).parent.parent
            if not is_same_run or found.to_mapping()["sha256"] == recorded["sha256"]:
                return found
        return cls(load_run(run, "cpu"), recorded)

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Settings that follow from the model, and a low rate."""
        config = self.run.config
        model, names = config.model.to_mapping(), (*TOKENIZER_SETTINGS, "languages")
        text = {name: value for name, value in config.text.to_mapping().items() if name in names}
        return {"model": model, "text": text, "train": dict(FINE_TUNING_RATE)}

    def tokenizers(self) -> Tokenizers:
        """Those of both sides; an import with a joint vocabulary may have two."""
        return self.run.src_tokenizer, self.run.tgt_tokenizer

    def to_mapping(self) -> dict[str, str]:
        """Which checkpoint it is, and the sum of its weights, for config.json."""
        if self.recorded is not None:
            return self.recorded
        checkpoint = self.run.checkpoint
        return {"checkpoint": str(real_path(checkpoint)), "sha256": tensors_sha256(checkpoint, WEIGHTS)}

    def count_learned(self, sources: Sequence[str]) -> int | None:
        """How many of these texts the model has learned from; None where its training's text is not kept."""
        if self.recorded is not None:
            return 0
        text = read_prepared(RunDirectory(self.run.checkpoint.parent.parent).text, self.run.config.text)
        if text is None:
            return None
        side, tokenizer = text.train.src_side, self.run.src_tokenizer
        learned = {tuple(side.ids(number)) for number in range(len(text.train))}
        return sum((*tokenizer.to_ids(source), EOS_ID) in learned for source in sources)

    def initialise(self, model: Transformer) -> None:
        """Give ``model`` the first weights."""
        model.load_state_dict(self.run.model.state_dict())

    def describe_difference(self, config: RunConfig) -> str | None:
        """A sentence if the pairs have other languages than the model."""
        ours, theirs = config.languages, self.run.config.languages
        if ours is None or theirs is None or [*map(_language, ours)] == [*map(_language, theirs)]:
            return None
        return (
            f"the pairs are {'-'.join(ours)}, and the model of --init translates {'-'.join(theirs)}, expected the "
            "same: it will unlearn much. If that is not meant, exchange the two sides, or name another --init."
        )

    def check(self, config: RunConfig) -> None:
        """Raise ``ConfigError`` if a setting is another than the ``fixed`` one."""
        expected, chosen = self.run.config.to_mapping(), config.to_mapping()
        for section, names in self.fixed.items():
            for name in names:
                if chosen[section][name] != expected[section][name]:
                    raise ConfigError(
                        f"{section}.{name}: found {chosen[section][name]!r}, expected {expected[section][name]!r}, "
                        f"which {self.fixed_by}"
                    )


def _language(code: str) -> str:
    """The language of a code without its region."""
    return code.lower().partition("-")[0]
