"""Two passes compared tap by tap: runs, traces, or two ways."""
