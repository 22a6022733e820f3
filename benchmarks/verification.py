"""How many steps of a trace can be recomputed: over a grid of models and searches, and for a trained run.

    python benchmarks/verification.py [--run DIR] [--json FILE]

The grid is norm x positions x activation x two bundles of the other choices (tying, biases, d_v, embedding scale),
each with one of the five kinds of tokenizers, in turn; and for each a forced pass of the three sentences of the shape
walkthrough, and their generation by each search (greedy, beam and sampling, with and without a cache). With ``--run``
ten English sentences go through a trained model: teacher forcing, beam search with and without a cache, sampling, and
one training step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import torch
from machine import machine
from smoke import new_parser, parse_options, write_json

from glassformer.decoding import Translator
from glassformer.explain.verify import Verification, audit_operations, verify_walk
from glassformer.explain.walk import Walk
from glassformer.explain.walks import walk, walk_generation, walk_training
from glassformer.model import Transformer
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text import Tokenizer

SOURCES = ["I love you", "I am in love with you", "I love you, too"]
TARGETS = ["Ich liebe dich", "Ich bin in dich verliebt", "Ich liebe dich auch sehr, ja"]
KINDS = {"bpe": 280, "wordpiece": 60, "unigram": 60, "words": 60, "characters": 60}
BUNDLES: dict[str, dict[str, Any]] = {
    "tied, as in the paper": {"tie_embeddings": "all"},
    "untied, biased, unscaled, d_v ≠ d_k": {
        "tie_embeddings": "none", "attention_bias": True, "output_bias": True, "d_v": 7, "scale_embedding": False,
    },
}  # fmt: skip
SEARCHES = [
    DecodeConfig(beam=beam, sample=sample, top_k=5 if sample else 0, cache=cache, max_length_a=0, max_length_b=4)
    for (beam, sample), cache in product(((1, False), (3, False), (1, True)), (True, False))
]
TEN = [
    "I love you.", "A dog is running in the park.", "Where is the station?", "She reads a book every evening.",
    "The children are playing outside.", "Can you help me, please?", "We have no time today.",
    "He bought a new car last week.", "It is raining again.", "Tom does not speak German.",
]  # fmt: skip


@dataclass
class Sum:
    """The sum of several verifications."""

    walks: int = 0
    checked: int = 0
    reproduced: int = 0
    exact: int = 0
    given: int = 0
    largest_error: float = 0.0
    operations: int = 0
    accounted: int = 0

    def add(self, found: Verification) -> None:
        """Add one verification."""
        self.walks += 1
        self.checked += found.n_recomputed
        self.reproduced += found.n_reproduced
        self.exact += found.count("exact")
        self.given += found.count("given")
        self.largest_error = max(self.largest_error, found.largest_error)

    def __str__(self) -> str:
        steps = f"{self.walks:,} walks, {self.checked:,} steps recomputed, {self.reproduced:,} reproduced"
        sizes = f"{self.exact:,} of them bit for bit, largest error {self.largest_error:.1e}; {self.given:,} given"
        return f"{steps}, {sizes}; {self.operations:,} operations, {self.accounted:,} stated"


def add_forced(total: Sum, translator: Translator, sources: Sequence[str], targets: Sequence[str] | None) -> Walk:
    walked = walk(translator, sources, targets)
    total.add(verify_walk(walked, translator.model))
    found = audit_operations(translator.model, walked.sentences.batch.src_ids, walked.sentences.batch.tgt_in_ids)
    total.operations += found.n_operations
    total.accounted += found.n_accounted
    return walked


def grid_models(tokenizers: Sequence[Tokenizer]) -> Iterator[tuple[Tokenizer, Transformer]]:
    """A small model for each combination of choices, with all weights moved away from their initial values.

    Each has one of the tokenizers, in turn.
    """
    choices = ("norm", "positions", "activation")
    sizes: dict[str, Any] = {
        "d_model": 26, "n_heads": 3, "d_k": 10, "d_ff": 31, "n_encoder_layers": 2, "n_decoder_layers": 2,
        "max_length": 200, "relative_clip": 2,
    }  # fmt: skip
    cells = product(*map(ModelConfig.choices, choices), BUNDLES.values())
    for (*values, bundle), tokenizer in zip(cells, cycle(tokenizers)):
        chosen = dict(zip(choices, values, strict=True))
        vocab = {"src_vocab": tokenizer.size, "tgt_vocab": tokenizer.size}
        model = Transformer(ModelConfig(**{**sizes, **vocab, **chosen, **bundle})).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
        yield tokenizer, model


def verify_grid(kinds: Sequence[str]) -> Sum:
    total = Sum()
    tokenizers = [Tokenizer.train(kind, [*SOURCES, *TARGETS], KINDS[kind]) for kind in kinds]
    for tokenizer, model in grid_models(tokenizers):
        translator = Translator(model, tokenizer, tokenizer, DecodeConfig())
        add_forced(total, translator, SOURCES, TARGETS)
        for options in SEARCHES:
            total.add(verify_walk(walk_generation(translator, SOURCES, options), translator.model))
    return total


def verify_run(path: Path) -> dict[str, Sum]:
    run = RunDirectory(path).load("cpu")
    translator = Translator(run.model, run.src_tokenizer, run.tgt_tokenizer, run.config.decode)
    sums = {name: Sum() for name in ("forced", "beam 4, cached", "beam 4, not cached", "sampling", "training step")}
    targets = list(add_forced(sums["forced"], translator, TEN, None).sentences.targets)
    for name, options in (
        ("beam 4, cached", DecodeConfig(beam=4)),
        ("beam 4, not cached", DecodeConfig(beam=4, cache=False)),
        ("sampling", DecodeConfig(sample=True, top_p=0.9, seed=3)),
    ):
        sums[name].add(verify_walk(walk_generation(translator, TEN, options), translator.model))
    step = walk_training(translator, TEN, targets, run.config.train, run=path)
    sums["training step"].add(verify_walk(step, translator.model))
    return sums


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument(
        "--run", type=Path, metavar="DIR", help="also ten sentences through this trained English model"
    )
    parser.add_argument("--tokenizers", nargs="+", choices=KINDS, default=list(KINDS), help="of the grid")
    options = parse_options(parser, "--tokenizers characters")
    torch.manual_seed(1)
    results: dict[str, Any] = {"machine": machine()}
    if options.run:
        for name, total in verify_run(options.run).items():
            print(f"{name}: {total}", flush=True)
            results[name] = vars(total)
    total = verify_grid(options.tokenizers)
    print(f"grid: {total}")
    results["grid"] = vars(total)
    write_json(options.json, results)


if __name__ == "__main__":
    main()
