"""Recorded passes, sentences, edits, and what is computed from them."""
