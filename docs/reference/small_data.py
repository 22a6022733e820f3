"""The part of the page of results about few pairs and about files in their own form.

The figures are those that benchmarks/small_data.py, fine_tuning.py and placeholders.py left in benchmarks/results.
What they have not measured is said.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from reference.markdown import code, table
from reference.measurements import bundled_bleu
from reference.pictures import picture

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
_CLOSE = 0.5  # BLEU between the kept model and the best candidate


def small_data() -> Iterator[str]:
    """What trainings on few pairs reach, and which settings help."""
    path = RESULTS / "small_data.json"
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["results"] if path.is_file() else []
    yield "## Few pairs"
    yield picture("pairs", "BLEU of trainings on 2,000 and 20,000 pairs of two corpora")
    yield (
        "`benchmarks/small_data.py` trains on 2,000, 5,000 and 20,000 pairs of Tatoeba and of Multi30k, English to "
        "German, for 4, 10 and 25 minutes of processor time, one thread, and scores on 1,000 pairs that no training "
        "saw (beam 4). Captions of pictures (Multi30k) are learned from fewer pairs than everyday sentences of all "
        "kinds (Tatoeba)."
    )
    if found:
        yield _selection([one for one in found if one["settings"] == "before"])
        yield from _settings(found)


def _selection(found: list[dict[str, Any]]) -> str:
    """What was kept, compared with the best candidate on the test text."""
    gaps = [_gap(one["candidates"]) for one in found]
    close = sum(gap <= _CLOSE for gap in gaps)
    return (
        f"A training keeps one of several candidates by its translations of validation text. In {close} of "
        f"{len(found)} trainings that model is within {_CLOSE} BLEU of the best candidate on the test text; the "
        f"largest gap is {max(gaps):.2f}, the mean {fmean(gaps):.2f}."
    )


def _gap(candidates: list[dict[str, Any]]) -> float:
    """BLEU between the kept model and the best candidate."""
    return float(max(each["bleu"] for each in candidates) - next(each["bleu"] for each in candidates if each["kept"]))


def _settings(found: list[dict[str, Any]]) -> Iterator[str]:
    """BLEU and chrF of each setting, as a mean over its seeds, and the difference to the same seeds before."""
    cells: dict[tuple[str, int, str], dict[int, dict[str, Any]]] = {}
    for one in found:
        cells.setdefault((one["corpus"], one["pairs"], one["settings"]), {})[one["seed"]] = one
    rows = []
    for corpus, pairs, settings in sorted(
        cells, key=lambda key: (*key[:2], key[2] == "now", key[2] != "before", key)
    ):
        seeds = cells[corpus, pairs, settings]
        before = cells[corpus, pairs, "before"]
        row = [corpus, f"{pairs:,}", settings, ", ".join(map(str, sorted(seeds)))]
        for metric in ("bleu", "chrf"):
            mean = fmean(one["test"][metric] for one in seeds.values())
            row += [f"{mean:.1f}", f"{mean - fmean(before[seed]['test'][metric] for seed in seeds):+.1f}"]
        rows.append([*row, f"{fmean(one['updates'] for one in seeds.values()):,.0f}"])
    yield (
        "Which settings help: `before` are the defaults until this search, each row changes what it names, and `now` "
        "are the defaults since, but for the optimizer and its schedule: 2 + 2 layers, dropout 0.2, and one entry in "
        "the vocabulary for each pair, from 512 to 8,000 (before: one for every six). A difference is that to "
        "`before` with the same seeds. Three trainings on 20,000 pairs ran for 14 minutes on a faster processor: "
        "compare the updates."
    )
    yield table(["corpus", "pairs", "settings", "seeds", "BLEU", "difference", "chrF", "difference ",
                 "updates"], rows)  # fmt: skip


def fine_tuning() -> Iterator[str]:
    """Training from the bundled model against training from nothing."""
    found = json.loads((RESULTS / "fine_tuning.json").read_text("utf-8"))
    yield "## From a model that exists"
    yield (
        f"`benchmarks/fine_tuning.py`: 2,000 pairs of Multi30k, {found['minutes']:g} minutes of processor time, one "
        f"thread. The bundled model was trained on since: it has {bundled_bleu():.1f} BLEU on Tatoeba today."
    )
    rows = [{"way": "none: an earlier bundled model", "test": found["before"]}, *found["results"]]
    yield table(["training", "BLEU on Multi30k", "BLEU on Tatoeba"], (
        [one["way"], *(f"{one['test'][name]['bleu']:.1f}" for name in ("Multi30k", "Tatoeba"))] for one in rows
    ))  # fmt: skip


def placeholders() -> Iterator[str]:
    """How many placeholders and codes survive a translation."""
    found, codes = (json.loads((RESULTS / name).read_text("utf-8")) for name in ("placeholders.json", "codes.json"))
    row, every = found["all"], codes["all"]
    forms = ", ".join(map(code, found["forms"]))
    yield "## Placeholders"
    yield (
        f"`benchmarks/placeholders.py`: {row['sentences']} sentences with {forms}, by the bundled model. "
        f"{row['intact_and_unflagged'] + row['intact_and_flagged']} translations hold every placeholder as often as "
        f"the source; {row['intact_and_flagged'] + row['lost_and_flagged'] or 'none'} were flagged."
    )
    yield (
        f"`benchmarks/codes.py`: {every['texts']:,} generated texts in {len(codes['formats'])} formats, with an "
        f"exact translator that reorders some words. {every['silent'] or 'None'} lost, doubled, crossed or joined a "
        f"code without a flag, {every['flagged']:,} were flagged, {every['needless']} of them without need."
    )
    yield from real_texts()


def real_texts() -> Iterator[str]:
    """How many numbers and pages come back as they were, and how many texts of real files are named."""
    results = json.loads((RESULTS / "real_texts.json").read_text("utf-8"))
    numbers, before, files = results["numbers"], results["numbers_before"], results["files"]
    to_check, named = (files[name] / files["texts"] for name in ("to_check", "printed"))
    yield (
        f"`benchmarks/real_texts.py`, by the bundled model: of {numbers['texts']} typed texts with amounts, times "
        f"and dates {numbers['as they were']} have each number with its value, its currency and its space, "
        f"{numbers['flagged']} of the others are doubted, {numbers['silent'] or 'none'} is wrong without a word; at "
        f"{results['before']} they were {before['as they were']}, {before['flagged']} and {before['silent']}. Of "
        f"{files['texts']:,} texts of {files['files']} real English files {to_check:.0%} are "
        f"to be checked, most of them only doubtful; {named:.0%} are named without `-v`."
    )
