"""The terminal that commands print tables, bars and walks on. Knows nothing of what is printed."""

from rich import console


class Console(console.Console):
    """rich's, but that a reader who has enough ends the command as it ends every other: see ``cli``."""

    def on_broken_pipe(self) -> None:
        """Raise ``BrokenPipeError`` again, where rich would end the process with 1."""
        raise BrokenPipeError
