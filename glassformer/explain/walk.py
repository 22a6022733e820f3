"""A walk: all steps of one run of the model over some sentences."""

import json
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from glassformer.decoding import Translator
from glassformer.errors import TraceError
from glassformer.explain.addresses import resolved_axes, stage_of
from glassformer.explain.entries import story_of
from glassformer.explain.page.writer import FRAME_HEIGHT, MAX_FRAME_NUMBERS, PageFrame, page_html
from glassformer.explain.recording.sentence_batch import SentenceBatch
from glassformer.explain.recording.walk_data import RowLabels, WalkData, WalkStep
from glassformer.explain.render.json import walk_mapping, write_text
from glassformer.explain.render.notebook import attention_html, walk_html
from glassformer.explain.render.plot import plot_step
from glassformer.explain.render.walk_markdown import walk_markdown
from glassformer.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Walk(WalkData):
    """A walk with its outputs; made by ``translator``."""

    translator: Translator = field(repr=False, kw_only=True)

    def to_page(
        self,
        path: str | Path | None = None,
        *,
        run: str = "",
        run_option: str | None = None,
        first: Literal["translate", "inside"] = "inside",
    ) -> str:
        """One HTML page that works offline, also written to ``path``; see ``page_html``.

        ``TraceError`` unless the walk is one whole forced pass, ``StorageError`` for ``path``, ``ConfigError`` for a
        page that is to translate and a model that is too large.
        """
        self._check_whole("to_page")
        text = page_html(self, self.translator, run=run, run_option=run_option, first=first, dense=True)
        if path is not None:
            write_text(path, text)
        return text

    def frame(self, *, model: bool = True, height: int = FRAME_HEIGHT) -> PageFrame:
        """The page in an iframe for a notebook; with ``model`` it computes.

        ``TraceError`` unless the walk is one whole forced pass.
        """
        self._check_whole("frame")
        page = page_html(self, self.translator if model else None, most=MAX_FRAME_NUMBERS)
        return PageFrame(page, attention_html(self), height)

    @property
    def is_whole(self) -> bool:
        """Whether this is all of one forced pass, as a page needs."""
        return self.kind == "forced" and self.only == "*" and len(self.steps) == len(self.trace.steps)

    def _check_whole(self, what: str) -> None:
        if not self.is_whole:
            raise TraceError(
                f"{what}: found a walk of kind {self.kind!r} with only={self.only!r} and {len(self.steps)} steps of "
                f"{len(self.trace.steps)}, expected one whole pass. "
                "Make it with walk(translator, sources)."
            )

    def __repr__(self) -> str:
        pairs = zip(self.sentences.sources, self.sentences.targets, strict=True)
        texts = "; ".join(f"{source!r} -> {target!r}" for source, target in pairs)
        return f"Walk({self.kind}, {len(self.steps)} steps, {texts})"

    def to_mapping(self, *, values: bool = False) -> dict[str, Any]:
        """For JSON; ``values`` adds every number, exactly."""
        return walk_mapping(self, values=values)

    def to_json(self, *, values: bool = False) -> str:
        """``to_mapping`` as one line of JSON."""
        return json.dumps(self.to_mapping(values=values), ensure_ascii=False, allow_nan=False) + "\n"

    def write_json(self, path: str | Path, *, values: bool = False) -> None:
        """Write ``to_json`` to a file, or ``StorageError``."""
        write_text(path, self.to_json(values=values))

    def save(self, directory: str | Path) -> None:
        """Write trace and ``walk.json`` to a directory, or ``StorageError``."""
        self.trace.save(directory)
        self.write_json(Path(directory) / "walk.json")

    def to_markdown(self, *, values: bool = False, sentence: int = 0, ids: bool = False) -> str:
        """The walk in Markdown; ``values``: a ``sentence``'s, ``ids``: the batch's."""
        return walk_markdown(self, values=values, sentence=sentence, ids=ids)

    def write_markdown(self, path: str | Path, *, values: bool = False, sentence: int = 0, ids: bool = False) -> None:
        """Write ``to_markdown`` to a file, or ``StorageError``."""
        write_text(path, self.to_markdown(values=values, sentence=sentence, ids=ids))

    def plot(
        self,
        address: str,
        *,
        head: int | None = None,
        sentence: int = 0,
        title: str | None = None,
        size: tuple[float, float] | None = None,
    ) -> "Figure":
        """A matplotlib figure of a step; ``head`` from 0, ``size`` in inches.

        ``TraceError`` for what is not there, and without matplotlib (extra ``plot``).
        """
        return plot_step(self, address, head=head, sentence=sentence, title=title, size=size)

    def _repr_html_(self) -> str:
        return self.frame(model=False)._repr_html_() if self.is_whole else walk_html(self)


def build_walk(translator: Translator, sentences: SentenceBatch, trace: Trace, *, only: str, **about: Any) -> Walk:
    """The walk over a whole trace; ``about``: further fields of ``Walk``."""
    if not trace.steps:
        raise TraceError(f"only = {only!r}: matches no step. Walk without it to see all addresses.")
    kind = about.get("kind", "forced")
    config = translator.model.config
    rows = RowLabels(sentences, translator.tgt_tokenizer, config, generates=kind == "generation")
    steps: list[WalkStep] = []
    for step in trace.steps:
        rows.follow(step)
        if not fnmatchcase(step.address, only):
            continue
        gradient = trace.gradients.get(step.key)
        steps.append(
            WalkStep(
                number=len(steps) + 1, address=step.address, call=step.call, axes=resolved_axes(step),
                value=step.value.cpu(), gradient=None if gradient is None else gradient.cpu(),
                stage=stage_of(step.address, rows.token), story=story_of(step.address, config), token=rows.token,
                cells=rows.cells(step), lines=rows.lines(step), labels=rows.labels(step),
                sentences=rows.sentence_of_rows(step),
            )
        )  # fmt: skip
    return Walk(config, sentences, trace, tuple(steps), only, translator=translator, **about)
