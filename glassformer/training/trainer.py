"""The training loop: batches in, updates out, validated and saved as it goes. Section 5 of the paper.

What updates measured, one by one and since the last line of the log.
"""

import math
import signal
import time
from dataclasses import dataclass, replace

import torch

from glassformer.config import RunConfig
from glassformer.errors import DivergedError
from glassformer.model.transformer import Transformer
from glassformer.run_directory import RunDirectory, pick_device
from glassformer.text.prepare import PreparedText
from glassformer.training.averaging import average_weights, last_checkpoints
from glassformer.training.batch_checks import check_batch
from glassformer.training.checkpointing import CheckpointManager, TrainState
from glassformer.training.cpu import keep_freed_memory
from glassformer.training.data import BatchStream, BpeDropoutSampler
from glassformer.training.distributed import make_strategy
from glassformer.training.evaluation import COLLAPSE_THRESHOLD, Validation, collapse_warning, validate
from glassformer.training.run_log import Display, Progress
from glassformer.training.schedule import (
    cancel_stale_cooldown,
    cooldown_factor,
    fraction_done,
    learning_rate,
    start_cooldown,
    stop_reason,
)
from glassformer.training.signals import StopSignals
from glassformer.training.train_step import adam_step, backward_batches, clip_gradients, new_optimizer
from glassformer.world import ALONE, World


@dataclass(frozen=True)
class Update:
    """What one update measured: losses in nats per token, over the ``tokens`` target tokens of all processes."""

    loss: float
    nll: float
    tokens: int
    rate: float
    gradient_norm: float


class Window:
    """The updates since the last line of the log: one batch says more of its own sentences than of the model."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._tokens = 0
        self._loss = self._nll = 0.0

    def add(self, update: Update) -> None:
        """One more."""
        self._tokens += update.tokens
        self._loss += update.loss * update.tokens
        self._nll += update.nll * update.tokens

    @property
    def loss(self) -> float:
        """Nats per target token."""
        return self._loss / self._tokens

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-likelihood."""
        return math.exp(min(self._nll / self._tokens, 700.0))

    @property
    def tokens_per_s(self) -> float:
        """Target tokens of all processes."""
        return self._tokens / max(time.monotonic() - self._began, 1e-9)


# An epoch of a small corpus is over in a moment: validation waits at least this many updates.
FEWEST_UPDATES_BETWEEN_VALIDATIONS = 50


