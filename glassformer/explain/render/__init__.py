"""A walk drawn: on the terminal, as Markdown, HTML and JSON."""
