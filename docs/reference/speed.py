"""The page of translation speed, from the results of the benchmarks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference.gpu import gpu_section
from reference.markdown import code, page, table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
SYSTEMS = {
    "glassformer": "glassformer", "hf": "Hugging Face generate",
    "glassformer ctranslate2": "glassformer, engine ctranslate2",
    "glassformer ctranslate2 int8": "glassformer, engine ctranslate2, int8",
    "ct2": "CTranslate2", "ct2 int8": "CTranslate2, int8",
}  # fmt: skip
OURS = "glassformer ctranslate2 int8"


def _since(revisions: dict[str, Any]) -> str:
    """How fast the one forward pass is, compared with the passes that it replaced."""
    training = json.loads((RESULTS / "training_revisions.json").read_text("utf-8"))["ratios"]["training"]
    speeds = [row["median"] for row in revisions["ratios"].values()]
    return (
        f"Up to commit {revisions['commits']['earlier'][:7]} decoding had layers of its own; now it runs those that "
        f"are shown and trained. With random weights and in turns it is {min(speeds):.2f} to {max(speeds):.2f} "
        f"times as fast in the {len(speeds)} cells of its two precisions: "
        "[the results](../benchmarks/results/decoding_revisions.json) of "
        "`python benchmarks/decoding_revisions.py`. Updates of `glassformer train` (`tiny`, the task `dates`) are "
        f"{training['median']:.2f} times as fast as then (95 %: {training['low']:.2f} to {training['high']:.2f}; "
        "[results](../benchmarks/results/training_revisions.json))."
    )


def speed_page() -> str:
    decoding = json.loads((RESULTS / "decoding.json").read_text("utf-8"))
    growth = json.loads((RESULTS / "decoding_growth.json").read_text("utf-8"))
    revisions = json.loads((RESULTS / "decoding_revisions.json").read_text("utf-8"))
    cells = decoding["cells"]
    return page(
        "What translating costs",
        f"Measured with `benchmarks/decoding.py` on {_where(decoding)}; peers: "
        + ", ".join(f"{name} {version}" for name, version in decoding["versions"].items())
        + f". Medians of {decoding['rounds']} rounds in which the systems take turns. All translate the same "
        f"sentences of Multi30k's test_2016_flickr with the same weights, {_tuning(cells)}. "
        "`small` is 3+3 layers, d_model 256, d_ff 1024, vocabulary 10,000; `base` has the paper's sizes. "
        f"{_weights(decoding)} Loading and tokenisation are not timed. One by one means that each sentence waits for "
        "the one before.",
        _since(revisions),
        "## Sentences a second",
        table(["system", *map(_title, cells)], _speeds(cells)),
        "Quartiles, and the setting in which each ran: [the results](../benchmarks/results/decoding.json).",
        "## glassformer in int8 compared with the others",
        table(["system", *map(_title, cells)], _ratios(cells)),
        "Ratios of sentences per second, in brackets their 95 % bootstrap interval over the rounds. Below 1 the "
        "other is faster.",
        "## Share of what the machine can do",
        "The multiply-adds that the translations need, relative to those that matrix products alone reach in the "
        "same run on all cores: float32 systems to the fastest float32 product, int8 to the fastest int8 product.",
        table(["system", *map(_title, cells)], _shares(cells)),
        "## The same outputs",
        table(["compared", *map(_title, cells)], _agreement(cells)),
        "In float32 the same weights give the same outputs, so all systems did the same work. Quantized weights are "
        "another model.",
        *_quality(cells),
        *_start_up(),
        *_engines(),
        *_students(),
        *_growth(growth),
        *gpu_section("decoding", "sentences/s"),
        "## Measure it again",
        "```sh\npip install '.[bench]'\npython benchmarks/decoding.py --run RUN --data DIR --bleu\n"
        "python benchmarks/decoding_growth.py\npython benchmarks/startup.py\n"
        "python benchmarks/engines.py --tatoeba en-de-large.tsv.gz\n"
        "python benchmarks/pareto.py --tatoeba en-de-large.tsv.gz --work DIR\n```",
        "The defaults measure more than is shown here; set rounds, sentences and tuning as above with `--rounds`, "
        "`--sentences`, `--single-sentences` and `--tuning-sentences`.",
        "RUN is a trained `small` with `model.norm = \"post\"`, the only order that the peers support; without one "
        "and `--bleu`, weights are random. DIR has Multi30k's test_2016_flickr.",
    )  # fmt: skip


def _where(results: dict[str, Any]) -> str:
    machine = results["machine"]
    processor = f"an {machine['processor']} virtual machine with {machine['cores']} cores and no GPU"
    return f"{processor}, PyTorch {machine['torch']}"


def _tuning(cells: dict[str, Any]) -> str:
    """How threads, workers and batches were chosen."""
    if any(tried for cell in cells.values() for tried in cell["tuning"].values()):
        return "each with the fastest of the workers, threads and batches that were tried"
    return "with one thread in each of two workers or processes, and one by one in one thread; nothing was tuned"


def _systems_of(cells: dict[str, Any]) -> dict[str, str]:
    """The arms of the results, and how they are called."""
    return {
        arm: name for arm, name in SYSTEMS.items() if all(arm in cell["sentences_per_s"] for cell in cells.values())
    }


def _title(cell: str) -> str:
    name, kind = cell.split("-")
    return f"{code(name)} " + {"greedy": "greedy", "beam": "beam 5", "single": "greedy, one by one"}[kind]


def _speeds(cells: dict[str, Any]) -> Iterator[list[str]]:
    yield ["sentences", *(str(cell["sentences"]) for cell in cells.values())]
    for arm, name in _systems_of(cells).items():
        yield [name, *(f"{cell['sentences_per_s'][arm]['median']:.1f}" for cell in cells.values())]


def _ratios(cells: dict[str, Any]) -> Iterator[list[str]]:
    for arm, name in _systems_of(cells).items():
        if arm != OURS:
            rows = [cell["ratios"][f"{OURS} / {arm}"] for cell in cells.values()]
            yield [f"over {name}", *(f"{row['median']:.2f} ({row['low']:.2f} to {row['high']:.2f})" for row in rows)]


def _shares(cells: dict[str, Any]) -> Iterator[list[str]]:
    for arm, name in _systems_of(cells).items():
        yield [name, *(f"{100 * cell['ceiling']['share'][arm]:.0f} %" for cell in cells.values())]
    for precision in ("float32", "int8"):
        ceilings = (cell["ceiling"]["sentences_per_s"][precision] for cell in cells.values())
        yield [f"ceiling in {precision}, sentences a second", *(f"{ceiling:.0f}" for ceiling in ceilings)]


def _agreement(cells: dict[str, Any]) -> Iterator[list[str]]:
    for arm, name in _systems_of(cells).items():
        if arm != "glassformer":
            rows = [cell["agreement"][f"{arm} = glassformer"] for cell in cells.values()]
            yield [f"{name}, and glassformer", *(f"{row['equal']} of {row['of']}" for row in rows)]


def _weights(decoding: dict[str, Any]) -> str:
    """Which model was measured."""
    if decoding["trained"]:
        return "`small` was trained for a short time; `base` has random weights and writes 16 tokens a sentence."
    return "Both have random weights and write 16 tokens for each sentence."


def _quality(cells: dict[str, Any]) -> Iterator[str]:
    """What int8 costs, of models that are trained."""
    scored = {cell: row["bleu"] for cell, row in cells.items() if "bleu" in row}
    if not scored:
        yield "With random weights nearly all words are about as probable, so that rounding changes many outputs."
        return
    yield "Their quality in cased BLEU (sacrebleu, 13a):"
    rows = ([name, *(f"{bleu[arm]:.2f}" for bleu in scored.values())] for arm, name in _systems_of(cells).items())
    yield table(["system", *map(_title, scored)], rows)


def _read(name: str) -> dict[str, Any] | None:
    """Results that may not have been measured yet."""
    path = RESULTS / name
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def _start_up() -> Iterator[str]:
    found = _read("startup.json")
    if found is None:
        return
    yield "## Starting up"
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    yield (
        f"`benchmarks/startup.py` on {_where(found)}, {versions}: whole processes from the shell that load the "
        f"bundled model, translate one sentence with beam {found['beam']} in one thread and end; each "
        f"{found['rounds']} times, by turns. *First use* finds no export: it writes one and compares the outputs of "
        "200 sentences with PyTorch's; all others find theirs. Medians and quartiles."
    )
    columns = {"processor_s": "processor, s", "clock_s": "clock, s", "memory_mb": "memory, MB"}
    rows = (
        [
            name,
            *(
                f"{row[key]['median']:.{0 if key == 'memory_mb' else 2}f} ({_quartiles(row[key], key)})"
                for key in columns
            ),
        ]
        for name, row in found["processes"].items()
    )
    yield table(["process", *columns.values()], rows)
    yield "; ".join(_share(*each) for each in found["ratios"].items()) + "."


def _engines() -> Iterator[str]:
    found = _read("engines.json")
    if found is None:
        return
    yield "## From the shell, by engine"
    yield (
        f"`benchmarks/engines.py` on {_where(found)}: whole commands, from start to end, with the bundled model, its "
        "beam search, and as many threads as each chooses, by turns; lines a second, medians and quartiles of "
        f"{found['rounds']} rounds. `torch` was the default before there was `auto`. Lines in which the output of "
        "`auto` is not that of PyTorch are counted: two translations that score alike can change places by rounding."
    )
    rows = []
    for name, row in found["inputs"].items():
        speeds = (f"{each['median']:.2f} ({_quartiles(each, 'lines_per_s')})" for each in row["lines_per_s"].values())
        differing = str(max(row["lines_that_differ"].values())) if "lines_that_differ" in row else "not counted"
        rows.append([name, *speeds, f"{row['over_torch']['auto']['median']:.2f}", differing])
    engines = next(iter(found["inputs"].values()))["lines_per_s"]
    yield table(["input", *map(code, engines), "`auto` over `torch`", "lines that differ"], rows)


def _share(name: str, row: dict[str, Any]) -> str:
    """A process' share of what another takes: seconds over seconds, memory over memory."""
    time, memory = row["processor_s"], row["memory_mb"]
    return (
        f"{name}: {time['median']:.2f} of the processor time (95 %: {time['low']:.2f} to {time['high']:.2f}), "
        f"{memory['median']:.2f} of the memory"
    )