class Trainer:
    """Trains one model in one run directory; made anew, it goes on where the newest valid checkpoint stands.

    Of several processes each has a trainer, and all take the same steps together.
    """

    def __init__(
        self, run: RunDirectory, config: RunConfig, text: PreparedText, log: Display, world: World = ALONE
    ) -> None:
        self.run, self.config, self.text, self.log, self.world = run, config, text, log, world
        self.device = pick_device(world.device(config.train.device))
        if self.device.type == "cuda" and self.device.index is not None:
            torch.cuda.set_device(self.device)  # whose generator is saved and restored
        keep_freed_memory()
        torch.manual_seed(config.train.seed)
        self.model = Transformer(config.model).train()
        self.strategy = make_strategy(world, self.model, config.train, self.device)
        self.optimizer = new_optimizer(self.model, config.train)
        self.checkpoint_manager = CheckpointManager(run, config, text, log.say, self.strategy)
        self.state = self._cancel_stale_cooldown(self.checkpoint_manager.resume(self.optimizer))
        place = (self.state.epoch, self.state.position)
        sampler = BpeDropoutSampler.from_config(config, text)
        self.stream = BatchStream(text.train, config.train, *place, world=world, bpe_dropout=sampler)
        self._saved_at = self.state.update
        self._began = time.monotonic() - self.state.elapsed_s
        self._clock = self._saved_clock = self.state.elapsed_s
        self._warned = False
        self._window = Window()

    def fit(self) -> str:
        """Update until a limit, patience or a signal ends it, and save; the reason is returned."""
        with StopSignals() as signals:
            while (reason := self._stop_reason(signals)) is None:
                self._start_cooldown()
                self._report(self._update())
                if self._validation_due():
                    self._validate()
                elif self._clock - self._saved_clock > 60 * self.config.train.save_minutes:
                    self._save()
            if not reason.startswith("stopped") and self.state.validated_update != self.state.update:
                self._validate()
            if self._saved_at != self.state.update:
                self._save()
        return reason

    def finish(self) -> Validation:
        """Keep as the final model whichever validates better: the last checkpoints' average, or the best one."""
        metric = self.config.train.metric
        candidates = self.world.from_first(
            lambda: last_checkpoints(self.run, self.config.train.average_last, self.log.say, self.state.update)
        )
        averaged, what = len(candidates), "The last update"  # where no checkpoint to average is whole
        if candidates:
            self.strategy.load(average_weights(candidates), candidates[-1])
            what = f"Average of the last {averaged} checkpoints"
        final = self._measure()
        self.log.say(f"{what}: validation loss {final.loss:.3f}.")
        better = self.state.best is not None and self.state.best > final.value(metric)
        if better and self.checkpoint_manager.load_best(self.state):
            final, averaged = self._measure(), 0
            self.log.say(
                f"The single checkpoint of update {self.state.best_update} has the better {metric}: it is kept."
            )
        self.checkpoint_manager.save_weights(self.state, self.run.final, keep=1, averaged=averaged)
        return final

    def _update(self) -> Update:
        """One step of Adam on the mean smoothed loss of ``train.accumulate`` batches of each process."""
        settings = self.config.train
        share = self.stream.next_update()
        if self.state.update == 0:
            first = share.batches[0]
            check_batch(self.config.model, first.src_ids, first.tgt_in_ids, first.tgt_out_ids)
        losses = backward_batches(self.strategy, share.batches, share.tokens, settings)
        norm = clip_gradients(self.model, settings)
        self._refuse_divergence(losses.loss, norm)
        number = self.state.update + 1
        rate = learning_rate(number, settings, self.config.model.d_model) * cooldown_factor(self.state, number)
        adam_step(self.model, self.optimizer, rate)
        self.state = replace(
            self.state,
            update=number,
            epoch=self.stream.epoch,
            position=self.stream.position,
            elapsed_s=time.monotonic() - self._began,
            target_tokens=self.state.target_tokens + losses.tokens,
        )
        return Update(losses.loss / losses.tokens, losses.nll / losses.tokens, losses.tokens, rate, norm)

    def _refuse_divergence(self, loss: float, norm: float) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        raise DivergedError(
            f"update {self.state.update + 1}: the loss is {loss}, the gradient norm {norm}, expected finite numbers. "
            f"No update was made; the checkpoint of update {self._saved_at} is unharmed. "
            "Lengthen train.warmup, lower train.peak_rate or set train.clip_norm, and train again in a new --run."
        )

    def _stop_reason(self, signals: StopSignals) -> str | None:
        if stopped_by := self._agree(signals):
            return f"stopped by {signal.Signals(stopped_by).name}; the same command goes on"
        return stop_reason(self.config.train, self.state, self._clock)

    def _cancel_stale_cooldown(self, resumed: TrainState) -> TrainState:
        state = cancel_stale_cooldown(self.config.train, resumed)
        if state != resumed:
            self.log.say(f"The cooldown was for {resumed.cooldown_cause}: the learning rate goes back to its curve.")
        return state

    def _start_cooldown(self) -> None:
        before, self.state = self.state, start_cooldown(self.config.train, self.state, self._clock)
        if self.state != before:
            length = self.state.cooldown_to - self.state.update
            self.log.say(
                f"The cooldown begins, for {self.state.cooldown_cause}: over the next {length:,} updates the "
                "learning rate falls to nothing."
            )

    def _agree(self, signals: StopSignals) -> int:
        """Set all processes' clocks by the first one's; the number of a signal that any of them received, or 0."""
        told = self.world.numbers(time.monotonic() - self._began, signals.received or 0)
        self._clock = told[0][0]
        return max(int(number) for _, number in told)

    def _validation_due(self) -> bool:
        every = self.config.train.validate_every
        done = self.state.update - self.state.validated_update
        if every:
            return done >= every
        epoch_is_over = (
            self.stream.position == len(self.stream) or done > len(self.stream) // self.stream.batches_per_update
        )
        return epoch_is_over and done >= FEWEST_UPDATES_BETWEEN_VALIDATIONS

    def _validate(self) -> None:
        """Measure, keep the weights for averaging, keep the best, and save."""
        validation = self._measure()
        value = validation.value(self.config.train.metric)
        best = self.state.best is None or value > self.state.best
        self.state = replace(self.state, validated_update=self.state.update)
        self.log.validated(validation, best=best)
        self._warn_of_collapse(validation.encoder_collapse)
        if best:
            self.state = replace(self.state, best=value, best_update=self.state.update, stale_validations=0)
            self.checkpoint_manager.save_weights(self.state, self.run.best, keep=1)
        else:
            self.state = replace(self.state, stale_validations=self.state.stale_validations + 1)
        self.checkpoint_manager.save_weights(self.state, self.run.history, keep=self.config.train.average_last)
        self._save()

    def _warn_of_collapse(self, similarity: float) -> None:
        """Once, when the learning rate has been at its highest and the encoder has not begun to tell words apart."""
        if similarity > COLLAPSE_THRESHOLD and self.state.update >= self.config.train.warmup and not self._warned:
            self.log.say(collapse_warning(self.state.update, similarity))
            self._warned = True

    def _measure(self) -> Validation:
        with self.strategy.full_model() as model:
            validation = validate(model, self.text, self.config, self.state.update, self.device, world=self.world)
        self._window = Window()
        return validation

    def _save(self) -> None:
        self.state = replace(self.state, elapsed_s=time.monotonic() - self._began)
        self.checkpoint_manager.save_latest(self.optimizer, self.state)
        self._saved_at, self._saved_clock = self.state.update, self._clock

    def _report(self, update: Update) -> None:
        self._window.add(update)
        share = fraction_done(self.config.train, self.state)
        elapsed = self.state.elapsed_s
        progress = Progress(
            update=self.state.update,
            epoch=self.state.epoch,
            loss=self._window.loss,
            perplexity=self._window.perplexity,
            tokens_per_s=self._window.tokens_per_s,
            learning_rate=update.rate,
            gradient_norm=update.gradient_norm,
            elapsed_s=elapsed,
            left_s=elapsed * (1 - share) / share if share > 0 else None,
            fraction_done=share,
        )
        due = self.state.update % self.config.train.log_every == 0
        self.log.progress(progress, due=due)
        if due:
            self._window = Window()
