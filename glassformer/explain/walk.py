"""A walk: everything that one run of the model over some sentences shows, from text to the next token.

The same pass that trains and translates is recorded; nothing is computed a second time. Knows no renderer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.decoding import Translator
from glassformer.errors import TraceError, nearest
from glassformer.explain.export import walk_mapping, write_mapping
from glassformer.explain.notation import resolved_axes, symbols
from glassformer.explain.recording import recorded_pass
from glassformer.explain.sentences import Rows, Sentences, read_sentences, token_rows
from glassformer.explain.stages import stage_of
from glassformer.explain.story import Story, story_of
from glassformer.trace import Step, Trace

_PROBABILITIES = "output_projection.probabilities"
_CHOICE = ("choice.next_ids", "choice.next_probabilities")


@dataclass(frozen=True, eq=False)
class WalkStep:
    """One tensor of the walk. ``axes`` are words with src and tgt settled, ``symbols`` the walkthroughs' for them.

    ``cells`` holds the token behind each entry where the entries are ids.
    """

    number: int
    address: str
    stage: str
    story: Story
    axes: tuple[str, ...]
    symbols: tuple[str, ...]
    value: Tensor
    cells: Rows | None

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
    """The sentences, the recorded trace, and the steps in order; ``only`` is the glob that chose them."""

    config: ModelConfig
    sentences: Sentences
    trace: Trace
    steps: tuple[WalkStep, ...]
    only: str

    def __getitem__(self, address: str) -> WalkStep:
        """The step at an address; raises ``TraceError`` like the trace when there is none."""
        for step in self.steps:
            if step.address == address:
                return step
        addresses = [step.address for step in self.steps]
        raise TraceError(f"{address}: no such step among the {len(addresses)} walked.{nearest(address, addresses)}")

    def labels(self, step: WalkStep, row: int) -> tuple[tuple[str, ...] | None, ...]:
        """For each axis of the step, the tokens along it in sentence ``row``; None where it holds no positions.

        A target position is labelled by the token that the decoder reads there.
        """
        tokens = {"src": self.sentences.src_tokens[row], "tgt": self.sentences.tgt_in_tokens[row]}
        return tuple(tokens.get(word) for word in step.axes)

    def to_mapping(self, *, values: bool = False) -> dict[str, Any]:
        """Ready for JSON; ``values`` adds every number, exactly."""
        return walk_mapping(self, values=values)

    def write_json(self, path: Path, *, values: bool = False) -> None:
        """Write ``to_mapping`` to a file; raises ``StorageError`` when the place cannot be written."""
        write_mapping(path, self.to_mapping(values=values))


def walk(
    translator: Translator, sources: Sequence[str], targets: Sequence[str] | None = None, *, only: str = "*"
) -> Walk:
    """Run the translator's model over sentences and keep each step whose address matches the glob ``only``.

    Without ``targets`` the sentences are translated first and the best outputs walked through. Raises
    ``InputError`` for sentences that do not fit the model, ``TraceError`` for an ``only`` that matches nothing.
    """
    model = translator.model
    sentences = read_sentences(translator, sources, targets)
    # The choice is read off the probabilities, which a glob for the choice alone would leave out.
    chooses = any(fnmatchcase(address, only) for address in _CHOICE)
    needed = "*" if chooses and not fnmatchcase(_PROBABILITIES, only) else only
    trace = recorded_pass(model, sentences.batch.src_ids, sentences.batch.tgt_in_ids, needed)
    choice = _choice(trace[_PROBABILITIES]) if chooses else []
    recorded = [step for step in (*sentences.steps, *trace, *choice) if fnmatchcase(step.address, only)]
    if not recorded:
        raise TraceError(f"only = {only!r}: matches no step. A walk without it lists all addresses.")
    steps = _walk_steps(recorded, sentences, translator)
    return Walk(model.config, sentences, trace, steps, only)


def _choice(probabilities: Tensor) -> list[Step]:
    """The most probable token at each position, and how probable it is."""
    best, ids = probabilities.max(dim=-1)
    return [Step(address, ("batch", "tgt"), value) for address, value in zip(_CHOICE, (ids, best), strict=True)]


def _walk_steps(recorded: Iterable[Step], sentences: Sentences, translator: Translator) -> tuple[WalkStep, ...]:
    config = translator.model.config
    steps = []
    for number, step in enumerate(recorded, start=1):
        value = step.value.cpu()
        chosen = token_rows(translator.tgt_tokenizer, value) if step.address == "choice.next_ids" else None
        steps.append(
            WalkStep(
                number=number,
                address=step.address,
                stage=stage_of(step.address),
                story=story_of(step.address, config),
                axes=resolved_axes(step),
                symbols=symbols(step),
                value=value,
                cells=chosen or sentences.cells(step.address),
            )
        )
    return tuple(steps)
