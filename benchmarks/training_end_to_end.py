"""Time from prepared text to a validation loss: ``glassformer train``, HF's Seq2SeqTrainer, JoeyNMT, Marian.

    python benchmarks/training_end_to_end.py [--src FILE --tgt FILE --valid-src FILE --valid-tgt FILE] [--size small]
                                             [--minutes 5] [--every 100] [--rounds 1] [--systems glassformer marian]
                                             [--json FILE]

All train a Transformer of the same sizes from random weights on the same pairs with the same vocabulary: norm after
each sublayer, Adam, label smoothing 0.1, peak rate 1e-3 with an inverse square root schedule after 200 warm-up
updates. All apply dropout where glassformer does; JoeyNMT also inside attention and feed-forward, as its
configuration has it. glassformer collects 4,096 cells of sentences of similar length for an update (its default is
half as many); JoeyNMT as many cells of sentences in random order; the Seq2SeqTrainer has the same average number of
sentences per update, in random order and padded to the longest; Marian as many source words, of sentences of similar
length (``--maxi-batch-sort``): each as its documentation sets it up. Without files
the pairs are the generated task phrasebook-de.

The clock starts when the text has been read and encoded. For glassformer it includes validation, translations of 200
sentences and saving. For the others it stops while the script measures the validation loss, and nothing is saved.
Each runs for the given minutes, in turn, on all cores that the script may use (``taskset -c 1`` leaves one). The
output is when each first fell below some losses, and after how many updates. A system that is not installed is
skipped: ``pip install '.[bench]' pymarian``; install JoeyNMT with --no-deps and add what is missing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from machine import machine
from marian_process import MarianTraining, as_words, curve_of, write_vocabulary
from smoke import new_parser, parse_options, write_json
from training_systems import joeynmt_sizes, marian
from training_text import add_files, data_of, text_of

from glassformer.errors import GlassformerError
from glassformer.model.inference import evaluating
from glassformer.run_directory import RunDirectory
from glassformer.settings import ModelConfig
from glassformer.text.corpus.batches import Batch, collate, plan_batches
from glassformer.text.corpus.dataset import EncodedPairs
from glassformer.training.reporting.display import open_display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.train import train

CELLS, WARM_UP, RATE = 4096, 200, 1e-3
LOSSES = (7.0, 6.5, 6.0, 5.5, 5.0, 4.5, 4.0, 3.5, 3.0, 2.5, 2.25, 2.0, 1.9, 1.8)
SYSTEMS = {"glassformer": "glassformer train", "hf": "Seq2SeqTrainer", "joeynmt": "JoeyNMT", "marian": "Marian"}
MODULES = {"hf": "transformers", "joeynmt": "joeynmt", "marian": "pymarian"}
Curve = list[tuple[float, int, float]]  # seconds, updates, nats per token


def glassformer_curve(options: argparse.Namespace, run: Path) -> Curve:
    """Validation losses of a whole ``glassformer train``."""
    from rich.console import Console

    request = TrainRequest.make(
        run=run, data=data_of(options), model=options.size,
        overrides=[
            "model.norm=post", "text.tokenizer=bpe", "text.vocab_size=8000", "text.joint=true",
            f"train.batch_tokens={CELLS}", "train.schedule=inverse_sqrt", f"train.peak_rate={RATE}",
            f"train.warmup={WARM_UP}", f"train.validate_every={options.every}", "train.patience=0",
            "train.metric=loss", f"train.log_every={options.every}", "train.max_updates=1000000",
            f"train.max_minutes={options.minutes}", "train.cooldown=0",
        ],
    )  # fmt: skip
    with open_display(Console(stderr=True, quiet=True)) as display:
        train(request, display)
    found: Curve = []
    elapsed = 0.0
    for line in (run / "metrics.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        elapsed = row.get("elapsed_s", elapsed)
        if "valid_loss" in row:
            found.append((elapsed, row["update"], row["valid_loss"]))
    return found


def hf_curve(options: argparse.Namespace, run: Path) -> Curve:
    """Validation losses of a Seq2SeqTrainer on the pairs that glassformer's run prepared."""
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
        clock = Clock(valid_loss(model, hf_logits, RunDirectory(run)), options)

        def on_step_end(_: Any, __: Any, state: Any, control: Any, **___: Any) -> None:
            control.should_training_stop = clock.is_over_after(state.global_step)

        trainer = Seq2SeqTrainer(
            model=model, args=arguments, train_dataset=_Pairs(pairs),
            data_collator=DataCollatorForSeq2Seq(_Padding(), model=model),
            callbacks=[type("Measure", (TrainerCallback,), {"on_step_end": on_step_end})()],
        )  # fmt: skip
        clock.start()
        trainer.train()
    return clock.curve


def sentences_an_update(pairs: EncodedPairs) -> int:
    """The average number of sentences in a batch of glassformer."""
    return round(
        len(pairs)
        / len(plan_batches(pairs.src_side.lengths, pairs.tgt_side.lengths, CELLS, seed=1, epoch=1, bucket=2))
    )


