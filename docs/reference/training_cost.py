"""The page of the cost of training, from the results of the benchmarks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference.markdown import code, page, table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
STEP_SYSTEMS = {
    "glassformer": "glassformer", "torch": "nn.Transformer", "hf": "MarianMT", "x-transformers": "x-transformers",
    "joeynmt": "JoeyNMT", "eole": "Eole",
}  # fmt: skip


def training_cost_page() -> str:
    return page(
        "What training costs",
        *_steps(), *_steps_in_bf16(), *_aims(), *_loop(), *_end_to_end(), *_large_corpus(), *_paper(),
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
        "label-smoothed loss, backward and a fused Adam, on the same batches of some 1,660 target tokens in "
        "sentences of similar length with little padding, vocabulary 10,000; all have the same sizes and norm "
        f"after each sublayer{_except_eole(results)}. Medians of {rounds} rounds in which the systems take turns. "
        "glassformer keeps freed memory for the next tensor, as its trainings do; the others run unchanged. "
        "nn.Transformer and x-transformers also drop out attention weights, so the columns without dropout are the "
        "fair comparison with them."
    )
    yield from _columns(results["columns"])


def _except_eole(results: dict[str, Any]) -> str:
    if "Eole" not in results["versions"]:
        return ""
    return ", except Eole, which has it before each and also drops out inside the feed-forward network"


def _steps_in_bf16() -> Iterator[str]:
    results = _read("training_bf16.json")
    if results is None:
        return
    yield "## The same in bfloat16 on another machine"
    yield (
        f"`benchmarks/training.py --precisions bf16` on {_where(results)}, whose processor multiplies bfloat16 "
        f"matrices (AMX); autocast in every system, the same versions. Medians of {_rounds(results)} rounds."
    )
    yield from _columns(results["columns"], "#")


def _rounds(results: dict[str, Any]) -> str:
    return " and ".join(sorted({str(column["rounds"]) for column in results["columns"].values()}))


def _columns(columns: dict[str, Any], deeper: str = "") -> Iterator[str]:
    """Three tables; ``deeper`` is prepended to their headings."""
    yield f"{deeper}## Target tokens a second"
    yield table(
        ["system", *columns], _rows(columns, lambda column, name: f"{column['tokens_per_s'][name]['median']:,.0f}")
    )
    yield f"{deeper}## How many times as fast glassformer is"
    yield table(["over", *columns], _ratios(columns))
    yield "In brackets the 95 % bootstrap interval over these few rounds."
    yield f"{deeper}## Share of what the machine's matrix products reach"
    yield table(
        ["system", *columns], _rows(columns, lambda column, name: f"{100 * column['share_of_ceiling'][name]:.0f} %")
    )
    yield (
        "The multiply-adds of forward and backward, relative to those of a matrix product of the feed-forward "
        "network's size in the same run on all cores. These also depend on other load of the machine, so the shares "
        "of two columns cannot be compared."
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
    """The tables above in short, compared with our aims."""
    found = [results for name in ("training.json", "training_bf16.json") if (results := _read(name))]
    columns = {name: column for results in found for name, column in results["columns"].items()}
    if not columns:
        return
    yield "## Compared with our aims"
    yield (
        "We aim at 1.3 times the speed of the fastest other system, and at 80 % of what the machine's matrix "
        "products reach. Medians that fall short are bold; their intervals are above."
    )
    rows = (
        [name, _bold_below(_over_the_fastest(column), 1.3, ""), _bold_below(_own_share(column), 80, " %")]
        for name, column in columns.items()
    )
    yield table(["column", "over the fastest of the others", "share of the machine's products"], rows)


def _over_the_fastest(column: dict[str, Any]) -> str:
    return f"{min(row['median'] for row in column['ratios'].values()):.2f}"


def _own_share(column: dict[str, Any]) -> str:
    return f"{100 * column['share_of_ceiling']['glassformer']:.0f}"


def _bold_below(value: str, aim: float, unit: str) -> str:
    return f"{value}{unit}" if float(value) >= aim else f"**{value}{unit}**"


def _loop() -> Iterator[str]:
    results = _read("training_loop.json")
    if results is None:
        return
    between = results["without_validations"]
    yield "## The cost of the training loop"
    yield (
        f"`benchmarks/training_loop.py --epochs {results['validations']}`, the first machine: bare steps on the same "
        f"batches take **{100 * results['share']:.1f} %** of the time of `glassformer train` with "
        f"{code(results['size'])} on {results['text']}, {results['updates']:,} updates with validation, translations "
        f"of 200 sentences and saving once an epoch. Between validations it is {100 * between['median']:.1f} % (95 % "
        f"interval: {100 * between['low']:.1f} to {100 * between['high']:.1f})."
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
        f"sublayer, on {results['text']}, for {results['minutes']:g} minutes each. The clock starts when "
        "the text has been read and encoded. glassformer's time includes validation, translating 200 sentences each "
        "time, and saving; that of the others, set up as their documentation does with batches of sentences in "
        "random order, only their updates. The table gives seconds and updates until the loss, in nats per token, "
        "first fell below a value, in brackets the time relative to glassformer's. "
        f"The loss is measured every {every} updates; rounds: {rounds}."
    )
    rows = ([f"{row['loss']:g}", *(_time_and_updates(row, name) for name in shown)] for row in results["reached"])
    yield table(["validation loss below", *(names[name] for name in shown)], rows)
    if all(row[name]["updates"] < results["warmup"] for row in results["reached"] for name in shown):
        yield (
            f"All this is within the warm-up of {results['warmup']} updates: it shows how fast each begins to learn, "
            "not how good it becomes."
        )
    yield "[All figures](../benchmarks/results/training_end_to_end.json)."


def _time_and_updates(row: dict[str, Any], name: str) -> str:
    ratio = f" ({row['ratios'][name]:.2f})" if name in row["ratios"] else ""
    return f"{row[name]['seconds']:.0f} s, {row[name]['updates']:,.0f} updates{ratio}"


def _large_corpus() -> Iterator[str]:
    found = _read("large_corpus.json")
    if found is None:
        return
    results = found["results"]
    yield "## A corpus of millions of pairs"
    yield (
        f"`benchmarks/large_corpus.py` on {_where(results[-1])}, synthetic sentences of 3 to 19 words. Memory, in "
        "MB of 2^20 bytes, is the peak of all processes together, read ten times a second: anonymous memory, without "
        "memory-mapped file pages, which the system can reclaim. Seconds are processor time of all processes. "
        "Training is a few updates."
    )
    stages = [stage for stage in results[-1]["stages"] if stage != "start"]
    pairs = [f"{result['pairs'] / 1e6:g} million" for result in results]
    for title, key in (("peak MB", "all_processes_mb"), ("processor seconds", "processor_s")):
        rows = ([stage, *(f"{result['stages'][stage][key]:,.1f}" for result in results)] for stage in stages)
        yield table([title, *pairs], rows)
    sizes = "; ".join(
        f"{name} pairs, {result['text_mb']:,.0f} MB of text and {result['encoded_mb']:,.0f} MB encoded, with "
        f"{result['processes']} process{'es' if result['processes'] > 1 else ''}"
        for name, result in zip(pairs, results, strict=True)
    )
    yield f"Sizes: {sizes}. [All figures](../benchmarks/results/large_corpus.json)."


def _paper() -> Iterator[str]:
    results = _read("training_cost.json")
    if results is None:
        return
    yield "## The cost of the paper's models"
    yield (
        "`benchmarks/training_cost.py` counts the matrix products of forward and backward for WMT14 "
        "English-German as the paper trained it, some 25,000 tokens of each language an update. Hours follow from "
        f"the peak in a processor's data sheet and a utilisation of {100 * results['utilisation']:.0f} %, which is "
        f"assumed, not measured; so is the price of {results['price_usd']:g} USD per GPU-hour. The exchange of "
        "gradients between processes is computed from its bytes; with so small a batch it takes most of the time on "
        "64 of the newer GPUs."
    )
    for size, row in results["models"].items():
        papers = f"the paper states {row['papers']:.1e}" if "papers" in row else ""
        yield (
            f"### {size}\n\n{row['weights'] / 1e6:.1f} million weights, "
            f"{row['operations_per_token'] / 1e6:,.0f} million operations a target token, "
            f"{row['operations']:.1e} in all; {papers}, which is hours times GPUs times the sustained speed of "
            "a P100, not a count."
        )
        yield table(
            ["processors", "hours", "USD"],
            ([name, f"{found['hours']:,.1f}", f"{found['usd']:,.0f}"] for name, found in row["rows"].items()),
        )
