"""A model of ours as one of Hugging Face's own class, in memory, for comparisons."""

from collections.abc import Collection
from typing import Any

from glassformer.interop.transformers import ARCHITECTURE_OF
from glassformer.interop.transformers_export import check_exportable, export_weights, model_settings
from glassformer.model import Transformer

BANNED = -1e4  # as a logit


def transformers_model(model: Transformer, banned: Collection[int] = ()) -> Any:
    """The model of Hugging Face's own class, in memory, in eval mode; no output holds <pad>, <s> or ``banned``."""
    import transformers

    check_exportable(model.config)
    settings = model_settings(model.config)
    name = ARCHITECTURE_OF[model.config.norm]
    config = getattr(transformers, "MarianConfig" if model.config.norm == "post" else "PegasusConfig")(**settings)
    made = getattr(transformers, name)(config)
    weights = export_weights(model)
    weights["final_logits_bias"][0, [model.config.pad_id, model.config.bos_id, *banned]] = BANNED
    made.load_state_dict(weights, strict=False)  # tied matrices are there once
    made.tie_weights()
    return made.eval()
