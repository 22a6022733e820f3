"""Codes put back into a translation, where its words are."""
