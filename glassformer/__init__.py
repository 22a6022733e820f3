"""glassformer: the encoder-decoder Transformer of *Attention Is All You Need*, made to be seen through.

The names below are the public ones. They are loaded when first used, so that importing the package, or
asking the command line for help, does not load PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.version import __version__

if TYPE_CHECKING:
    from glassformer.config import DecodeConfig, ModelConfig, RunConfig, TextConfig, TrainConfig
    from glassformer.decoding.translation import Translation
    from glassformer.decoding.translator import Translator
    from glassformer.errors import GlassformerError
    from glassformer.model.transformer import Transformer
    from glassformer.trace import Trace, tap, tracing
    from glassformer.training.batch_checks import check_batch

_HOMES = {
    "DecodeConfig": "glassformer.config",
    "GlassformerError": "glassformer.errors",
    "ModelConfig": "glassformer.config",
    "RunConfig": "glassformer.config",
    "TextConfig": "glassformer.config",
    "Trace": "glassformer.trace",
    "TrainConfig": "glassformer.config",
    "Transformer": "glassformer.model.transformer",
    "Translation": "glassformer.decoding.translation",
    "Translator": "glassformer.decoding.translator",
    "check_batch": "glassformer.training.batch_checks",
    "tap": "glassformer.trace",
    "tracing": "glassformer.trace",
}

__all__ = [
    "DecodeConfig",
    "GlassformerError",
    "ModelConfig",
    "RunConfig",
    "TextConfig",
    "Trace",
    "TrainConfig",
    "Transformer",
    "Translation",
    "Translator",
    "__version__",
    "check_batch",
    "tap",
    "tracing",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
