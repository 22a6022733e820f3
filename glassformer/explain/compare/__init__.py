"""Two passes compared tap by tap: of runs, saved traces, or one model in two ways."""
