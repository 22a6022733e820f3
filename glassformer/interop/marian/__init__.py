"""Marian: its models in and out."""
