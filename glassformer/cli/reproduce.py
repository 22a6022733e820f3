"""The command `reproduce`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options as opt
from glassformer.errors import ConfigError


def reproduce(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A recipe's name, or your own file ending in .toml; without it all recipes are listed"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the recipe's files are; default: data/ and ../shared/data/"),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="A variant of the recipe; the list of all recipes names them")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where to train, with a directory for each seed; default: runs/RECIPE",
            parser=opt.new_directory,
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="N,N,...", help="The seeds to train with")] = "1,2,3",
    report: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write report.json and the trainings' metrics here; never any text"),
    ] = None,
    set_: opt.Set = None,
) -> None:
    """Reproduce a published result: train its recipe with several seeds, translate its test sets, report six scores.

    The same command continues after a stop, and evaluates the seeds that are trained.

    [bold]glassformer reproduce[/bold]
    [bold]glassformer reproduce multi30k-en-de --data DIR --seeds 1,2,3[/bold]
    """
    if recipe is None:
        for line in _recipe_lines():
            typer.echo(line)
        return
    from glassformer.cli.streams import Console
    from glassformer.reproduction.inputs import ReproduceRequest, find_files
    from glassformer.reproduction.recipe import read_recipe
    from glassformer.reproduction.report import make_report, report_lines, write_report
    from glassformer.reproduction.reproduce import reproduce as reproduce_recipe
    from glassformer.training.display import open_display
    from glassformer.training.train import Outcome

    found = read_recipe(recipe)
    request = ReproduceRequest(
        recipe=found,
        files=find_files(found, data),
        run=run or Path("runs") / ".".join(filter(None, [found.name, variant])),
        seeds=_parse_seeds(seeds),
        overrides=tuple(set_ or ()),
        variant=found.variant(variant) if variant else None,
    )
    with open_display(Console()) as display:
        result = reproduce_recipe(request, display)
    if isinstance(result, Outcome):
        raise opt.exit_after_stop(result.reason)
    figures = make_report(request, result)
    write_report(request, figures, report)
    for line in report_lines(figures):
        typer.echo(line)


def _recipe_lines() -> Iterator[str]:
    from glassformer.reproduction.recipe import read_recipe, recipe_names

    for name in recipe_names():
        recipe = read_recipe(name)
        yield f"{name}: {recipe.title}"
        for test in recipe.tests:
            yield from (f"    {row.score:.2f} {row.way} on {test.name}, {row.source}" for row in test.published[:1])
        yield from (f"    --variant {one.name}: {one.why}" for one in recipe.variants)
        yield f"    {recipe.path}"


def _parse_seeds(text: str) -> tuple[int, ...]:
    found = [part for part in re.split(r"[,\s]+", text) if part]
    seeds = tuple(int(part) for part in found if re.fullmatch(r"\d{1,18}", part))
    if not found or len(set(seeds)) < len(found):
        raise ConfigError(f"--seeds: found {text!r}, expected different whole numbers such as 1,2,3.")
    return seeds
