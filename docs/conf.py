"""Settings of Sphinx for `make docs`. Neither the build nor the pages need a network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

import softfair  # noqa: E402

project = "softfair"
author = "The softfair developers"
copyright = author
release = version = softfair.__version__

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_parser",
    "commands",  # docs/extensions
    "formulas",
]
exclude_patterns = ["_build", "extensions"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autodoc_typehints = "none"  # the docstrings state types, in words and with shapes
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False  # autodoc shows them

html_theme = "furo"
html_title = "softfair"
html_static_path = ["style"]
html_css_files = ["softfair.css"]
html_math_renderer = "mathml"  # docs/extensions/formulas.py
html_copy_source = False
html_show_sphinx = False
