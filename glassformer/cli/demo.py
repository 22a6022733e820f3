"""Two minutes that show all of it: the bundled model first, then one that is trained on dates from nothing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from glassformer.config import DecodeConfig
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.explain.render.terminal import print_attention, print_walk
from glassformer.explain.walk_kinds import walk
from glassformer.tasks import Task
from glassformer.training.arguments import TrainRequest
from glassformer.training.cpu import recommend_threads, use_threads
from glassformer.training.data import TaskSource
from glassformer.training.display import open_display
from glassformer.training.evaluation import translate_and_score
from glassformer.training.train import Outcome, train

LANGUAGES_SHOWN = 6
GREEDY = DecodeConfig(beam=1)
SENTENCES = ["I love you, too.", "Where is my coffee?", "The water was too cold.", "Wednesday, May 7, 2031"]
# The way of a sentence in a page: what the bundled model's walk shows of its hundreds of steps.
LANDMARKS = (
    "text.src_tokens", "text.src_ids", "text.tgt_in_ids", "src_embedding.with_positions",
    "encoder.layers.0.self_attention.q", "encoder.layers.0.self_attention.k", "encoder.layers.0.self_attention.v",
    "encoder.layers.0.self_attention.scores", "encoder.layers.0.self_attention.weights",
    "encoder.layers.0.self_attention.heads", "encoder.layers.0.self_attention.output",
    "encoder.layers.0.feed_forward.output", "encoder.layers.0.output", "encoder.memory", "causal_mask",
    "tgt_embedding.with_positions", "decoder.layers.0.self_attention.output",
    "decoder.layers.0.cross_attention.weights", "decoder.layers.0.cross_attention.output",
    "decoder.layers.0.feed_forward.output", "decoder.layers.0.output", "decoder.output",
    "output_projection.logits", "output_projection.probabilities", "choice.next_ids",
)  # fmt: skip


def demo(run: Path, max_minutes: float, console: Console) -> Outcome:
    """Show the bundled model, train in ``run`` for at most ``max_minutes``, then show what was learned.

    The outcome of the training, without a final model after a stop by signal: then nothing is shown of it.
    """
    show_bundled(console)
    request = TrainRequest.make(run=run, data={"task": "dates"}, overrides=[f"train.max_minutes={max_minutes}"])
    assert isinstance(request.source, TaskSource)
    task = request.source.task
    _title(console, "2  Train")
    console.print(
        Text(f"{task.summary}.\nAn encoder-decoder Transformer, from random weights, one character a token.\n")
    )
    advice = recommend_threads(request.config.model.d_model, request.config.model.d_ff)
    threads = advice.threads if advice else torch.get_num_threads()
    if advice:
        console.print(Text(f"It trains with {threads} of {torch.get_num_threads()} threads, which is faster now.\n"))
    with open_display(console) as display, use_threads(threads):
        outcome = train(request.run, request.source, request.config, display)
    if outcome.final is None:
        return outcome
    translator = Translator.load(run)
    _measure(console, translator, task)
    shown = _unseen_examples(task)
    _translate(console, translator, shown)
    _look_inside(console, translator, min(shown, key=len))
    _say_what_next(console, run)
    return outcome


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Rule(Text(text, style="bold"), align="left"))


def show_bundled(console: Console) -> None:
    """Translate a few sentences with the model that ships with the package, and walk through the first."""
    _title(console, "1  A model that is there")
    console.print(Text("A small English-German model comes with glassformer, trained beforehand. It says:\n"))
    translator = Translator.load()
    translations = translator.translate(SENTENCES, attention=True)
    _print_translations(console, translations)
    console.print(Text("\nWhere it looked while it wrote the first (last layer, mean of heads):\n"))
    print_attention(translations[0], console)
    walked = walk(translator, SENTENCES[:1])
    console.print(Text(f"\n{len(LANDMARKS)} of the {len(walked.steps)} steps of its way:\n"))
    print_walk(replace(walked, steps=tuple(walked[address] for address in LANDMARKS)), console)
    console.print(Text(f'\nAll of them:  glassformer trace "{SENTENCES[0]}"'))


def _measure(console: Console, translator: Translator, task: Task) -> None:
    _title(console, "3  Measure")
    scores, _ = translate_and_score(translator, task.test, GREEDY)
    console.print(
        Text(f"Held-out dates, never seen in any language: {scores.exact_match:.1f} % of {scores.sentences:,} exact.")
    )


def _unseen_examples(task: Task) -> list[str]:
    """The first test sources, which are in several languages."""
    return [pair.src for pair in task.test[:LANGUAGES_SHOWN]]


def _translate(console: Console, translator: Translator, sources: list[str]) -> None:
    _title(console, "4  Translate")
    translations = translator.translate(sources, GREEDY, attention=True)
    _print_translations(console, translations)
    console.print(Text("\nWhere the decoder looked while it wrote each character (last layer, mean of heads):\n"))
    print_attention(min(translations, key=lambda translation: len(translation.source)), console)


def _print_translations(console: Console, translations: Sequence[Translation]) -> None:
    table = Table.grid(padding=(0, 2))
    for translation in translations:
        table.add_row(Text(translation.source), Text("->"), Text(translation.text, style="bold"))
    console.print(table)


def _look_inside(console: Console, translator: Translator, source: str) -> None:
    _title(console, "5  Look inside")
    console.print(Text(f"Every tensor on the way of {source!r}, by name, axes and shape:\n"))
    print_walk(walk(translator, [source]), console)


def _say_what_next(console: Console, run: Path) -> None:
    _title(console, "6  Go on")
    lines = [
        'glassformer translate "She reads a book."',
        f'glassformer translate "3 March 2031" "den 14. juni 1987" --run {run}',
        f"glassformer trace \"3 March 2031\" --run {run} --only '*cross_attention.weights' --values",
        f"glassformer summary --run {run}",
        "glassformer train --task phrasebook-fr --run runs/phrasebook-fr --max-minutes 10",
        "glassformer train --src A.en --tgt A.de --run runs/mine",
    ]
    console.print(Text("\n".join(lines)), soft_wrap=True)
