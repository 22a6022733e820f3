"""Reproductions of published results: a recipe, its data, several seeds, and several scores of the translations."""
