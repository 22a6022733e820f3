"""Why this token? Logit attribution, logit lens, occlusion, patching, integrated gradients.

They read a ``Trace`` or run the model with edits, and know no text. Elhage et al. 2021; nostalgebraist 2020; Meng et
al. 2022 (arXiv 2202.05262); Sundararajan et al. 2017 (arXiv 1703.01365). Path patching is that of Goldowsky-Dill et
al. 2023 (arXiv 2304.05969), attribution patching that of Nanda 2023.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.model import Transformer
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.inference import evaluating
from glassformer.model.norm import LayerNorm
from glassformer.trace import Edit, Trace, tracing

__all__ = [
    "LogitPart", "Metric", "attribution_patching", "direct_logit_attribution", "integrated_gradients", "logit_lens",
    "occlusion", "patch_sweep", "path_patching",
]  # fmt: skip

COMPONENTS = ("*_attention.heads", "*.feed_forward.output")
"""What writes to the residual stream; path patching freezes it."""

Metric = Callable[[Float[Tensor, "batch tgt vocab"]], Float[Tensor, "batch"]]
TokenIds = int | Sequence[int] | Tensor


@dataclass(frozen=True)
class LogitPart:
    """What a module, head, embedding or bias adds to a logit."""

    address: str
    head: int | None
    value: float


class _Backwards:
    """From a logit back through the decoder; ``direction`` multiplies residual parts.

    Norms are linear at their recorded deviation, and take each part's mean from it.
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
    """The parts of a logit of ``token_id`` at a target position, in order.

    They sum to the logit unless a norm or residual was edited. Heads include value biases.
    """
    batch, positions, vocab = trace["output_projection.logits"].shape
    for name, value, size in (("row", row, batch), ("position", position, positions), ("token_id", token_id, vocab)):
        if not 0 <= value < size:
            raise TraceError(f"{name}: found {value}, expected 0 to {size - 1}: the trace has {size}.")
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
    """The logits of the residual stream around each decoder layer."""
    first = "tgt_embedding.with_positions" if "tgt_embedding.with_positions" in trace else "tgt_embedding.scaled"
    streams = [first, *(f"decoder.layers.{layer}.output" for layer in range(model.config.n_decoder_layers))]
    norm = model.decoder.final_norm or torch.nn.Identity()
    with torch.no_grad():
        return {address: model.output_projection(norm(trace[address])) for address in streams}


def occlusion(
    model: Transformer, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"], token_id: TokenIds
) -> Float[Tensor, "*batch src"]:
    """The fall of the log-probability of ``token_id`` when a source position is hidden.

    One id is for one sentence. A batch has a list of ids, one for each; its padding has 0.
    """
    return _each(_occlude, model, src_ids, tgt_in_ids, token_id)


def _occlude(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor, token_id: int) -> Tensor:
    n_src = src_ids.shape[1]
    others = ~torch.eye(n_src, dtype=torch.bool)
    seen = torch.cat([torch.ones(1, n_src, dtype=torch.bool), others])[:, None, None].to(src_ids.device)
    with torch.no_grad(), evaluating(model), tracing(model, {"src_mask": lambda mask: mask & seen}, only="src_mask"):
        logits = model(src_ids.expand(n_src + 1, -1), tgt_in_ids.expand(n_src + 1, -1))
    log_probs: Tensor = logits[:, -1].log_softmax(-1)[:, token_id]
    return log_probs[0] - log_probs[1:]


def _each(
    explain: Callable[..., Tensor], model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor, token_id: TokenIds
) -> Tensor:
    """``explain`` for one sentence, or for each of a batch without its padding."""
    counts = {"src_ids": len(src_ids), "tgt_in_ids": len(tgt_in_ids)}
    if not isinstance(token_id, int):
        counts["token_id"] = len(token_id)
    if len(set(counts.values())) > 1 or (isinstance(token_id, int) and len(src_ids) != 1):
        counted = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise TraceError(
            f"token_id: found {token_id} for {counted}, expected one id for one sentence, or a list with an id for "
            "each."
        )
    if isinstance(token_id, int):
        return explain(model, src_ids, tgt_in_ids, token_id)
    found = src_ids.new_zeros(src_ids.shape, dtype=torch.float32)
    lengths = [(ids != model.config.pad_id).sum(-1).tolist() for ids in (src_ids, tgt_in_ids)]
    for row, (n_src, n_tgt, one) in enumerate(zip(*lengths, map(int, token_id), strict=True)):
        found[row, :n_src] = explain(model, src_ids[row : row + 1, :n_src], tgt_in_ids[row : row + 1, :n_tgt], one)
    return found


