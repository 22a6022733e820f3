"""A walk: everything that one run of the model over some sentences shows, from text to the next token.

The same pass that trains and translates is recorded; nothing is computed a second time. Knows no renderer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig, TrainConfig
from glassformer.decoding import Translator
from glassformer.errors import TraceError, nearest
from glassformer.explain.export import walk_mapping, write_mapping, write_text
from glassformer.explain.notation import resolved_axes, symbols
from glassformer.explain.recording import recorded_pass
from glassformer.explain.rows import RowLabels
from glassformer.explain.sentences import Rows, Sentences, read_sentences
from glassformer.explain.stages import stage_of
from glassformer.explain.story import Story, story_of
from glassformer.trace import Step, Trace
from glassformer.trace.taps import Edit

_PROBABILITIES = "output_projection.probabilities"
_CHOICE = ("choice.next_ids", "choice.next_probabilities")


@dataclass(frozen=True, eq=False)
class WalkStep:
    """One tensor of the walk. ``axes`` are words with src and tgt settled, ``symbols`` the walkthroughs' for them.

    ``call`` counts the passes of the address. ``cells`` holds the token behind each entry where the entries are
    ids, ``lines`` what a count or a step of a search stands for, row by row. ``labels`` are the tokens along the
    axes src, tgt and vocab, ``sentences`` the sentence, from 0, for each row of the batch. ``token`` is the number of
    the token that a generation is writing, from 1. ``gradient`` is there after a training step.
    """

    number: int
    address: str
    stage: str
    story: Story
    axes: tuple[str, ...]
    symbols: tuple[str, ...]
    value: Tensor
    cells: Rows | None
    lines: Rows | None
    labels: Mapping[str, Rows]
    sentences: tuple[int, ...]
    token: int
    call: int
    gradient: Tensor | None

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition(".")[2]

    @property
    def shape(self) -> tuple[int, ...]:
        """The concrete size of each axis."""
        return tuple(self.value.shape)


@dataclass(frozen=True, eq=False)
class Walk:
    """The sentences, the whole recorded trace, and the chosen steps in order; ``only`` is the glob that chose them.

    ``kind`` is ``forced`` (teacher forcing, one pass), ``generation`` (every step of a search) or ``training`` (one
    update). ``decode`` and ``train`` are the options of the last two.
    """

    config: ModelConfig
    sentences: Sentences
    trace: Trace
    steps: tuple[WalkStep, ...]
    only: str
    kind: str = "forced"
    decode: DecodeConfig | None = None
    train: TrainConfig | None = None

    def __getitem__(self, address: str) -> WalkStep:
        """The first step at an address; raises ``TraceError`` like the trace when there is none."""
        for step in self.steps:
            if step.address == address:
                return step
        addresses = [step.address for step in self.steps]
        raise TraceError(f"{address}: no such step among the {len(addresses)} walked.{nearest(address, addresses)}")

    def labels(self, step: WalkStep, row: int) -> tuple[tuple[str, ...] | None, ...]:
        """For each axis of the step, the tokens along it in row ``row``; None where it holds no tokens.

        A target position is labelled by the token that the decoder reads there; a step of a cached generation that
        holds the newest positions alone, by the newest tokens.
        """
        return tuple(
            step.labels[word][row][-size:] if word in step.labels and row < len(step.labels[word]) else None
            for word, size in zip(step.axes, step.shape, strict=True)
        )

    def narrowed(self, *, layer: int | None = None, head: int | None = None) -> "Walk":
        """The steps of one layer, of one head, or of both, counted from 0; steps without heads go with the layer.

        Raises ``TraceError`` when the model has no such layer or head, or no step is left.
        """
        most = max(self.config.n_encoder_layers, self.config.n_decoder_layers)
        for name, number, limit in (("layer", layer, most), ("head", head, self.config.n_heads)):
            if number is not None and not 0 <= number < limit:
                raise TraceError(f"--{name}: found {number}, expected 0 to {limit - 1}.")
        steps = [step for step in self.steps if layer is None or f".layers.{layer}." in step.address]
        if head is not None:
            steps = [_of_head(step, head) for step in steps if "heads" in step.axes]
        if not steps:
            raise TraceError(f"--layer, --head: leave no step of {self.only!r}. Drop one of them, or --only.")
        return replace(self, steps=tuple(steps))

    def to_mapping(self, *, values: bool = False) -> dict[str, Any]:
        """Ready for JSON; ``values`` adds every number, exactly."""
        return walk_mapping(self, values=values)

    def write_json(self, path: str | Path, *, values: bool = False) -> None:
        """Write ``to_mapping`` to a file; raises ``StorageError`` when the place cannot be written."""
        write_mapping(path, self.to_mapping(values=values))

    def save(self, directory: str | Path) -> None:
        """Write a directory: the trace, as ``Trace.save`` does, and ``walk.json``, which is ``to_mapping``.

        Raises ``StorageError`` when the place holds something else or cannot be written.
        """
        self.trace.save(directory)
        self.write_json(Path(directory) / "walk.json")

    def to_markdown(self, *, values: bool = False) -> str:
        """The walk as Markdown: a table for each stage, and with ``values`` a table of numbers for each step."""
        from glassformer.explain.markdown import walk_markdown

        return walk_markdown(self, values=values)

    def write_markdown(self, path: str | Path, *, values: bool = False) -> None:
        """Write ``to_markdown`` to a file; raises ``StorageError`` when the place cannot be written."""
        write_text(path, self.to_markdown(values=values))

    def _repr_html_(self) -> str:
        """The walk in a notebook: stages to fold out, each with its steps."""
        from glassformer.explain.html import walk_html

        return walk_html(self)


def walk(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    *,
    only: str = "*",
    edits: Mapping[str, Edit] | None = None,
) -> Walk:
    """Run the translator's model over sentences and keep each step whose address matches the glob ``only``.

    Without ``targets`` the sentences are translated first and the best outputs walked through. ``edits`` are those
    of ``tracing``; the targets are what the model says without them. Raises ``InputError`` for sentences that do
    not fit the model, ``TraceError`` for an ``only`` that matches nothing.
    """
    sentences = read_sentences(translator, sources, targets)
    return walk_through(translator, sentences, only=only, edits=edits)


def walk_through(
    translator: Translator, sentences: Sentences, *, only: str = "*", edits: Mapping[str, Edit] | None = None
) -> Walk:
    """``walk`` over sentences that have been read."""
    model = translator.model
    # The choice is read off the probabilities, which a glob for the choice alone would leave out.
    chooses = any(fnmatchcase(address, only) for address in _CHOICE)
    needed = "*" if chooses and not fnmatchcase(_PROBABILITIES, only) else only
    trace = recorded_pass(model, sentences.batch.src_ids, sentences.batch.tgt_in_ids, needed, edits=edits)
    choice = _choice(trace[_PROBABILITIES]) if chooses else []
    trace.steps = [step for step in (*sentences.steps, *trace, *choice) if fnmatchcase(step.address, only)]
    return made_walk(translator, sentences, trace, only=only)


def made_walk(translator: Translator, sentences: Sentences, trace: Trace, *, only: str, **about: Any) -> Walk:
    """The walk over a whole trace; ``about`` is the rest of ``Walk``'s fields."""
    if not trace.steps:
        raise TraceError(f"only = {only!r}: matches no step. A walk without it lists all addresses.")
    kind = about.get("kind", "forced")
    config = translator.model.config
    rows = RowLabels(sentences, translator.tgt_tokenizer, config, generates=kind == "generation")
    steps = []
    for number, step in enumerate(trace.steps, start=1):
        rows.follow(step)
        steps.append(_walk_step(number, step, rows, trace.gradients.get(step.key)))
    walked = Walk(config, sentences, trace, tuple(steps), only, **about)
    return walked if only == "*" else replace(walked, steps=_renumbered(walked.steps, only))


