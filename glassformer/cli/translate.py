"""The command ``translate``."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from glassformer.cli import options as opt
from glassformer.cli.documents import check_input, is_pattern, translate_document
from glassformer.cli.shards import translate_shards
from glassformer.cli.streams import count_lines, from_shell, one_line, piece_in_one_line, read_requests, read_stdin
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.decoding import Request, Translation, Translator

Item = TypeVar("Item")

_INPUT, _CONSTRAINTS, _SHOWN = "What to translate", "Constraints", "What to print"
_DOCUMENT = "Files in their own form"
_CHUNK = 1000
_Parts = tuple[int | None, int | None]  # the layer and the head whose attention is shown


@opt.decode_options("search", "sampling", "scoring", "batching")
def translate(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to translate; standard input if omitted", show_default=False),
    ] = None,
    run: opt.Runs = None,
    input_: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help='A file, a text on each line, plain or .gz; in .jsonl each line {"text", "prefix", "must", "ban"}; '
            "or a pattern of such files: 'shards/*.txt'",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write --input here in its own form, its texts translated: .po .tmx .xliff .csv .tsv .jsonl .srt "
            ".vtt .html .md .txt. With a pattern: the directory for the translations",
            rich_help_panel=_DOCUMENT,
        ),
    ] = None,
    glossary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Terms, each with a tab and its translation, and further forms of it after tabs",
            rich_help_panel=_DOCUMENT,
        ),
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Pairs that were translated before: the same text is taken from there",
            rich_help_panel=_DOCUMENT,
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="The column of a table to translate: its name, or its number", rich_help_panel=_DOCUMENT),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(help="The column that takes the translation; by default the next", rich_help_panel=_DOCUMENT),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="The target language that a .tmx, .xliff or .po file does not name: de", rich_help_panel=_DOCUMENT
        ),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="What each translation begins with", rich_help_panel=_CONSTRAINTS)
    ] = None,
    must: Annotated[
        list[str] | None,
        typer.Option(help="A phrase that must occur; repeat for several", rich_help_panel=_CONSTRAINTS),
    ] = None,
    ban: Annotated[
        list[str] | None,
        typer.Option(help="A phrase that must not occur; repeat for several", rich_help_panel=_CONSTRAINTS),
    ] = None,
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
            help="Add ||| and for each token the source token with most attention: 0-0 1-2",
            rich_help_panel=_SHOWN,
        ),
    ] = False,
    layer: Annotated[
        int | None,
        typer.Option(
            help="The layer whose attention is used; default: the last",
            rich_help_panel=_SHOWN,
            show_default=False,
        ),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            help="The head whose attention is used; default: the mean",
            rich_help_panel=_SHOWN,
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with scores and tokens", rich_help_panel=_SHOWN)
    ] = False,
    engine: opt.Engine = "torch",
    precision: opt.Precision = None,
    shortlist: opt.Shortlist = False,
    workers: opt.Workers = None,
    device: opt.Device = "auto",
    *,
    decode: dict[str, Any],
) -> None:
    """Translate the TEXTs, a file, or standard input line by line: as many lines come out as went in.

    [bold]glassformer translate "I love you, too."[/bold]
    [bold]glassformer translate "A man sleeps." --run runs/first --beam 5 --n-best 3[/bold]
    [bold]glassformer translate --run runs/first < in.txt > out.txt[/bold]
    [bold]glassformer translate --input in.txt.gz --run runs/first --run runs/second > out.txt[/bold]
    [bold]glassformer translate --input app.po --out app.de.po --run runs/first --memory old.tmx[/bold]
    [bold]glassformer translate --input 'shards/*.txt' --out translated --engine ctranslate2 --run runs/first[/bold]
    """
    opt.require_one_process(
        "translate", "--workers shares the texts of one process, and --input 'shards/*.txt' files among any number"
    )
    _check_output_options(
        stream=stream, attention=attention, align=align, as_json=as_json, n_best=decode.get("n_best", 1),
        workers=workers or 1, parts=(layer, head), engine=engine,
    )  # fmt: skip
    if texts and input_ is not None:
        raise ConfigError("translate: found TEXT and --input, expected one of them. Put the texts in the file.")
    given = {"--glossary": glossary, "--memory": memory, "--column": column, "--into": into, "--language": language}
    of_lines = {
        "--prefix": prefix, "--must": must, "--ban": ban, "--json": as_json, "--attention": attention,
        "--align": align, "--stream": stream, "--n-best": decode.get("n_best", 1) > 1,
    }  # fmt: skip
    check_input(
        input_, out,
        of_documents=[name for name, value in given.items() if value is not None], engine=engine,
        of_lines=[name for name, value in of_lines.items() if value],
    )  # fmt: skip
    from glassformer.decoding import Request, Translator

    constraints = Request("", prefix or "", tuple(must or ()), tuple(ban or ()))
    lines = [from_shell(text) for text in texts] if texts else read_stdin()
    show = partial(_line, attention=attention, align=align, as_json=as_json, parts=(layer, head))
    with Translator.load(
        opt.runs_or_bundled(run), device=device, engine=engine, precision=precision, workers=workers,
        shortlist=shortlist,
    ) as translator:  # fmt: skip
        options = translator.config.with_changes(decode)
        asked = partial(translator.translate_stream, options=options, attention=attention or align)
        if input_ is not None and out is not None and is_pattern(input_):
            whole = partial(asked, chunk=_CHUNK)
            write = partial(_shard_lines, whole, constraints, show, None if as_json else translator)
            translate_shards(input_, out, write)
        elif input_ is not None and out is not None:
            from glassformer.documents import FormatOptions

            columns = FormatOptions(column, into, language)
            translate_document(translator, input_, out, options, columns=columns, glossary=glossary, memory=memory)
        elif stream:
            for number, request in enumerate(read_requests(input_ or lines, constraints)):
                _print_pieces(translator.stream(request, options, start=number))
        else:
            chunk = 1 if input_ is None and sys.stdin.isatty() else _CHUNK
            translations = asked(read_requests(input_ or lines, constraints), chunk=chunk)
            for number, translation in enumerate(_with_progress(translations, input_), start=1):
                typer.echo(show(translation))
                if attention and not as_json:
                    _print_heatmap(translation, parts=(layer, head))
                sys.stdout.flush()
                if not as_json:
                    _warn(f"text {number}", translation, translator)


def _check_output_options(
    *,
    stream: bool,
    attention: bool,
    align: bool,
    as_json: bool,
    n_best: int,
    workers: int,
    parts: _Parts,
    engine: str,
) -> None:
    others = {
        "--json": as_json, "--attention": attention, "--align": align, "--n-best": n_best > 1,
        "--workers": workers > 1,
    }  # fmt: skip
    given = [name for name, is_given in others.items() if is_given]
    if stream and given:
        raise ConfigError(
            f"--stream: found with {', '.join(given)}, expected alone, because it prints the text as it grows."
        )
    if parts != (None, None) and not (attention or align):
        raise ConfigError(
            "--layer, --head: found without --attention or --align, for which they choose the attention. Add one."
        )
    if parts != (None, None) and engine != "torch":
        raise ConfigError(
            f"--layer, --head: found with --engine {engine}, which gives the mean of the last layer's heads only. "
            "Leave them out, or use --engine torch."
        )


def _shard_lines(
    translate_all: Callable[..., Iterator["Translation"]],
    constraints: "Request",
    show: Callable[["Translation"], str],
    translator: "Translator | None",
    shard: Path,
) -> Iterator[str]:
    """The lines of output for a file of many, with the warnings of ``translator``, if it is given."""
    for number, translation in enumerate(translate_all(read_requests(shard, constraints)), start=1):
        if translator is not None:
            _warn(f"{shard}:{number}", translation, translator)
        yield show(translation)


def _with_progress(items: Iterable[Item], path: Path | None) -> Iterable[Item]:
    """The items, with a progress bar on standard error for a file, if standard output is not a terminal."""
    if path is None or not path.is_file() or not sys.stderr.isatty() or sys.stdout.isatty():
        return items
    from rich.progress import track

    from glassformer.cli.streams import Console

    return track(items, total=count_lines(path), console=Console(stderr=True), description="translating")


def _print_pieces(pieces: Iterator[str]) -> None:
    for piece in pieces:
        sys.stdout.write(piece_in_one_line(piece))
        sys.stdout.flush()
    typer.echo()


def _warn(where: str, translation: "Translation", translator: "Translator") -> None:
    """Warn of a text that was cut, missing phrases and doubtful translations; --json has fields for them."""
    if translation.source_truncated:
        typer.echo(f"warning: {where}: is longer than the model takes; its end was not translated.", err=True)
    if unmet := translation.hypotheses[0].unmet:
        typer.echo(f"warning: {where}: does not contain {', '.join(map(repr, unmet))}, which must occur.", err=True)
    if translator.confidence is not None and (doubt := translator.confidence.warning(translation)):
        typer.echo(f"warning: {where}: {doubt}.", err=True)


def _line(translation: "Translation", *, attention: bool, align: bool, as_json: bool, parts: _Parts) -> str:
    """The line of output for a text, whatever it contains."""
    layer, head = parts
    if as_json:
        values = translation.to_mapping(attention=attention, layer=layer, head=head)
        if attention or align:
            values.setdefault("links", [])  # a blank text has none
        return json.dumps(values, ensure_ascii=False)
    line = "\t".join(one_line(hypothesis.text) for hypothesis in translation.hypotheses)
    if align:
        from glassformer.decoding.translation import pharaoh

        line += f" ||| {pharaoh(translation.links(layer, head) or ())}".rstrip()
    return line


def _print_heatmap(translation: "Translation", *, parts: _Parts) -> None:
    """On standard error: standard output has one line for each input line."""
    from glassformer.cli.streams import Console
    from glassformer.explain.render.heatmap import print_attention

    layer, head = parts
    print_attention(translation, Console(stderr=True), layer=layer, head=head)
