"""The training loop: updates, validations, checkpoints. Section 5."""

import math
import signal
import time
from dataclasses import replace

import torch

from glassformer.checkpoint import weights_of
from glassformer.decoding.translator import Translator
from glassformer.errors import DivergedError
from glassformer.model.transformer import Transformer
from glassformer.run_directory import RunDirectory, pick_device
from glassformer.settings import RunConfig
from glassformer.text.corpus.prepare import PreparedText
from glassformer.training.evaluation import calibration
from glassformer.training.evaluation.evaluation import COLLAPSE_THRESHOLD, collapse_warning, validate
from glassformer.training.evaluation.results import Validation
from glassformer.training.loop import model_selection
from glassformer.training.loop.averaging import average_weights
from glassformer.training.loop.checkpointing import CheckpointManager
from glassformer.training.loop.cpu import keep_freed_memory
from glassformer.training.loop.distributed import make_strategy
from glassformer.training.loop.optimizer import freeze, new_optimizer
from glassformer.training.loop.schedule import cancel_stale_cooldown, start_cooldown
from glassformer.training.loop.stopping import StopSignals, fraction_done, stop_reason
from glassformer.training.loop.update import UpdateMetrics, update
from glassformer.training.reporting.run_log import Display, TrainProgress
from glassformer.training.request.batch_checks import check_batch
from glassformer.training.request.data import BatchStream, BpeDropoutSampler
from glassformer.training.request.fine_tuning import InitialModel
from glassformer.world import ALONE, World

MIN_UPDATES_BETWEEN_VALIDATIONS = 50
MAX_RESTARTS = 3


