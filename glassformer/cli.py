"""The command line: each subcommand parses, makes one library call, and prints.

Libraries are imported where they are used, so that ``--help`` answers at once.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from glassformer import options as opt
from glassformer.cli_explain import diff, trace
from glassformer.errors import ConfigError, GlassformerError, RunError, TextError
from glassformer.streams import from_shell, one_line, stdin_lines, write_lines
from glassformer.version import __version__

if TYPE_CHECKING:
    from glassformer.decoding.translator import Translation
    from glassformer.training.train import Outcome

app = typer.Typer(
    help="The Transformer of 'Attention Is All You Need': see through it, train it, use it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

INTERRUPTED = 130
TERMINATED = 143


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False) -> None:
    if version:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


@app.command()
def train(
    pairs: Annotated[
        Path | None,
        typer.Argument(help="One file of pairs: .tsv .jsonl .po .mo .tmx, plain or .gz", show_default=False),
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Source texts, one a line, plain or .gz")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Their translations, line by line")] = None,
    valid: Annotated[Path | None, typer.Option(help="A file of pairs for validation, beside PAIRS")] = None,
    valid_src: Annotated[Path | None, typer.Option(help="Validation sources, beside --src")] = None,
    valid_tgt: Annotated[Path | None, typer.Option(help="Validation targets, beside --tgt")] = None,
    task: Annotated[str | None, typer.Option(help="A generated task: dates, phrasebook-de, scan-length ...")] = None,
    run: opt.NewRun = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with all of this: run, [data], [model] ...")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="tiny, small, base, big or walkthrough; tiny if none is named")
    ] = None,
    max_updates: Annotated[int | None, typer.Option(help="End after this many updates")] = None,
    max_minutes: Annotated[float | None, typer.Option(help="End after this many minutes of training")] = None,
    set_: opt.Set = None,
) -> None:
    """Train a model on pairs of text, from raw text to a working translator. The same command goes on after a stop.

    [bold]glassformer train --src A.en --tgt A.de --run runs/first[/bold]
    [bold]glassformer train pairs.tsv --run runs/second --model small --max-minutes 30[/bold]
    """
    from rich.console import Console

    from glassformer.training.display import display_for
    from glassformer.training.request import TrainRequest
    from glassformer.training.train import train as train_run

    paths = {"pairs": pairs, "src": src, "tgt": tgt, "valid": valid, "valid_src": valid_src, "valid_tgt": valid_tgt}
    data = {"task": task, **{key: str(path) if path is not None else None for key, path in paths.items()}}
    limits = {"train.max_updates": max_updates, "train.max_minutes": max_minutes}
    overrides = [*(set_ or ()), *(f"{key}={value}" for key, value in limits.items() if value is not None)]
    request = TrainRequest.make(run=run, data=data, config_file=config, model=model, overrides=overrides)
    with display_for(Console()) as display:
        outcome = train_run(request.run, request.source, request.config, display)
    _print_outcome(outcome)


def _print_outcome(outcome: "Outcome") -> None:
    rate = outcome.target_tokens / outcome.elapsed_s if outcome.elapsed_s else 0.0
    typer.echo(f"{outcome.updates:,} updates, {outcome.target_tokens:,} target tokens, {rate:,.0f} tokens/s in all.")
    if outcome.final is None:
        raise typer.Exit(TERMINATED if "SIGTERM" in outcome.reason else INTERRUPTED)
    scores = outcome.final.scores
    typer.echo(
        f"Final model, on validation: loss {outcome.final.loss:.3f}, ppl {outcome.final.perplexity:.2f}, greedy "
        f"BLEU {scores.bleu:.1f}, chrF {scores.chrf:.1f}, exact {scores.exact_match:.1f} % of {scores.sentences}.\n"
        f"BLEU is {scores.signatures['bleu']}, chrF is {scores.signatures['chrf']}.\n"
        f'Use it:  glassformer translate "..." --run {outcome.run}'
    )


@app.command()
def translate(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to translate; standard input if nothing", show_default=False),
    ] = None,
    run: opt.Run = None,
    beam: opt.Beam = None,
    length_penalty: opt.LengthPenalty = None,
    n_best: opt.NBest = None,
    sample: opt.Sample = False,
    temperature: opt.Temperature = None,
    top_k: opt.TopK = None,
    top_p: opt.TopP = None,
    min_p: opt.MinP = None,
    seed: opt.Seed = None,
    max_length_a: opt.MaxLengthA = None,
    max_length_b: opt.MaxLengthB = None,
    batch_tokens: opt.BatchTokens = None,
    attention: Annotated[
        bool, typer.Option("--attention", help="Show which source tokens each token attended to")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with scores and tokens")] = False,
    device: opt.Device = "auto",
) -> None:
    """Translate the TEXTs, or standard input line by line: as many lines come out as went in.

    [bold]glassformer translate "A man sleeps." --run runs/first --beam 5 --n-best 3[/bold]
    [bold]glassformer translate --run runs/first < in.txt > out.txt[/bold]
    """
    place = opt.required_run(run)
    from glassformer.decoding.translator import Translator

    translator = Translator.load(place, device=device)
    chosen = opt.decode_options(
        translator.config,
        {
            "beam": beam, "length_penalty": length_penalty, "n_best": n_best, "sample": sample,
            "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed,
            "max_length_a": max_length_a, "max_length_b": max_length_b, "batch_tokens": batch_tokens,
        },
    )  # fmt: skip
    lines: Iterable[str] = [from_shell(text) for text in texts] if texts else stdin_lines()
    chunk = 1 if sys.stdin.isatty() else 1000
    for translation in translator.translate_stream(lines, chosen, attention=attention, chunk=chunk):
        _print_translation(translation, attention=attention, as_json=as_json)


def _print_translation(translation: "Translation", *, attention: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(translation.to_mapping(), ensure_ascii=False))
        return
    typer.echo("\t".join(one_line(hypothesis.text) for hypothesis in translation.hypotheses))
    if attention:
        from rich.console import Console

        from glassformer.explain.terminal import print_attention

        print_attention(translation, Console(stderr=True))  # standard output keeps a line for each line
    sys.stdout.flush()


@app.command()
def evaluate(
    src: Annotated[Path, typer.Option(help="Source texts, one a line, plain or .gz")],
    ref: Annotated[Path, typer.Option(help="Their reference translations, line by line")],
    run: opt.Run = None,
    beam: opt.Beam = None,
    length_penalty: opt.LengthPenalty = None,
    max_length_a: opt.MaxLengthA = None,
    max_length_b: opt.MaxLengthB = None,
    batch_tokens: opt.BatchTokens = None,
    out: Annotated[Path | None, typer.Option(help="Also write the translations to this file")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
    device: opt.Device = "auto",
) -> None:
    """Translate a test set and compare with its references: BLEU, chrF, exact match, with their signatures.

    [bold]glassformer evaluate --src test.en.gz --ref test.de.gz --run runs/first --beam 5[/bold]
    """
    place = opt.required_run(run)
    from glassformer.decoding.translator import Translator
    from glassformer.text.corpus import read_pairs
    from glassformer.training.evaluation import translate_and_score

    pairs = list(read_pairs(src, ref))
    if not pairs:
        raise TextError(f"{src}: found no lines, expected at least one sentence to translate and compare.")
    translator = Translator.load(place, device=device)
    given = {
        "beam": beam, "length_penalty": length_penalty, "max_length_a": max_length_a,
        "max_length_b": max_length_b, "batch_tokens": batch_tokens,
    }  # fmt: skip
    scores, outputs = translate_and_score(translator, pairs, opt.decode_options(translator.config, given))
    if out is not None:
        write_lines(out, outputs)
    if as_json:
        typer.echo(json.dumps(scores.to_mapping()))
        return
    typer.echo(f"BLEU   {scores.bleu:6.2f}   {scores.signatures['bleu']}")
    typer.echo(f"chrF   {scores.chrf:6.2f}   {scores.signatures['chrf']}")
    typer.echo(f"exact  {scores.exact_match:6.2f} %  of {scores.sentences} sentences")


app.command()(trace)
app.command()(diff)


@app.command()
def summary(
    name: Annotated[
        str | None,
        typer.Argument(help="A named configuration: tiny, small, base, big, walkthrough", show_default=False),
    ] = None,
    run: opt.Run = None,
    all_layers: Annotated[
        bool, typer.Option("--all-layers", help="Do not fold layers that repeat the first")
    ] = False,
) -> None:
    """The layers of a model, with output shapes and parameter counts.

    [bold]glassformer summary base[/bold]    [bold]glassformer summary --run runs/first[/bold]
    """
    if (name is None) == (run is None):
        raise ConfigError(
            f"summary: found {'neither' if name is None else 'both'} NAME and --run, expected one of them: "
            "`glassformer summary base` or `glassformer summary --run DIR`."
        )
    import torch
    from rich.console import Console

    from glassformer.config import ModelConfig
    from glassformer.explain.summary import print_summary
    from glassformer.model.transformer import Transformer
    from glassformer.run_directory import RunDirectory

    if run is not None:
        print_summary(RunDirectory(run).load("cpu").model, Console(), all_layers=all_layers)
        return
    with torch.device("meta"):  # shapes and counts need no memory for weights
        print_summary(Transformer(ModelConfig.named(str(name))), Console(), all_layers=all_layers)


@app.command()
def average(
    run: opt.Run = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="How many; the run's train.average_last if not given")
    ] = None,
) -> None:
    """Average the run's last checkpoints into its final model. Paper, section 6.1: the last 5, or 20 for big."""
    place = opt.required_run(run)
    from glassformer.training.average import average_run

    used = average_run(place, last)
    typer.echo(f"The final model of {place} is now the mean of {len(used)} checkpoints:")
    for checkpoint in used:
        typer.echo(f"  {checkpoint.name}")


@app.command()
def demo(
    run: Annotated[Path, typer.Option(metavar="DIR", help="Where to train")] = Path("runs/demo"),
    max_minutes: Annotated[float, typer.Option(help="Longest training")] = 1.8,
) -> None:
    """See all of it in two minutes: train on dates in 20 languages, translate unseen ones, walk through one."""
    from rich.console import Console

    from glassformer.demo import demo as run_demo

    if not run_demo(run, max_minutes, Console()):
        raise typer.Exit(INTERRUPTED)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise SystemExit(code)


def main() -> None:
    """Run the command line; every error a person can cause is one line on standard error."""
    try:
        app()
    except GlassformerError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted.", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain again while flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except MemoryError:
        _fail(*_out_of_memory())
    except RuntimeError as error:
        if "allocate" not in str(error) and "out of memory" not in str(error):
            raise
        _fail(*_out_of_memory())


def _out_of_memory() -> tuple[str, int]:
    return "out of memory. Lower train.batch_tokens or --batch-tokens, or take a smaller --model.", RunError.exit_code
