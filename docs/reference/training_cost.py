"""The page of what training costs, written from the results of the benchmarks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference.gpu import gpu_section
from reference.markdown import code, page, table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
STEP_SYSTEMS = {
    "glassformer": "glassformer", "torch": "nn.Transformer", "hf": "MarianMT", "x-transformers": "x-transformers",
    "joeynmt": "JoeyNMT", "eole": "Eole",
}  # fmt: skip


def training_cost_page() -> str:
    return page(
        "What training costs",
        *_steps(), *_steps_in_bf16(), *_aims(), *_loop(), *_end_to_end(), *_busy_cores(), *_large_corpus(),
        *gpu_section("training", "tokens/s"), *_paper(),
    )  # fmt: skip


def _read(name: str) -> dict[str, Any] | None:
    path = RESULTS / name
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def _where(results: dict[str, Any]) -> str:
    machine = results["machine"]
    return (
        f"an {machine['processor']} virtual machine with {machine['cores']} cores and no GPU, PyTorch "
        f"{machine['torch']}"
    )


def _steps() -> Iterator[str]:
    results = _read("training.json")
    if results is None:
        return
    rounds = _rounds(results)
    versions = ", ".join(
        f"{name} {version}" for name, version in results["versions"].items() if name != "glassformer"
    )
    yield (
        f"Measured with `benchmarks/training.py` on {_where(results)}; peers: {versions}. A step is forward, "
        "smoothed loss, backward and a fused Adam, on the same batches of about 1,660 target tokens: sentences of "
        "similar length with little padding, vocabulary 10,000. All have the same sizes and norm after each "
        f"sublayer{_but_eole(results)}. Medians of {rounds} rounds, in which the systems take turns. "
        "glassformer reuses freed memory, as its trainings do; the others run with their defaults. "
        "nn.Transformer and x-transformers also apply dropout to attention weights, so compare them in the columns "
        "without dropout. These figures are of the training step before it ran the modules' own forward pass without "
        "padding, and not yet measured again."
    )
    yield from _columns(results["columns"])


def _but_eole(results: dict[str, Any]) -> str:
    if "Eole" not in results["versions"]:
        return ""
    return ", except for Eole, which has norm before each sublayer, and dropout inside the feed-forward network too"


def _steps_in_bf16() -> Iterator[str]:
    results = _read("training_bf16.json")
    if results is None:
        return
    yield "## The same in bfloat16, on another machine"
    yield (
        f"`benchmarks/training.py --precisions bf16` on {_where(results)}, whose processor has instructions for "
        f"bfloat16 matrices (AMX); every system with autocast, the same versions. Medians of {_rounds(results)} "
        "rounds."
    )
    yield from _columns(results["columns"], "#")


def _rounds(results: dict[str, Any]) -> str:
    return " and ".join(sorted({str(column["rounds"]) for column in results["columns"].values()}))


def _columns(columns: dict[str, Any], deeper: str = "") -> Iterator[str]:
    """Three tables; ``deeper`` is put before their headings."""
    yield f"{deeper}## Target tokens a second"
    yield table(
        ["system", *columns], _rows(columns, lambda column, name: f"{column['tokens_per_s'][name]['median']:,.0f}")
    )
    yield f"{deeper}## How many times as fast glassformer is"
    yield table(["over", *columns], _ratios(columns))
    yield "In brackets the interval that contains 95 % of the ratios when these few rounds are resampled."
    yield f"{deeper}## Share of what the machine's matrix products reach"
    yield table(
        ["system", *columns], _rows(columns, lambda column, name: f"{100 * column['share_of_ceiling'][name]:.0f} %")
    )
    yield (
        "The multiply-adds per second of forward and backward, divided by those of a matrix product of the "
        "feed-forward network's size in the same run on all cores. Those, too, depend on what else the machine does: "
        "do not compare the shares of two columns."
    )


def _rows(columns: dict[str, Any], cell: Any) -> Iterator[list[str]]:
    for name, title in STEP_SYSTEMS.items():
        if any(name in column["tokens_per_s"] for column in columns.values()):
            yield [
                title,
                *(cell(column, name) if name in column["tokens_per_s"] else "" for column in columns.values()),
            ]


def _ratios(columns: dict[str, Any]) -> Iterator[list[str]]:
    for name, title in STEP_SYSTEMS.items():
        rows = [column["ratios"].get(f"glassformer / {name}") for column in columns.values()]
        if any(rows):
            yield [
                title,
                *(f"{row['median']:.2f} ({row['low']:.2f} to {row['high']:.2f})" if row else "" for row in rows),
            ]


def _aims() -> Iterator[str]:
    """The tables above, compared with our aims."""
    found = [results for name in ("training.json", "training_bf16.json") if (results := _read(name))]
    columns = {name: column for results in found for name, column in results["columns"].items()}
    if not columns:
        return
    yield "## Compared with our aims"
    yield (
        "We aim at 1.3 times the fastest of the others, and at 80 % of what the machine's matrix products reach. "
        "Medians that fall short are in bold; the tables above show how far the few rounds are apart."
    )
    rows = (
        [name, _held(_over_the_fastest(column), 1.3, ""), _held(_own_share(column), 80, " %")]
        for name, column in columns.items()
    )
    yield table(["column", "over the fastest of the others", "share of the machine's products"], rows)


def _over_the_fastest(column: dict[str, Any]) -> str:
    return f"{min(row['median'] for row in column['ratios'].values()):.2f}"


def _own_share(column: dict[str, Any]) -> str:
    return f"{100 * column['share_of_ceiling']['glassformer']:.0f}"


def _held(value: str, aim: float, unit: str) -> str:
    return f"{value}{unit}" if float(value) >= aim else f"**{value}{unit}**"


def _loop() -> Iterator[str]:
    results = _read("training_loop.json")
    if results is None:
        return
    between = results["without_validations"]
    yield "## What the loop adds to the steps"
    yield (
        f"`benchmarks/training_loop.py --epochs {results['validations']}`, the first machine: a `glassformer train` "
        f"of {code(results['size'])} on {results['text']}, {results['updates']:,} updates, with validation, "
        f"translation of 200 sentences and saving once per epoch. Steps alone, on the same batches, take "
        f"**{100 * results['share']:.1f} %** of its time. Between validations it is {100 * between['median']:.1f} % "
        f"(95 % interval {100 * between['low']:.1f} to {100 * between['high']:.1f})."
    )


def _end_to_end() -> Iterator[str]:
    results = _read("training_end_to_end.json")
    if results is None:
        return
    names = {"glassformer": "glassformer train", "hf": "Seq2SeqTrainer", "joeynmt": "JoeyNMT"}
    shown = [name for name in names if name in results["curves"]]
    rounds, every = len(results["curves"]["glassformer"]), results["curves"]["glassformer"][0][0][1]
    yield "## From prepared text to a validation loss"
    yield (
        f"`benchmarks/training_end_to_end.py`, the first machine: {code(results['size'])} with norm after each "
        f"sublayer, on {results['text']}, for {results['minutes']:g} minutes each. The time starts when "
        "the text has been read and encoded, for all of them. glassformer's time includes validation, the "
        "translation of 200 sentences each time, and saving. The time of the others, set up as in their "
        "documentation with batches of sentences in random order, includes only their updates. The table gives the "
        "seconds and updates until the loss, in nats per token, was first below a value, and in brackets how many "
        f"times as long as glassformer that took. The loss is measured every {every} updates, so the table is no "
        f"more precise than that; rounds: {rounds}."
    )
    rows = ([f"{row['loss']:g}", *(_time_to_reach(row, name) for name in shown)] for row in results["reached"])
    yield table(["validation loss below", *(names[name] for name in shown)], rows)
    if all(row[name]["updates"] < results["warmup"] for row in results["reached"] for name in shown):
        yield (
            f"All of this is within the warm-up of {results['warmup']} updates: it shows how fast each starts to "
            "learn, not how good it becomes."
        )
    yield "[All results](../benchmarks/results/training_end_to_end.json)."


def _time_to_reach(row: dict[str, Any], name: str) -> str:
    ratio = f" ({row['ratios'][name]:.2f})" if name in row["ratios"] else ""
    return f"{row[name]['seconds']:.0f} s, {row[name]['updates']:,.0f} updates{ratio}"


def _busy_cores() -> Iterator[str]:
    found = _read("busy_cores.json")
    if found is None:
        return
    yield "## While other programs keep cores busy"
    yield (
        f"`benchmarks/busy_cores.py` on {_where(found)}: target tokens a second of `glassformer train` "
        f"(`{found['size']}`, the task `phrasebook-de`) beside so many endless loops, by turns, each of "
        f"{found['rounds']} rounds for {found['seconds']:g} seconds; medians. "
        "[Which number of threads it is](training.md#how-many-threads)."
    )
    rows = (
        [count, *(f"{each['median']:,.0f}" for each in row["tokens_per_s"].values()), f"{row['auto_of_best']:.2f}"]
        for count, row in found["busy"].items()
    )
    yield table(["busy cores", "a thread for each core", "one thread", "`auto`", "`auto` over the best"], rows)


def _large_corpus() -> Iterator[str]:
    found = _read("large_corpus.json")
    if found is None:
        return
    results = found["results"]
    yield "## A corpus of millions of pairs"
    yield (
        f"`benchmarks/large_corpus.py` on {_where(results[-1])}, made-up sentences of 3 to 19 words. Memory, in "
        "MB of 2^20 bytes, is the highest value of all processes together, measured ten times a second, without the "
        "pages of mapped files, which the system can reclaim at any time. Seconds are processor time, of all "
        "processes. Training makes a few updates."
    )
    stages = [stage for stage in results[-1]["stages"] if stage != "start"]
    pairs = [f"{result['pairs'] / 1e6:g} million" for result in results]
    for title, key in (("MB held", "all_processes_mb"), ("processor seconds", "processor_s")):
        rows = ([stage, *(f"{result['stages'][stage][key]:,.1f}" for result in results)] for stage in stages)
        yield table([title, *pairs], rows)
    sizes = "; ".join(
        f"{name} pairs, {result['text_mb']:,.0f} MB of text and {result['encoded_mb']:,.0f} MB encoded, by "
        f"{result['processes']} process{'es' if result['processes'] > 1 else ''}"
        for name, result in zip(pairs, results, strict=True)
    )
    yield f"Prepared: {sizes}. [All results](../benchmarks/results/large_corpus.json)."


def _paper() -> Iterator[str]:
    results = _read("training_cost.json")
    if results is None:
        return
    yield "## What the paper's models would take"
    yield (
        "`benchmarks/training_cost.py` counts the products of forward and backward for WMT14 English-German as the "
        "paper trained it, with about 25,000 tokens of each language per update. Hours follow from the peak in a "
        f"processor's data sheet and a utilisation of {100 * results['utilisation']:.0f} %, which is an assumption, "
        f"not a measurement, as is {results['price_usd']:g} USD for an hour of a GPU. The exchange of gradients "
        "between processes is counted by its bytes; with so small a batch, it limits 64 GPUs."
    )
    for size, row in results["models"].items():
        papers = f"the paper states {row['papers']:.1e}" if "papers" in row else ""
        yield (
            f"### {size}\n\n{row['weights'] / 1e6:.1f} million weights, "
            f"{row['operations_per_token'] / 1e6:,.0f} million operations a target token, "
            f"{row['operations']:.1e} in all; {papers}, which is hours times GPUs times what a P100 sustains, not "
            "a count."
        )
        yield table(
            ["processors", "hours", "USD"],
            ([name, f"{found['hours']:,.1f}", f"{found['usd']:,.0f}"] for name, found in row["rows"].items()),
        )
