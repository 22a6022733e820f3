"""Why this token? Parts of a logit, logit lens, hidden source tokens, activation patching, integrated gradients.

Each function states what it holds fixed; what it returns is exact under that. They read a ``Trace`` or run the model
with edits, and know nothing of text. Direct logit attribution: Elhage et al. 2021. Logit lens: nostalgebraist 2020.
Activation patching: Meng et al. 2022 (arXiv 2202.05262). Integrated gradients: Sundararajan et al. 2017 (arXiv
1703.01365).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.model import Transformer
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.inference import evaluating
from glassformer.model.norm import LayerNorm
from glassformer.trace import Trace, tracing

__all__ = [
    "LogitPart", "Metric", "direct_logit_attribution", "integrated_gradients", "logit_lens", "occlusion",
    "patch_sweep",
]  # fmt: skip

Metric = Callable[[Float[Tensor, "batch tgt vocab"]], Float[Tensor, "batch"]]


@dataclass(frozen=True)
class LogitPart:
    """What a part of the decoder adds to a logit: a module, a head, an embedding, a bias."""

    address: str
    head: int | None
    value: float


class _Backwards:
    """From a logit back through the decoder: ``direction`` is what a part of the residual stream is multiplied with.

    A norm is a linear map and an offset as soon as its standard deviation is held as recorded. It takes the mean of
    each part from that part, so the parts' means add up to the recorded mean.
    """

    def __init__(self, model: Transformer, trace: Trace, row: int, position: int, token_id: int) -> None:
        self.parts: list[LogitPart] = []
        self._trace, self._at = trace, (row, position)
        self._paths = {id(module): path for path, module in model.named_modules()}
        output = model.output_projection.linear
        self.direction = output.weight[token_id].detach().double()
        if output.bias is not None:
            self.parts.append(LogitPart("output_projection.linear.bias", None, float(output.bias[token_id].detach())))

    def add(self, address: str, vector: Tensor, head: int | None = None) -> None:
        value = float(self.direction @ vector.detach().double())
        self.parts.append(LogitPart(address, head, value))

    def tap_value(self, address: str) -> Tensor:
        return self._trace[address][self._at].double()

    def through_norm(self, norm: LayerNorm) -> None:
        path = self._paths[id(norm)]
        self.add(f"{path}.bias", norm.bias)
        scaled = self.direction * norm.gain.detach().double() / (self.tap_value(f"{path}.variance") + norm.eps).sqrt()
        self.direction = scaled - scaled.mean()

    def recurrence(self, recurrence: torch.nn.Module) -> None:
        path = self._paths[id(recurrence)]
        self.add(path, self.tap_value(f"{path}.output"))

    def attention(self, attention: MultiHeadAttention) -> None:
        path = self._paths[id(attention)]
        if attention.w_o.bias is not None:
            self.add(f"{path}.w_o.bias", attention.w_o.bias)
        heads = self.tap_value(f"{path}.heads_by_position")
        weights = attention.w_o.weight.detach().double().reshape(-1, *heads.shape)
        for head in reversed(range(len(heads))):
            self.add(path, weights[:, head] @ heads[head], head)

    def feed_forward(self, layer: torch.nn.Module) -> None:
        path, w_2 = self._paths[id(layer)], layer.w_2
        assert isinstance(w_2, torch.nn.Linear)
        self.add(f"{path}.w_2.bias", w_2.bias)
        self.add(path, w_2.weight.detach().double() @ self.tap_value(f"{path}.activated"))


def direct_logit_attribution(
    model: Transformer, trace: Trace, position: int, token_id: int, row: int = 0
) -> list[LogitPart]:
    """The parts of the logit of ``token_id`` at a target position of a traced pass, in the order of computation.

    Their sum is the logit, up to rounding. Standard deviations of norms are held as recorded. A head's part includes
    the bias of its values. An edit of a norm or a residual leaves a difference.
    """
    back = _Backwards(model, trace, row, position, token_id)
    if model.decoder.final_norm is not None:
        back.through_norm(model.decoder.final_norm)
    for layer in reversed(list(model.decoder.layers)):
        for sublayer in ("feed_forward", "cross_attention", model.config.autoregressive_sublayer):
            add_norm, module = getattr(layer, f"{sublayer}_add_norm"), getattr(layer, sublayer)
            if not add_norm.pre:
                back.through_norm(add_norm.norm)
            way = {"feed_forward": back.feed_forward, "ssru": back.recurrence}.get(sublayer, back.attention)
            way(module)
    if "tgt_embedding.position_vectors" in trace:
        back.add("tgt_embedding.position_vectors", trace["tgt_embedding.position_vectors"][position])
    back.add("tgt_embedding.scaled", back.tap_value("tgt_embedding.scaled"))
    return back.parts[::-1]


def logit_lens(model: Transformer, trace: Trace) -> dict[str, Float[Tensor, "batch tgt vocab"]]:
    """The logits that the output projection makes of the residual stream before and after each decoder layer.

    With ``norm = "pre"`` through the final norm, whose mean and variance are those of that stream.
    """
    first = "tgt_embedding.with_positions" if "tgt_embedding.with_positions" in trace else "tgt_embedding.scaled"
    streams = [first, *(f"decoder.layers.{layer}.output" for layer in range(model.config.n_decoder_layers))]
    norm = model.decoder.final_norm or torch.nn.Identity()
    with torch.no_grad():
        return {address: model.output_projection(norm(trace[address])) for address in streams}


def occlusion(
    model: Transformer, src_ids: Int[Tensor, "1 src"], tgt_in_ids: Int[Tensor, "1 tgt"], token_id: int
) -> Float[Tensor, "src"]:
    """By how much the log-probability of ``token_id`` as the next token falls when a source position is hidden."""
    n_src = src_ids.shape[1]
    seen = torch.cat([torch.ones(1, n_src, dtype=torch.bool), ~torch.eye(n_src, dtype=torch.bool)])[:, None, None]
    with torch.no_grad(), evaluating(model), tracing(model, {"src_mask": lambda mask: mask & seen}, only="src_mask"):
        logits = model(src_ids.expand(n_src + 1, -1), tgt_in_ids.expand(n_src + 1, -1))
    log_probs: Tensor = logits[:, -1].log_softmax(-1)[:, token_id]
    return log_probs[0] - log_probs[1:]


def patch_sweep(  # noqa: PLR0917  # two runs, what is measured, and where
    model: Transformer,
    source: Trace,
    src_ids: Int[Tensor, "1 src"],
    tgt_in_ids: Int[Tensor, "1 tgt"],
    metric: Metric,
    addresses: Sequence[str],
) -> Float[Tensor, "address position"]:
    """What ``metric`` finds when one position of one tap is replaced by its value in another run, for each of both.

    ``source`` is the trace of that run, of one sentence of the same length. ``addresses`` are taps whose second axis
    counts positions, such as the layers' outputs; each gives a row. Raises ``TraceError`` if the lengths differ.
    """

    def measure(address: str) -> Tensor:
        value = source[address]
        every = torch.arange(value.shape[1])

        def patch(found: Tensor) -> Tensor:
            if found.shape[1:] != value.shape[1:]:
                raise TraceError(
                    f"{address}: the trace holds {tuple(value.shape[1:])}, this run {tuple(found.shape[1:])} a "
                    "sentence. Choose two sentences with as many tokens."
                )
            found[every, every] = value[0]  # row i gets position i
            return found

        with tracing(model, {address: patch}, only=address):
            return metric(model(src_ids.expand(len(every), -1), tgt_in_ids.expand(len(every), -1)))

    with torch.no_grad(), evaluating(model):
        return torch.stack([measure(address) for address in addresses])


def integrated_gradients(
    model: Transformer,
    src_ids: Int[Tensor, "1 src"],
    tgt_in_ids: Int[Tensor, "1 tgt"],
    token_id: int,
    steps: int = 50,
) -> Float[Tensor, "src"]:
    """What each source token adds to the log-probability of ``token_id`` as the next token, by integrated gradients.

    The path leads from source embeddings of 0 to those of the sentence; positions stay. With more ``steps`` the sum
    comes closer to the difference of the log-probabilities at both ends.
    """
    shares = ((torch.arange(steps) + 0.5) / steps)[:, None, None]
    points: list[Tensor] = []

    def scale(embedded: Tensor) -> Tensor:
        points.extend([embedded.detach(), (shares * embedded.detach()).requires_grad_()])
        return points[1]

    with torch.enable_grad(), evaluating(model), tracing(model, {"src_embedding.embedded": scale}, only=""):
        logits = model(src_ids.expand(steps, -1), tgt_in_ids.expand(steps, -1))
        (gradients,) = torch.autograd.grad(logits[:, -1].log_softmax(-1)[:, token_id].sum(), points[1])
    return (points[0][0] * gradients.mean(dim=0)).sum(dim=-1)
