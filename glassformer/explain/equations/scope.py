"""What the equation of one step may use: the steps recorded before it, the weights, the configuration.

Knows addresses and order; knows no equation.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig, TrainConfig
from glassformer.errors import TraceError
from glassformer.model import Transformer
from glassformer.trace import Step


@dataclass(frozen=True)
class Setting:
    """What a pass was made with: the model, what decided its search or its update, and ids that a text gave."""

    model: Transformer
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    train: TrainConfig | None = None
    derived: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self.model.config

    @property
    def drops(self) -> bool:
        """Whether dropout took part."""
        return self.train is not None and self.config.dropout > 0


class Record:
    """The steps of a whole trace, found by address and place."""

    def __init__(self, steps: Sequence[Step], setting: Setting) -> None:
        self.steps, self.setting = steps, setting
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, step in enumerate(steps):
            self.places[step.address].append(place)
        self.weights = {**dict(setting.model.named_parameters(remove_duplicate=False)),
                        **dict(setting.model.named_buffers(remove_duplicate=False))}  # fmt: skip


class Scope:
    """The view from one step: whatever it asks for is the latest before it."""

    def __init__(self, record: Record, place: int) -> None:
        self._record, self._place = record, place
        self.step = record.steps[place]
        self.setting = record.setting
        self.config = record.setting.config
        self.module = self.step.address.rpartition(".")[0]

    def place(self, address: str) -> int | None:
        """Where the latest step of ``address`` before this one stands."""
        count = self.count(address)
        return self._record.places[address][count - 1] if count else None

    def at(self, address: str) -> Tensor:
        """The latest value at ``address``; raises ``TraceError`` when it was not recorded."""
        place = self.place(address)
        if place is None:
            raise TraceError(
                f"{self.step.address}: its equation needs {address}, which was not recorded before it. "
                "Verify a whole trace, made without `only`."
            )
        return self._record.steps[place].value

    def at_call(self, address: str, call: int) -> Tensor:
        """The value of one call of ``address``; raises ``TraceError`` when it was not recorded."""
        places = self._record.places.get(address, ())
        if call >= len(places):
            raise TraceError(f"{self.step.address}: its equation needs call {call} of {address}. Trace all steps.")
        return self._record.steps[places[call]].value

    def all_named(self, name: str) -> list[Tensor]:
        """The latest value of this name in every module that recorded one."""
        return [self.at(address) for address in self._record.places if address.endswith(f".{name}")]

    def has(self, address: str) -> bool:
        """Whether ``address`` was recorded before this step."""
        return self.place(address) is not None

    def here(self, name: str) -> Tensor:
        """The latest value of this name in the step's own module."""
        return self.at(f"{self.module}.{name}".lstrip("."))

    def has_here(self, name: str) -> bool:
        """Whether the step's own module recorded this name in the same pass: after its own last step."""
        own, other = self.place(self.step.address), self.place(f"{self.module}.{name}")
        return other is not None and (own is None or other > own)

    def weight(self, name: str, module: str | None = None) -> Tensor:
        """A parameter or buffer, by its name in the step's module or in another."""
        return self._record.weights[f"{self.module if module is None else module}.{name}".lstrip(".")].detach()

    def bias(self, name: str) -> Tensor | None:
        """A linear map's bias, if it has one."""
        address = f"{self.module}.{name}.bias"
        return self._record.weights[address].detach() if address in self._record.weights else None

    def rows_since(self, address: str) -> Tensor | None:
        """Which row of ``address``' latest value each row continues now; None when none has moved."""
        since = self.place(address)
        rows = None
        for place in self._record.places.get("search.rows", ()):
            if since is not None and since < place < self._place:
                chosen = self._record.steps[place].value
                rows = chosen if rows is None else rows[chosen]
        return rows

    def moved(self, address: str) -> Tensor:
        """The latest value at ``address``, its rows where a search has moved them since."""
        value, rows = self.at(address), self.rows_since(address)
        return value if rows is None else value.index_select(0, rows)

    def previous(self) -> Tensor | None:
        """This step's own value one call before, its rows moved with the search; None at the first."""
        return self.moved(self.step.address) if self.has(self.step.address) else None

    def count(self, address: str) -> int:
        """How often ``address`` was recorded before this step."""
        return bisect_left(self._record.places.get(address, ()), self._place)
