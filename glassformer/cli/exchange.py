"""The commands ``import`` and ``export``: models of other programs in, and ours out."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from glassformer.cli import options as opt
from glassformer.cli.options import argument, option
from glassformer.errors import ConfigError

_SOURCE = (
    "A directory of a MarianMT model with safetensors, a Marian release (its directory or .zip), a directory that "
    "export wrote, or a name on the Hugging Face hub"
)
_PROGRAM = "For which: transformers, marian or ctranslate2"
_QUANTIZATION = "With --to ctranslate2: int8, int8_float32, float16 ..."


def import_model(
    source: Annotated[str, argument(_SOURCE, "SOURCE")],
    run: Annotated[Path, option("The new run directory", metavar="DIR", parser=opt.new_directory)],
) -> None:
    """Turn another program's model into a run that translates, trains and is traced like any other.

    [bold]glassformer import models/opus-mt-en-de --run runs/opus[/bold]
    [bold]glassformer import opus-2020-02-26.zip --run runs/opus[/bold]
    """
    from glassformer.interop.places import read_model

    model = read_model(source, lambda line: typer.echo(line, err=True))
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
    to: Annotated[Literal["transformers", "marian", "ctranslate2"], option(_PROGRAM, "--to", metavar="PROGRAM")],
    out: Annotated[Path, option("The new directory", metavar="DIR", parser=opt.new_directory)],
    run: Annotated[Path | None, argument("The run; the bundled one by default", "RUN")] = None,
    quantization: Annotated[str | None, option(_QUANTIZATION, metavar="TYPE")] = None,
) -> None:
    """Write a run as a model of Hugging Face's transformers, of Marian or of CTranslate2.

    [bold]glassformer export runs/first --to transformers --out first-hf[/bold]
    [bold]glassformer export runs/first --to ctranslate2 --quantization int8 --out first-ct2[/bold]
    """
    place = opt.run_or_bundled(run)
    if quantization is not None and to != "ctranslate2":
        raise ConfigError(f"--quantization: found with --to {to}, expected --to ctranslate2, which alone has it.")
    from glassformer.interop.places import export_model

    for note in export_model(place, to, out, quantization):
        typer.echo(f"note: {note}", err=True)
    typer.echo(str(out))
