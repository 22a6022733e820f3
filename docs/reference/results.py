"""The page of results: reproductions of published results, short trainings on Multi30k, and the generated tasks.

The figures are those that `python -m benchmarks.reproduce --report`, benchmarks/multi30k.py, tasks.py and
positions_scan.py left in benchmarks/results.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from glassformer.settings import RunConfig
from glassformer.settings.section import apply_overrides
from reference.markdown import code, page, table
from reference.measurements import USUAL
from reference.pictures import picture
from reference.race import race
from reference.small_data import fine_tuning, placeholders, small_data

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.append(str(ROOT))
from benchmarks.reproduce.evaluate import find_scoring  # noqa: E402


def reports() -> list[Path]:
    """The reports of reproductions; without any there is no page."""
    return sorted(RESULTS.glob("*/report.json"))


def results_page() -> str:
    found = {path.parent.name: json.loads(path.read_text("utf-8")) for path in reports()}
    head = ["recipe", "what is different", "teachers", "pairs with theirs", "target tokens a seed", "validation loss",
            "seeds", "score", "ensemble", "published", "chrF", "files"]  # fmt: skip
    return page(
        "Quality: published results reproduced",
        f"{USUAL} [The bundled model's card](../glassformer/bundled/en-de/README.md) says how good the bundled model "
        "is.",
        "## Multi30k, English to German",
        picture("quality", "Multi30k English-German, tokenised BLEU: points with one standard deviation"),
        "`python -m benchmarks.reproduce RECIPE` trains with several seeds, translates the test set and scores the "
        "translations. The recipe has the sizes of Transformer-Tiny (Wu et al. 2021, arXiv 2105.14462). Multi30k is "
        "licensed for non-commercial research and education, so neither its text nor weights trained on it are here.",
        table(head, (row for name, report in found.items() for row in _overview(name, report))),
        "[The recipe](../benchmarks/reproduce/recipes/multi30k-en-de.toml) has every setting, and the published one "
        "where ours differs; each report has every setting, signature and time. Most settings were chosen with the "
        "test scores of variants known; dropout, updates and teachers before a score with teachers was seen. The two "
        "variants `pre-norm` were trained when the first weights of queries, keys and values were larger by √2. "
        "Trainings shared two cores, so their minutes are no measure of speed; those of `mixed-lengths` ran on an "
        "Intel Xeon.",
        *(block for name, report in found.items() if "." not in name for block in _reproduction(report)),
        *_short_trainings(),
        *race(),
        *small_data(),
        *fine_tuning(),
        *placeholders(),
        *_generated_tasks(),
    )


def _overview(name: str, report: dict[str, Any]) -> Iterator[list[str]]:
    """A row for each test set, with the mean of the trainings."""
    tokens, loss = (
        fmean(row[key] for row in report["trainings"].values()) for key in ("target_tokens", "valid_loss")
    )
    different = report["variant"]["why"] if report["variant"] else "nothing"
    if not report["variant"] and "." in name:
        different = "nothing: trained again by a later version on another processor"
    for test in report["tests"].values():
        main, chrf = test["ways"][test["main"]], test["ways"]["chrF"]
        ensemble = test.get("ensemble")
        yield [
            name, different, _teachers(report), _pairs(report), f"{tokens:,.0f}", f"{loss:.3f}",
            ", ".join(main["seeds"]),
            f"{test['main']} {main['mean']:.2f}{_spread(main)}",
            f"{ensemble[test['main']]['score']:.2f}" if ensemble else "-",
            *([f"{row['score']:.2f}" for row in test["published"][:1]] or ["-"]), f"{chrf['mean']:.2f}",
            _files(name, report),
        ]  # fmt: skip


def _spread(main: dict[str, Any]) -> str:
    return "" if main["deviation"] is None else f" ± {main['deviation']:.2f}"


def _files(name: str, report: dict[str, Any]) -> str:
    """Links to the report and to the log of each training."""
    place = f"../benchmarks/results/{name}"
    names = [f"seed-{seed}" for seed in report["trainings"]]
    names += [f"teacher-{direction}" for direction in (report.get("teachers") or {"trainings": ()})["trainings"]]
    logs = [f"[{one.replace('-', ' ')}]({place}/{one}.metrics.jsonl)" for one in names]
    return ", ".join([f"[report]({place}/report.json)", *logs])


def _teachers(report: dict[str, Any]) -> str:
    found = report.get("teachers")
    trainings = found["trainings"].items() if found else ()
    return ", ".join(f"{direction}: {row['updates']:,} updates" for direction, row in trainings) or "-"


def _pairs(report: dict[str, Any]) -> str:
    """How many pairs there are with the teachers' translations."""
    return f"{report['teachers']['pairs']:,}" if report.get("teachers") else "-"


