"""Two passes compared tap by tap: runs, checkpoints, saved traces, or two ways to run one model."""
