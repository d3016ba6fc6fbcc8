"""Settings of the documentation site; ``make docs`` builds it into docs/_build, without a network."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import matplotlib

from legendretron import __version__

matplotlib.use("Agg")

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_extensions"))

project = "legendretron"
author = "the legendretron developers"
project_copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "own_members",
]
exclude_patterns = [
    "_build",
    "sg_execution_times.rst",
    "auto_examples/**/*.ipynb",
    "auto_examples/**/*.py",
    "**/sg_execution_times.rst",
]
templates_path = ["_templates"]
nitpicky = False

# Markdown
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

# the API reference: one page for each public name, with scikit-learn's conventions for docstrings
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"


def is_home(module: str, name: str) -> bool:
    """Whether a class is defined in a module, and not only passed on by it: only one page is the target of links."""
    return getattr(importlib.import_module(module), name).__module__.startswith(module)


autosummary_context = {"is_home": is_home}
suppress_warnings = ["config.cache"]  # of that function: pages are read again when it is there
numpydoc_show_class_members = False
numpydoc_show_inherited_class_members = False

toc_object_entries_show_parents = "hide"
html_theme = "pydata_sphinx_theme"
html_title = "legendretron"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}

# ">>> " and "$ " are not copied
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    # LEGENDRETRON_GALLERY=0 leaves the examples out, for a quick look at the text
    "plot_gallery": os.environ.get("LEGENDRETRON_GALLERY", "1") != "0",
    "abort_on_example_error": True,
    "parallel": True,  # as many examples at once as --jobs says
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "doc_module": ("legendretron",),
    "backreferences_dir": "auto_examples/backreferences",
    "matplotlib_animations": False,
}
