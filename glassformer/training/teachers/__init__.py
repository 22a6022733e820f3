"""Students and translations that a model writes for another to learn."""
