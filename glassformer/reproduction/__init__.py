"""Published results, done again: a recipe, its data, some seeds, the same translations scored in several ways."""
