"""Tokenizers: how text becomes ids and back, and how they are trained and checked."""
