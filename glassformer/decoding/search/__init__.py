"""Searches over the next token: greedy, beam, sampling; what changes a distribution, and what is required."""
