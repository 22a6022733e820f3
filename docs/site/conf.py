"""How Sphinx builds the site from the tree that ``build.py`` prepared."""

from pathlib import Path

project, author, copyright = "glassformer", "The glassformer authors", "The glassformer authors, Apache License 2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "index"
exclude_patterns: list[str] = []
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # lessons begin their sections at the level of their source
html_theme, html_title = "furo", "glassformer"
html_copy_source = False
html_extra_path = ["extra"]  # the living page
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False, "undoc-members": False}
add_module_names = False
