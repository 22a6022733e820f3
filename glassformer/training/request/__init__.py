"""What a training is asked to do: its arguments, its data, its defaults."""
