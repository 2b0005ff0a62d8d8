"""Configuration of the documentation."""

import re
import runpy
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
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
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "whats_new/upcoming.d"]
default_role = "literal"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

# A reference that leads nowhere is a warning. Modules have sections instead of pages. The names of
# scikit-learn that pages refer to stand in a file, so that the build needs no network.
nitpicky = True
nitpick_ignore_regex = [("py:mod", r"skpc\..*")]
intersphinx_mapping = {
    "sklearn": ("https://scikit-learn.org/stable", "inventories/sklearn.txt"),
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "subsection_order": [f"../examples/{name}" for name in ("tables", "methods", "research")],
    # "Examples using" on the pages of the API.
    "backreferences_dir": "api/backreferences",
    "doc_module": ("skpc",),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 6,
}
html_sidebars = {"whats_new/*": [], "contributing": [], "glossary": []}
html_static_path = ["_static"]
html_css_files = ["skpc.css"]
html_math_renderer = "mathml"


def _drop_foreign_labels(app, what, name, obj, options, lines):
    """Methods inherited from scikit-learn refer to labels of its own documentation."""
    if (getattr(obj, "__module__", None) or "").startswith("sklearn"):
        lines[:] = [re.sub(r":ref:`([^<`]+?)\s*<[^`]+>`", r"\1", line) for line in lines]


def _formula(translator, node):
    """A formula as MathML, which browsers draw without a script."""
    is_block = isinstance(node, nodes.math_block)
    # Parts between empty lines are lines of one formula.
    tex = " \\\\ ".join(part for part in node.astext().split("\n\n") if part.strip())
    # Brackets grow by themselves in MathML.
    tex = re.sub(r"\\[bB]ig(?![a-z])", "", tex)
    formula = tex2mathml(tex, as_block=is_block)
    translator.body.append(f'<div class="formula">{formula}</div>\n' if is_block else formula)
    raise nodes.SkipNode


def _name_thumbnails(app, doctree):
    """Give the pictures of examples the titles of these as texts."""
    title = ""
    # The title of an example follows its picture.
    for node in reversed(list(doctree.findall(lambda n: isinstance(n, nodes.image | nodes.raw)))):
        if isinstance(node, nodes.raw):
            named = re.search(r'sphx-glr-thumbnail-title">(.*?)</div>', node.astext())
            title = named[1] if named else title
        elif "/thumb/" in node["uri"]:
            node["alt"] = title


def _join_fragments(app, docname, source):
    """Show the fragments of what is new on the page of the version in development."""
    major, minor, *_ = skpc.__version__.split(".")
    if docname == f"whats_new/v{major}.{minor}":
        joined = runpy.run_path(str(Path(__file__).parent / "whats_new" / "join.py"))["joined"]
        source[0] = joined(source[0])


def setup(app):
    app.connect("source-read", _join_fragments)
    app.connect("autodoc-process-docstring", _drop_foreign_labels)
    app.connect("doctree-read", _name_thumbnails)
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))
