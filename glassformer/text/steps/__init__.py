"""What is done to a text before a model reads it, and undone in the answer: ``passage`` has the ordered list."""
