"""Recorded passes, sentences, edits, and what follows from them."""
