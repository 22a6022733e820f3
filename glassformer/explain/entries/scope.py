"""What the equation of one step may use: the steps recorded before it, the weights and the configuration.

The second half follows figure 1 backwards: which recorded tensor enters a sublayer, a norm or a layer. With norms
before or after, with dropout or without, the answer is always one address. No equation stands here.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from glassformer.decoding.search.filters import PROCESSORS
from glassformer.errors import TraceError
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, ModelConfig, TrainConfig
from glassformer.trace import Step


@dataclass(frozen=True)
class PassContext:
    """What a pass was made with: the model, the options of its search or its update, and ids that follow from texts.

    ``derived_ids`` maps addresses to ids that were put together from the shown spelling of a text,
    ``weight_gradients`` each weight to its gradient as it follows from those of the steps, and to the size by which a
    difference is measured; ``saved`` holds the optimizer's tensors of the checkpoint that an update began with,
    ``counters`` how far its training was.
    """

    model: Transformer
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    train: TrainConfig | None = None
    derived_ids: Mapping[str, Tensor] = field(default_factory=dict)
    weight_gradients: Mapping[str, tuple[Tensor, float]] = field(default_factory=dict)
    saved: Mapping[str, Tensor] = field(default_factory=dict)
    counters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_dropout(self) -> bool:
        """Whether the pass applied dropout."""
        return self.train is not None and self.model.config.dropout > 0

    @cached_property
    def frozen(self) -> frozenset[str]:
        """The weights that an update leaves alone, under the name that they share where they are tied."""
        patterns = [part.strip() for part in self.train.freeze.split(",")] if self.train and self.train.freeze else []
        return frozenset(
            shared_name(name, self.model.config)
            for name, _ in self.model.named_parameters(remove_duplicate=False)
            for pattern in patterns
            if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
        )


class Record:
    """The steps of a whole trace, found by address and by their place in it."""

    def __init__(self, steps: Sequence[Step], context: PassContext) -> None:
        self.steps, self.context = steps, context
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, step in enumerate(steps):
            self.places[step.address].append(place)
        weights, config = dict(context.model.named_parameters(remove_duplicate=False)), context.model.config
        self.weights = {name: weights[shared_name(name, config)].detach() for name in weights}


def shared_name(weight: str, config: ModelConfig) -> str:
    """The name of a weight, or that of the target embedding where both are tied."""
    tied = {"all": _TIED, "target": _TIED[:1], "none": ()}[config.tie_embeddings]
    return "tgt_embedding.tokens.weight" if weight in tied else weight


_TIED = ("output_projection.linear.weight", "src_embedding.tokens.weight")


class Scope:
    """A trace as seen from one of its steps: each value is the latest one before that step."""

    def __init__(self, record: Record, place: int) -> None:
        self._record, self._place = record, place
        self.step = record.steps[place]
        self.context = record.context
        self.config = record.context.model.config
        self.module = self.step.address.rpartition(".")[0]

    def count(self, address: str) -> int:
        """How often ``address`` was recorded before this step."""
        return bisect_left(self._record.places.get(address, ()), self._place)

    def place(self, address: str) -> int | None:
        """Where in the trace the latest step of ``address`` before this one is."""
        count = self.count(address)
        return self._record.places[address][count - 1] if count else None

    def has(self, address: str) -> bool:
        """Whether ``address`` was recorded before this step."""
        return self.place(address) is not None

    def at(self, address: str) -> Tensor:
        """The latest value at ``address``; raises ``TraceError`` when it was not recorded."""
        place = self.place(address)
        if place is None:
            raise TraceError(
                f"{self.step.address}: its equation needs {address}, which was not recorded before it. "
                "Verify a whole trace, made without `only`."
            )
        return self.value(place)

    def at_call(self, address: str, call: int) -> Tensor:
        """The value of one call of ``address``; raises ``TraceError`` when it was not recorded."""
        places = self._record.places.get(address, ())
        if call >= len(places):
            raise TraceError(f"{self.step.address}: its equation needs call {call} of {address}. Trace all steps.")
        return self.value(places[call])

    def all_named(self, name: str) -> list[Tensor]:
        """The latest value of this name in every module that recorded one."""
        return [self.at(address) for address in self._record.places if address.endswith(f".{name}")]

    def sizes_before(self, name: str) -> list[int]:
        """The sizes of all values of this name, in any module, before this step."""
        earlier = self._record.steps[: self._place]
        return [step.value.numel() for step in earlier if step.address.endswith(f".{name}")]

    def here(self, name: str) -> Tensor:
        """The latest value of this name in the step's own module."""
        return self.at(f"{self.module}.{name}".lstrip("."))

    def has_here(self, name: str) -> bool:
        """Whether the step's own module recorded this name in the same pass: after its own last step."""
        own, other = self.place(self.step.address), self.place(f"{self.module}.{name}")
        return other is not None and (own is None or other > own)

    def value(self, place: int) -> Tensor:
        """The value of the step at a place of the trace."""
        return self._record.steps[place].value

    def weight(self, name: str) -> Tensor:
        """A parameter, by its name in the step's module, or the module itself."""
        return self._record.weights[f"{self.module}.{name}".rstrip(".")]

    def bias(self, name: str) -> Tensor | None:
        """The bias of a linear map, if it has one."""
        return self.weight(f"{name}.bias") if f"{self.module}.{name}.bias" in self._record.weights else None

    def at_rows(self, address: str) -> Tensor:
        """The latest value at ``address``, with its rows where the search has moved them since."""
        value, places = self.at(address), self._record.places.get("search.rows", ())
        for place in places[bisect_left(places, self.place(address) or 0) : bisect_left(places, self._place)]:
            value = value.index_select(0, self._record.steps[place].value)
        return value


