"""The page of speed and memory, from the results of the benchmarks."""

from collections.abc import Iterator
from typing import Any

from reference.gpu import gpu_section
from reference.marian import marian_section
from reference.markdown import code, page, table
from reference.measurements import USUAL, bundled_bleu, interval, read, versions
from reference.pictures import picture
from reference.training_cost import over_the_fastest, training_sections

SYSTEMS = {
    "glassformer": "`--engine torch`",
    "glassformer ctranslate2": "`--engine ctranslate2`",
    "glassformer ctranslate2 int8": "`--engine ctranslate2 --precision int8`",
    "hf": "Hugging Face generate",
    "ct2": "CTranslate2 alone",
    "ct2 int8": "CTranslate2 alone, int8",
}
RATIOS = (
    ("glassformer", "hf"), ("glassformer", "ct2"), ("glassformer ctranslate2", "ct2"),
    ("glassformer ctranslate2 int8", "hf"), ("glassformer ctranslate2 int8", "ct2 int8"),
)  # fmt: skip
PROCESSES = (
    "glassformer", "glassformer, first use", "glassformer, torch", "CTranslate2", "Hugging Face generate",
    "glassformer --help", "glassformer trace", "glassformer evaluate", "import torch",
)  # fmt: skip


def speed_page() -> str:
    decoding = read("decoding.json")
    return page(
        "Speed and memory",
        f"{USUAL} Systems that are compared take turns; a figure is the median, and brackets hold its 95 % bootstrap "
        "interval over the rounds.",
        *_summary(decoding["cells"]),
        "## Translating",
        picture("translating", "Sentences a second of five engines"),
        *_decoding(decoding),
        *_engines(),
        *_start_up(),
        *_students(),
        *gpu_section("decoding", "sentences/s"),
        *training_sections(),
        *marian_section(),
        *_memory(),
        *_tracing(),
        "## Measure it again",
        "```sh\npip install '.[bench]'\npython benchmarks/decoding.py --data DIR\npython benchmarks/training.py\n```",
        "DIR holds Multi30k's test_2016_flickr. With `--run RUN --bleu`, a trained `small` of `model.norm = "
        "\"post\"` (the only order that the other systems support) takes the place of random weights. `--help` of "
        "each script lists its options.",
    )  # fmt: skip


def _summary(cells: dict[str, Any]) -> Iterator[str]:
    """The most wanted figures."""
    lines = read("engines.json")["inputs"]["10,000 lines"]["lines_per_s"]
    start = read("startup.json")["processes"]["glassformer"]["clock_s"]["median"]
    greedy = cells["small-greedy"]["ratios"]
    corpus = read("large_corpus.json")["results"][-1]
    traced = read("trace_cost.json")["tiny"]["ratios"]["traced / without"]["median"]
    idle = read("idle_taps.json")["tiny: forward, 32 x 16 tokens"]["ratios"]["idle / without"]["median"]
    yield table(["question", "answer"], [
        ["time to translate one sentence, from the shell", f"{start:.2f} s"],
        ["speed of translating a file, from the shell",
         f"{lines['auto']['median']:.0f} lines a second, {lines['torch']['median']:.0f} by PyTorch alone"],
        ["`--engine ctranslate2 --precision int8` compared with Hugging Face generate (`small`, greedy)",
         f"{greedy['glassformer ctranslate2 int8 / hf']['median']:.1f} times as fast"],
        ["the same compared with CTranslate2 alone",
         f"{greedy['glassformer ctranslate2 int8 / ct2 int8']['median']:.2f} times as fast"],
        ["our PyTorch engine compared with Hugging Face generate",
         f"{greedy['glassformer / hf']['median']:.2f} times as fast"],
        ["a training step of `small` compared with the fastest of five toolkits",
         f"{over_the_fastest()['median']:.2f} times as fast"],
        [f"memory of a training on {corpus['pairs'] / 1e6:g} million pairs",
         f"{corpus['stages']['training']['all_processes_mb']:.0f} MB"],
        ["taps while nothing is traced", f"{idle:.2f} times the time without taps"],
        ["a traced beam search", f"{traced:.1f} times the time of one that is not"],
    ])  # fmt: skip