def patch_sweep(  # noqa: PLR0917  # two runs, what is measured, and where
    model: Transformer,
    source: Trace,
    src_ids: Int[Tensor, "1 src"],
    tgt_in_ids: Int[Tensor, "1 tgt"],
    metric: Metric,
    addresses: Sequence[str],
) -> Float[Tensor, "address position"]:
    """What ``metric`` finds when one position, or head, of one tap is replaced by its value in another run.

    The taps' second axis is swept: positions, or heads, as in ``*.heads``. ``source`` traces a sentence of the same
    length, else ``TraceError``.
    """

    def measure(address: str) -> Tensor:
        value = source[address]
        every = torch.arange(value.shape[1])

        def patch(found: Tensor) -> Tensor:
            _check_lengths(address, value, found)
            found[every, every] = value[0]  # row i gets position i
            return found

        with tracing(model, {address: patch}, only=address):
            return metric(model(src_ids.expand(len(every), -1), tgt_in_ids.expand(len(every), -1)))

    with torch.no_grad(), evaluating(model):
        return torch.stack([measure(address) for address in addresses])


def _check_lengths(address: str, value: Tensor, found: Tensor) -> None:
    if found.shape[1:] != value.shape[1:]:
        raise TraceError(
            f"{address}: the trace holds {tuple(value.shape[1:])}, this run {tuple(found.shape[1:])} a "
            "sentence. Choose two sentences with as many tokens."
        )


def attribution_patching(  # noqa: PLR0917  # as patch_sweep
    model: Transformer,
    source: Trace,
    src_ids: Int[Tensor, "1 src"],
    tgt_in_ids: Int[Tensor, "1 tgt"],
    metric: Metric,
    addresses: Sequence[str],
) -> Float[Tensor, "address position"]:
    """By how much ``patch_sweep`` changes ``metric``, estimated from one pass and its gradient."""
    values: dict[str, Tensor] = {}

    def keep(address: str, value: Tensor) -> Tensor:
        _check_lengths(address, source[address], value)
        values[address] = value if value.requires_grad else value.requires_grad_()
        return value

    edits = {address: partial(keep, address) for address in addresses}
    with torch.enable_grad(), evaluating(model), tracing(model, edits, only=""):
        found = metric(model(src_ids, tgt_in_ids)).sum()
    wanted = [values[address] for address in addresses]
    gradients = torch.autograd.grad(found, wanted)
    parts = [
        (gradient * (source[address] - value.detach())).flatten(2).sum(-1)[0]
        for address, value, gradient in zip(addresses, wanted, gradients, strict=True)
    ]
    return torch.stack(parts)


def path_patching(  # noqa: PLR0917  # two runs, what is measured, and both ends of the path
    model: Transformer,
    source: Trace,
    src_ids: Int[Tensor, "1 src"],
    tgt_in_ids: Int[Tensor, "1 tgt"],
    metric: Metric,
    sender: str,
    receiver: str,
    head: int | None = None,
) -> Float[Tensor, "1"]:
    """What ``metric`` finds when ``receiver`` reads ``sender`` as another run has it, and nothing else changes.

    Only the direct path counts: all other heads and feed-forward networks are frozen. ``sender`` is a tap, such as
    ``encoder.layers.0.self_attention.heads`` with its ``head``; ``receiver`` a later one, such as a ``q``.
    """

    def send(value: Tensor) -> Tensor:
        _check_lengths(sender, source[sender], value)
        chosen = slice(None) if head is None else slice(head, head + 1)
        value[:, chosen] = source[sender][:, chosen]
        return value

    with torch.no_grad(), evaluating(model):
        with tracing(model) as plain:
            model(src_ids, tgt_in_ids)
        frozen: dict[str, Edit] = {
            step.address: partial(_put, step.value)
            for step in plain
            if step.address != receiver and any(fnmatchcase(step.address, one) for one in COMPONENTS)
        }
        with tracing(model, {**frozen, sender: send}, only=receiver) as direct:
            model(src_ids, tgt_in_ids)
        with tracing(model, {receiver: partial(_put, direct[receiver])}, only=""):
            return metric(model(src_ids, tgt_in_ids))


def _put(value: Tensor, _: Tensor) -> Tensor:
    return value.clone()


def integrated_gradients(
    model: Transformer,
    src_ids: Int[Tensor, "batch src"],
    tgt_in_ids: Int[Tensor, "batch tgt"],
    token_id: TokenIds,
    steps: int = 50,
) -> Float[Tensor, "*batch src"]:
    """What each source token adds to the log-probability of ``token_id`` as the next token.

    The path leads from embeddings of 0 to those of the sentence; more ``steps`` make the sum more exact. A batch is
    given as to ``occlusion``.
    """
    return _each(partial(_integrate, steps), model, src_ids, tgt_in_ids, token_id)


def _integrate(steps: int, model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor, token_id: int) -> Tensor:
    shares = ((torch.arange(steps, device=src_ids.device) + 0.5) / steps)[:, None, None]
    points: list[Tensor] = []

    def scale(embedded: Tensor) -> Tensor:
        points.extend([embedded.detach(), (shares * embedded.detach()).requires_grad_()])
        return points[1]

    with torch.enable_grad(), evaluating(model), tracing(model, {"src_embedding.embedded": scale}, only=""):
        logits = model(src_ids.expand(steps, -1), tgt_in_ids.expand(steps, -1))
        (gradients,) = torch.autograd.grad(logits[:, -1].log_softmax(-1)[:, token_id].sum(), points[1])
    return (points[0][0] * gradients.mean(dim=0)).sum(dim=-1)
