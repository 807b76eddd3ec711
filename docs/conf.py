"""Settings of the site that `make docs` builds; docs/decisions/a-site-by-sphinx.md gives the reasons.

The checkout itself is the site's source. A link from a page to another page, to a benchmark or to an
example is therefore the same in the checkout and on the site. README.md is the first page. The navigation is
in `docs/navigation.py`.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.parsers import Parser

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
from navigation import PARENTS, sections

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

project = "odradek"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "benchmarks/**.md", "examples/*.py"]
# What the walk through the checkout passes over.
exclude_patterns = [".*", "artifacts", "build", "dist", "image", "src", "tests"]
source_suffix = {".md": "markdown", ".py": "example"}
# An excerpt may leave something out (`…`), which the highlighter then says.
# Attributes of several classes have one name.
suppress_warnings = ["misc.highlighting_failure", "ref.python"]
smartquotes = False

# Headings get the anchors that GitHub gives them, as deep as pages link to them.
myst_heading_anchors = 4

# Docstrings have Markdown's single backticks around code; `as_markdown` does the rest.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "separated"
_OPTIONAL = ("pyspark", "pyarrow", "pandas", "matplotlib")
autodoc_mock_imports = [name for name in _OPTIONAL if find_spec(name) is None]
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

FIRST_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>odradek</title>
<meta http-equiv="refresh" content="0; url=README.html"><a href="README.html">odradek</a></html>
"""
ELSEWHERE = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"(?:https?:)?//")

html_theme = "furo"
html_title = "odradek"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_static_path = ["site"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}


class ExampleParser(Parser):
    """Show a program of `examples/` as a page: its name, and its text."""

    supported = ("example",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Fill the page of one program."""
        name = Path(document["source"]).name
        section = nodes.section(ids=[nodes.make_id(name)], names=[name])
        section += nodes.title(name, name)
        section += nodes.literal_block(inputstring, inputstring, language="python")
        document += section


def add_navigation(_: Sphinx, name: str, source: list[str]) -> None:
    """Add the navigation to the first page, and to each page that has pages below it."""
    for caption, pages in sections(name).items():
        options = [":hidden:", f":caption: {caption}"] if caption else [":hidden:"]
        lines = ["```{toctree}", *options, "", *(f"/{page}" for page in pages), "```"]
        source[0] += "\n\n" + "\n".join(lines) + "\n"


def as_markdown(
    _app: Sphinx, what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Prepare a docstring for napoleon: an indented block is code, a property has no type before a colon."""
    for at in range(len(lines) - 1, 1, -1):
        before = next((line for line in reversed(lines[:at]) if line), "")
        if lines[at].startswith("    ") and not lines[at - 1] and not before.startswith(" "):
            lines[at:at] = ["::", ""]
    if what in ("attribute", "data", "property") and lines:
        lines[0] = lines[0].replace("`", "``").replace("````", "``").replace(": ", ", ")


def with_navigation(*_: object) -> list[str]:
    """Name the pages to read at each build: the navigation is no part of their files."""
    return [*PARENTS]


def finish(app: Sphinx, failure: Exception | None) -> None:
    """Lead from the site's address to its first page, and check that no page loads anything from elsewhere.

    Raises:
        ExtensionError: a page would send its reader's browser to another site.
    """
    if failure is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    (site / "index.html").write_text(FIRST_PAGE, encoding="utf-8")
    loading = [file for file in site.rglob("*.html") if ELSEWHERE.search(file.read_text(encoding="utf-8"))]
    if loading:
        raise ExtensionError(f"these pages load something from another site: {', '.join(map(str, loading))}")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what the site needs beyond Sphinx."""
    app.add_source_parser(ExampleParser)
    app.connect("source-read", add_navigation)
    app.connect("autodoc-process-docstring", as_markdown, priority=400)
    app.connect("env-get-outdated", with_navigation)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
