"""The demo: the bundled model translates and is traced, a model learns dates, and a page is opened."""

import os
import select
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.cells import set_cell_size
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.explain.recording.edits import parse_edits
from glassformer.explain.recording.effect import NextTokenChange, find_changes, print_effect
from glassformer.explain.recording.narration import narrate_step
from glassformer.explain.render.heatmap import print_attention, print_heads
from glassformer.explain.walk import Walk
from glassformer.explain.walks import walk, walk_through
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig
from glassformer.tasks import Task
from glassformer.trace import tracing
from glassformer.training.evaluation.evaluation import translate_and_score
from glassformer.training.evaluation.results import Validation
from glassformer.training.reporting.display import PlainDisplay
from glassformer.training.reporting.run_log import TrainProgress, format_duration, sample_lines
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import TaskSource
from glassformer.training.train import Outcome, train

DATES_SHOWN, EDITED = 6, 3
LONGEST_PAUSE = 20.0  # seconds; then it continues
PAGE = "demo.html"
GREEDY = DecodeConfig(beam=1)
SENTENCES = ["I am hungry.", "I love you, too.", "The water was too cold.", "Wednesday, May 7, 2031"]


def demo(run: Path, max_minutes: float, console: Console) -> Outcome:
    """Show the bundled model, train in ``run`` for at most ``max_minutes``, show what was learned."""
    request = TrainRequest.make(run=run, data={"task": "dates"}, overrides=[f"train.max_minutes={max_minutes}"])
    directory = RunDirectory(run)
    directory.check_writable()
    directory.create()
    page = run.parent / PAGE
    show_bundled(console, page)
    assert isinstance(request.source, TaskSource)
    task = request.source.task
    _title(console, "5  Train one from nothing", waits=True)
    console.print(Text(f"{task.summary}.\nOne character a token. The same four dates return after each round:\n"))
    outcome = train(request, Rounds(console))
    if outcome.final is None:
        return outcome
    _show_dates(console, Translator.load(run), task)
    _say_what_next(console, run)
    _open_page(console, page)
    return outcome


class Rounds(PlainDisplay):
    """Short lines while a model trains, and the same dates after each round; train.log has the rest."""

    def log(self, line: str) -> None:
        """Left to train.log."""

    def warn(self, line: str) -> None:
        """Print a warning, in lines of words."""
        self._console.print(Text(line))

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        """Print a short line every ``train.log_every`` updates."""
        if due:
            times = f"{format_duration(progress.elapsed_s)}, {progress.time_left or '?'} left"
            super().log(f"update {progress.update:5}   loss {progress.loss:.3f}   {times}")

    def on_validation(self, validation: Validation, *, best: bool) -> None:
        """Print how many other dates are right, and the samples."""
        scores = validation.scores
        right = f"{scores['exact_match']:.0f} % of {scores.sentences} other dates are right:"
        super().log(f"\nAfter {validation.update} updates {right}")
        for line in [*sample_lines(validation, width=self._console.width), ""]:
            super().log(line)


def show_bundled(console: Console, page: Path | None = None) -> None:
    """Translate with the bundled model; show attention, a step, an edit; write its ``page``."""
    translator = Translator.load()
    _title(console, "1  Translate, with the model that comes with glassformer")
    translations = translator.translate(SENTENCES, attention=True)
    _print_translations(console, translations)
    strongest = max(_silenced_heads(translator), key=lambda silenced: silenced.effect)
    number = SENTENCES.index(strongest.plain.sentences.sources[0])
    _title(console, "2  Where it looks while it writes", waits=True)
    _show_attention(console, translations[number], strongest)
    _title(console, "3  What happens at one step", waits=True)
    _tell_step(console, strongest)
    _title(console, "4  Change one head", waits=True)
    _show_edit(console, translator, strongest)
    if page is not None:
        strongest.plain.to_page(page, run="en-de", run_option="")


@dataclass(frozen=True)
class _Silenced:
    """One head of a cross-attention, set to zero, and what that changed in the walk ``plain``."""

    plain: Walk
    layer: int
    head: int
    changes: list[NextTokenChange]

    @property
    def effect(self) -> tuple[int, float]:
        """How many next tokens changed, and how far distributions moved, in nats."""
        changed = sum(change.before[0] != change.after[0] for change in self.changes)
        return changed, sum(change.divergence for change in self.changes)

    @property
    def position(self) -> int:
        """The first changed token, or where the distribution moved most."""
        changed = [change for change in self.changes if change.before[0] != change.after[0]]
        return (changed or [max(self.changes, key=lambda change: change.divergence)])[0].position


def _silenced_heads(translator: Translator) -> Iterator[_Silenced]:
    """Each head of each cross-attention, silenced alone; the targets stay the same."""
    config = translator.model.config
    for plain in (walk(translator, [sentence]) for sentence in SENTENCES[:EDITED]):
        for layer, head in product(range(config.n_decoder_layers), range(config.n_heads)):
            edits = parse_edits([_edit(layer, head)], plain, translator)
            edited = walk_through(translator, plain.sentences, only="output_projection.probabilities", edits=edits)
            yield _Silenced(plain, layer, head, find_changes(plain, edited, translator.tgt_tokenizer))


