"""``tap`` names every intermediate tensor; ``tracing`` records or edits them."""

from glassformer.trace.record import Step, Trace
from glassformer.trace.taps import capture, is_tracing, note, show, tap, tracing
from glassformer.trace.weight_edits import Edit

__all__ = ["Edit", "Step", "Trace", "capture", "is_tracing", "note", "show", "tap", "tracing"]
