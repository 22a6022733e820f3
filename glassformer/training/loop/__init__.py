"""The training loop: an update, the optimizer, the schedule, checkpoints, and when it stops."""
