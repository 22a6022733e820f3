"""The commands ``import`` and ``export``: models of other programs in, and ours out."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options as opt
from glassformer.cli.explain import write_page
from glassformer.cli.options import argument, option
from glassformer.errors import ConfigError
from glassformer.interop.programs import export_model, export_targets, import_sources, read_model

_SOURCE = (
    f"What to read: {', '.join(import_sources())}, a directory that export wrote, or a model on the Hugging Face "
    "hub, hf:USER/MODEL"
)
_VOCAB = "Vocabulary of a Marian model (.spm, .yml, .json), for a file without decoder.yml; twice: source, target"
_POSITIONS = (
    "Which sinusoids the model has: marian, with which Marian trains and which a native model gets by default; or "
    "paper, which Hugging Face's conversion has"
)
_SHORTLIST = "Lexical shortlist of a Marian model: lines of target, source and probability, or Marian's .bin of them"
_PAGE = "html"  # of --to: no program, but one file that translates in a browser
_PROGRAM = f"For which: {', '.join(export_targets())}; or {_PAGE}: one file that translates offline in any browser"
_OUT = f"The new directory; with --to {_PAGE} the file"
_QUANTIZATION = f"With --to {' or '.join(export_targets('quantization'))}: int8, int8_float32, float16 ..."
_LANGS = f"With --to {' or '.join(export_targets('langs'))}, for a run that does not say its languages: en-de"


def import_model(
    source: Annotated[str, argument(_SOURCE, "SOURCE")],
    run: Annotated[Path, option("The new run directory", metavar="DIR", parser=opt.new_directory)],
    langs: Annotated[str | None, option(opt.LANGS, metavar="SRC-TGT")] = None,
    vocab: Annotated[list[Path] | None, option(_VOCAB, metavar="FILE")] = None,
    positions: Annotated[str | None, option(_POSITIONS, metavar="NAME")] = None,
    shortlist: Annotated[Path | None, option(_SHORTLIST, metavar="FILE")] = None,
) -> None:
    """Turn another program's model into a run that translates, trains and is traced like any other.

    [bold]glassformer import models/opus-mt-en-de --run runs/opus --langs en-de[/bold]
    [bold]glassformer import opus-2020-02-26.zip --run runs/opus[/bold]
    [bold]glassformer import model.npz --vocab vocab.spm --run runs/mine[/bold]
    """
    from glassformer.interop.new_directory import check_new_directory

    check_new_directory(run, "--run")
    given = {"vocab": vocab, "positions": positions, "shortlist": shortlist}
    model = read_model(source, lambda line: typer.echo(line, err=True), **given)
    if langs is not None:
        model = model.with_languages(langs)
    model.write(run)
    for note in model.notes:
        typer.echo(f"note: {note}", err=True)
    config = model.config
    count = sum(weight.numel() for weight in model.weights.values())
    typer.echo(
        f"{run}: {model.source['architecture']}, {config.model.norm}-norm, {config.model.n_encoder_layers} + "
        f"{config.model.n_decoder_layers} layers, d_model {config.model.d_model}, "
        f"{config.model.tgt_vocab:,} entries, {count:,} parameters."
    )
    typer.echo(f"Translate with it: glassformer translate --run {run}")


def export(
    to: Annotated[str, option(_PROGRAM, "--to", metavar="PROGRAM")],
    out: Annotated[
        Path, option(f"The new directory; with --to {_PAGE} a file", metavar="DIR", parser=opt.new_directory)
    ],
    run: Annotated[Path | None, argument("The run; the bundled one by default", "RUN")] = None,
    quantization: Annotated[str | None, option(_QUANTIZATION, metavar="TYPE")] = None,
    langs: Annotated[str | None, option(_LANGS, metavar="SRC-TGT")] = None,
) -> None:
    """Write a run as a model of another program, or as a page that translates.

    [bold]glassformer export runs/first --to transformers --out first-hf[/bold]
    [bold]glassformer export runs/first --to ctranslate2 --quantization int8 --out first-ct2[/bold]
    [bold]glassformer export runs/first --to html --out translator.html[/bold]
    """
    targets = [*export_targets(), _PAGE]
    if to not in targets:
        raise ConfigError(f"--to: found {to!r}, expected {' or '.join(targets)}. Choose one of these.")
    if to == _PAGE:
        if quantization is not None or langs is not None:
            raise ConfigError("--quantization, --langs: found with --to html, which takes neither. Leave them out.")
        write_page(run, out, first="translate")
        return
    for note in export_model(opt.run_or_bundled(run), to, out, quantization=quantization, langs=langs):
        typer.echo(f"note: {note}", err=True)
    typer.echo(str(out))