class _Pairs(torch.utils.data.Dataset[dict[str, list[int]]]):
    def __init__(self, pairs: EncodedPairs) -> None:
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return {
            "input_ids": self._pairs.src_side.ids(index).tolist(),
            "labels": self._pairs.tgt_side.ids(index).tolist(),
        }


class _Padding:
    """The part of a tokenizer that the collator uses: padding on the right with 0."""

    padding_side, pad_token_id = "right", 0

    def pad(self, features: Sequence[dict[str, list[int]]], **_: Any) -> dict[str, torch.Tensor]:
        width = max(len(row["input_ids"]) for row in features)
        ids = torch.tensor([[*row["input_ids"], *[0] * (width - len(row["input_ids"]))] for row in features])
        return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def joeynmt_curve(options: argparse.Namespace, run: Path) -> Curve:
    """Validation losses of JoeyNMT's training on the same pairs; it reads our tokens as words."""
    from joeynmt.config import parse_global_args
    from joeynmt.prediction import prepare
    from joeynmt.training import TrainManager

    directory = RunDirectory(run)
    config, _ = directory.read_config()
    with tempfile.TemporaryDirectory() as place:
        arguments = parse_global_args(
            joeynmt_settings(config.model, directory, Path(place), options.every), mode="train"
        )
        model, train_data, valid_data, _ = prepare(arguments, rank=0, mode="train")
        manager = TrainManager(
            model=model, rank=0, model_dir=arguments.model_dir, device=arguments.device, autocast=arguments.autocast,
            seed=1, train_args=arguments.train, dev_args=arguments.test,
        )  # fmt: skip
        clock = Clock(valid_loss(model, joeynmt_log_probs, directory), options)

        def validate(_: Any) -> None:
            manager.stats.is_max_update = clock.is_over_after(manager.stats.steps)

        manager._validate = validate  # its own validation also translates and saves
        clock.start()
        manager.train_and_validate(train_data=train_data, valid_data=valid_data)
    return clock.curve


def joeynmt_settings(config: ModelConfig, run: RunDirectory, place: Path, every: int) -> dict[str, Any]:
    """The contents of its configuration file; the texts are written to ``place``."""
    write_texts(run, place)
    words = "".join(f"t{token}\n" for token in range(config.eos_id + 1, config.src_vocab))
    (place / "words").write_text(words, encoding="utf-8")
    side: dict[str, Any] = {"level": "word", "voc_file": str(place / "words")}
    return {
        "name": "end to end", "model_dir": str(place), "use_cuda": False,
        "data": {"train": str(place / "train"), "dev": str(place / "valid"), "dataset_type": "plain",
                 "src": {"lang": "src", **side}, "trg": {"lang": "trg", **side}},
        "testing": {},
        "training": {
            "optimizer": "adam", "adam_betas": [0.9, 0.98], "learning_rate": RATE, "learning_rate_min": 1e-9,
            "learning_rate_warmup": WARM_UP, "scheduling": "warmupinversesquareroot", "label_smoothing": 0.1,
            "batch_size": CELLS, "batch_type": "token", "normalization": "tokens", "epochs": 1_000_000,
            "logging_freq": every, "validation_freq": every, "shuffle": True,
        },
        "model": joeynmt_sizes(config),
    }  # fmt: skip


def write_texts(run: RunDirectory, place: Path) -> None:
    """The pairs of a run as words: train.src, train.trg, valid.src and valid.trg."""
    for split in ("train", "valid"):
        pairs = EncodedPairs(run.text / split)
        for name, side in (("src", pairs.src_side), ("trg", pairs.tgt_side)):
            with (place / f"{split}.{name}").open("w", encoding="utf-8") as stream:
                stream.writelines(as_words(side.ids(i).tolist() for i in range(len(pairs))))


def marian_curve(options: argparse.Namespace, run: Path) -> Curve:
    """Validation losses of ``pymarian train`` on the same pairs."""
    directory = RunDirectory(run)
    config, _ = directory.read_config()
    pairs = EncodedPairs(directory.text / "train")
    words = round(sentences_an_update(pairs) * float(pairs.src_side.lengths.mean()))
    settings = (
        f"--mini-batch-words {words} --learn-rate {RATE} --lr-warmup {WARM_UP} --lr-decay-inv-sqrt {WARM_UP} "
        f"--disp-freq {options.every}u --valid-freq {options.every}u --valid-metrics ce-mean-words "
        "--early-stopping 1000000"
    )
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_texts(directory, place)
        write_vocabulary(place / "words.yml", config.model.src_vocab)
        valid = [str(place / f"valid.{side}") for side in ("src", "trg")]
        training = MarianTraining(config.model, place, *settings.split(), "--valid-sets", *valid)
        return curve_of(training, options.minutes)


