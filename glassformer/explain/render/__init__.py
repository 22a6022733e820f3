"""A walk on the terminal, as Markdown, HTML and JSON."""