def sublayer_input(scope: Scope, layer: str, sublayer: str) -> str:
    """The input of a sublayer: the residual stream, or its norm where norms come first."""
    if scope.config.norm == "pre":
        return f"{layer}.{sublayer}_add_norm.norm.output"
    return residual_input(scope, layer, sublayer)


def residual_input(scope: Scope, layer: str, sublayer: str) -> str:
    """What entered the sublayer's Add & Norm: the sublayer before, the layer before, or the embedding."""
    stack, _, number = layer.split(".")
    order = ["self_attention", "feed_forward"]
    if stack == "decoder":
        order = [scope.config.autoregressive_sublayer, "cross_attention", "feed_forward"]
    if sublayer != order[0]:
        return add_norm_output(scope, layer, order[order.index(sublayer) - 1])
    if number != "0":
        return f"{stack}.layers.{int(number) - 1}.output"
    embedding = "src_embedding" if stack == "encoder" else "tgt_embedding"
    if scope.context.has_dropout:
        return f"{embedding}.dropout.output"
    return _positioned_embedding(scope, embedding)


def add_norm_output(scope: Scope, layer: str, sublayer: str) -> str:
    """The output of the Add & Norm around a sublayer."""
    add_norm = f"{layer}.{sublayer}_add_norm"
    return f"{add_norm}.residual" if scope.config.norm == "pre" else f"{add_norm}.norm.output"


def _positioned_embedding(scope: Scope, embedding: str) -> str:
    return f"{embedding}.with_positions" if scope.config.adds_positions else f"{embedding}.scaled"


def last_layer_output(scope: Scope, stack: str) -> str:
    """The output of the last layer of a stack."""
    layers = scope.config.n_encoder_layers if stack == "encoder" else scope.config.n_decoder_layers
    return f"{stack}.layers.{layers - 1}.output"


def norm_input(scope: Scope) -> str:
    """The input of the layer norm that the step belongs to."""
    stack, _, rest = scope.module.partition(".")
    if rest == "final_norm":
        return last_layer_output(scope, stack)
    layer, _, sublayer = scope.module.removesuffix("_add_norm.norm").rpartition(".")
    if scope.config.norm == "pre":
        return residual_input(scope, layer, sublayer)
    return f"{layer}.{sublayer}_add_norm.residual"


def dropout_input(scope: Scope) -> str:
    """The input of the dropout that the step belongs to."""
    if scope.module.endswith("_embedding.dropout"):
        return _positioned_embedding(scope, scope.module.removesuffix(".dropout"))
    return f"{scope.module.removesuffix('_add_norm.dropout')}.output"


def active_places(scope: Scope, step: int) -> Tensor:
    """Places of the sentences, or of the samples, that were not done before a step."""
    return (~scope.at_call("search.done", step - 1)).nonzero().flatten()


def state_before(scope: Scope, name: str, step: int) -> Tensor:
    """A field of the state with which a step begins."""
    value = scope.at_call(f"search.{name}", step)
    return value[active_places(scope, step)] if step else value


def has_rules(scope: Scope) -> bool:
    """Whether rules or constraints change the model's log-probabilities."""
    options, settings = scope.context.decode, [one.setting for one in PROCESSORS]
    is_set = any(getattr(options, setting) != getattr(DecodeConfig, setting) for setting in settings)
    return is_set or scope.has("search.required_ids")


def by_hypothesis(scope: Scope, name: str, step: int) -> Tensor:
    """A tap of the decoder's rows, (sentences beam ...)."""
    value = scope.at_call(f"search.{name}", step)
    return value.view(*state_before(scope, "log_probs", step).shape, *value.shape[1:])


def written_ids(scope: Scope, step: int) -> Tensor:
    """The ids that each row of the decoder has written before a step, (rows tgt)."""
    if not scope.context.decode.sample:
        return state_before(scope, "ids", step).flatten(0, 1)
    if step == 0:
        return torch.empty(len(scope.at("search.next_log_probs")), 0, dtype=torch.int64)
    return scope.at_call("search.sampled_ids", step - 1)[active_places(scope, step)]


def source_of_rows(scope: Scope, step: int) -> list[int]:
    """The source, from 0, of each row of the decoder."""
    options = scope.context.decode
    if options.sample:
        samples = torch.arange(len(scope.at_call("search.limits", 0)))
        for call in range(step):
            samples = samples[~scope.at_call("search.done", call).cpu()]
        return (samples // options.n_best).tolist()
    ids, sentences = state_before(scope, "ids", step), state_before(scope, "sentences", step)
    return sentences.repeat_interleave(ids.shape[1]).tolist()
