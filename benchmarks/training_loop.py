"""The share of bare training steps in the time of ``glassformer train``; data, validation and the like are the rest.

    python benchmarks/training_loop.py [--src FILE --tgt FILE --valid-src FILE --valid-tgt FILE] [--size tiny]
                                       [--epochs 1] [--json FILE]

A training as the command runs it, with default settings, is interrupted after every ten updates. While its clock is
stopped, ten bare steps (forward, loss, backward, gradient norm, Adam) of a second model of the same sizes are timed
on the batches of the training's next ten updates, which are in memory. Both so run under the same machine load.
Whole epochs are measured, with their validation, translations and saving. The first ten updates are not counted.
Without files the pairs are the generated task phrasebook-de.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine import machine, ratio
from smoke import new_parser, parse_options, write_json
from training_text import add_files, data_of, text_of

from glassformer.errors import GlassformerError
from glassformer.model import Transformer
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig
from glassformer.text.corpus.prepare import PreparedText, read_prepared
from glassformer.training.loop.optimizer import adam_step, clip_gradients, new_optimizer
from glassformer.training.loop.update import accumulate_gradients
from glassformer.training.reporting.run_log import Display, TrainProgress
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import BatchStream, UpdateBatches
from glassformer.training.train import train

STRETCH = 10  # updates between two interruptions


class Bare:
    """Steps of a second model on the batches of a training, in the same order."""

    def __init__(self, config: RunConfig, text: PreparedText, updates: int) -> None:
        stream = BatchStream(text.train, config.train, 1, 0)
        self._shares = [stream.next_update() for _ in range(updates)]
        self._settings = config.train
        self._model = Transformer(config.model).train()
        self._optimizer = new_optimizer(self._model, config.train)

    def seconds(self, first: int) -> float:
        """The seconds of ``STRETCH`` steps, beginning with update ``first``, counted from 0."""
        start = time.perf_counter()
        for share in self._shares[first : first + STRETCH]:
            self._step(share)
        return time.perf_counter() - start

    def _step(self, share: UpdateBatches) -> None:
        accumulate_gradients(self._model, share.batches, self._settings)
        clip_gradients(self._model, self._settings)
        adam_step(self._model, self._optimizer, 1e-4)


class Meter(Display):
    """The display of a training: it shows nothing, and interrupts the training to time bare steps."""

    def __init__(self, run: RunDirectory, updates: int) -> None:
        self._run, self._updates = run, updates
        self._bare: Bare | None = None
        self._since = 0.0
        self.loop: list[float] = []
        self.steps: list[float] = []

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        """After every update: at the end of a stretch, time the bare steps of the next one."""
        if progress.update % STRETCH:
            return
        now = time.perf_counter()
        if self._bare is None:
            config, _ = self._run.read_config()
            text = read_prepared(self._run.text, config.text)
            assert text is not None
            self._bare = Bare(config, text, self._updates + STRETCH)
            self._bare.seconds(0)
        elif len(self.loop) < len(self.steps):
            self.loop.append(now - self._since)
        if len(self.loop) * STRETCH < self._updates:
            self.steps.append(self._bare.seconds(progress.update))
        self._since = time.perf_counter()


def measure(options: argparse.Namespace, run: Path) -> dict[str, Any]:
    request = TrainRequest.make(
        run=run, data=data_of(options), model=options.size, overrides=["train.patience=0", *options.set]
    )
    # A training of one update tells how long an epoch is; a second training runs whole epochs.
    train(
        TrainRequest(run / "first", request.source, _until(request.config, 1)), Meter(RunDirectory(run / "first"), 0)
    )
    config, _ = RunDirectory(run / "first").read_config()
    text = read_prepared(run / "first" / "text", config.text)
    assert text is not None
    epoch = len(BatchStream(text.train, config.train, 1, 0)) // STRETCH * STRETCH
    if not epoch:
        raise SystemExit(f"found epochs of fewer than {STRETCH} updates: give more text.")
    updates = epoch * options.epochs
    meter = Meter(RunDirectory(run / "second"), updates)
    settings = replace(request.config.train, validate_every=epoch, max_updates=updates + 2 * STRETCH)
    train(TrainRequest(run / "second", request.source, replace(request.config, train=settings)), meter)
    return {
        "machine": machine(), "size": options.size, "text": text_of(options),
        "updates": updates, "validations": options.epochs, "loop_s": sum(meter.loop), "steps_s": sum(meter.steps),
        "share": sum(meter.steps) / sum(meter.loop),
        "without_validations": without_validations(meter.loop, meter.steps, epoch),
    }  # fmt: skip


def without_validations(loop: Sequence[float], steps: Sequence[float], epoch: int) -> dict[str, float]:
    """The same share over the stretches without a validation."""
    plain = [at for at in range(len(loop)) if (at + 1) % (epoch // STRETCH)]
    return ratio([loop[at] for at in plain], [steps[at] for at in plain])


def _until(config: RunConfig, updates: int) -> RunConfig:
    return replace(config, train=replace(config.train, max_updates=updates))


def main() -> None:
    parser = new_parser(__doc__)
    add_files(parser)
    parser.add_argument("--size", choices=["tiny", "small", "base"], default="tiny")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="of the training")
    options = parse_options(
        parser,
        "--src {data}/multi30k/train.en.gz --tgt {data}/multi30k/train.de.gz --valid-src {data}/multi30k/val.en.gz "
        "--valid-tgt {data}/multi30k/val.de.gz --set decode.max_length_a=0 --set decode.max_length_b=4 "
        "--set text.vocab_size=1000 --set model.n_encoder_layers=1 --set model.n_decoder_layers=1",
        files=[f"multi30k/{part}.{side}.gz" for part in ("train", "val") for side in ("en", "de")],
    )
    with tempfile.TemporaryDirectory() as place:
        results = measure(options, Path(place))
    print(
        f"{options.size}: {results['updates']} updates and {results['validations']} validations in "
        f"{results['loop_s']:.0f} s, their bare steps in {results['steps_s']:.0f} s: "
        f"{100 * results['share']:.1f} %; between validations {100 * results['without_validations']['median']:.1f} %"
    )
    write_json(options.json, results)


if __name__ == "__main__":
    try:
        main()
    except GlassformerError as error:
        raise SystemExit(f"error: {error}") from error
