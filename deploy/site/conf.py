"""How Sphinx makes a site of the pages that the repository's browser shows.

The pages keep their places and their relative links. A link to a file that is no page leads to a copy of it. The index of
the documentation is the site's navigation.
"""

import re
from os.path import normpath
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
INDEX = "docs/README.md"
_SECTIONS = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
_ROWS = re.compile(r"^\| \[(.+?)\]\((.+?)\.md\) \|", re.MULTILINE)

project = "vgpu-webhook"
[version] = re.findall(r'^__version__ = "(.+)"$', (ROOT / "webhook" / "__init__.py").read_text(), re.MULTILINE)
release = version
root_doc = "README"
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/*.md", ".github/[CGR]*.md"]
# Without them Sphinx looks for pages in every folder.
exclude_patterns = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in {"docs", ".github"}]
nitpicky = True
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"{project} {version}"
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False


def navigation(index: str) -> str:
    """The tables of the index, as Sphinx takes them; its links are relative to its folder."""
    sections = {caption: _ROWS.findall(section) for caption, section in _SECTIONS.findall(index)}
    sections["Project"] = [
        ("中文", "../README_cn"),
        ("Changes", "../CHANGELOG"),
        ("Roadmap", "../.github/ROADMAP"),
        ("Governance", "../.github/GOVERNANCE"),
        ("Code of conduct", "../.github/CODE_OF_CONDUCT"),
        ("Security", "../SECURITY"),
    ]
    trees = ["```{toctree}\n:hidden:\ndocs/README\n```"]
    for caption, rows in sections.items():
        entries = [f"{shown} </{normpath(f'docs/{page}')}>" for shown, page in rows]
        trees.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", *entries, "```"]))
    return "\n\n".join(trees)


def _add_navigation(_: Sphinx, page: str, text: list[str]) -> None:
    if page == root_doc:
        text[0] += "\n\n" + navigation((ROOT / INDEX).read_text())


def setup(app: Sphinx) -> None:
    """Let the start page have the navigation; on other pages of the repository it would be seen as text."""
    app.connect("source-read", _add_navigation)