def _decoding(decoding: dict[str, Any]) -> Iterator[str]:
    cells = decoding["cells"]
    titles = [_title(cell) for cell in cells]
    yield (
        f"`benchmarks/decoding.py`, {decoding['rounds']} rounds; {versions(decoding['versions'])}. All systems "
        "translate the same sentences of Multi30k with the same weights, one thread in each of two workers, and one "
        "by one in one thread; nothing was tuned. `small` has 3+3 layers, d_model 256 and a vocabulary of 10,000; "
        "`base` has the paper's sizes. Both have random weights and write 16 tokens a sentence. Loading and "
        "tokenisation are not timed."
    )
    yield table(["sentences a second", *titles], _speeds(cells))
    yield "How many times as fast the first is as the second:"
    yield table(["compared", *titles], _ratios(cells))
    yield (
        f"In float32 all systems wrote {_agreement(cells)} same outputs. Int8 weights are another model: "
        "with random weights, where all words are about as probable, they change many outputs; "
        "[what they cost](#students-int8-and-shortlists) is measured on a trained model."
    )


def _title(cell: str) -> str:
    name, kind = cell.split("-")
    return f"{code(name)} " + {"greedy": "greedy", "beam": "beam 5", "single": "one by one"}[kind]


def _speeds(cells: dict[str, Any]) -> Iterator[list[str]]:
    for arm, name in SYSTEMS.items():
        yield [name, *(f"{cell['sentences_per_s'][arm]['median']:.0f}" for cell in cells.values())]


def _ratios(cells: dict[str, Any]) -> Iterator[list[str]]:
    for ours, other in RATIOS:
        rows = (cell["ratios"][f"{ours} / {other}"] for cell in cells.values())
        yield [f"{SYSTEMS[ours]} / {SYSTEMS[other]}", *map(interval, rows)]


def _agreement(cells: dict[str, Any]) -> str:
    rows = [
        cell["agreement"][f"{arm} = glassformer"]
        for cell in cells.values()
        for arm in SYSTEMS
        if "int8" not in arm and arm != "glassformer"
    ]
    equal, all_of_them = (sum(row[key] for row in rows) for key in ("equal", "of"))
    return "the" if equal == all_of_them else f"in {equal} of {all_of_them} cases the"


def _engines() -> Iterator[str]:
    found = read("engines.json")
    yield "### From the shell"
    yield (
        "`benchmarks/engines.py`: whole commands with the bundled model and its beam search; lines a second of "
        f"{found['rounds']} rounds. `auto`, the default engine, takes CTranslate2 once it has exported the model and "
        "compared its outputs with PyTorch's; *first use* includes that. The last column counts outputs that differ "
        "from PyTorch's: two translations with nearly the same score can change places by rounding."
    )
    rows = []
    for name, row in found["inputs"].items():
        speeds = (f"{each['median']:.1f}" for each in row["lines_per_s"].values())
        differing = str(max(row["lines_that_differ"].values())) if "lines_that_differ" in row else "not counted"
        rows.append([name, *speeds, f"{row['over_torch']['auto']['median']:.2f}", differing])
    engines = next(iter(found["inputs"].values()))["lines_per_s"]
    yield table(["input", *map(code, engines), "`auto` / `torch`", "lines that differ"], rows)


def _start_up() -> Iterator[str]:
    found = read("startup.json")
    yield "### Starting up"
    yield (
        f"`benchmarks/startup.py`: whole processes that translate one sentence with beam {found['beam']} in one "
        f"thread; {found['rounds']} rounds."
    )
    rows = (
        [name, f"{row['clock_s']['median']:.2f}", f"{row['memory_mb']['median']:.0f}"]
        for name in PROCESSES
        if (row := found["processes"].get(name))
    )
    yield table(["process", "seconds", "memory, MB"], rows)


