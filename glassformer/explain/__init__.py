"""The model explained: what each tensor of a run is, how big, and what is in it; on the terminal and as JSON."""

from glassformer.explain.heatmap import print_attention, print_heatmap
from glassformer.explain.notation import resolved_axes, symbols
from glassformer.explain.story import Story, story_of
from glassformer.explain.summary import SummaryRow, print_summary, summary_rows
from glassformer.explain.terminal import print_walk
from glassformer.explain.walk import Walk, WalkStep, walk

__all__ = [
    "Story",
    "SummaryRow",
    "Walk",
    "WalkStep",
    "print_attention",
    "print_heatmap",
    "print_summary",
    "print_walk",
    "resolved_axes",
    "story_of",
    "summary_rows",
    "symbols",
    "walk",
]