class RunningMeans:
    """Means over the updates since the last line of the log."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._tokens = 0
        self._loss = self._nll = 0.0

    def add(self, update: UpdateMetrics) -> None:
        """Add one update, weighted by its tokens."""
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
        """Target tokens of all processes per second."""
        return self._tokens / max(time.monotonic() - self._began, 1e-9)


class Trainer:
    """Trains one model in one run directory, from the newest valid checkpoint on if there is one.

    Each of several processes has a trainer, and all make the same calls in the same order.
    """

    def __init__(
        self,
        run: RunDirectory,
        config: RunConfig,
        text: PreparedText,
        display: Display,
        world: World = ALONE,
        *,
        init: InitialModel | None = None,
        mix: PreparedText | None = None,
    ) -> None:
        self.run, self.config, self.text, self.display, self.world = run, config, text, display, world
        self.init, self.mix = init, mix
        self.kept_first = False  # whether the final model is the one of ``init``
        self.loss_is_comparable = init is None or init.loss_is_comparable
        self.device = pick_device(world.device(config.train.device))
        if self.device.type == "cuda" and self.device.index is not None:
            torch.cuda.set_device(self.device)  # its generator is saved and restored
        keep_freed_memory()
        self.model = self._new_model()
        freeze(self.model, config.train.freeze, display.log)
        self.strategy = make_strategy(world, self.model, config.train, self.device)
        self.optimizer = new_optimizer(self.model, config.train)
        self.checkpoints = CheckpointManager(run, config, text, display, self.strategy)
        self.state = self.checkpoints.resume(self.optimizer)
        self._cancel_stale_cooldown()
        self.stream = self._open_stream()
        self._began = time.monotonic() - self.state.elapsed_s
        self._elapsed_s = self._saved_s = self.state.elapsed_s  # in the clock of the first process
        self._saved_update = self.state.update
        self._warned = False
        self._means = RunningMeans()

    def _new_model(self) -> Transformer:
        """A model with the first weights: those of ``init``, or drawn by the seed."""
        torch.manual_seed(self.config.train.seed)
        model = Transformer(self.config.model).train()
        if self.init is not None:
            self.init.initialise(model)
        return model

    def _open_stream(self) -> BatchStream:
        """The batches from the position of the state on."""
        return BatchStream(
            self.text.train, self.config.train, self.state.epoch, self.state.position, world=self.world,
            bpe_dropout=BpeDropoutSampler.from_config(self.config, self.text),
            mix=None if self.mix is None else self.mix.train,
        )  # fmt: skip

    def fit(self) -> str:
        """Make updates until a limit, patience or a signal; returns the reason."""
        with StopSignals() as signals:
            if self.init is not None and self.state.best is None:
                self._validate()  # shows what the model can do before it learns
                self._measure_mix()
            reason = self._stop_reason(signals)
            while reason is None:
                try:
                    self._step()
                except DivergedError as error:
                    self._restart(error)
                reason = self._stop_reason(signals)
            if not reason.startswith("stopped") and self.state.validated_update != self.state.update:
                self._validate()
            if self._saved_update != self.state.update:
                self._save()
        return reason

    def _step(self) -> None:
        """One update, and what is due after it: a validation, or saving."""
        self._start_cooldown()
        self._report(self._update())
        if self._validation_due():
            self._validate()
        elif self._elapsed_s - self._saved_s > 60 * self.config.train.save_minutes:
            self._save()

    def _restart(self, error: DivergedError) -> None:
        """Go back to the last state with half the rate, or raise ``error``."""
        restarts = self.state.restarts + 1
        if self.config.train.on_divergence == "stop" or restarts > MAX_RESTARTS:
            raise error
        self.display.warn(f"{error} train.on_divergence = restart: restart {restarts} of at most {MAX_RESTARTS}.")
        self.optimizer = new_optimizer(self.model, self.config.train)
        if self._saved_update == 0:
            self.strategy.load(weights_of(self._new_model()), self.run.path)
        self.state = replace(self.checkpoints.resume(self.optimizer), restarts=restarts)
        self._cancel_stale_cooldown()
        self.stream = self._open_stream()
        self._save()
        self.display.log(f"Going on after update {self.state.update} with the learning rate times {0.5**restarts:g}.")

    def finish(self) -> Validation:
        """Save the final model: the candidate that is best."""
        settings = self.config.train
        candidates = self.world.broadcast(
            lambda: model_selection.list_contenders(self.run, self.state, settings, self.display.warn)
        )
        if not candidates:  # every checkpoint is damaged: the last update is still in memory
            validation = self._measure()
            self.display.warn(f"The last update is kept: validation loss {validation.loss:.3f}.")
            self.checkpoints.save_weights(self.state, self.run.final, keep=1)
            self._fit_confidence()
            return validation
        sentences = 0 if settings.metric == "loss" else min(model_selection.SENTENCES, len(self.text.valid_text))
        budget_s = max(model_selection.MIN_BUDGET_S, model_selection.SHARE_OF_TRAINING * self.state.elapsed_s)
        verdicts = model_selection.judge(candidates, self._measure_contender, sentences, budget_s, self.world)
        comparable = self.loss_is_comparable
        chosen = model_selection.best_verdict(verdicts, settings.metric, self.world, loss_is_comparable=comparable)
        left_out = len(candidates) - len(verdicts)
        lines = model_selection.verdict_lines(
            verdicts, chosen, settings.metric, not_judged=left_out, loss_is_comparable=comparable
        )
        for line in lines:
            self.display.log(line)
        is_best = [path.parent for path in chosen.candidate.checkpoints] == [self.run.best]
        self.kept_first = self.init is not None and self.state.best_update == 0 and is_best
        self._load(chosen.candidate)
        averaged = len(chosen.candidate.checkpoints)
        self.checkpoints.save_weights(self.state, self.run.final, keep=1, averaged=averaged)
        self._fit_confidence()
        self._measure_mix()
        return self._measure() if settings.metric == "loss" else chosen.validation

    def _fit_confidence(self) -> None:
        """Fit the final model's confidence, in the first process."""
        budget_s = max(calibration.MIN_BUDGET_S, calibration.SHARE_OF_TRAINING * self.state.elapsed_s)
        with self.strategy.full_model() as model:
            if not self.world.is_first:
                return
            translator = Translator(model, self.text.src_tokenizer, self.text.tgt_tokenizer, self.config.decode)
            found = calibration.fit_confidence(translator, self.text, self.config.train.metric, budget_s)
        calibration.keep_confidence(self.run, found, self.display.log)

    def _measure_contender(self, contender: model_selection.Contender, sentences: int) -> Validation:
        self._load(contender)
        return self._measure(sentences)

    def _load(self, contender: model_selection.Contender) -> None:
        self.strategy.load(average_weights(contender.checkpoints), contender.checkpoints[-1])

    def _update(self) -> UpdateMetrics:
        """One step of Adam on ``train.accumulate`` batches of each process."""
        share = self.stream.next_update()
        if self.state.update == 0:
            first = share.batches[0]
            check_batch(self.config.model, first.src_ids, first.tgt_in_ids, first.tgt_out_ids)
        metrics = update(
            self.strategy, self.optimizer, share.batches, tokens=share.tokens, state=self.state,
            config=self.config.train, check=self._check_finite,
        )  # fmt: skip
        self.state = replace(
            self.state,
            update=self.state.update + 1,
            epoch=self.stream.epoch,
            position=self.stream.position,
            elapsed_s=time.monotonic() - self._began,
            target_tokens=self.state.target_tokens + metrics.tokens,
        )
        return metrics

    def _check_finite(self, loss: float, norm: float) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        raise DivergedError(
            f"update {self.state.update + 1}: the loss is {loss}, the gradient norm {norm}, expected finite numbers. "
            f"No update was made; the checkpoint of update {self._saved_update} is intact. Lengthen train.warmup, "
            "lower train.peak_rate or set train.clip_norm, and train again in a new directory, or set "
            "train.on_divergence=restart."
        )

    def _stop_reason(self, signals: StopSignals) -> str | None:
        """Why to stop now; a signal to any process stops all."""
        rows = self.world.all_gather(time.monotonic() - self._began, signals.received or 0)
        self._elapsed_s = rows[0][0]
        received = max(int(number) for _, number in rows)
        if received:
            return f"stopped by {signal.Signals(received).name}; the same command resumes it"
        return stop_reason(self.config.train, self.state, self._elapsed_s)

    def _cancel_stale_cooldown(self) -> None:
        before, self.state = self.state, cancel_stale_cooldown(self.config.train, self.state)
        if self.state != before:
            self.display.log(f"No cooldown for {before.cooldown_cause}: the learning rate goes back to its curve.")

    def _start_cooldown(self) -> None:
        before, self.state = self.state, start_cooldown(self.config.train, self.state, self._elapsed_s)
        if self.state != before:
            length = self.state.cooldown_to - self.state.update
            self.display.log(
                f"The cooldown begins, for {self.state.cooldown_cause}: over the next {length:,} updates the "
                "learning rate falls to zero."
            )

    def _validation_due(self) -> bool:
        every = self.config.train.validate_every
        done = self.state.update - self.state.validated_update
        if every:
            return done >= every
        batches = len(self.stream)
        epoch_is_over = self.stream.position == batches or done > batches // self.stream.batches_per_update
        return epoch_is_over and done >= MIN_UPDATES_BETWEEN_VALIDATIONS

    def _validate(self) -> None:
        """Measure, and save the weights and the state."""
        validation = self._measure()
        value, update = validation.value(self.config.train.metric), self.state.update
        best = self.state.best is None or value > self.state.best
        best_loss = self.state.best_loss is None or validation.loss < self.state.best_loss
        stale = 0 if best or best_loss else self.state.stale_validations + 1
        self.state = replace(self.state, validated_update=update, stale_validations=stale)
        self.display.on_validation(validation, best=best)
        collapse = validation.encoder_collapse
        if collapse > COLLAPSE_THRESHOLD and update >= self.config.train.warmup and not self._warned:
            self.display.warn(collapse_warning(update, collapse))
            self._warned = True
        if best:
            self.state = replace(self.state, best=value, best_update=update)
        if best_loss:
            self.state = replace(self.state, best_loss=validation.loss, best_loss_update=update)
        for is_best, series in ((best, self.run.best), (best_loss, self.run.best_loss)):
            if is_best:
                self.checkpoints.save_weights(self.state, series, keep=1)
        self.checkpoints.save_weights(self.state, self.run.history, keep=self.config.train.average_last)
        self._save()

    def _measure_mix(self) -> None:
        """Say what the model does on pairs of the other text."""
        if self.mix is not None:
            found = self._measure(text=self.mix)
            self.display.log(
                f"On {found.scores.sentences} held-out pairs of the other text: loss {found.loss:.3f}  "
                f"{found.scores.format(*found.scores.signatures)}."
            )

    def _measure(self, sentences: int | None = None, text: PreparedText | None = None) -> Validation:
        """A validation with so many translations."""
        text = text or self.text
        if sentences is None:
            sentences = self.config.train.valid_translations or len(text.valid_text)
        update, world = self.state.update, self.world
        with self.strategy.full_model() as model:
            validation = validate(model, text, self.config, update, self.device, sentences=sentences, world=world)
        self._means = RunningMeans()
        return validation

    def _save(self) -> None:
        self.state = replace(self.state, elapsed_s=time.monotonic() - self._began)
        self.checkpoints.save_latest(self.optimizer, self.state)
        self._saved_update, self._saved_s = self.state.update, self._elapsed_s

    def _report(self, update: UpdateMetrics) -> None:
        self._means.add(update)
        done, elapsed_s = fraction_done(self.config.train, self.state), self.state.elapsed_s
        progress = TrainProgress(
            update=self.state.update,
            epoch=self.state.epoch,
            loss=self._means.loss,
            perplexity=self._means.perplexity,
            tokens_per_s=self._means.tokens_per_s,
            learning_rate=update.rate,
            gradient_norm=update.gradient_norm,
            elapsed_s=elapsed_s,
            left_s=elapsed_s * (1 - done) / done if done > 0 else None,
            fraction_done=done,
            may_end_early=bool(self.config.train.patience) and not self.state.cooldown_to,
        )
        due = self.state.update % self.config.train.log_every == 0
        self.display.on_update(progress, due=due)
        if due:
            self._means = RunningMeans()
