"""Every setting: the four sections of a run, and the run that holds them."""

from glassformer.settings.decode import IMPLY_SAMPLING as IMPLY_SAMPLING, DecodeConfig as DecodeConfig, flag as flag
from glassformer.settings.model import (
    NAMED_MODELS as NAMED_MODELS,
    ModelConfig as ModelConfig,
    named_model as named_model,
)
from glassformer.settings.run import RunConfig as RunConfig
from glassformer.settings.text import (
    TextConfig as TextConfig,
    default_vocab_size as default_vocab_size,
    language_name as language_name,
    name_languages as name_languages,
)
from glassformer.settings.train import LIMITS as LIMITS, WARMUP as WARMUP, TrainConfig as TrainConfig
