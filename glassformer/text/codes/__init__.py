"""Codes: what a translation keeps as it is, found in a text and taken out of it. They know no file format."""
