"""Parallel text: read, filtered, encoded, in batches."""
