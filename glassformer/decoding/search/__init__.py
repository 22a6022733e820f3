"""Searches for the next token, their filters and constraints."""
