"""Tokenizers: text to ids and back, training and checks."""
