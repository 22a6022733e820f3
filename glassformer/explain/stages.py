"""The stages of a walk: Text, Encoder embedding, Encoder layer 1 ... Output, Choice. Knows addresses alone."""

from glassformer.explain.story import kind_of

_STAGES = {
    "text": "Text",
    "src_mask": "Encoder embedding",
    "src_embedding": "Encoder embedding",
    "encoder": "Encoder output",
    "causal_mask": "Decoder embedding",
    "tgt_embedding": "Decoder embedding",
    "decoder": "Decoder output",
    "output_projection": "Output",
    "choice": "Choice",
    "loss": "Loss",
    "update": "Update",
    "search": "Search",
}
_SEARCHED = ("causal_mask", "tgt_embedding", "decoder", "output_projection", "search")


def layer_of(address: str) -> tuple[str, int] | None:
    """The stack (``encoder`` or ``decoder``) and layer, from 0, that an address lies in; None outside layers."""
    stack, *rest = address.split(".")
    if len(rest) > 1 and rest[0] == "layers" and rest[1].isdecimal():
        return stack, int(rest[1])
    return None


def stage_of(address: str, token: int = 0) -> str:
    """The title of the stage that an address belongs to; layers are counted from 1.

    In a generation ``token`` is the number of the token that is being written, and part of the title.
    """
    root = address.split(".", maxsplit=1)[0]
    stage = _STAGES.get(root, "Update")
    if kind_of(address) == "weight":
        stage = "Update"
    elif (layer := layer_of(address)) is not None:
        stage = f"{layer[0].capitalize()} layer {layer[1] + 1}"
    return f"Token {token}: {stage}" if token and root in _SEARCHED else stage
