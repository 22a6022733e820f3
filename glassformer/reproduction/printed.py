"""A report as lines for a person. Everything is read from the report."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from glassformer.training.progress import clock


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Trainings, then for each test set its scores, what others published, and what chance does."""
    yield f"{report['recipe']['name']}: {report['recipe']['title']}"
    if report["variant"]:
        yield f"Variant {report['variant']['name']}: {report['variant']['why']}"
    if report["changed"]:
        yield f"Settings that were changed: {', '.join(report['changed'])}"
    if report["teachers"]:
        yield from _teachers(report["teachers"])
    yield ""
    yield from _columns(_TRAINING, [_training(seed, row) for seed, row in report["trainings"].items()])
    for name, test in report["tests"].items():
        yield ""
        yield f"{name}, {test['sentences']:,} sentences"
        yield from _scores(test)
        yield from _main(test)
        yield from _bootstrap(test["bootstrap"])


_TRAINING = ("seed", "updates", "epochs", "target tokens", "time", "tokens/s", "valid loss", "model")


def _teachers(found: Mapping[str, Any]) -> Iterator[str]:
    for direction, row in found["trainings"].items():
        changed = f" ({', '.join(row['changed'])})" if row["changed"] else ""
        yield (
            f"The {direction} teacher{changed}: {row['updates']:,} updates, "
            f"{row['target_tokens']:,} target tokens, {clock(row['elapsed_s'])}, valid loss {row['valid_loss']:.3f}"
        )
    yield f"With their translations there are {found['pairs']:,} pairs."


def _training(seed: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        seed, f"{row['updates']:,}", str(row["epochs"]), f"{row['target_tokens']:,}", clock(row["elapsed_s"]),
        f"{row['target_tokens_per_s']:,.0f}", f"{row['valid_loss']:.3f}",
        "average" if row["averaged"] else "best single",
    )  # fmt: skip


def _scores(test: Mapping[str, Any]) -> Iterator[str]:
    ways = test["ways"]
    seeds = list(next(iter(ways.values()))["seeds"])
    together = ("ensemble",) if test["ensemble"] else ()
    head = ("way", *(f"seed {seed}" for seed in seeds), "mean", "±", *together, "signature")
    rows = [
        (name, *(f"{row['seeds'][seed]['score']:.2f}" for seed in seeds), f"{row['mean']:.2f}", _deviation(row),
         *(f"{test[key][name]['score']:.2f}" for key in together), row["signature"])
        for name, row in ways.items()
    ]  # fmt: skip
    yield from _columns(head, rows)
    yield from (f"{name}: {row['meaning']}." for name, row in ways.items())
    if test["left_out"]:
        yield test["left_out"]
    if test["rules"]:
        scores = ", ".join(f"{name} {score:.2f}" for name, score in test["rules"]["scores"].items())
        yield f"The references themselves, made {test['rules']['turned_into']} by the same rules, score: {scores}."


def _main(test: Mapping[str, Any]) -> Iterator[str]:
    """The figure to hold against the published ones, in full."""
    way = test["ways"][test["main"]]
    systems = {f"seed {seed}": row for seed, row in way["seeds"].items()}
    if test["ensemble"]:
        systems["ensemble of them"] = test["ensemble"][test["main"]]
    for name, row in systems.items():
        precisions = "/".join(f"{precision:.1f}" for precision in row["precisions"])
        yield (
            f"{name}: {test['main']} {row['score']:.2f}, {precisions}, BP {row['brevity_penalty']:.3f}, "
            f"{row['words']:,} words for {row['reference_words']:,}"
        )
    for row in test["published"]:
        details = f", {row['details']}" if row["details"] else ""
        yield f"published: {row['way']} {row['score']:.2f}{details} ({row['system']}, {row['source']})"


def _deviation(row: Mapping[str, Any]) -> str:
    return "-" if row["deviation"] is None else f"{row['deviation']:.2f}"


def _bootstrap(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['resamples']:,} times over redrawn sentences, {found['way']}:"
    for seed, row in found["redrawn"].items():
        yield f"  seed {seed}: {row['mean']:.2f} ± {row['interval']:.2f} (95 %)"
    for row in found["pairs"]:
        yield f"  seed {row['first']} - seed {row['second']}: {row['difference']:+.2f}, p = {row['p']:.3f}"


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Left-aligned, as wide as their widest, two spaces between."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
