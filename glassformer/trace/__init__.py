"""The trace: taps name every tensor on the way, and ``tracing`` records or edits what passes them."""

from glassformer.trace.record import Step, Trace
from glassformer.trace.taps import hearing, is_tracing, note, show, tap, tracing
from glassformer.trace.weight_edits import Edit

__all__ = ["Edit", "Step", "Trace", "hearing", "is_tracing", "note", "show", "tap", "tracing"]
