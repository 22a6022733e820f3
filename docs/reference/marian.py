"""Marian beside us, as a section of the page of speed, from the results of the benchmarks."""

from collections.abc import Iterator
from typing import Any

from reference.markdown import table
from reference.measurements import interval, read, versions

TRAINING = {"glassformer": "glassformer", "marian": "Marian", "hf": "Hugging Face's MarianMT"}
DECODING = {
    "glassformer": "`--engine torch`", "glassformer ctranslate2": "`--engine ctranslate2`",
    "glassformer ctranslate2 int8": "`--engine ctranslate2 --precision int8`", "ct2": "CTranslate2 alone",
    "ct2 int8": "CTranslate2 alone, int8", "ct2 int8 shortlist": "the same with a shortlist", "marian": "Marian",
    "marian int8": "Marian, intgemm8", "marian int8 shortlist": "the same with a shortlist",
}  # fmt: skip
RATIOS = (
    ("glassformer", "marian"), ("glassformer ctranslate2", "marian"),
    ("glassformer ctranslate2 int8", "marian int8"),
)  # fmt: skip


def marian_section() -> Iterator[str]:
    training, decoding = read("training_marian.json"), read("decoding_marian.json")
    yield "## Beside Marian"
    yield (
        "Marian 1.12.42 as `pip install pymarian` brings it, beside us on one thread, in turns. The machine was busy "
        "with other programs, so a second is one of the processor that a process has used, not of the day; compare "
        "the ratios, not these figures with those above."
    )
    yield (
        "`benchmarks/training.py --clock processor`: the same pairs in batches of about 1,640 target tokens, norm "
        "after each sublayer. Marian makes its own batches of them. `micro` has 2+2 layers, d_model 128."
    )
    yield from _training(training["columns"])
    yield (
        f"`benchmarks/decoding.py --clock processor`, {decoding['rounds']} rounds; {versions(decoding['versions'])}: "
        "sentences of Multi30k, weights of a model with 2+2 layers, d_model 128 and a vocabulary of 8,000 that was "
        "trained for some minutes. All read ids; with a shortlist both have the same candidates."
    )
    yield from _decoding(decoding["cells"], decoding["beam"])


def _training(columns: dict[str, Any]) -> Iterator[str]:
    names = [name for name in TRAINING if all(name in column["tokens_per_s"] for column in columns.values())]
    rows = [
        [TRAINING[name], *(f"{column['tokens_per_s'][name]['median']:,.0f}" for column in columns.values())]
        for name in names
    ]
    rows += [
        [f"glassformer / {TRAINING[name]}",
         *(interval(column["ratios"][f"glassformer / {name}"]) for column in columns.values())]
        for name in names[1:]
    ]  # fmt: skip
    rows += [
        [f"most memory of {TRAINING[name]}, MB", *(f"{column['peak_mb'][name]:.0f}" for column in columns.values())]
        for name in names
    ]
    yield table(["target tokens a second", *columns], rows)


def _decoding(cells: dict[str, Any], beam: int) -> Iterator[str]:
    titles = ["greedy" if cell.endswith("greedy") else f"beam {beam}" for cell in cells]
    first = next(iter(cells.values()))
    arms = [arm for arm in DECODING if arm in first["sentences_per_s"]]
    yield table(["sentences a second", *titles, "most memory, MB"], (
        [DECODING[arm], *(f"{cell['sentences_per_s'][arm]['median']:.0f}" for cell in cells.values()),
         f"{first['peak_mb'][arm]:.0f}"]
        for arm in arms
    ))  # fmt: skip
    yield "How many times as fast the first is as the second:"
    yield table(["compared", *titles], (
        [f"{DECODING[ours]} / {DECODING[other]}",
         *(interval(cell["ratios"][f"{ours} / {other}"]) for cell in cells.values())]
        for ours, other in RATIOS
    ))  # fmt: skip
    same = first["agreement"]["marian = glassformer"]
    yield (
        f"In float32, greedy, {same['equal']} of {same['of']} outputs of Marian are ours. Marian has no limit but a "
        "factor of the source's length, which cuts an output that does not end elsewhere."
    )
