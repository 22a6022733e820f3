"""Parallel text: read, filtered, encoded, and laid in batches."""