def _of_head(step: WalkStep, head: int) -> WalkStep:
    place = step.axes.index("heads")
    axes, symbols = list(step.axes), list(step.symbols)
    del axes[place], symbols[place]
    gradient = None if step.gradient is None else step.gradient.select(place, head)
    value = step.value.select(place, head)
    return replace(step, axes=tuple(axes), symbols=tuple(symbols), value=value, gradient=gradient)


def _renumbered(steps: Iterable[WalkStep], only: str) -> tuple[WalkStep, ...]:
    chosen = [step for step in steps if fnmatchcase(step.address, only)]
    return tuple(replace(step, number=number) for number, step in enumerate(chosen, start=1))


def _choice(probabilities: Tensor) -> list[Step]:
    """The most probable token at each position, and how probable it is."""
    best, ids = probabilities.max(dim=-1)
    return [Step(address, ("batch", "tgt"), value) for address, value in zip(_CHOICE, (ids, best), strict=True)]


def _walk_step(number: int, step: Step, rows: RowLabels, gradient: Tensor | None) -> WalkStep:
    return WalkStep(
        number=number,
        address=step.address,
        stage=stage_of(step.address, rows.token),
        story=story_of(step.address, rows.config),
        axes=resolved_axes(step),
        symbols=symbols(step),
        value=step.value.cpu(),
        cells=rows.cells(step),
        lines=rows.lines(step),
        labels=rows.labels(step),
        sentences=rows.sentence_of_rows(step),
        token=rows.token,
        call=step.call,
        gradient=None if gradient is None else gradient.cpu(),
    )
