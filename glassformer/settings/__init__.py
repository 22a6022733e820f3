"""Every setting: the four frozen sections of a run, and the run that holds them; ``section`` is how they work."""

from glassformer.settings.decode import DecodeConfig, flag
from glassformer.settings.model import NAMED_MODELS, ModelConfig, named_model
from glassformer.settings.run import RunConfig
from glassformer.settings.text import TextConfig, default_vocab_size
from glassformer.settings.train import LIMITS, WARMUP, TrainConfig

__all__ = [
    "LIMITS",
    "NAMED_MODELS",
    "WARMUP",
    "DecodeConfig",
    "ModelConfig",
    "RunConfig",
    "TextConfig",
    "TrainConfig",
    "default_vocab_size",
    "flag",
    "named_model",
]
