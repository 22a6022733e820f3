"""An address's kind of module, stage of a walk, and axes' side."""

from glassformer.axes import LEGEND
from glassformer.errors import check_type
from glassformer.trace import Step

_WEIGHTS = {"weight", "bias", "gain", "table", "key_table", "value_table"}


def kind_of(address: str) -> str:
    """The kind of module: ``cross_attention``, ``add_norm``, ``encoder_layer`` ..."""
    path = [part for part in address.split(".")[:-1] if not part.isdigit()]
    if not path:
        return "model"
    stack, last = path[0], path[-1]
    if last == "self_attention":
        return f"{stack}_self_attention"
    if last in _WEIGHTS:
        return "weight"
    if last == "layers":
        return f"{stack}_layer"
    for ending in ("add_norm", "norm", "embedding"):
        if last == ending or last.endswith(f"_{ending}"):
            return ending
    return last


_STAGES = {
    "text": "Text", "src_mask": "Encoder embedding", "src_embedding": "Encoder embedding",
    "encoder": "Encoder output", "causal_mask": "Decoder embedding", "tgt_embedding": "Decoder embedding",
    "decoder": "Decoder output", "output_projection": "Output", "choice": "Choice", "answer": "Answer",
    "loss": "Loss", "update": "Update", "search": "Search",
}  # fmt: skip
_IN_EACH_TOKEN = ("causal_mask", "tgt_embedding", "decoder", "output_projection", "search")


def layer_of(address: str) -> tuple[str, int] | None:
    """The stack, ``encoder`` or ``decoder``, and layer, from 0; None elsewhere."""
    stack, *rest = address.split(".")
    if len(rest) > 1 and rest[0] == "layers" and rest[1].isdecimal():
        return stack, int(rest[1])
    return None


def stage_of(address: str, token: int | None = None) -> str:
    """The title of an address's stage, with a generation's ``token``, from 0."""
    name = address.rpartition(".")[2]
    if address.startswith("search.") and name.startswith("result"):
        return "Result"
    root, layer = address.partition(".")[0], layer_of(address)
    stage = _STAGES.get(root, "Update")
    if kind_of(address) == "weight":
        stage = "Update"
    elif layer is not None:
        stage = f"{layer[0].capitalize()} layer {layer[1]}"
    return f"Token {token}: {stage}" if token is not None and root in _IN_EACH_TOKEN else stage


_SRC_ROOTS = ("encoder", "src_embedding", "src_mask")


def resolved_axes(step: Step) -> tuple[str, ...]:
    """The step's axes, with ``src`` or ``tgt`` for positions, queries, keys."""
    check_type("step", step, Step, "a step of a trace")
    parts = step.address.split(".")
    own = "src" if parts[0] in _SRC_ROOTS else "tgt"
    sides = {"position": own, "query": own, "key": "src" if "cross_attention" in parts else own}
    return tuple(sides.get(word, word) for word in step.axes)


def symbols(step: Step) -> tuple[str, ...]:
    """The walkthroughs' symbols: ``nbatches``, ``h``, ``n_seq_tgt`` ..."""
    return tuple(LEGEND[word].symbol for word in resolved_axes(step))
