"""From raw text to a validation loss: ``glassformer train`` beside Hugging Face's Seq2SeqTrainer, by the clock.

    python benchmarks/training_end_to_end.py [--src FILE --tgt FILE --valid-src FILE --valid-tgt FILE] [--size small]
                                             [--minutes 5] [--rounds 2] [--json FILE]

Both train a Transformer of the same sizes from random weights on the same pairs with the same vocabulary, norm after
each sublayer, Adam, label smoothing 0.1 and the rate 5e-4 with an inverse square root after 500 updates of warm-up;
MarianMT has the dropout that glassformer has. glassformer gathers 4,096 cells of sentences of like length for an
update, as it does by default with half as many; the trainer is given the same number of sentences an update on
average, in random order and padded to the longest, as its documentation sets it up. Without files the pairs are the
generated task phrasebook-de.

The clock of glassformer is the whole of its training: validation, translations of 200 sentences and saving included.
For the trainer it stands still while the script measures the validation loss, and nothing is saved. Each runs for the
given minutes, in turn, on all cores; printed is when each first fell below some losses, and the updates by then.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from machine import machine
from training_systems import marian

from glassformer.config import ModelConfig
from glassformer.errors import GlassformerError
from glassformer.model.evaluating import evaluating
from glassformer.run_directory import RunDirectory
from glassformer.text.batches import collate, plan_batches
from glassformer.text.encoded import EncodedPairs
from glassformer.training.display import display_for
from glassformer.training.request import TrainRequest
from glassformer.training.train import train

CELLS, UPDATES_BETWEEN, WARM_UP, RATE = 4096, 100, 500, 5e-4
LOSSES = (5.0, 4.5, 4.0, 3.5, 3.0, 2.5, 2.25, 2.0, 1.9, 1.8)
SYSTEMS = {"glassformer": "glassformer train", "hf": "Seq2SeqTrainer"}
Curve = list[tuple[float, int, float]]  # seconds, updates, nats per token


def glassformer_curve(options: argparse.Namespace, run: Path) -> Curve:
    """Validations of a whole ``glassformer train``."""
    from rich.console import Console

    names = ("src", "tgt", "valid_src", "valid_tgt")
    files = {name: str(getattr(options, name)) for name in names} if options.src else {"task": "phrasebook-de"}
    request = TrainRequest.make(
        run=run, data=files, model=options.size,
        overrides=[
            "model.norm=post", "text.tokenizer=bpe", "text.vocab_size=8000", "text.joint=true",
            f"train.batch_tokens={CELLS}", "train.schedule=inverse_sqrt", f"train.peak_rate={RATE}",
            f"train.warmup={WARM_UP}", f"train.validate_every={UPDATES_BETWEEN}", "train.patience=0",
            "train.metric=loss", "train.log_every=50", "train.max_updates=1000000",
            f"train.max_minutes={options.minutes}",
        ],
    )  # fmt: skip
    with display_for(Console(stderr=True, quiet=True)) as display:
        train(request.run, request.source, request.config, display)
    found: Curve = []
    elapsed = 0.0
    for line in (run / "metrics.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        elapsed = row.get("elapsed_s", elapsed)
        if "valid_loss" in row:
            found.append((elapsed, row["update"], row["valid_loss"]))
    return found


def hf_curve(options: argparse.Namespace, run: Path) -> Curve:
    """Validation losses of a Seq2SeqTrainer on the pairs that the run before it has prepared."""
    from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

    config, _ = RunDirectory(run).read_config()
    pairs = EncodedPairs(run / "text" / "train")
    model = marian(config.model)
    with tempfile.TemporaryDirectory() as place:
        arguments = Seq2SeqTrainingArguments(
            output_dir=place, per_device_train_batch_size=sentences_an_update(pairs), learning_rate=RATE,
            lr_scheduler_type="inverse_sqrt", warmup_steps=WARM_UP, label_smoothing_factor=0.1, adam_beta2=0.98,
            adam_epsilon=1e-9, max_steps=1_000_000, save_strategy="no", report_to=[], use_cpu=True, seed=1,
            disable_tqdm=True, logging_steps=1_000_000,
        )  # fmt: skip
        clock = _Clock(model, EncodedPairs(run / "text" / "valid"), config.model, options.minutes)
        trainer = Seq2SeqTrainer(
            model=model, args=arguments, train_dataset=_Pairs(pairs),
            data_collator=DataCollatorForSeq2Seq(_Padding(), model=model),
            callbacks=[type("Measure", (TrainerCallback,), {"on_step_end": clock.on_step_end})()],
        )  # fmt: skip
        clock.start()
        trainer.train()
    return clock.curve


def sentences_an_update(pairs: EncodedPairs) -> int:
    """How many sentences a batch of glassformer holds on average."""
    return round(
        len(pairs) / len(plan_batches(pairs.src_lengths, pairs.tgt_lengths, CELLS, seed=1, epoch=1, bucket=2))
    )


class _Pairs(torch.utils.data.Dataset[dict[str, list[int]]]):
    def __init__(self, pairs: EncodedPairs) -> None:
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return {"input_ids": self._pairs.src(index).tolist(), "labels": self._pairs.tgt(index).tolist()}


class _Padding:
    """As much of a tokenizer as the collator asks for: padding to the right with 0."""

    padding_side, pad_token_id = "right", 0

    def pad(self, features: Sequence[dict[str, list[int]]], **_: Any) -> dict[str, torch.Tensor]:
        width = max(len(row["input_ids"]) for row in features)
        ids = torch.tensor([[*row["input_ids"], *[0] * (width - len(row["input_ids"]))] for row in features])
        return {"input_ids": ids, "attention_mask": (ids != 0).long()}


class _Clock:
    """The seconds of training alone, and the validation loss each so many updates."""

    def __init__(self, model: torch.nn.Module, valid: EncodedPairs, config: ModelConfig, minutes: float) -> None:
        self._model, self._valid, self._config, self._minutes = model, valid, config, minutes
        self.curve: Curve = []
        self._spent = 0.0

    def start(self) -> None:
        self._since = time.perf_counter()

    def on_step_end(self, _: Any, state: Any, control: Any, **__: Any) -> None:
        if state.global_step % UPDATES_BETWEEN:
            return
        self._spent += time.perf_counter() - self._since
        self.curve.append((self._spent, state.global_step, self._loss()))
        control.should_training_stop = self._spent > 60 * self._minutes
        self._since = time.perf_counter()

    def _loss(self) -> float:
        total, tokens = 0.0, 0
        with evaluating(self._model), torch.no_grad():
            for places in plan_batches(self._valid.src_lengths, self._valid.tgt_lengths, CELLS, seed=0, epoch=0):
                batch = collate(self._valid, places)
                logits = self._model(
                    input_ids=batch.src_ids, attention_mask=(batch.src_ids != 0).long(),
                    decoder_input_ids=batch.tgt_in_ids,
                ).logits  # fmt: skip
                losses = torch.nn.functional.cross_entropy(
                    logits.flatten(0, 1), batch.tgt_out_ids.flatten(), ignore_index=0, reduction="sum"
                )
                total, tokens = total + float(losses), tokens + batch.target_tokens
        return total / tokens


def text_of(options: argparse.Namespace) -> str:
    """What was trained on."""
    return f"the pairs of {options.src.parent.name}" if options.src else "the generated task phrasebook-de"


def first_below(curve: Curve, loss: float) -> tuple[float, int] | None:
    """When, in seconds, and after how many updates the loss was first below."""
    return next(((seconds, update) for seconds, update, found in curve if found < loss), None)


def report(curves: dict[str, list[Curve]]) -> list[dict[str, Any]]:
    """For each loss that all reached in all rounds: seconds and updates of each system, medians, and their ratio."""
    rows = []
    for loss in LOSSES:
        reached = {name: [first_below(curve, loss) for curve in found] for name, found in curves.items()}
        if not all(all(found) for found in reached.values()):
            continue
        row: dict[str, Any] = {"loss": loss}
        for name, found in reached.items():
            row[name] = {
                "seconds": statistics.median(value[0] for value in found if value),
                "updates": statistics.median(value[1] for value in found if value),
            }
        row["ratio"] = row["hf"]["seconds"] / row["glassformer"]["seconds"]
        print(f"  loss below {loss:4.2f}   " + "   ".join(
            f"{SYSTEMS[name]} {row[name]['seconds']:6.0f} s, {row[name]['updates']:5.0f} updates" for name in curves
        ) + f"   {row['ratio']:.2f} x")  # fmt: skip
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("src", "tgt", "valid-src", "valid-tgt"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--size", choices=["tiny", "small", "base"], default="small")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--curve", nargs=2, metavar=("SYSTEM", "RUN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.curve:
        system, run = options.curve
        curve = (glassformer_curve if system == "glassformer" else hf_curve)(options, Path(run))
        print(json.dumps(curve))
        return
    curves: dict[str, list[Curve]] = {system: [] for system in SYSTEMS}
    for turn in range(options.rounds):
        with tempfile.TemporaryDirectory() as place:
            for system in SYSTEMS:
                command = [sys.executable, __file__, *sys.argv[1:], "--curve", system, f"{place}/run"]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ))
                curves[system].append(json.loads(done.stdout.splitlines()[-1]))
        print(f"round {turn + 1} of {options.rounds}", flush=True)
    rows = report(curves)
    if options.json:
        results = {"machine": machine(), "size": options.size, "text": text_of(options), "minutes": options.minutes,
                   "curves": curves,
                   "reached": rows}  # fmt: skip
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except GlassformerError as error:
        raise SystemExit(f"error: {error}") from error
