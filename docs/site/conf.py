"""How Sphinx builds the site from the tree that ``build.py`` prepared."""

project, author, copyright = "glassformer", "The glassformer authors", "The glassformer authors, Apache License 2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "index"
exclude_patterns: list[str] = []
templates_path = ["_templates"]
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
suppress_warnings = ["myst.header"]  # lessons begin their sections at the level of their source
html_theme, html_title = "furo", "glassformer"
html_copy_source = False
html_static_path, html_extra_path = ["_static"], ["extra"]  # extra: the living page
smartquotes_action = "qe"  # the two dashes of an option stay two
html_css_files = ["style.css"]
html_favicon = "_static/favicon.svg"
html_theme_options = {
    "light_logo": "logo.svg", "dark_logo": "logo-dark.svg",
    "light_css_variables": {"color-brand-primary": "#3d4692", "color-brand-content": "#3d4692"},
    "dark_css_variables": {"color-brand-primary": "#a3aeea", "color-brand-content": "#a3aeea"},
}  # fmt: skip
html_sidebars = {
    "**": [
        "sidebar/brand.html", "try.html", "sidebar/search.html", "sidebar/scroll-start.html",
        "sidebar/navigation.html", "sidebar/scroll-end.html",
    ]
}  # fmt: skip
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False, "undoc-members": False}
add_module_names = False
