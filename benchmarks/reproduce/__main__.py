"""Reproduce a published result: train its recipe with several seeds, translate its test sets, report six scores.

    python -m benchmarks.reproduce
    python -m benchmarks.reproduce multi30k-en-de --data DIR --seeds 1,2,3

Without a recipe all are listed. The same command continues after a stop, and evaluates the seeds that are trained.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.reproduce.inputs import ReproduceRequest, find_files
from benchmarks.reproduce.recipe import read_recipe, recipe_names
from benchmarks.reproduce.report import make_report, report_lines, write_report
from benchmarks.reproduce.reproduce import reproduce
from glassformer.cli.options import exit_after_stop, new_directory
from glassformer.cli.streams import Console
from glassformer.errors import ConfigError, GlassformerError
from glassformer.training.reporting.display import open_display
from glassformer.training.train import Outcome


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.reproduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", nargs="?", help="a recipe's name, or your own file ending in .toml")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="where its files are (default: data/ and ../shared/data/)"
    )
    parser.add_argument("--variant", metavar="NAME", help="one that the list of all recipes names")
    parser.add_argument(
        "--run", metavar="DIR", help="where to train, with a directory for each seed (default: runs/RECIPE)"
    )
    parser.add_argument("--seeds", default="1,2,3", metavar="N,N,...", help="the seeds to train with (default 1,2,3)")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help="also write report.json and the metrics here, but no text",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="change any setting",
    )
    return parser.parse_args(arguments)


def request_of(options: argparse.Namespace) -> ReproduceRequest:
    """What is asked for; ``GlassformerError`` if a recipe, a file or a value is not what is expected."""
    recipe = read_recipe(options.recipe)
    default = Path("runs", ".".join(filter(None, [recipe.name, options.variant])))
    return ReproduceRequest(
        recipe=recipe,
        run=default if options.run is None else new_directory(options.run),
        files=find_files(recipe, options.data),
        seeds=parse_seeds(options.seeds),
        overrides=tuple(options.set),
        variant=recipe.variant(options.variant) if options.variant else None,
    )


def parse_seeds(text: str) -> tuple[int, ...]:
    """Different whole numbers, separated by commas or spaces; ``ConfigError`` for anything else."""
    found = [part for part in re.split(r"[,\s]+", text) if part]
    seeds = tuple(int(part) for part in found if re.fullmatch(r"\d{1,18}", part))
    if not found or len(set(seeds)) < len(found):
        raise ConfigError(f"--seeds: found {text!r}, expected different whole numbers such as 1,2,3.")
    return seeds


def recipe_lines() -> Iterator[str]:
    """Each recipe with its published scores, its variants and its file."""
    for name in recipe_names():
        recipe = read_recipe(name)
        yield f"{name}: {recipe.title}"
        for test in recipe.tests:
            yield from (f"    {row.score:.2f} {row.way} on {test.name}, {row.source}" for row in test.published[:1])
        yield from (f"    --variant {one.name}: {one.why}" for one in recipe.variants)
        yield f"    {recipe.path}"


def train_and_report(options: argparse.Namespace) -> int:
    """Carry out the request and print its report; the exit status."""
    request = request_of(options)
    with open_display(Console()) as display:
        result = reproduce(request, display)
    if isinstance(result, Outcome):
        return exit_after_stop(result.reason).exit_code
    report = make_report(request, result)
    write_report(request, report, options.report)
    print("\n".join(report_lines(report)))
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.recipe is None:
        print("\n".join(recipe_lines()))
        return 0
    try:
        return train_and_report(options)
    except GlassformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