def _reproduction(report: dict[str, Any]) -> Iterator[str]:
    for name, test in report["tests"].items():
        yield f"### {name}, {test['sentences']:,} sentences"
        yield from _test(test)


def _test(test: dict[str, Any]) -> Iterator[str]:
    main, bootstrap = test["ways"][test["main"]], test["bootstrap"]
    yield table(["system", test["main"], "details"], _systems(test, main))
    yield (
        "The number after ± is the standard deviation over the seeds. Bootstrap resamples of the sentences "
        f"({bootstrap['resamples']:,}) give these 95 % intervals: "
        + ", ".join(
            f"seed {seed} {row['mean']:.2f} ± {row['interval']:.2f}" for seed, row in bootstrap["redrawn"].items()
        )
        + ". Differences between seeds, with p of a paired test: "
        + ", ".join(
            f"{row['first']} and {row['second']} {row['difference']:+.2f} (p = {row['p']:.3f})"
            for row in bootstrap["pairs"]
        )
        + "."
    )
    yield (
        "Papers score differently: the rows below are of the same translations. Two figures can be compared only if "
        "text and signature are the same."
    )
    head = ["score", "meaning", *(f"seed {seed}" for seed in main["seeds"]), "mean"]
    yield table([*head, *(["ensemble"] if test.get("ensemble") else []), "signature"], _scores(test))
    yield " ".join(filter(None, [_rules(test), test["left_out"]]))


def _systems(test: dict[str, Any], main: dict[str, Any]) -> Iterator[list[str]]:
    seeds = "; ".join(_in_full(row) for row in main["seeds"].values())
    names = f"glassformer, seed{'s' * (len(main['seeds']) > 1)} {', '.join(main['seeds'])}"
    yield [names, f"{main['mean']:.2f}{_spread(main)}", seeds]
    if ensemble := test.get("ensemble"):
        row = ensemble[test["main"]]
        yield ["the same seeds as one ensemble", f"{row['score']:.2f}", _in_full(row)]
    for row in test["published"]:
        details = f"{row['details']}; " if row["details"] else ""
        yield [row["system"], f"{row['score']:.2f}", f"{details}{row['source']}"]


def _in_full(row: dict[str, Any]) -> str:
    precisions = "/".join(f"{value:.1f}" for value in row["precisions"])
    return f"{row['score']:.2f} ({precisions}, BP {row['brevity_penalty']:.3f})"


def _scores(test: dict[str, Any]) -> Iterator[list[str]]:
    for name, row in test["ways"].items():
        scores = [f"{one['score']:.2f}" for one in row["seeds"].values()]
        ensemble = [f"{found[name]['score']:.2f}"] if (found := test.get("ensemble")) else []
        meaning = find_scoring(name).meaning
        yield [name, meaning, *scores, f"{row['mean']:.2f}", *ensemble, code(row["signature"])]


def _rules(test: dict[str, Any]) -> str:
    if not test["rules"]:
        return ""
    scores = ", ".join(f"{name} {score:.2f}" for name, score in test["rules"]["scores"].items())
    return (
        f"The text was converted to {test['rules']['turned_into']} by Moses's rules (sacremoses). The references, "
        f"converted in the same way, score: {scores}; a perfect translation would, too."
    )


