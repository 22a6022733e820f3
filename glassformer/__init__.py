"""glassformer: the encoder-decoder Transformer of *Attention Is All You Need*, made to be seen through."""

from typing import TYPE_CHECKING

from glassformer.lazy import lazy_names
from glassformer.version import __version__ as __version__

if TYPE_CHECKING:
    from glassformer.settings import (
        DecodeConfig as DecodeConfig,
        ModelConfig as ModelConfig,
        RunConfig as RunConfig,
        TextConfig as TextConfig,
        TrainConfig as TrainConfig,
    )
    from glassformer.decoding.translation import Translation as Translation
    from glassformer.decoding.translator import Translator as Translator
    from glassformer.errors import GlassformerError as GlassformerError
    from glassformer.model.transformer import Transformer as Transformer
    from glassformer.trace import Trace as Trace, tap as tap, tracing as tracing
    from glassformer.training.request.batch_checks import check_batch as check_batch

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "__version__")