def _students() -> Iterator[str]:
    found = read("pareto.json")
    points = [row for row in found["points"] if row["system"] != "torch, int8"]
    cells = {(row["model"], row["system"], row["search"]): row for row in points}
    searches = list(dict.fromkeys(row["search"] for row in points))
    rows = dict.fromkeys((row["model"], row["system"]) for row in points)
    yield "### Students, int8 and shortlists"
    yield (
        f"`benchmarks/pareto.py`: an earlier bundled model as the teacher (today's has {bundled_bleu():.1f} BLEU) "
        f"and two students, on {found['sentences']:,} test sentences that none has learned, one thread, from text to "
        "text. A cell has sentences a second of processor time, and BLEU. "
        + " ".join(_student(*each) for each in found["students"].items())
        + " Both trainings were stopped and continued, with other limits than in the end."
    )
    yield table(["model", "engine", *searches], (
        [model, system, *(_point(cells[model, system, search]) for search in searches)] for model, system in rows
    ))  # fmt: skip


def _point(row: dict[str, Any]) -> str:
    return f"{row['speed']['median']:.0f}, {row['bleu']:.1f}"


def _student(name: str, found: dict[str, Any]) -> str:
    """How a student was made."""
    how = "was made by `glassformer distill`"
    if found["command"].startswith("train"):
        how = (
            "continued from its teacher (`train --init`) on one of the teacher's four best translations of each "
            "source, the nearest to the human one (sequence-level interpolation, Kim and Rush 2016)"
        )
    return (
        f"The student {name} ({found['parameters'] / 1e6:.1f} million weights) {how}: {found['updates']:,} updates."
    )


def _memory() -> Iterator[str]:
    """Whether memory grows with time."""
    found = read("memory.json")
    training, translating = found["training"], found["translating"]
    yield "## Memory over time"
    yield (
        "`benchmarks/memory.py`: the whole process, in MiB. The slope is a least-squares line through the second "
        "half of the samples."
    )
    yield table(["", "first", "last", "most", "slope"], [
        [f"training for {training['minutes']:g} minutes, {training['updates']:,} updates", *_sizes(training),
         f"{training['mib_per_hour']:+.1f} an hour"],
        [f"translating {translating['sentences']:,} sentences, the bundled model", *_sizes(translating),
         f"{translating['mib_per_100000_sentences']:+.1f} for 100,000 more"],
    ])  # fmt: skip


def _sizes(row: dict[str, Any]) -> list[str]:
    return [f"{row[f'{which}_mib']:.0f}" for which in ("first", "last", "most")]


def _tracing() -> Iterator[str]:
    """What taps and traces cost."""
    idle, traced = read("idle_taps.json"), read("trace_cost.json")
    yield "## Tracing"
    yield (
        f"`benchmarks/idle_taps.py`: one idle tap takes {idle['tap_ns']:.0f} ns. `benchmarks/trace_cost.py`: a beam "
        "search over 8 sentences of 12 tokens, beam 4, one thread. A trace copies every tapped tensor; `--only` "
        "keeps what it matches and no more. Both were measured before translating and training ran one forward pass."
    )
    yield table(["with idle taps / without taps", "time", "share of the taps"], (
        [name, interval(row["ratios"]["idle / without"]), f"{100 * row['taps_share']:.2f} %"]
        for name, row in idle.items() if isinstance(row, dict) and "ratios" in row
    ))  # fmt: skip
    yield table(["beam search", "steps", "trace, MB", "traced / without taps", "recomputing all of it"], (
        [code(name), f"{row['steps']:,}", f"{row['trace_mb']:.0f}", interval(row["ratios"]["traced / without"]),
         f"{row['verify_ms'] / 1e3:.1f} s"]
        for name, row in traced.items() if isinstance(row, dict) and "ratios" in row
    ))  # fmt: skip
    proof = read("proof_cost.json")["seconds"]
    yield "`benchmarks/proof_cost.py`, processor seconds of a whole `trace --verify` of the bundled model:"
    yield table(list(proof), [[f"{_middle(row['today']):.1f} s" for row in proof.values()]])


def _middle(values: Any) -> float:
    return float(sorted(values)[len(values) // 2])