def _short_trainings() -> Iterator[str]:
    """What settings gain in a short training on raw Multi30k."""
    path = RESULTS / "multi30k.json"
    if not path.is_file():
        return
    found = json.loads(path.read_text("utf-8"))["results"]
    common = set.intersection(*map(_changes, found))
    signature = found[0]["test_2016_flickr"]["signatures"]["bleu"]
    yield "## Multi30k in minutes"
    yield (
        f"`benchmarks/multi30k.py --jobs 2`: {code('glassformer train --model tiny')} on the raw text for "
        f"{found[0]['minutes']:g} minutes on one core, seed {found[0]['seed']}, with the defaults before "
        f"[the race](#the-race) and with some of them changed; all have {', '.join(map(code, sorted(common)))}. BLEU "
        f"and chrF of test_2016_flickr, beam 5, cased and detokenised: {code(signature)}."
    )
    head = ["settings", "changed", "updates", "target tokens", "validation loss", "BLEU", "chrF"]
    yield table(head, (_short_training(one, common) for one in found))
    yield "The row `cooldown`, by hand:"
    yield (
        "```sh\nexport OMP_NUM_THREADS=1\nglassformer train --src train.en.gz --tgt train.de.gz --valid-src "
        "val.en.gz --valid-tgt val.de.gz --run runs/multi30k --model tiny --max-minutes 20 --set model.dropout=0.15 "
        "--set text.vocab_size=4833 --set train.optimizer=adam --set train.precision=float32 --set train.warmup=500 "
        "--set train.cooldown=0.25\nglassformer evaluate --src test_2016_flickr.en.gz --ref test_2016_flickr.de.gz "
        "--run runs/multi30k --beam 5\n```"
    )


def _changes(result: dict[str, Any]) -> set[str]:
    """The settings that differ from the defaults before the race, except the seed, which has its own column."""
    defaults = RunConfig.from_mapping({"model": {"name": "tiny"}}).to_mapping()
    changes = set()
    for setting in result["changed"]:
        values: dict[str, dict[str, Any]] = {}
        apply_overrides(values, [setting])
        ((section, own),) = values.items()
        ((name, value),) = own.items()
        if name != "seed" and defaults[section][name] != value:
            changes.add(setting)
    return changes


def _short_training(result: dict[str, Any], common: set[str]) -> list[str]:
    changes = sorted(_changes(result) - common)
    return [
        result["way"], ", ".join(map(code, changes)) or "nothing", f"{result['updates']:,}",
        f"{result['target_tokens']:,}", f"{result['valid_loss']:.3f}",
        *(f"{result['test_2016_flickr'][score]:.1f}" for score in ("bleu", "chrf")),
    ]  # fmt: skip


def _generated_tasks() -> Iterator[str]:
    """What models learned of the generated tasks."""
    path = RESULTS / "tasks.json"
    if not path.is_file():
        return
    found = json.loads(path.read_text("utf-8"))["results"]
    yield "## The generated tasks"
    yield (
        "`benchmarks/tasks.py --seeds 1`, SCAN with `--minutes 10`: exact matches of greedy search in percent, on "
        "test pairs that no model saw, one thread, one seed, the settings of `glassformer train --task NAME` or "
        "`benchmarks/scan.py`. For SCAN the last weights are evaluated, because validation on trained commands "
        "says nothing about the test commands. SCAN was measured without the cooldown, which is the default now."
    )
    head = ["task", "positions", "updates", "minutes", "test pairs", "exact match", "on validation"]
    yield table(head, map(_task, found))
    yield from _scan_by_length()


def _task(result: dict[str, Any]) -> list[str]:
    seeds = result["seeds"]
    return [
        code(result["task"]), result["positions"],
        ", ".join(f"{one['updates']:,}" for one in seeds), ", ".join(f"{one['minutes']:.0f}" for one in seeds),
        f"{result['test_pairs']:,}", ", ".join(f"{one['exact_match']:.1f}" for one in seeds),
        ", ".join(f"{one['valid_exact_match']:.1f}" if "valid_exact_match" in one else "-" for one in seeds),
    ]  # fmt: skip


def _scan_by_length() -> Iterator[str]:
    """SCAN cut at the length of the published figure for relative positions, which is not the task's."""
    path = RESULTS / "positions_scan.json"
    if not path.is_file():
        return
    scan = json.loads(path.read_text("utf-8"))
    found = ", ".join(
        f"{row['test_exact_match']:.1f} % with {name} positions ({row['valid_exact_match']:.1f} % on validation)"
        for name, row in scan["models"].items()
    )
    yield (
        "Published for a plain Transformer: `scan-length` below 20 % (Csordás et al. 2021, arXiv 2108.12284), "
        "`scan-addprim_jump` 0.3 % (Ontañón et al. 2021, arXiv 2108.04378) and 3.4 % (Chaabouni et al. 2021, arXiv "
        "2107.01366), 43.0 % with T5's relative positions. Csordás et al. report 100 % with relative positions for "
        f"another cut: commands of up to {scan['longest_trained']} actions to train, the {scan['test_pairs']:,} "
        f"longer ones to test. With this cut and {scan['minutes_each']:g} minutes each "
        f"(`benchmarks/positions_scan.py`): {found}."
    )
