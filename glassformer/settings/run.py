"""The four sections of settings that a run is made with."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from glassformer.errors import ConfigError, check_type, nearest
from glassformer.settings.decode import DecodeConfig
from glassformer.settings.model import ModelConfig, named_model
from glassformer.settings.text import TextConfig
from glassformer.settings.train import WARMUP, TrainConfig


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The settings of a training run, saved whole in its directory."""

    model: ModelConfig = field(default_factory=ModelConfig)
    text: TextConfig = field(default_factory=TextConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        for one in fields(self):
            kind: Any = one.default_factory  # each field's own class
            check_type(one.name, getattr(self, one.name), kind, f"a {kind.__name__}", ConfigError)
        if self.model.tie_embeddings == "all" and not self.text.joint:
            raise ConfigError(
                "model.tie_embeddings: 'all' shares one matrix, but text.joint is false. Set 'target' or 'none'."
            )
        if self.train.r_drop and not self.model.dropout:
            raise ConfigError(
                f"train.r_drop: found {self.train.r_drop} with model.dropout = 0: both passes are the same. Raise it."
            )
        if self.train.warmup == 0:
            object.__setattr__(self, "train", replace(self.train, warmup=WARMUP[self.model.norm]))
        if self.languages is not None and not self.decode.src_language:
            object.__setattr__(self, "decode", replace(self.decode, src_language=self.languages[0]))
        if self.text.max_tokens >= self.model.max_length:
            # A sentence has eos, too.
            object.__setattr__(self, "text", replace(self.text, max_tokens=self.model.max_length - 1))

    @property
    def languages(self) -> tuple[str, str] | None:
        """The codes of the source and the target language, if known."""
        return self.text.language_pair

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build from nested values; ``name`` in ``model`` is a named model."""
        sections: dict[str, Any] = {one.name: one.default_factory for one in fields(cls)}
        check_type("settings", values, Mapping, "sections such as {'model': {}}", ConfigError)
        for key, value in values.items():
            if key not in sections:
                raise ConfigError(
                    f"{key}: there is no such section.{nearest(key, sections)} Known: {', '.join(sections)}."
                )
            check_type(key, value, Mapping, f"a section of settings such as {key}.name = value", ConfigError)
        made = {}
        for key, section in sections.items():
            settings = dict(values.get(key, {}))
            if section is ModelConfig and "name" in settings:
                settings = {**named_model(settings.pop("name")), **settings}
            made[key] = section.from_mapping(settings)
        return cls(**made)

    def to_mapping(self) -> dict[str, Any]:
        """The effective values of all sections, ready for JSON."""
        return asdict(self)
