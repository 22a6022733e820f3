"""File formats that hold pairs of text, one file for each family."""
