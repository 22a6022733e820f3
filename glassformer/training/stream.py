"""An endless stream of training batches whose place is two numbers, so that it can go on where it stopped."""

from dataclasses import dataclass

from glassformer.config import TrainConfig
from glassformer.text.batches import Batch, Indices, collate, padding_fraction, plan_batches
from glassformer.text.encoded import EncodedPairs
from glassformer.world import ALONE, World


@dataclass(frozen=True)
class Share:
    """The batches of one update that are this process's, and the target tokens of all processes' together."""

    batches: list[Batch]
    tokens: int


class BatchStream:
    """Epoch after epoch of batches; ``position`` batches of ``epoch`` have been given out."""

    def __init__(
        self, pairs: EncodedPairs, config: TrainConfig, epoch: int, position: int, world: World = ALONE
    ) -> None:
        self._pairs, self._config, self._world = pairs, config, world
        self.epoch, self.position = epoch, position
        self._plan_epoch()

    def next(self) -> Batch:
        """The next batch; a new epoch is planned when this one is over."""
        return collate(self._pairs, self._next_indices())

    def next_update(self) -> Share:
        """The next ``batches_an_update``, of which the processes take one each in turn, by rank."""
        dealt = [self._next_indices() for _ in range(self.batches_an_update)]
        tokens = sum(int(self._pairs.tgt_lengths[indices].sum()) for indices in dealt)
        own = dealt[self._world.rank :: self._world.size]
        return Share([collate(self._pairs, indices) for indices in own], tokens)

    @property
    def batches_an_update(self) -> int:
        """``train.accumulate`` of each process."""
        return self._config.accumulate * self._world.size

    def _next_indices(self) -> Indices:
        if self.position == len(self._plan):
            self.epoch, self.position = self.epoch + 1, 0
            self._plan_epoch()
        self.position += 1
        return self._plan[self.position - 1]

    def __len__(self) -> int:
        """Batches in this epoch."""
        return len(self._plan)

    @property
    def padding_fraction(self) -> float:
        """The part of this epoch's cells that is padding."""
        return padding_fraction(self._pairs.src_lengths, self._pairs.tgt_lengths, self._plan)

    def _plan_epoch(self) -> None:
        self._plan = plan_batches(
            self._pairs.src_lengths,
            self._pairs.tgt_lengths,
            self._config.batch_tokens,
            seed=self._config.seed,
            epoch=self.epoch,
            bucket=self._config.bucket,
        )