def hf_logits(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """The logits (batch tgt vocab)."""
    mask = (batch.src_ids != 0).long()
    return model(  # type: ignore[no-any-return]  # Module.__call__ is untyped
        input_ids=batch.src_ids, attention_mask=mask, decoder_input_ids=batch.tgt_in_ids
    ).logits


def joeynmt_log_probs(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """The log-probabilities (batch tgt vocab) under our ids; JoeyNMT's own begin with one for unknown words."""
    src, trg_in, trg = (ids + 1 for ids in (batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids))
    src_mask, trg_mask = ((ids != 1)[:, None] for ids in (src, trg_in))
    _, log_probs, _, _ = model(
        return_type="loss", src=src, trg_input=trg_in, trg=trg, src_mask=src_mask, trg_mask=trg_mask,
        src_length=src_mask.sum(-1).flatten(),
    )  # fmt: skip
    return log_probs[..., 1:]  # type: ignore[no-any-return]


def valid_loss(
    model: torch.nn.Module, logits_of: Callable[[torch.nn.Module, Batch], torch.Tensor], run: RunDirectory
) -> Callable[[], float]:
    """A function that computes the mean negative log-likelihood of the validation pairs, in nats per token."""
    pairs = EncodedPairs(run.text / "valid")
    plan = plan_batches(pairs.src_side.lengths, pairs.tgt_side.lengths, CELLS, seed=0, epoch=0)

    def measure() -> float:
        total, tokens = 0.0, 0
        with evaluating(model), torch.no_grad():
            for places in plan:
                batch = collate(pairs, places)
                logits = logits_of(model, batch).flatten(0, 1)
                targets = batch.tgt_out_ids.flatten()
                total += float(
                    torch.nn.functional.cross_entropy(logits, targets.long(), ignore_index=0, reduction="sum")
                )
                tokens += batch.target_tokens
        return total / tokens

    return measure


class Clock:
    """Counts the seconds of training alone, and measures the validation loss every ``--every`` updates."""

    def __init__(self, loss: Callable[[], float], options: argparse.Namespace) -> None:
        self._loss, self._minutes, self._every = loss, options.minutes, options.every
        self.curve: Curve = []
        self._spent = 0.0

    def start(self) -> None:
        """Start the clock."""
        self._since = time.perf_counter()

    def is_over_after(self, update: int) -> bool:
        """Whether the time is up; measures the loss if it is due."""
        if update % self._every:
            return False
        self._spent += time.perf_counter() - self._since
        self.curve.append((self._spent, update, self._loss()))
        self._since = time.perf_counter()
        return bool(self._spent > 60 * self._minutes)


def first_below(curve: Curve, loss: float) -> tuple[float, int] | None:
    """After how many seconds and updates the validation loss was first below ``loss``; None if never."""
    return next(((seconds, update) for seconds, update, found in curve if found < loss), None)


def report(curves: dict[str, list[Curve]]) -> list[dict[str, Any]]:
    """For each loss that all systems reached in all rounds: median seconds and updates of each, and ratios."""
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
        row["ratios"] = {
            name: row[name]["seconds"] / row["glassformer"]["seconds"] for name in curves if name != "glassformer"
        }
        print(f"  loss below {loss:4.2f}   " + "   ".join(
            f"{SYSTEMS[name]} {row[name]['seconds']:6.0f} s, {row[name]['updates']:5.0f} updates"
            + (f", {row['ratios'][name]:.2f} x" if name in row["ratios"] else "") for name in curves
        ))  # fmt: skip
        rows.append(row)
    return rows


def main() -> None:
    parser = new_parser(__doc__)
    add_files(parser)
    parser.add_argument("--size", choices=["micro", "tiny", "small", "base"], default="small")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--every", type=int, default=100, help="updates between validations")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--systems", nargs="+", choices=[*SYSTEMS], default=[*SYSTEMS])
    parser.add_argument("--curve", nargs=2, metavar=("SYSTEM", "RUN"), help=argparse.SUPPRESS)
    options = parse_options(parser, "--size tiny --minutes 0.02 --every 2")
    if options.curve:
        system, run = options.curve
        arms = {"glassformer": glassformer_curve, "hf": hf_curve, "joeynmt": joeynmt_curve, "marian": marian_curve}
        print(json.dumps(arms[system](options, Path(run))))
        return
    asked = ["glassformer", *(name for name in options.systems if name != "glassformer")]  # it prepares the text
    systems = [name for name in asked if name not in MODULES or find_spec(MODULES[name])]
    for name in set(asked) - set(systems):
        print(f"{SYSTEMS[name]} is not installed and is skipped.")
    curves: dict[str, list[Curve]] = {system: [] for system in systems}
    for turn in range(options.rounds):
        with tempfile.TemporaryDirectory() as place:
            for system in systems:
                command = [sys.executable, __file__, *sys.argv[1:], "--curve", system, f"{place}/run"]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ))
                curves[system].append(json.loads(done.stdout.splitlines()[-1]))
        print(f"round {turn + 1} of {options.rounds}", flush=True)
    rows = report(curves)
    if options.json:
        results = {
            "machine": machine(), "size": options.size, "text": text_of(options), "minutes": options.minutes,
            "warmup": WARM_UP, "curves": curves, "reached": rows,
        }  # fmt: skip
        write_json(options.json, results)


if __name__ == "__main__":
    try:
        main()
    except GlassformerError as error:
        raise SystemExit(f"error: {error}") from error
