"""A walk in a notebook that is not one whole pass: maps of heads and the terminal's text."""

from html import escape
from io import StringIO

from rich.console import Console

from glassformer.explain.recording.walk_data import WalkData, WalkStep
from glassformer.explain.render.terminal import print_walk
from glassformer.trace.heat_maps import Heads, heads_html, reads_and_writes

_SENTENCE = 0
_WIDTH = 110  # characters
_FEW = 40  # steps up to which their values are shown


def walk_html(walk: WalkData) -> str:
    """The maps, then the text; the values are those of the first sentence."""
    text = StringIO()
    console = Console(file=text, width=_WIDTH, color_system=None, force_jupyter=False, force_terminal=False)
    print_walk(walk, console, values=len(walk.steps) <= _FEW)
    return f"{attention_html(walk)}<pre>{escape(text.getvalue())}</pre>"


def attention_html(walk: WalkData) -> str:
    """The first sentence's heads in a forced pass as small maps; else empty."""
    if walk.kind != "forced":
        return ""
    return heads_html([_heads(walk, step) for step in walk.steps if step.name == "weights" and "heads" in step.axes])


def _heads(walk: WalkData, step: WalkStep) -> Heads:
    sentences = walk.sentences
    written = reads_and_writes(sentences.tgt_in_tokens[_SENTENCE], sentences.tgt_out_tokens[_SENTENCE])
    source, target = sentences.src_tokens[_SENTENCE], sentences.tgt_in_tokens[_SENTENCE]
    queries, keys = ((written, target) if word == "tgt" else (source, source) for word in step.axes[-2:])
    place = step.axes.index("heads") - 1
    return Heads(step.address.removesuffix(".weights"), step.value[_SENTENCE].movedim(place, 0), queries[0], keys[1])
