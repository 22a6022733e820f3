"""What a step's equation may use: earlier steps, weights, configuration.

Functions follow figure 1 backwards: what enters a sublayer, norm or layer.
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
    """What a pass was made with.

    ``derived`` steps follow from a text alone; ``weight_gradients``: each weight's gradient by the steps', and its
    scale; ``saved``, ``counters``: the optimizer's state before an update.
    """

    model: Transformer
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    train: TrainConfig | None = None
    derived: Mapping[str, Tensor] = field(default_factory=dict)
    weight_gradients: Mapping[str, tuple[Tensor, float]] = field(default_factory=dict)
    saved: Mapping[str, Tensor] = field(default_factory=dict)
    counters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_dropout(self) -> bool:
        """Whether dropout was applied."""
        return self.train is not None and self.model.config.dropout > 0

    @cached_property
    def frozen(self) -> frozenset[str]:
        """Weights that an update keeps; tied ones by their shared name."""
        patterns = [part.strip() for part in self.train.freeze.split(",")] if self.train and self.train.freeze else []
        return frozenset(
            shared_name(name, self.model.config)
            for name, _ in self.model.named_parameters(remove_duplicate=False)
            for pattern in patterns
            if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
        )


class Record:
    """A whole trace's steps, by address and place."""

    def __init__(self, steps: Sequence[Step], context: PassContext) -> None:
        self.steps, self.context = steps, context
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, step in enumerate(steps):
            self.places[step.address].append(place)
        weights, config = dict(context.model.named_parameters(remove_duplicate=False)), context.model.config
        self.weights = {name: weights[shared_name(name, config)].detach() for name in weights}


def shared_name(weight: str, config: ModelConfig) -> str:
    """A weight's name, or that of its tied target embedding."""
    tied = {"all": _TIED, "target": _TIED[:1], "none": ()}[config.tie_embeddings]
    return "tgt_embedding.tokens.weight" if weight in tied else weight


_TIED = ("output_projection.linear.weight", "src_embedding.tokens.weight")


class Scope:
    """A trace as one step sees it: each value is the latest before."""

    def __init__(self, record: Record, place: int) -> None:
        self._record, self._place = record, place
        self.step = record.steps[place]
        self.context = record.context
        self.config = record.context.model.config
        self.module = self.step.address.rpartition(".")[0]

    def count(self, address: str) -> int:
        """How often ``address`` was recorded before."""
        return bisect_left(self._record.places.get(address, ()), self._place)

    def place(self, address: str) -> int | None:
        """The index of ``address``'s latest step before this one."""
        count = self.count(address)
        return self._record.places[address][count - 1] if count else None

    def has(self, address: str) -> bool:
        """Whether ``address`` was recorded before."""
        return self.place(address) is not None

    def at(self, address: str) -> Tensor:
        """The latest value at ``address``; else ``TraceError``."""
        place = self.place(address)
        if place is None:
            raise TraceError(
                f"{self.step.address}: its equation needs {address}, which was not recorded before it. "
                "Verify a whole trace, made without `only`."
            )
        return self.value(place)

    def at_call(self, address: str, call: int) -> Tensor:
        """A call's value at ``address``; else ``TraceError``."""
        places = self._record.places.get(address, ())
        if call >= len(places):
            raise TraceError(f"{self.step.address}: its equation needs call {call} of {address}. Trace all steps.")
        return self.value(places[call])

    def all_named(self, name: str) -> list[Tensor]:
        """The latest value of this name in every module."""
        return [self.at(address) for address in self._record.places if address.endswith(f".{name}")]

    def sizes_before(self, name: str) -> list[int]:
        """Sizes of all values of this name so far, in any module."""
        earlier = self._record.steps[: self._place]
        return [step.value.numel() for step in earlier if step.address.endswith(f".{name}")]

    def here(self, name: str) -> Tensor:
        """The latest value of this name in the step's module."""
        return self.at(f"{self.module}.{name}".lstrip("."))

    def has_here(self, name: str) -> bool:
        """Whether the step's module recorded this name in this pass."""
        own, other = self.place(self.step.address), self.place(f"{self.module}.{name}")
        return other is not None and (own is None or other > own)

    def value(self, place: int) -> Tensor:
        """The step's value at a place of the trace."""
        return self._record.steps[place].value

    def weight(self, name: str) -> Tensor:
        """A parameter of the step's module, by name, or the module."""
        return self._record.weights[f"{self.module}.{name}".rstrip(".")]

    def bias(self, name: str) -> Tensor | None:
        """A linear map's bias, if any."""
        return self.weight(f"{name}.bias") if f"{self.module}.{name}.bias" in self._record.weights else None

    def at_rows(self, address: str) -> Tensor:
        """The latest value at ``address``, rows as the search moved them."""
        value, places = self.at(address), self._record.places.get("search.rows", ())
        for place in places[bisect_left(places, self.place(address) or 0) : bisect_left(places, self._place)]:
            value = value.index_select(0, self._record.steps[place].value)
        return value


