"""The commands that show: ``trace``, ``explore``, ``diff``."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import isfile, join
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli import options as opt
from glassformer.cli.options import argument, option
from glassformer.cli.streams import Console, check_outputs, from_shell
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.decoding import Translation
    from glassformer.explain import Walk
    from glassformer.explain.walks import WalkRequest, WalkResult

EXAMPLE = "I am hungry."  # switch off one head, and it is "Ich bin hungrig."
_MODE, _PROOF, _SHOWN, _KEPT = "What to walk through", "Proof and edits", "What to print", "What to keep"
_ONLY = "Only these addresses, e.g. '*cross_attention.weights'; * stands for dots too, ? for one character"
_STEPS = "Write every step to this file"
_TRAINING = "Walk through one training step on TEXT and --tgt"
_VERIFY = "Recompute every step from those before it, and report"
_TARGET = "The target to force, one for each text; the model's own translation if none"
_FROM_IDS = "Each TEXT is the ids of one, such as '40 3047 481'"
_MERGES = "Learn a BPE vocabulary from the TEXTs instead, and show its first N merges"
_EDIT = r"Replace values, e.g. 'decoder.layers.0.cross_attention.weights\[heads=2]=0', and show the effect"


@dataclass(frozen=True, kw_only=True)
class ShownOptions:
    """What of a walk is printed."""

    values: Annotated[bool, option("Print the numbers, with tokens on the axes", "--values", panel=_SHOWN)] = False
    only: Annotated[str, option(_ONLY, panel=_SHOWN, metavar="GLOB")] = "*"
    layer: Annotated[int | None, option("Only this layer, from 0", panel=_SHOWN)] = None
    head: Annotated[int | None, option("Only this head, from 0", panel=_SHOWN)] = None
    sentence: Annotated[int, option("Whose numbers, from 0, of several TEXTs", "--sentence", panel=_SHOWN)] = 0
    ids: Annotated[bool, option("Ids and masks of the whole batch, as tables", "--ids", panel=_SHOWN)] = False
    all_layers: Annotated[bool, option(opt.ALL_LAYERS, "--all-layers", panel=_SHOWN)] = False

    def check(self, *, prints_report: bool) -> None:
        """Raise ``ConfigError`` for an option without effect."""
        if self.sentence and not self.values:
            raise ConfigError("--sentence: found without --values, which prints numbers. Add it, or drop --sentence.")
        shown = {
            "--values": self.values, "--all-layers": self.all_layers, "--layer": self.layer is not None,
            "--head": self.head is not None, "--ids": self.ids,
        }  # fmt: skip
        ignored = [name for name, given in shown.items() if given]
        if prints_report and ignored:
            raise ConfigError(
                f"{', '.join(ignored)}: found with --verify or --edit, which print a report. Drop one of both."
            )

    def print(self, walk: "Walk", console: Console) -> None:
        """Print it."""
        from glassformer.explain.render.terminal import print_walk

        unfolded = self.all_layers or self.layer is not None or self.head is not None
        print_walk(walk, console, values=self.values, all_layers=unfolded, sentence=self.sentence, ids=self.ids)


@dataclass(frozen=True, kw_only=True)
class KeptOptions:
    """The files that a walk is written to."""

    as_json: Annotated[Path | None, option(_STEPS, "--json", panel=_KEPT, metavar="FILE")] = None
    markdown: Annotated[Path | None, option("Write the walk as Markdown", panel=_KEPT, metavar="FILE")] = None
    save: Annotated[Path | None, option("Save the trace: safetensors and JSON", panel=_KEPT, metavar="DIR")] = None

    def check(self) -> None:
        """Raise ``ConfigError`` or ``StorageError`` for what cannot be written."""
        from glassformer.trace.record import check_directory_of_trace

        check_outputs({"--json": self.as_json, "--markdown": self.markdown})
        if self.save is not None:
            check_directory_of_trace(self.save)

    def write(self, whole: "Walk", walk: "Walk", shown: ShownOptions) -> None:
        """Save the whole walk, and write what is shown of it."""
        if self.save is not None:
            whole.save(self.save)
        if self.as_json is not None:
            walk.write_json(self.as_json, values=shown.values)
        if self.markdown is not None:
            walk.write_markdown(self.markdown, values=shown.values, sentence=shown.sentence, ids=shown.ids)


# Minimum Bayes risk compares texts after the search, and a walk takes all its texts as one batch.
@opt.options("search", "sampling", "scoring", without=["mbr"])
def trace(
    *,
    texts: Annotated[list[str], argument("What to walk through the model", "TEXT")],
    run: opt.Run = None,
    tgt: Annotated[list[str] | None, option(_TARGET, panel=_MODE)] = None,
    from_ids: Annotated[bool, option(_FROM_IDS, "--from-ids", panel=_MODE)] = False,
    generate: Annotated[bool, option("Walk through every step of a generation", "--generate", panel=_MODE)] = False,
    training: Annotated[bool, option(_TRAINING, "--training", panel=_MODE)] = False,
    merges: Annotated[int | None, option(_MERGES, panel=_MODE, metavar="N")] = None,
    verify: Annotated[bool, option(_VERIFY, "--verify", panel=_PROOF)] = False,
    edit: Annotated[list[str] | None, option(_EDIT, panel=_PROOF, metavar="EDIT")] = None,
    shown: ShownOptions,
    kept: KeptOptions,
    device: opt.Device = "auto",
    decode: dict[str, Any],
) -> None:
    """Walk TEXT through the model: each step's name, address, equation, axes, shape and, on request, values.

    [bold]glassformer trace "I love you, too." --only '*cross_attention.weights' --values[/bold]
    [bold]glassformer trace "I love you, too." --generate --beam 3[/bold]
    [bold]glassformer trace "A man sleeps." --run runs/first --verify[/bold]
    [bold]glassformer trace "low lower lowest slow slower" --merges 8[/bold]
    """
    if merges is not None:
        from glassformer.explain.render.merges import print_merges

        print_merges([from_shell(text) for text in texts], merges, Console())
        return
    from glassformer.explain.walks import WalkRequest

    request = WalkRequest(
        run=opt.run_or_bundled(run),
        sources=_read_texts(texts),
        targets=[from_shell(text) for text in tgt] if tgt else None,
        generate=generate,
        training=training,
        verify=verify,
        from_ids=from_ids,
        options=decode,
        edits=[from_shell(text) for text in edit or ()],
        only=shown.only,
        device=device,
    )
    reports = verify or bool(edit)
    shown.check(prints_report=reports and kept.as_json is None and kept.markdown is None)
    kept.check()
    made, console = request.make(), Console()
    walked = made.walk.narrow(layer=shown.layer, head=shown.head)
    kept.write(made.walk, walked, shown)
    if verify:
        _report(made, request)
    elif made.plain is not None:
        from glassformer.explain.recording.effect import find_changes, print_effect

        print_effect(find_changes(made.plain, made.walk, made.walk.translator.tgt_tokenizer), made.plain, console)
    else:
        shown.print(walked, console)
        if console.is_terminal and not (shown.values or shown.only):
            typer.echo("\nThe numbers of some:  --only '*cross_attention.weights' --values", err=True)
            typer.echo(f"All, in a browser:    glassformer explore {quote(texts[0])} --open", err=True)


def explore(
    texts: Annotated[list[str] | None, argument("What to look into; one sentence or several", "TEXT")] = None,
    run: opt.Run = None,
    tgt: Annotated[list[str] | None, option(_TARGET)] = None,
    out: Annotated[Path, option("The page to write", "--out", metavar="FILE")] = Path("page.html"),
    open_it: Annotated[bool, option("Open the page in the browser", "--open")] = False,
    device: opt.Device = "auto",
) -> None:
    """Write one HTML page that shows every number on TEXT's way through the model; it needs no network.

    [bold]glassformer explore "I am hungry." --open[/bold]
    [bold]glassformer explore "A man sleeps." --run runs/first --out first.html[/bold]
    """
    targets = [from_shell(text) for text in tgt] if tgt else None
    address = write_page(run, out, _read_texts(texts or [EXAMPLE]), targets, device=device)
    if open_it:
        import webbrowser

        webbrowser.open(address)


def write_page(
    run: Path | None,
    out: Path,
    sources: Sequence[str] = (EXAMPLE,),
    targets: Sequence[str] | None = None,
    *,
    device: str = "auto",
    first: Literal["translate", "inside"] = "inside",
) -> str:
    """Write the page of a run, which opens with the ``first`` view, and print its address, which is returned."""
    from glassformer.explain.walks import WalkRequest

    check_outputs({"--out": out})
    place = opt.run_or_bundled(run)
    made = WalkRequest(run=place, sources=sources, targets=targets, device=device).make()
    option = "" if run is None else f"--run {quote(str(run))}"
    text = made.walk.to_page(out, run=place.name, run_option=option, first=first)
    address = out.absolute().as_uri()
    typer.echo(f"{out}: {len(text.encode()) / 1e6:.1f} MB. Open it in a browser: {address}")
    return address


def _read_texts(texts: list[str]) -> list[str]:
    for text in texts:
        if isfile(join(text, "config.json")):
            raise ConfigError(
                f"TEXT: found {text!r}, the directory of a model, expected a sentence. Name the model: --run "
                f"{quote(text)}."
            )
    return [from_shell(text) for text in texts]


def _report(made: "WalkResult", request: "WalkRequest") -> None:
    """Print the proof; a step that does not follow ends the command with 1."""
    from glassformer.explain.verify import prove

    translator = made.walk.translator
    proof = prove(made.walk, translator.model, translator.config)
    *lines, last = proof.lines()
    typer.echo("\n".join(lines))
    alike = _translates_alike(made, request)
    typer.echo(last if alike else last.replace("All checks passed.", "Some checks failed."))
    if not alike or not proof.holds:
        raise typer.Exit(1)


def _translates_alike(made: "WalkResult", request: "WalkRequest") -> bool:
    """Whether ``translate``, by the engine that it takes, prints what the walk ends with; prints the answer."""
    from glassformer.decoding import Translator

    sources = made.walk.sentences.sources if request.from_ids else request.sources
    if request.targets is not None or not all(map(str.strip, sources)):
        return True
    walked = made.walk.translator
    with Translator.load(request.run, device=request.device) as translator:
        options = translator.config.with_changes(request.options)
        if options.sample:
            return True
        found, expected = translator.translate(sources, options), walked.translate(sources, options)
        printed = {text.printed for text in made.walk.sentences.texts if text.answers is not None}
        same = all(map(_agree, found, expected)) and printed <= {one.text for one in expected}
        engines = " and ".join(sorted(translator.used_engines))
    for text, one in zip(sources, expected, strict=True):
        typer.echo(f"typed {text!r}, read as {one.read!r}, printed as {one.text!r}.")
    others = [[each.text for each in one.hypotheses] for one in found]
    typer.echo(f"translate, by {engines}, writes {'the same' if same else f'something else: {others}'}.")
    return same


def _agree(one: "Translation", other: "Translation") -> bool:
    """Whether two engines wrote the same; where their scores are equal up to rounding, the texts may differ."""
    from glassformer.decoding.engines.agreement import are_tied

    lists = one.hypotheses, other.hypotheses
    return len(lists[0]) == len(lists[1]) and all(
        a.text == b.text or are_tied(a.score, b.score, _SCORE_TOLERANCE) for a, b in zip(*lists, strict=True)
    )


_SCORE_TOLERANCE = 1e-4  # between engines
_WAYS = "plain, cached, translated, float32, packed, alone, padded, fused, compiled, bf16, double"
_A = "A run, a checkpoint, a saved trace, or a model of Hugging Face, Marian or CTranslate2; default: bundled"
_TOLERANCE = (
    "Smallest difference that counts, times 1 + the tap's max; 0 if both ways are the same, 0.05 with bf16, else 1e-5"
)


def diff(
    a: Annotated[Path | None, argument(_A, "A")] = None,
    b: Annotated[Path | None, argument("What to compare with; A itself if none", "B")] = None,
    text: Annotated[list[str] | None, option("A sentence to compare on; repeat for several")] = None,
    tgt: Annotated[list[str] | None, option(_TARGET)] = None,
    a_way: Annotated[str, option(f"How A makes its pass: {_WAYS}", "--a", metavar="WAY")] = "plain",
    b_way: Annotated[str, option("How B makes its pass", "--b", metavar="WAY")] = "plain",
    tolerance: Annotated[float | None, option(_TOLERANCE)] = None,
    as_json: Annotated[bool, option("Print one JSON object with every tap", "--json")] = False,
    device: opt.Device = "auto",
) -> None:
    """Compare two runs, or two ways of one, tap by tap: the first that differs, its cell, and by how much.

    [bold]glassformer diff --text "I love you, too." --b cached[/bold]
    [bold]glassformer diff runs/first runs/second --text "I love you, too."[/bold]
    [bold]glassformer diff runs/first first-hf --text "I love you, too."[/bold]
    A conversion is compared by tokenizers, weights, settings of search, log-probabilities and outputs. It ends with 0
    when they agree, else with 1.
    """
    from glassformer.explain.compare.passes import Mode, read_mode
    from glassformer.explain.compare.runs import diff_places

    ways = read_mode(a_way), read_mode(b_way)
    if Mode.COMPILED in ways:
        typer.echo("compiling, which takes a minute or so ...", err=True)
    sources = [from_shell(one) for one in text or ()]
    targets = [from_shell(one) for one in tgt] if tgt else None
    found = diff_places(opt.run_or_bundled(a), b, sources, targets, ways=ways, tolerance=tolerance, device=device)
    if as_json:
        typer.echo(json.dumps(found.to_mapping(), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo("\n".join(found.lines()))
    if not found.agrees:
        raise typer.Exit(1)
