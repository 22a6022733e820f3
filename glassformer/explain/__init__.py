"""What each tensor of a run is, its size and values, as text and JSON."""

from glassformer.explain.addresses import resolved_axes, symbols
from glassformer.explain import attribution
from glassformer.explain.recording.activations import save_activations
from glassformer.explain.recording.narration import narrate_step
from glassformer.explain.recording.recording import record_pass
from glassformer.explain.render.heatmap import print_attention, print_heads, print_heatmap
from glassformer.explain.render.terminal import print_walk
from glassformer.explain.recording.summary import SummaryRow, print_summary, summary_rows
from glassformer.explain.entries import Story, story_of
from glassformer.explain.walk import Walk
from glassformer.explain.recording.walk_data import WalkStep
from glassformer.explain.walks import walk

__all__ = [
    "Story", "SummaryRow", "Walk", "WalkStep", "attribution", "narrate_step", "print_attention", "print_heads",
    "print_heatmap", "print_summary", "print_walk", "record_pass", "resolved_axes", "save_activations",
    "story_of", "summary_rows", "symbols", "walk",
]  # fmt: skip
