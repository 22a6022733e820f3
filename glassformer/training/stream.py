"""An endless stream of training batches whose place is two numbers, so that it can go on where it stopped."""

from glassformer.config import TrainConfig
from glassformer.text.batches import Batch, collate, padding_fraction, plan_batches
from glassformer.text.encoded import EncodedPairs


class BatchStream:
    """Epoch after epoch of batches; ``position`` batches of ``epoch`` have been given out."""

    def __init__(self, pairs: EncodedPairs, config: TrainConfig, epoch: int, position: int) -> None:
        self._pairs, self._config = pairs, config
        self.epoch, self.position = epoch, position
        self._plan_epoch()

    def next(self) -> Batch:
        """The next batch; a new epoch is planned when this one is over."""
        if self.position == len(self._plan):
            self.epoch, self.position = self.epoch + 1, 0
            self._plan_epoch()
        self.position += 1
        return collate(self._pairs, self._plan[self.position - 1])

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
