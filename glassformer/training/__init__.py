"""Training: loss, schedule, loop, checkpoints, evaluation. Section 5 of the paper."""
