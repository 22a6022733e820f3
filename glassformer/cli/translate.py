"""The command that translates: it parses, makes one library call, and prints. ``cli`` gives it its place."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from glassformer.cli import options as opt
from glassformer.cli.streams import count_lines, from_shell, in_one_line, one_line, read_requests, stdin_lines
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.decoding import Translation

Item = TypeVar("Item")

_INPUT, _DEMANDS, _SHOWN = "What to translate", "What an output must hold", "What to print"
_CHUNK = 1000
_Parts = tuple[int | None, int | None]  # whose attention: of which layer and head


def translate(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to translate; standard input if nothing", show_default=False),
    ] = None,
    run: opt.Runs = None,
    input_: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help='A file, a text on each line, plain or .gz; in .jsonl each line {"text", "prefix", "must", "ban"}',
            rich_help_panel=_INPUT,
        ),
    ] = None,
    split_sentences: opt.SplitSentences = False,
    prefix: Annotated[
        str | None, typer.Option(help="What each translation begins with", rich_help_panel=_DEMANDS)
    ] = None,
    must: Annotated[
        list[str] | None,
        typer.Option(help="A phrase that each translation holds; may be given again", rich_help_panel=_DEMANDS),
    ] = None,
    ban: Annotated[
        list[str] | None,
        typer.Option(help="A phrase that no translation holds; may be given again", rich_help_panel=_DEMANDS),
    ] = None,
    beam: opt.Beam = None,
    length_penalty: opt.LengthPenalty = None,
    n_best: opt.NBest = None,
    coverage_penalty: opt.CoveragePenalty = None,
    beam_groups: opt.BeamGroups = None,
    diversity: opt.Diversity = None,
    min_length: opt.MinLength = None,
    repetition_penalty: opt.RepetitionPenalty = None,
    no_repeat_ngram: opt.NoRepeatNgram = None,
    sample: opt.Sample = False,
    temperature: opt.Temperature = None,
    top_k: opt.TopK = None,
    top_p: opt.TopP = None,
    min_p: opt.MinP = None,
    typical_p: opt.TypicalP = None,
    seed: opt.Seed = None,
    mbr: opt.Mbr = None,
    max_length_a: opt.MaxLengthA = None,
    max_length_b: opt.MaxLengthB = None,
    batch_tokens: opt.BatchTokens = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print each token as soon as it is certain", rich_help_panel=_SHOWN)
    ] = False,
    attention: Annotated[
        bool,
        typer.Option("--attention", help="Show which source tokens each token attended to", rich_help_panel=_SHOWN),
    ] = False,
    align: Annotated[
        bool,
        typer.Option(
            "--align",
            help="Add ||| and for each token the source token most looked at: 0-0 1-2",
            rich_help_panel=_SHOWN,
        ),
    ] = False,
    layer: Annotated[
        int | None,
        typer.Option(help="Whose attention, from 0; the last if none", rich_help_panel=_SHOWN, show_default=False),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            help="Whose attention, from 0; the mean of all if none", rich_help_panel=_SHOWN, show_default=False
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with scores and tokens", rich_help_panel=_SHOWN)
    ] = False,
    precision: opt.Precision = None,
    workers: opt.Workers = 1,
    device: opt.Device = "auto",
) -> None:
    """Translate the TEXTs, a file, or standard input line by line: as many lines come out as went in.

    [bold]glassformer translate "I love you, too."[/bold]
    [bold]glassformer translate "A man sleeps." --run runs/first --beam 5 --n-best 3[/bold]
    [bold]glassformer translate --run runs/first < in.txt > out.txt[/bold]
    [bold]glassformer translate --input in.txt.gz --run runs/first --run runs/second > out.txt[/bold]
    """
    places = opt.chosen_runs(run)
    _check_shown(
        stream=stream, attention=attention, align=align, as_json=as_json, n_best=n_best, workers=workers,
        parts=(layer, head),
    )  # fmt: skip
    if texts and input_ is not None:
        raise ConfigError("translate: found TEXT and --input, expected one of them. Put the texts in the file.")
    from glassformer.decoding import Request, Translator, translate_together
    from glassformer.world import join_world

    given = {
        "beam": beam, "length_penalty": length_penalty, "n_best": n_best,
        "coverage_penalty": coverage_penalty, "beam_groups": beam_groups, "diversity": diversity,
        "min_length": min_length, "repetition_penalty": repetition_penalty, "no_repeat_ngram": no_repeat_ngram,
        "sample": sample,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "typical_p": typical_p,
        "seed": seed, "mbr": mbr, "split_sentences": split_sentences,
        "max_length_a": max_length_a, "max_length_b": max_length_b, "batch_tokens": batch_tokens,
    }  # fmt: skip
    demanded = Request("", prefix or "", tuple(must or ()), tuple(ban or ()))
    lines = [from_shell(text) for text in texts] if texts else stdin_lines()
    requests = read_requests(lines if input_ is None else input_, demanded)
    chunk = 1 if input_ is None and sys.stdin.isatty() else _CHUNK
    with join_world() as world:
        if stream and world.size > 1:
            raise ConfigError(
                f"--stream: found with {world.size} processes, expected one: it prints one growing text."
            )
        place = world.device(device)
        with Translator.load(places, device=place, precision=precision, workers=workers) as translator:
            chosen = opt.decode_options(translator.config, given)
            if stream:
                for number, request in enumerate(requests):
                    _print_pieces(translator.stream(request, chosen, start=number))
                return
            seen = attention or align
            shown_of = input_ if world.is_first else None
            found = translate_together(translator, requests, chosen, world, attention=seen, chunk=chunk)
            for number, translation in enumerate(_with_progress(found, shown_of), start=1):
                _print_translation(
                    translation, attention=attention, align=align, as_json=as_json, parts=(layer, head)
                )
                if not as_json:
                    _warn_of_loss(number, translation)


def _check_shown(
    *,
    stream: bool,
    attention: bool,
    align: bool,
    as_json: bool,
    n_best: int | None,
    workers: int,
    parts: _Parts,
) -> None:
    others = {
        "--json": as_json, "--attention": attention, "--align": align, "--n-best": (n_best or 1) > 1,
        "--workers": workers > 1,
    }  # fmt: skip
    given = [name for name, is_given in others.items() if is_given]
    if stream and given:
        raise ConfigError(f"--stream: found with {', '.join(given)}, expected alone: it prints one growing text.")
    if parts != (None, None) and not (attention or align):
        raise ConfigError(
            "--layer, --head: found without --attention or --align, whose attention they choose. Add one."
        )


def _with_progress(items: Iterable[Item], path: Path | None) -> Iterable[Item]:
    """The items, with a bar on standard error while they come from a file and the terminal shows nothing else."""
    if path is None or not path.is_file() or not sys.stderr.isatty() or sys.stdout.isatty():
        return items
    from rich.progress import track

    from glassformer.cli.console import Console

    return track(items, total=count_lines(path), console=Console(stderr=True), description="translating")


def _print_pieces(pieces: Iterator[str]) -> None:
    for piece in pieces:
        sys.stdout.write(in_one_line(piece))
        sys.stdout.flush()
    typer.echo()


def _warn_of_loss(number: int, translation: "Translation") -> None:
    """On standard error, what --json has as flags: a text that was cut, phrases that do not occur."""
    if translation.source_truncated:
        typer.echo(f"warning: text {number}: is longer than the model takes; its end was not translated.", err=True)
    if unmet := translation.hypotheses[0].unmet:
        typer.echo(f"warning: text {number}: does not hold {', '.join(map(repr, unmet))}, as demanded.", err=True)


def _print_translation(
    translation: "Translation", *, attention: bool, align: bool, as_json: bool, parts: _Parts
) -> None:
    layer, head = parts
    if as_json:
        values = translation.to_mapping(attention=attention, layer=layer, head=head)
        if attention or align:
            values.setdefault("links", [])  # a blank text has none
        typer.echo(json.dumps(values, ensure_ascii=False))
        return
    line = "\t".join(one_line(hypothesis.text) for hypothesis in translation.hypotheses)
    if align:
        from glassformer.decoding.translation import pharaoh

        line += f" ||| {pharaoh(translation.links(layer, head) or ())}".rstrip()
    typer.echo(line)
    if attention:
        from glassformer.cli.console import Console
        from glassformer.explain.render.heatmap import print_attention

        # Standard output keeps a line for each line.
        print_attention(translation, Console(stderr=True), layer=layer, head=head)
    sys.stdout.flush()
