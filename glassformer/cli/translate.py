"""The command ``translate``."""

import json
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from glassformer.cli import options as opt
from glassformer.cli.documents import DocumentOptions, Out, check_input, is_pattern, translate_document
from glassformer.cli.options import argument, option
from glassformer.cli.shards import translate_shards
from glassformer.cli.streams import count_lines, from_shell, one_line, piece_in_one_line, read_requests, read_stdin
from glassformer.errors import ConfigError
from glassformer.text.steps.target_language import UNKNOWN_TARGET

if TYPE_CHECKING:
    from glassformer.decoding import Request, Translation
    from glassformer.text.columns import Columns

Item = TypeVar("Item")

_CHUNK = 1000
_INPUT, _CONSTRAINTS, _SHOWN = "What to translate", "Constraints", "What to print"
_FILE = (
    'A file, one text a line, plain or .gz; in .jsonl each line {"text", "prefix", "must", "ban"}; or a pattern of '
    "such files: 'shards/*.txt'"
)
_MUST = "A phrase that must occur; repeat for several"
_BAN = "A phrase that must not occur; repeat for several"
_ATTENTION = "Show which source tokens each token attended to"
_ALIGN = "Add ||| and for each token the source token with most attention: 0-0 1-2"


@dataclass(frozen=True, kw_only=True)
class ConstraintOptions:
    """What each translation must and must not contain."""

    prefix: Annotated[str | None, option("What each translation begins with", panel=_CONSTRAINTS)] = None
    must: Annotated[list[str] | None, option(_MUST, panel=_CONSTRAINTS)] = None
    ban: Annotated[list[str] | None, option(_BAN, panel=_CONSTRAINTS)] = None

    def request(self) -> "Request":
        """A request with these constraints, still without a text."""
        from glassformer.decoding import Request

        return Request("", self.prefix or "", tuple(self.must or ()), tuple(self.ban or ()))


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What is printed of each translation."""

    stream: Annotated[bool, option("Print each token as soon as it is certain", "--stream", panel=_SHOWN)] = False
    attention: Annotated[bool, option(_ATTENTION, "--attention", panel=_SHOWN)] = False
    align: Annotated[bool, option(_ALIGN, "--align", panel=_SHOWN)] = False
    layer: Annotated[int | None, option("The layer whose attention is used; default: the last", panel=_SHOWN)] = None
    head: Annotated[int | None, option("The head whose attention is used; default: the mean", panel=_SHOWN)] = None
    as_json: Annotated[bool, option("One JSON object a line, with scores and tokens", "--json", panel=_SHOWN)] = False

    @property
    def needs_attention(self) -> bool:
        """Whether attention has to be returned by the search."""
        return self.attention or self.align

    def check(self, engine: opt.EngineOptions, n_best: int) -> None:
        """Raise ``ConfigError`` for options that contradict each other."""
        others = {
            "--json": self.as_json, "--attention": self.attention, "--align": self.align, "--n-best": n_best > 1,
            "--workers": (engine.workers or 1) > 1,
        }  # fmt: skip
        given = [name for name, is_given in others.items() if is_given]
        if self.stream and given:
            raise ConfigError(f"--stream: found with {', '.join(given)}, expected alone. Drop one of both.")
        if self.layer is None and self.head is None:
            return
        if not self.needs_attention:
            raise ConfigError("--layer, --head: found without --attention or --align, which show it. Add one.")
        if engine.chosen == "ctranslate2":
            raise ConfigError("--layer, --head: found with ctranslate2, which has only a mean. Use --engine torch.")

    def line(self, translation: "Translation") -> str:
        """The line of output for a text, whatever it contains."""
        if self.as_json:
            values = translation.to_mapping(attention=self.attention, layer=self.layer, head=self.head)
            if self.needs_attention:
                values.setdefault("links", [])  # a blank text has none
            return json.dumps(values, ensure_ascii=False)
        line = "\t".join(one_line(hypothesis.text) for hypothesis in translation.hypotheses)
        if self.align:
            from glassformer.decoding.translation import pharaoh

            line += f" ||| {pharaoh(translation.links(self.layer, self.head) or ())}".rstrip()
        return line

    def print_heatmap(self, translation: "Translation") -> None:
        """On standard error: standard output has one line for each input."""
        from glassformer.cli.streams import Console
        from glassformer.explain.render.heatmap import print_attention

        print_attention(translation, Console(stderr=True), layer=self.layer, head=self.head)


@opt.options("search", "sampling", "scoring", "batching")
def translate(
    *,
    texts: Annotated[list[str] | None, argument("What to translate; standard input if omitted", "TEXT")] = None,
    run: opt.Runs = None,
    input_: Annotated[Path | None, option(_FILE, "--input", panel=_INPUT)] = None,
    out: Out = None,
    document: DocumentOptions,
    constraints: ConstraintOptions,
    output: OutputOptions,
    engine: opt.EngineOptions,
    decode: dict[str, Any],
) -> None:
    """Translate the TEXTs, a file, or standard input line by line: as many lines come out as went in.

    [bold]glassformer translate "I love you, too."[/bold]
    [bold]glassformer translate "A man sleeps." --run runs/first --beam 5 --n-best 3[/bold]
    [bold]glassformer translate --input in.txt.gz --run runs/first --run runs/second > out.txt[/bold]
    [bold]glassformer translate --input app.po --out app.de.po --run runs/first --memory old.tmx[/bold]
    [bold]glassformer translate --input 'shards/*.txt' --out translated --engine ctranslate2 --run runs/first[/bold]
    """
    opt.require_one_process(
        "translate", "--workers shares the texts of one process, and --input 'shards/*.txt' files among any number"
    )
    n_best = decode.get("n_best", 1)
    output.check(engine, n_best)
    if texts and input_ is not None:
        raise ConfigError("translate: found TEXT and --input, expected one of them. Put the texts in the file.")
    line_options = [*opt.given_options(constraints), *opt.given_options(output)]
    if n_best > 1:
        line_options.append("--n-best")
    check_input(
        input_, out, document_options=opt.given_options(document), line_options=line_options, engine=engine.chosen
    )
    document.check_output(input_, out)
    given = _find_texts(texts, input_, document.find_columns() if out is None else None)
    with engine.load(run) as translator:
        options = translator.config.with_changes(decode)
        asked = partial(translator.translate_stream, options=options, attention=output.needs_attention)
        if input_ is not None and out is not None and is_pattern(input_):
            write = partial(_shard_lines, asked, constraints.request(), output)
            translate_shards(input_, out, write, partial(opt.used_engines, translator))
        elif input_ is not None and out is not None:
            split = decode.get("split_sentences", True)
            translate_document(
                translator, input_, out, options, document, engine.key(run), split=split, verbose=engine.verbose
            )
        elif output.stream:
            for number, request in enumerate(read_requests(given, constraints.request())):
                translation = _print_pieces(translator.stream(request, options, start=number))
                _warn(f"text {number + 1}", translation)
        else:
            chunk = 1 if input_ is None and sys.stdin.isatty() else _CHUNK
            translations = asked(read_requests(given, constraints.request()), chunk=chunk)
            for number, translation in enumerate(_with_progress(translations, input_), start=1):
                typer.echo(output.line(translation))
                if output.attention and not output.as_json:
                    output.print_heatmap(translation)
                sys.stdout.flush()
                if not output.as_json:
                    _warn(f"text {number}", translation)


def _find_texts(texts: list[str] | None, input_: Path | None, columns: "Columns | None") -> Iterable[str] | Path:
    """The texts that are given, the file that holds one a line, or the texts of a table."""
    if input_ is None:
        return [from_shell(text) for text in texts] if texts else read_stdin()
    if columns is None:
        return input_
    from glassformer.text.formats.sheets import read_sources

    return read_sources(input_, columns)


def _shard_lines(
    translate_all: Callable[..., Iterator["Translation"]],
    constraints: "Request",
    output: OutputOptions,
    shard: Path,
) -> Iterator[str]:
    """The lines of output for one of many files."""
    translations = translate_all(read_requests(shard, constraints), chunk=_CHUNK)
    for number, translation in enumerate(translations, start=1):
        if not output.as_json:
            _warn(f"{shard}:{number}", translation)
        yield output.line(translation)


def _with_progress(items: Iterable[Item], path: Path | None) -> Iterable[Item]:
    if path is None or not path.is_file() or not sys.stderr.isatty() or sys.stdout.isatty():
        return items
    from rich.progress import track

    from glassformer.cli.streams import Console

    return track(items, total=count_lines(path), console=Console(stderr=True), description="translating")


def _print_pieces(pieces: Generator[str, None, "Translation"]) -> "Translation":
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            typer.echo()
            translation: Translation = end.value
            return translation
        sys.stdout.write(piece_in_one_line(piece))
        sys.stdout.flush()


def _warn(where: str, translation: "Translation") -> None:
    limited, unmet, doubt = translation.limit_warning, translation.hypotheses[0].unmet, translation.warning
    if translation.source_truncated:
        typer.echo(f"warning: {where}: is longer than the model takes; its end was not translated.", err=True)
    if limited:
        typer.echo(f"warning: {where}: {limited}; raise --max-length-a or --max-length-b.", err=True)
    if unmet:
        typer.echo(f"warning: {where}: does not contain {', '.join(map(repr, unmet))}, which must occur.", err=True)
    if doubt:
        typer.echo(f"warning: {where}: {doubt}.", err=True)
    for flag in translation.flags:
        if flag.startswith(UNKNOWN_TARGET):
            typer.echo(f"warning: {where}: {flag}.", err=True)
