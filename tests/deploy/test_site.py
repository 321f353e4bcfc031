"""The site of the pages: no link of it is broken, nothing of it is loaded from elsewhere, and it can be searched offline.

tests/project/test_docs.py shows without a site that links of the pages lead somewhere.
"""

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest

from deploy.release import documents
from deploy.release.source import Source
from deploy.site.__main__ import write_list
from webhook import __version__

from .charts import ROOT

pytestmark = pytest.mark.long

ROWS: Final = {"Use": "| [A page](page.md) | What? |", "Internals": "| [Contributing](../CONTRIBUTING.md) | How? |"}
INDEX: Final = "# Index\n" + "".join(
    f"\n## {name}\n\n| page | answers |\n|---|---|\n{row}\n" for name, row in ROWS.items()
)
SMALL: Final = {
    "deploy/__init__.py": "",
    "webhook/__init__.py": '__version__ = "0.0.9"\n',
    "README.md": "# Start\n\n[A part of a page](docs/page.md#a-part), [code](webhook/__init__.py)\n",
    "docs/README.md": INDEX,
    "docs/page.md": "# A page\n\n## A part\n\n[Back](../README.md#start)\n",
    **{f"{name}.md": f"# {name}\n" for name in ("README_cn", "CONTRIBUTING", "CHANGELOG", "SECURITY")},
    **{f".github/{name}.md": f"# {name}\n" for name in ("ROADMAP", "GOVERNANCE", "CODE_OF_CONDUCT")},
}
"""A project with all that the site's configuration looks for."""


def project(folder: Path, **pages: str) -> Path:
    """Write a small project whose site is made like this one's."""
    shutil.copytree(ROOT / "deploy" / "site", folder / "deploy" / "site")
    for name, text in {**SMALL, **pages}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def make_site(root: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Build a project's site into a folder."""
    command = [sys.executable, "-m", "deploy.site", str(folder)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of the small project's site in its release, an earlier version."""
    folder = tmp_path_factory.mktemp("release")
    documents.write_site(Source(project(folder / "small"), "0.0.9", "0" * 40, 1700000000, dirty=False), folder)
    return folder / "vgpu-webhook-0.0.9-site.tgz"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, released: Path) -> Path:
    """The site of an earlier version, as a release has it, and that of this version beside it."""
    folder = tmp_path_factory.mktemp("site")
    unpack(released, folder)
    done = make_site(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def versions(released: Path) -> dict[str, Path]:
    """Each version in the site, and the folder of its pages."""
    return {"0.0.9": released.with_name("small"), __version__: ROOT}


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a site beside others."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


class Read(HTMLParser):
    """What a page loads, what it leads to, and where one can get in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors = {""}
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value or "")
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif name in {"src", "srcset", "href", "action", "data", "poster"}:
                self.loads.append(value or "")
            elif name == "style" or name.startswith("on"):
                self.loads += re.findall(r"url\((.+?)\)", value or "")


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Read]:
    """Every page, read."""
    return {page: Read(page) for page in site.rglob("*.html")}


def test_every_page_is_there(pages: dict[Path, Read], versions: dict[str, Path], site: Path) -> None:
    """The pages of docs/ and those beside it; the first one is the README."""
    for version, of in versions.items():
        names = [str(page.relative_to(of)) for page in [*of.glob("*.md"), *(of / "docs").glob("*.md")]]
        assert len(names) == len(set(names)) > 5
        assert {site / version / name.replace(".md", ".html") for name in names} <= pages.keys()
        assert 'content="0; url=README.html"' in (site / version / "index.html").read_text()


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Read], site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site: no other host learns who reads it."""
    for page, read in pages.items():
        assert not [url for url in read.loads if re.match(r"\w+:|//", url)], page
        for url in read.loads:
            assert url.startswith("#") or (page.parent / url.partition("?")[0]).resolve().is_file(), f"{page}: {url}"
    styles = list(site.rglob("*.css"))
    assert styles
    for style in styles:
        found = re.findall(r"""(?:@import|url\()\s*["']?([^"')]{1,80})""", style.read_text())
        assert not [url for url in found if re.match(r"(?!data:)\w+:|//", url)], style


def links(pages: dict[Path, Read]) -> Iterator[tuple[Path, str]]:
    """Every link inside the site, with its page."""
    for page, read in pages.items():
        yield from ((page, unquote(link)) for link in read.links if not link.startswith(("https://", "mailto:")))


def test_links_lead_somewhere(pages: dict[Path, Read]) -> None:
    """Those of the pages and those that the site adds, anchors included."""
    found = list(links(pages))
    assert len(found) > 40
    for page, link in found:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{page}: {link}"
        assert not anchor or target not in pages or anchor in pages[target].anchors, f"{page}: {link}"


def test_broken_link_is_an_error(tmp_path: Path) -> None:
    """A page that is not there, a heading that is not there, a page that the index leaves out; nothing is written."""
    broken = {
        "README.md": "# Start\n\n[a](docs/none.md)\n\n[b](docs/page.md#none)\n\n[c](#nothing)\n",
        "docs/left-out.md": "# Left out\n",
    }
    done = make_site(project(tmp_path / "small", **broken), tmp_path / "site")
    assert done.returncode == 1
    for line, problem in ((3, "docs/none.md"), (5, "none"), (7, "nothing")):
        assert re.search(rf"README\.md:{line}: WARNING: .*'{problem}'", done.stderr), done.stderr
    assert "left-out.md: WARNING: document isn't included in any toctree" in done.stderr
    assert not (tmp_path / "site").exists()


def test_versions_are_beside_each_other(site: Path, pages: dict[Path, Read], tmp_path: Path) -> None:
    """Each in a folder; every page leads to the list of them, which has the newest first."""
    versions = (__version__, "0.0.9")
    assert pages[site / "index.html"].links == [f"{version}/README.html" for version in versions]
    for version in versions:
        found = [page for page in pages if page.is_relative_to(site / version) and page.name != "index.html"]
        assert len(found) > 5
        for page in found:
            listed = [link for link in pages[page].links if (page.parent / link).resolve() == site / "index.html"]
            assert len(listed) == 1, page
            assert version in page.read_text()
    for version in ("0.2.0", "0.10.0", "1.0.0rc1", "1.0.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "README.html").touch()
    write_list(tmp_path)
    assert re.findall(r">([\d.rc]+)</a>", (tmp_path / "index.html").read_text()) == [
        "1.0.0",
        "1.0.0rc1",
        "0.10.0",
        "0.2.0",
    ]
