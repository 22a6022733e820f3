"""What speed, memory and quality cost and are: one script for each question, its results in ``results``."""
