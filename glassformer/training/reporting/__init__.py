"""What a training shows and keeps for people: the log, the display, the diagnosis, the report."""
