"""What training costs, as sections of the page of speed, from the results of the benchmarks."""

from collections.abc import Callable, Iterator
from typing import Any

from reference.gpu import gpu_section
from reference.markdown import code, table
from reference.measurements import interval, read, versions
from reference.pictures import picture

SYSTEMS = {
    "glassformer": "glassformer", "torch": "nn.Transformer", "hf": "MarianMT", "x-transformers": "x-transformers",
    "joeynmt": "JoeyNMT", "eole": "Eole",
}  # fmt: skip
FIRST = "small, float32, dropout 0.1"


def training_sections() -> Iterator[str]:
    yield "## Training"
    yield picture("training", "Target tokens a second of a training step in six toolkits")
    yield from _steps()
    yield from _whole_trainings()
    yield from _busy_cores()
    yield from _large_corpus()
    yield from gpu_section("training", "tokens/s")
    yield from _paper()


def over_the_fastest(column: dict[str, Any] | None = None) -> dict[str, float]:
    """The ratio to the fastest of the others, in the column that is quoted most if none is named."""
    column = column or read("training.json")["columns"][FIRST]
    ratios: dict[str, dict[str, float]] = column["ratios"]
    return min(ratios.values(), key=lambda row: row["median"])


def _steps() -> Iterator[str]:
    found = read("training.json")
    columns = {**found["columns"], **read("training_bf16.json")["columns"]}
    yield (
        f"`benchmarks/training.py`; {versions(found['versions'])}; 3 to 5 rounds. A step is forward, smoothed loss, "
        "backward and a fused Adam, on the same batches of about 1,660 target tokens, vocabulary 10,000, norm after "
        "each sublayer. Eole has norm before each sublayer. nn.Transformer and x-transformers also apply dropout to "
        "attention weights: compare them without dropout. The columns of bf16 were measured on an Intel Xeon with "
        "AMX, with autocast. All of it is of the step before it ran without padding; it was not measured again."
    )
    yield table(["target tokens a second", *columns], [
        *([title, *(_speed(column, name) for column in columns.values())] for name, title in SYSTEMS.items()),
        _row("glassformer / the fastest other", columns, lambda column: interval(over_the_fastest(column))),
        _row("share of the machine's matrix products", columns, _share),
    ])  # fmt: skip
    yield (
        "The share divides the multiply-adds of forward and backward by those of a matrix product of the "
        "feed-forward network's size in the same run. We aim at 80 % of it, and at 1.3 times the fastest other."
    )


def _speed(column: dict[str, Any], name: str) -> str:
    found = column["tokens_per_s"].get(name)
    return f"{found['median']:,.0f}" if found else ""


def _share(column: dict[str, Any]) -> str:
    return f"{100 * column['share_of_ceiling']['glassformer']:.0f} %"


def _row(title: str, columns: dict[str, Any], cell: Callable[[dict[str, Any]], str]) -> list[str]:
    return [title, *map(cell, columns.values())]


def _whole_trainings() -> Iterator[str]:
    loop, found = read("training_loop.json"), read("training_end_to_end.json")
    names = {"glassformer": "glassformer train", "hf": "Seq2SeqTrainer", "joeynmt": "JoeyNMT"}
    yield "### A whole training"
    yield (
        f"`benchmarks/training_loop.py`: `tiny` on Multi30k for {loop['updates']} updates, with validation and "
        f"saving once an epoch. The steps alone take {100 * loop['share']:.1f} % of the time."
    )
    yield (
        "`benchmarks/training_end_to_end.py`: the same from prepared text until the validation loss (nats a token) "
        "is first below a value, one round, measured every 25 updates. The others' time is that of their updates "
        f"only. The warm-up has {found['warmup']} updates: this shows how fast each starts to learn, not how good it "
        "becomes."
    )
    yield table(["loss below", *names.values()], (
        [f"{row['loss']:g}", *(_time_to_reach(row, name) for name in names)] for row in found["reached"]
    ))  # fmt: skip


def _time_to_reach(row: dict[str, Any], name: str) -> str:
    ratio = f", {row['ratios'][name]:.1f} times as long" if name in row["ratios"] else ""
    return f"{row[name]['seconds']:.0f} s, {row[name]['updates']:,.0f} updates{ratio}"


def _busy_cores() -> Iterator[str]:
    found = read("busy_cores.json")
    yield "### While other programs keep cores busy"
    yield (
        f"`benchmarks/busy_cores.py`: target tokens a second of `glassformer train` ({code(found['size'])}) beside "
        f"so many endless loops, {found['rounds']} rounds. [How the number of threads is "
        "chosen](training.md#how-many-threads)."
    )
    rows = (
        [count, *(f"{each['median']:,.0f}" for each in row["tokens_per_s"].values()), f"{row['auto_of_best']:.2f}"]
        for count, row in found["busy"].items()
    )
    yield table(["busy cores", "a thread for each core", "one thread", "`auto`", "`auto` / the best"], rows)


def _large_corpus() -> Iterator[str]:
    results = read("large_corpus.json")["results"]
    pairs = [f"{result['pairs'] / 1e6:g} million pairs" for result in results]
    yield "### A corpus of millions of pairs"
    yield (
        "`benchmarks/large_corpus.py`: made-up sentences of 3 to 19 words, prepared by one process, and some "
        "updates. Memory is the highest value of all processes together, in MB of 2^20 bytes, without the pages of "
        "mapped files, which the system can reclaim at any time."
    )
    stages = [stage for stage in results[-1]["stages"] if stage != "start"]
    head = [f"{name}, {unit}" for name in pairs for unit in ("MB", "processor seconds")]
    rows = (
        [stage, *(f"{result['stages'][stage][key]:,.0f}" for result in results
                  for key in ("all_processes_mb", "processor_s"))] for stage in stages
    )  # fmt: skip
    yield table(["stage", *head], rows)


def _paper() -> Iterator[str]:
    found = read("training_cost.json")
    yield "### What the paper's models would take"
    yield (
        "`benchmarks/training_cost.py` counts the products of forward and backward for WMT14 English-German with "
        "about 25,000 tokens of each language an update. It assumes a utilisation of "
        f"{100 * found['utilisation']:.0f} % of the peak in the data sheet and {found['price_usd']:g} USD for an "
        "hour of a GPU. With so small a batch the exchange of gradients limits 64 GPUs."
    )
    models = found["models"]
    yield table(["", *models], [
        ["million weights", *(f"{row['weights'] / 1e6:.1f}" for row in models.values())],
        ["million operations a target token",
         *(f"{row['operations_per_token'] / 1e6:,.0f}" for row in models.values())],
        ["operations in all", *(f"{row['operations']:.1e}" for row in models.values())],
        *([f"{name}: hours, USD", *(f"{row['rows'][name]['hours']:,.1f}, {row['rows'][name]['usd']:,.0f}"
                                    for row in models.values())]
          for name in next(iter(models.values()))["rows"]),
    ])  # fmt: skip
    stated = " and ".join(f"{row['papers']:.1e}" for row in models.values())
    yield (
        f"The paper states {stated} operations, which is hours times GPUs times what a P100 sustains, not a count."
    )
