"""Two passes compared tap by tap: of runs, checkpoints or saved traces, or of one model run in two ways."""
