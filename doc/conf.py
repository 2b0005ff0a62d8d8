"""Configuration of the documentation."""

import re

from sklearn.experimental import enable_iterative_imputer  # noqa: F401

import skpc

project = "skpc"
author = "The skpc developers"
copyright = f"2026, {author}"  # noqa: A001
version = release = skpc.__version__

extensions = [
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
default_role = "literal"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

# A reference that leads nowhere is a warning. Docstrings inherited from scikit-learn refer to pages
# of its own, and modules have sections instead of pages.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"sklearn\..*"), ("py:mod", r"skpc\..*")]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_theme_options = {"show_toc_level": 2, "secondary_sidebar_items": ["page-toc"]}
html_sidebars = {"whats_new/*": [], "contributing": [], "glossary": []}


def _drop_foreign_labels(app, what, name, obj, options, lines):
    """Methods inherited from scikit-learn refer to labels of its own documentation."""
    if (getattr(obj, "__module__", None) or "").startswith("sklearn"):
        lines[:] = [re.sub(r":ref:`([^<`]+?)\s*<[^`]+>`", r"\1", line) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", _drop_foreign_labels)