def _edit(layer: int, head: int) -> str:
    return f"decoder.layers.{layer}.cross_attention.heads[heads={head}]=0"


def _pause(console: Console) -> None:
    """Wait for Enter, but not in a pipe or an automatic build."""
    if os.environ.get("CI") or not (console.is_terminal and sys.stdin.isatty() and sys.stdout.isatty()):
        return
    console.print(Text("\n[Enter] continues", style="dim"), end="")
    try:
        if select.select([sys.stdin], [], [], LONGEST_PAUSE)[0]:
            sys.stdin.readline()
            return
    except (OSError, ValueError):  # a standard input that cannot be waited for
        pass
    console.print()


def _open_page(console: Console, page: Path) -> None:
    _title(console, "8  All of it in your browser")
    console.print(Text("One file, offline, with two pages: translate what you type, and look inside the model.\n"))
    address = page.absolute().as_uri()
    has_screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if sys.platform == "darwin":
        has_screen = "SSH_CONNECTION" not in os.environ
    watched = sys.stdout.isatty() and not os.environ.get("CI") and has_screen
    is_open = watched and webbrowser.open(f"{address}#translate")
    told = "It is open in your browser:" if is_open else "Open it in a browser, here or where you copy it to:"
    console.print(Text(f"{told}\n  translate    {address}#translate\n  look inside  {address}"), soft_wrap=True)


def _title(console: Console, text: str, *, waits: bool = False) -> None:
    if waits:
        _pause(console)
    console.print()
    console.print(Rule(Text(text, style="bold"), align="left"))


def _print_translations(console: Console, translations: Sequence[Translation]) -> None:
    table = Table.grid(padding=(0, 2))
    for translation in translations:
        table.add_row(Text(translation.source), Text("->"), Text(translation.text, style="bold"))
    console.print(table)


def _show_attention(console: Console, translation: Translation, strongest: _Silenced) -> None:
    attention = translation.hypotheses[0].attention
    assert attention is not None
    layer, head = strongest.layer, strongest.head
    console.print(Text(f"{translation.source} -> {translation.text}"))
    console.print(Text("Every head of cross-attention; a row for each token written:\n"))
    print_heads(attention, console, marked=(layer, head))
    console.print(Text(f"\nLayer {layer}, head {head}*, large:\n"))
    print_attention(translation, console, layer=layer, head=head)


def _tell_step(console: Console, strongest: _Silenced) -> None:
    plain, position = strongest.plain, strongest.position
    written = " ".join(plain.sentences.tgt_in_tokens[0][: position + 1])
    console.print(Text(f"It has read {written}, and it now writes {plain.sentences.tgt_out_tokens[0][position]}\n"))
    for number, (place, sentence) in enumerate(narrate_step(plain, position), start=1):
        console.print(Text(f"{number:2}  {set_cell_size(place, 16)}{sentence}"), soft_wrap=True)
    source = plain.sentences.sources[0]
    console.print(Text(f'\nAll {len(plain.steps)} tensors:  glassformer trace "{source}"'))


def _show_edit(console: Console, translator: Translator, strongest: _Silenced) -> None:
    plain, edit = strongest.plain, _edit(strongest.layer, strongest.head)
    (source,) = plain.sentences.sources
    console.print(Text(f"Head {strongest.head} of layer {strongest.layer} is switched off in the cross-attention:\n"))
    console.print(Text(f"glassformer trace \"{source}\" \\\n  --edit '{edit}'"))
    print_effect(strongest.changes, plain, console)
    with tracing(translator.model, edits=parse_edits([edit], plain, translator), only="", shown=False):
        (edited,) = translator.translate([source])
    console.print(Text(f"\nTranslated again without it:  {edited.text}"))


def _show_dates(console: Console, translator: Translator, task: Task) -> None:
    _title(console, "6  What it learned")
    scores, _ = translate_and_score(translator, task.test, GREEDY)
    right = f"{scores['exact_match']:.1f} % of {scores.sentences:,} dates that it has never seen are exactly right."
    console.print(Text(f"{right}\n"))
    translations = translator.translate([pair.src for pair in task.test[:DATES_SHOWN]], GREEDY, attention=True)
    _print_translations(console, translations)
    shortest = min(translations, key=lambda translation: len(translation.source))
    console.print(Text("\nWhere the last layer looked, mean of heads:\n"))
    print_attention(shortest, console)


def _say_what_next(console: Console, run: Path) -> None:
    _title(console, "7  Your turn", waits=True)
    lines = [
        f"xdg-open {run}/report.html",
        'glassformer translate "She reads a book."',
        'glassformer trace "She reads a book." --only "*cross_attention.weights" --values',
        f'glassformer translate "3 March 2031" "den 14. juni 1987" --run {run}',
        "glassformer train --task phrasebook-fr --run runs/french --max-minutes 10",
        "glassformer train --src A.en --tgt A.de --run runs/mine",
    ]
    console.print(Text("\n".join(lines)), soft_wrap=True)
