"""Sphinx configuration of the book. `make docs` builds it; BOOK_FAST=1 executes neither the gallery nor the pages."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent), str(HERE.parent / "lab")]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE.parent), str(HERE.parent / "lab"), os.environ.get("PYTHONPATH", "")]
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
FAST = bool(os.environ.get("BOOK_FAST"))

import langevin  # noqa: E402

project, author, copyright = "langevin", "the authors of langevin", "the authors of langevin; Apache-2.0"
release = version = langevin.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "book",
]
exclude_patterns = ["_build", "_generated", "snippets", "_ext", "gallery/**.ipynb", "**/.ipynb_checkpoints"]
nitpicky = True
show_warning_types = True
suppress_warnings = ["config.cache", "misc.highlighting_failure"]  # blocks of the design are no whole programs

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline", "fieldlist"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
if FAST:
    suppress_warnings.append("myst-nb.lexer")  # known only once a page is executed
nb_execution_mode = "off" if FAST else "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "furo"
html_title = f"langevin {release}"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
viewcode_follow_imported_members = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": os.environ.get("BOOK_EXAMPLES", str(HERE.parent / "examples")),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py|/_",
    "plot_gallery": not FAST,
    "abort_on_example_error": True,
    "parallel": 2 if not FAST else False,
    "backreferences_dir": "_generated/backreferences",
    "doc_module": ("langevin",),
    "reference_url": {"langevin": None},
    "min_reported_time": 1,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "within_subsection_order": "ExampleTitleSortKey",
    "nested_sections": False,
}
