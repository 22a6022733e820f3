"""What the way back needs of the model: where codes go, and which words are missing."""
