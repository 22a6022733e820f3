"""An endless stream of training batches whose place is two numbers, so that it can go on where it stopped."""

from dataclasses import dataclass

import numpy as np

from glassformer.config import TrainConfig
from glassformer.text.batches import Batch, Indices, collate, padding_fraction, plan_batches
from glassformer.text.encoded import EncodedPairs, Sides
from glassformer.text.windows import count_windows, window_indices
from glassformer.training.cutting import Cutting
from glassformer.world import ALONE, World


@dataclass(frozen=True)
class Share:
    """The batches of one update that are this process's, and the target tokens of all processes' together."""

    batches: list[Batch]
    tokens: int


class BatchStream:
    """Epoch after epoch of batches; ``position`` batches of ``epoch`` have been given out.

    A corpus of more than one window is planned a window at a time, and memory does not grow with it.
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        config: TrainConfig,
        epoch: int,
        position: int,
        *,
        world: World = ALONE,
        cutting: Cutting | None = None,
    ) -> None:
        """With ``cutting`` the pairs are cut into other tokens in each epoch."""
        self._pairs, self._config, self._world, self._cutting = pairs, config, world, cutting
        self._windows = count_windows(len(pairs))
        self.epoch, self.position = epoch, position
        self._begin_epoch()
        while self._is_over and self._window + 1 < self._windows:
            self._plan_window(self._window + 1)

    def next(self) -> Batch:
        """The next batch; a new epoch is planned when this one is over."""
        return collate(*self._next())

    def next_update(self) -> Share:
        """The next ``batches_an_update``, of which the processes take one each in turn, by rank."""
        dealt = [self._next() for _ in range(self.batches_an_update)]
        tokens = sum(int(sides.tgt_side.lengths[indices].sum()) for sides, indices in dealt)
        own = dealt[self._world.rank :: self._world.size]
        return Share([collate(sides, indices) for sides, indices in own], tokens)

    @property
    def batches_an_update(self) -> int:
        """``train.accumulate`` of each process."""
        return self._config.accumulate * self._world.size

    def _next(self) -> tuple[Sides, Indices]:
        """The pairs that the next batch is of, and its places among them."""
        while self._is_over:
            if self._window + 1 < self._windows:
                self._plan_window(self._window + 1)
            else:
                self.epoch, self.position = self.epoch + 1, 0
                self._begin_epoch()
        self.position += 1
        return self._here, self._plan[self.position - 1 - self._first]

    def __len__(self) -> int:
        """Batches in this epoch; with several windows as many as there are if all are like the first."""
        return self._batches

    @property
    def padding_fraction(self) -> float:
        """The part of this window's cells that is padding."""
        return padding_fraction(self._here.src_side.lengths, self._here.tgt_side.lengths, self._plan)

    @property
    def _is_over(self) -> bool:
        """Whether all batches of the window have been given out."""
        return self.position >= self._first + len(self._plan)

    def _begin_epoch(self) -> None:
        self._first = 0
        self._plan: list[Indices] = []
        self._plan_window(0)
        pairs_here = sum(len(batch) for batch in self._plan)
        self._batches = round(len(self._plan) * len(self._pairs) / max(1, pairs_here))

    def _plan_window(self, window: int) -> None:
        """Plan a window, the first or the one after that which is planned."""
        self._first, self._window = self._first + len(self._plan), window
        indices = window_indices(len(self._pairs), window, seed=self._config.seed, epoch=self.epoch)
        if self._cutting is None:
            self._here, places = Sides(self._pairs.src_side, self._pairs.tgt_side), indices
        else:
            self._here, places = self._cutting.sides(self._pairs, indices, self.epoch), np.arange(len(indices))
        plan = plan_batches(
            self._here.src_side.lengths[places],
            self._here.tgt_side.lengths[places],
            self._config.batch_tokens,
            seed=self._config.seed,
            epoch=self.epoch,
            window=window,
            bucket=self._config.bucket,
        )
        self._plan = [places[batch] for batch in plan]
