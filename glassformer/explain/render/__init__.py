"""How a walk is shown: on the terminal, as Markdown, HTML and JSON."""
