"""File formats that hold pairs of text, one file for each family. Each reader yields ``(source, target)``."""