def _quartiles(row: dict[str, float], key: str) -> str:
    digits = 0 if key == "memory_mb" else 2
    return f"{row['lower_quartile']:.{digits}f} to {row['upper_quartile']:.{digits}f}"


def _students() -> Iterator[str]:
    found = _read("pareto.json")
    if found is None:
        return
    yield "## Students"
    today = json.loads((RESULTS / "bundled.json").read_text("utf-8"))["bundled"]["by_words"]["all"]["bleu"]
    yield (
        f"`benchmarks/pareto.py` on {_where(found)}: an earlier bundled model (today's has {today:.1f} BLEU) and "
        f"what was made of it, on {found['sentences']:,} test sentences that none has learned, in one thread, from "
        "text to text, by turns (sentences a second of processor time). "
        + " ".join(_student(*each) for each in found["students"].items())
        + f" {found['note']}"
    )
    yield "![BLEU over sentences a second of the teacher and its students by each engine](pareto.png)"
    yield table(
        ["model", "engine", "search", "sentences a second", "BLEU"],
        (
            [row["model"], row["system"], row["search"], f"{row['speed']['median']:.0f}", f"{row['bleu']:.1f}"]
            for row in found["points"]
        ),
    )
    yield found["verdict"]


def _student(name: str, found: dict[str, Any]) -> str:
    """How a student was made."""
    early = "" if found["ended"] else " Its training was stopped early, before the learning rate came to rest."
    how = "learned what its teacher writes (`glassformer distill`)"
    if found["command"].startswith("train"):
        how = (
            "went on from its teacher (`glassformer train --init`) with one of the teacher's four best translations "
            "of each source: one that people wrote, or else the nearest to theirs (sequence-level interpolation, Kim "
            "and Rush 2016)"
        )
    return (
        f"The student {name} {how}: {found['parameters'] / 1e6:.1f} million weights, {found['updates']:,} updates on "
        f"{found['sources']:,} sources ({found['target_tokens'] / 1e6:.1f} million target tokens).{early}"
    )


