"""The commands ``evaluate`` and ``score``."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options as opt
from glassformer.cli.options import argument, option
from glassformer.cli.streams import check_outputs, write_lines
from glassformer.errors import ConfigError, TextError

if TYPE_CHECKING:
    from glassformer.training.evaluation.results import Scores

_CHUNK = 1000


@opt.options("search", "sampling", "scoring", "batching")
def evaluate(
    *,
    pairs: Annotated[Path | None, argument("One file of pairs, as for train, such as .tmx or .csv")] = None,
    src: Annotated[Path | None, option("Or the source texts, one a line, plain or .gz")] = None,
    ref: Annotated[Path | None, option("Their reference translations, line by line")] = None,
    columns: opt.ColumnOptions,
    run: opt.Runs = None,
    out: Annotated[Path | None, option("Also write the translations to this file")] = None,
    as_json: Annotated[bool, option("Print one JSON object", "--json")] = False,
    engine: opt.EngineOptions,
    decode: dict[str, Any],
) -> None:
    """Translate a test set and compare it with its references: BLEU, chrF, exact match, with their signatures.

    [bold]glassformer evaluate --src test.en.gz --ref test.de.gz --run runs/first --beam 5[/bold]
    """
    opt.require_one_process("evaluate", "--workers shares the texts among processes of its own")
    if (pairs is None) == (src is None) or (src is None) != (ref is None):
        raise ConfigError("evaluate: expected either a file of pairs, or --src and --ref. Name one or the other.")
    check_outputs({"--out": out}, {"the file of pairs": pairs, "--src": src, "--ref": ref})
    from glassformer.text.corpus.corpus import describe_pairs, read_pairs
    from glassformer.training.evaluation.evaluation import tokenised_warning, translate_and_score

    place = pairs or src
    assert place is not None
    chosen = None if ref is not None else columns.find(_recorded_columns(run))
    pairs_read = list(read_pairs(place, ref, columns=chosen))
    test = [pair for pair in pairs_read if not pair.blank]
    if not test:
        raise TextError(f"{place}: found no text, expected at least one sentence to translate and compare.")
    with engine.load(run) as translator:
        options = replace(translator.config, n_best=1).with_changes(decode)
        scores, outputs = translate_and_score(translator, test, options)
        engines = sorted(translator.used_engines)
    remarks = [] if ref is not None else [describe_pairs(place, columns=chosen)]
    if len(test) < len(pairs_read):
        left_out = len(pairs_read) - len(test)
        remarks.append(f"{left_out:,} of {len(pairs_read):,} pairs have an empty side and are not counted.")
    remarks.append(tokenised_warning(pair.tgt for pair in test))
    if scores.limited:
        cut = f"the length limit cut {scores.limited:,} of {len(test):,} translations"
        remarks.append(f"warning: {cut}; raise --max-length-a or --max-length-b.")
    for remark in filter(None, remarks):
        typer.echo(remark, err=True)
    if as_json:
        typer.echo(json.dumps({**scores.to_mapping(), "engine": " and ".join(engines)}))
    else:
        _print_scores(scores)
    if out is not None:
        translated = iter(outputs)
        write_lines(out, ["" if pair.blank else next(translated) for pair in pairs_read])


def _recorded_columns(runs: list[Path] | None) -> dict[str, str]:
    """The columns that the first run was trained on."""
    from glassformer.run_directory import RunDirectory

    _, data = RunDirectory(opt.runs_or_bundled(runs)[0]).read_config()
    return {name: str(data[name]) for name in ("columns", "separator") if name in data}


def _print_scores(scores: "Scores") -> None:
    from glassformer.training.evaluation.metrics import METRICS

    width = max(len(METRICS[name].title) for name in scores.fitting)
    for name in scores.fitting:
        signature = scores.signatures.get(name)
        told = f" {signature}" if signature else f"of {scores.count_text.replace(',', '')}"
        typer.echo(f"{METRICS[name].title:{width}}  {METRICS[name].format(scores[name], '6.2f')}  {told}")


@opt.options(
    "scoring", "batching", without=["split_sentences", "src_language", "tgt_language", "copy_wordless", "keep_codes"]
)
def score(
    *,
    src: Annotated[Path, option("Source texts, one a line, plain or .gz")],
    tgt: Annotated[Path, option("The targets to score, line by line")],
    run: opt.Runs = None,
    as_json: Annotated[bool, option("One JSON object a line, with each token's log-probability", "--json")] = False,
    device: opt.Device = "auto",
    decode: dict[str, Any],
) -> None:
    """Score given targets: the log-probability and the length-penalised score of each pair, separated by a tab.

    [bold]glassformer score --src test.en --tgt test.de --run runs/first[/bold]
    """
    places = opt.runs_or_bundled(run)
    from glassformer.decoding import Translator
    from glassformer.text.corpus.corpus import read_pairs

    translator = Translator.load(places, device=device)
    options = translator.config.with_changes(decode)
    pairs, number = iter(read_pairs(src, tgt)), 0
    for chunk in iter(lambda: list(islice(pairs, _CHUNK)), []):
        sources, targets = [pair.src for pair in chunk], [pair.tgt for pair in chunk]
        for one in translator.score_tokens(sources, targets, options, start=number):
            number += 1
            values = json.dumps(one.to_mapping(), ensure_ascii=False)
            typer.echo(values if as_json else f"{one.log_prob:.4f}\t{one.score:.4f}")
            if one.source_truncated and not as_json:
                typer.echo(f"warning: {src}:{number}: is longer than the model takes; its end was cut off.", err=True)