def sublayer_input(scope: Scope, layer: str, sublayer: str) -> str:
    """A sublayer's input: the residual stream, or its norm (pre-norm)."""
    if scope.config.norm == "pre":
        return f"{layer}.{sublayer}_add_norm.norm.output"
    return residual_input(scope, layer, sublayer)


def residual_input(scope: Scope, layer: str, sublayer: str) -> str:
    """An Add & Norm's input: the sublayer or layer before, or the embedding."""
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
    """The output of a sublayer's Add & Norm."""
    add_norm = f"{layer}.{sublayer}_add_norm"
    return f"{add_norm}.residual" if scope.config.norm == "pre" else f"{add_norm}.norm.output"


def _positioned_embedding(scope: Scope, embedding: str) -> str:
    return f"{embedding}.with_positions" if scope.config.adds_positions else f"{embedding}.scaled"


def last_layer_output(scope: Scope, stack: str) -> str:
    """The output of a stack's last layer."""
    layers = scope.config.n_encoder_layers if stack == "encoder" else scope.config.n_decoder_layers
    return f"{stack}.layers.{layers - 1}.output"


def norm_input(scope: Scope) -> str:
    """The input of the step's layer norm."""
    stack, _, rest = scope.module.partition(".")
    if rest == "final_norm":
        return last_layer_output(scope, stack)
    layer, _, sublayer = scope.module.removesuffix("_add_norm.norm").rpartition(".")
    if scope.config.norm == "pre":
        return residual_input(scope, layer, sublayer)
    return f"{layer}.{sublayer}_add_norm.residual"


def dropout_input(scope: Scope) -> str:
    """The input of the step's dropout."""
    if scope.module.endswith("_embedding.dropout"):
        return _positioned_embedding(scope, scope.module.removesuffix(".dropout"))
    return f"{scope.module.removesuffix('_add_norm.dropout')}.output"


def active_places(scope: Scope, step: int) -> Tensor:
    """Places of sentences or samples not done before a step."""
    return (~scope.at_call("search.done", step - 1)).nonzero().flatten()


def state_before(scope: Scope, name: str, step: int) -> Tensor:
    """A field of the state that a step begins with."""
    value = scope.at_call(f"search.{name}", step)
    return value[active_places(scope, step)] if step else value


def has_rules(scope: Scope) -> bool:
    """Whether rules or constraints change log-probabilities."""
    options, settings = scope.context.decode, [one.setting for one in PROCESSORS]
    is_set = any(getattr(options, setting) != getattr(DecodeConfig, setting) for setting in settings)
    return is_set or scope.has("search.required_ids")


def by_hypothesis(scope: Scope, name: str, step: int) -> Tensor:
    """A tap of decoder rows, as (sentences beam ...)."""
    value = scope.at_call(f"search.{name}", step)
    return value.view(*state_before(scope, "log_probs", step).shape, *value.shape[1:])


def written_ids(scope: Scope, step: int) -> Tensor:
    """Ids that each decoder row has written before a step, (rows tgt)."""
    if not scope.context.decode.sample:
        return state_before(scope, "ids", step).flatten(0, 1)
    if step == 0:
        return torch.empty(len(scope.at("search.next_log_probs")), 0, dtype=torch.int64)
    return scope.at_call("search.sampled_ids", step - 1)[active_places(scope, step)]


def samples_left(scope: Scope, step: int) -> Tensor:
    """Numbers of samples not done before a step."""
    samples = torch.arange(len(scope.at_call("search.limits", 0)))
    for call in range(step):
        samples = samples[~scope.at_call("search.done", call).cpu()]
    return samples


def source_of_rows(scope: Scope, step: int) -> list[int]:
    """Each decoder row's source, from 0."""
    if scope.context.decode.sample:
        return (samples_left(scope, step) // scope.context.decode.n_best).tolist()
    ids, sentences = state_before(scope, "ids", step), state_before(scope, "sentences", step)
    return sentences.repeat_interleave(ids.shape[1]).tolist()