def _growth(growth: dict[str, Any]) -> Iterator[str]:
    yield "## How it grows"
    yield (
        f"`benchmarks/decoding_growth.py`, {growth['measured']} of PyTorch, since retired, on {_where(growth)}: "
        "one size varies, the others "
        "stay at a batch of 32, greedy search, 14 source tokens and a vocabulary of 10,000; outputs have 16 tokens."
    )
    yield "![sentences a second by batch, beam, source length and vocabulary](growth.png)"
    for axis, row in growth["sentences_per_s"].items():
        yield table([axis, *row], [["sentences a second", *(f"{speed['median']:.1f}" for speed in row.values())]])
    stated, target, source = growth["cache_bytes_per_token"].values()
    yield (
        f"A token in the cache of `small` takes {stated:,.0f} bytes by its shapes, a target token "
        f"{target:,.0f} and a source token {source:,.0f} as measured."
    )
    long = growth["long_input"]
    yield (
        f"Memory of a stream of {long['sentences']:,} sentences ({long['sentences_per_s']:.0f} a second): "
        f"{long['first_mib']:.0f} MiB after the first thousand, {long['last_mib']:.0f} at the end, at most "
        f"{long['most_mib']:.0f}; {long['mib_per_100000_sentences']:+.1f} MiB per 100,000 sentences."
    )
