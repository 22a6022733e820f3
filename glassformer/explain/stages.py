"""The stages of a walk: Text, Encoder embedding, Encoder layer 1 ... Output, Choice. Knows addresses alone."""

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
}


def layer_of(address: str) -> tuple[str, int] | None:
    """The stack (``encoder`` or ``decoder``) and layer, from 0, that an address lies in; None outside layers."""
    stack, *rest = address.split(".")
    if len(rest) > 1 and rest[0] == "layers":
        return stack, int(rest[1])
    return None


def stage_of(address: str) -> str:
    """The title of the stage that an address belongs to; layers are counted from 1."""
    layer = layer_of(address)
    if layer is not None:
        return f"{layer[0].capitalize()} layer {layer[1] + 1}"
    return _STAGES[address.split(".", maxsplit=1)[0]]
