"""How translation grows: speed by batch, beam, source length and vocabulary; the cache; memory over a long input.

    python benchmarks/decoding_growth.py [--model small] [--precision float32] [--workers 1] [--texts 64] [--rounds 3]
                                         [--sentences 100000] [--json FILE] [--plot FILE]

Weights are random and eos is banned, so that every output has 16 tokens (5 in the long input). Texts are ids, and so
is what comes back. One thing varies at a time; the others stay at a batch of 32, greedy search, 14 source tokens and
a vocabulary of 10,000. Points are visited by turns, round after round; printed are medians and quartiles of sentences
a second.

The cache's bytes for a token are stated from the shapes, and measured on the tensors after some steps. Over the long
input, which ``translate_stream`` reads, the memory that the process and its children hold is sampled after each
chunk; its slope is a least-squares line through the second half. --plot wants matplotlib.
"""

import argparse
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from decoding_models import FORCED, SHAPES, IdTokenizer, forced_model
from decoding_systems import glassformer_translator
from machine import machine, spread
from smoke import new_parser, parse_options, write_json

from glassformer.settings import DecodeConfig, ModelConfig

CHUNK, SHORT, SAMPLES_KEPT = 1000, 5, 60
AXES: dict[str, tuple[int, ...]] = {
    "batch": (1, 2, 4, 8, 16, 32, 64, 128, 256), "beam": (1, 2, 4, 5, 8, 16), "source": (4, 8, 16, 32, 64, 128, 256),
    "vocabulary": (1_000, 4_000, 10_000, 32_000, 64_000),
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """What is translated: sentences of a batch, hypotheses, source tokens with eos, entries of the vocabulary."""

    batch: int = 32
    beam: int = 1
    source: int = 14
    vocabulary: int = 10_000

    def decoding(self) -> DecodeConfig:
        """The options with which batches have just that many sentences."""
        tokens = self.batch * self.beam * self.source
        return DecodeConfig(beam=self.beam, length_penalty=0.0, max_length_a=0.0, max_length_b=FORCED,
                            batch_tokens=tokens)  # fmt: skip


def texts_of(count: int, tokens: int, vocabulary: int, seed: int = 1) -> Iterator[str]:
    """Random ids, without the eos that the Translator adds."""
    draw, tokenizer = random.Random(seed), IdTokenizer(vocabulary)
    for _ in range(count):
        yield tokenizer.to_text(draw.randrange(4, vocabulary) for _ in range(tokens - 1))


def with_vocabulary(name: str, vocabulary: int) -> ModelConfig:
    return replace(SHAPES[name], src_vocab=vocabulary, tgt_vocab=vocabulary)


def growth(options: argparse.Namespace) -> dict[str, Any]:
    """Sentences a second at each point of each axis."""
    points = {axis: [replace(Point(), **{axis: value}) for value in AXES[axis]] for axis in options.axes}
    translators: dict[int, Any] = {}
    seconds: dict[Point, list[float]] = {point: [] for row in points.values() for point in row}
    for round_ in range(options.rounds + 1):
        for point, spent in seconds.items():
            if point.vocabulary not in translators:
                model = forced_model(with_vocabulary(options.model, point.vocabulary))
                translators[point.vocabulary] = glassformer_translator(model, options.precision, options.workers)
            texts = list(texts_of(max(options.texts, point.batch), point.source, point.vocabulary))
            start = time.perf_counter()
            translators[point.vocabulary].translate(texts, point.decoding())
            if round_:  # the first one warms up
                spent.append((time.perf_counter() - start) / len(texts))
    for translator in translators.values():
        translator.close()
    found: dict[str, Any] = {}
    for axis, row in points.items():
        print(f"\n{axis:12} sentences/s")
        found[axis] = {}
        for point in row:
            speed = spread([1 / value for value in seconds[point]])
            found[axis][getattr(point, axis)] = speed
            around = f"{speed['lower_quartile']:.1f} to {speed['upper_quartile']:.1f}"
            print(f"{getattr(point, axis):12} {speed['median']:10.1f}   {around}")
    return found


@torch.no_grad()
def cache_bytes(name: str, rows: int = 4, source: int = 14, steps: int = 24) -> dict[str, float]:
    """Bytes for each token of one hypothesis: stated from the shapes, and of the tensors that the cache holds."""
    config = SHAPES[name]
    model = forced_model(config)
    memory, mask = model.encode(torch.randint(4, config.src_vocab, (rows, source)))
    cache = model.new_cache()
    for _ in range(steps):
        model.decode(torch.randint(4, config.tgt_vocab, (rows, 1)), memory, mask, cache)
    held = {"target": 0, "source": 0}
    for layer in cache.layers:
        held["target"] += layer.autoregressive.k.nbytes + layer.autoregressive.v.nbytes
        held["source"] += layer.cross_attention.k.nbytes + layer.cross_attention.v.nbytes
    found = {
        "stated, each target token and each source token": 4 * config.n_decoder_layers
        * (config.heads_d_k + config.heads_d_v),
        "measured, each target token": held["target"] / rows / steps,
        "measured, each source token": held["source"] / rows / source,
    }  # fmt: skip
    print(f"\ncache of {name} in float32, bytes of one hypothesis")
    for label, value in found.items():
        print(f"  {label:50} {value:10.1f}")
    return found


def long_input(options: argparse.Namespace) -> dict[str, Any]:
    """Short sentences without end: speed, and memory after each thousand."""
    model = forced_model(with_vocabulary(options.model, 10_000))
    translator = glassformer_translator(model, options.precision, options.workers)
    decoding = DecodeConfig(beam=1, max_length_a=0.0, max_length_b=SHORT)
    samples: list[tuple[float, float]] = []
    start = time.perf_counter()
    for done, _ in enumerate(translator.translate_stream(texts_of(options.sentences, 6, 10_000), decoding), 1):
        if done % CHUNK == 0 or done == options.sentences:
            samples.append((done, resident_mib()))
    spent = time.perf_counter() - start
    translator.close()
    speed = {"sentences": options.sentences, "sentences_per_s": options.sentences / spent}
    result = {**speed, **summarise(samples, "mib_per_100000_sentences", 1e5)}
    print(f"\n{options.sentences} sentences, {result['sentences_per_s']:.0f} a second; memory after the first "
          f"{samples[0][0]}: {result['first_mib']:.0f} MiB, at the end {result['last_mib']:.0f}, at most "
          f"{result['most_mib']:.0f}; {result['mib_per_100000_sentences']:+.1f} MiB for 100,000 more")  # fmt: skip
    return result


def summarise(samples: list[tuple[float, float]], name: str, unit: float) -> dict[str, Any]:
    """The first and the last sample, the highest, and the slope of the second half."""
    later = samples[len(samples) // 2 :]
    return {
        "first_mib": samples[0][1], "middle_mib": later[0][1], "last_mib": samples[-1][1],
        "most_mib": max(mib for _, mib in samples), name: unit * slope(later),
        "samples": samples[:: max(1, len(samples) // SAMPLES_KEPT)],
    }  # fmt: skip


def resident_mib() -> float:
    """Memory that this process and its children hold now, in MiB; pages that they share count for each."""
    children = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
    pages = 0
    for process in ["self", *(child for row in children for child in row)]:
        status = Path(f"/proc/{process}/statm")
        pages += int(status.read_text().split()[1]) if status.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def slope(points: list[tuple[float, float]]) -> float:
    """Of the least-squares line; 0 through one point."""
    x_mean, y_mean = (sum(values) / len(points) for values in zip(*points, strict=True))
    below = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / below if below else 0.0


def plot(found: dict[str, Any], path: Path, title: str) -> None:
    """One panel for each axis, both scales logarithmic, quartiles shaded."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("\nno plot: matplotlib is not here. Install it: pip install matplotlib")
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(found), figsize=(3.6 * len(found), 3.4), sharey=True, squeeze=False)
    for panel, (axis, row) in zip(panels[0], found.items(), strict=True):
        values = list(row)
        panel.plot(values, [row[value]["median"] for value in values], marker="o")
        quartiles = [[row[value][which] for value in values] for which in ("lower_quartile", "upper_quartile")]
        panel.fill_between(values, *quartiles, alpha=0.25)
        panel.set(xscale="log", yscale="log", xlabel=axis)
        panel.grid(visible=True, alpha=0.3)
    panels[0][0].set_ylabel("sentences a second")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"\n{path}")


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--model", choices=list(SHAPES), default="small")
    parser.add_argument("--precision", default="float32", help="of the Translator")
    parser.add_argument("--workers", type=int, default=1, help="of the Translator")
    parser.add_argument("--texts", type=int, default=64, help="translated at each point; at least one batch")
    parser.add_argument("--rounds", type=int, default=3, help="at least 2")
    parser.add_argument("--axes", nargs="*", choices=list(AXES), default=list(AXES))
    parser.add_argument("--sentences", type=int, default=100_000, help="of the long input; 0 leaves it out")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="such as growth.png")
    options = parse_options(
        parser, "--model small --texts 2 --rounds 2 --axes source --sentences 1000 --plot {scratch}/growth.png"
    )
    if options.rounds < 2:
        parser.error(f"--rounds: found {options.rounds}, expected at least 2, for a spread.")
    title = f"{options.model}, {options.precision}, {options.workers} worker(s)"
    results: dict[str, Any] = {"machine": machine(), "measured": title}
    for key, value in results["machine"].items():
        print(f"{key:12} {value}")
    results["sentences_per_s"] = growth(options)
    results["cache_bytes_per_token"] = cache_bytes(options.model)
    if options.sentences:
        results["long_input"] = long_input(options)
    write_json(options.json, results)
    if options.plot and options.axes:
        plot(results["sentences_per_s"], options.plot, title)


if __name__ == "__main__":
    main()
