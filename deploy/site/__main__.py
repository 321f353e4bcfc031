"""``python -m deploy.site FOLDER`` builds this version's pages into FOLDER/VERSION, beside those that are there.

FOLDER is build/site by default; its index.html lists the versions that it has. ``--list`` only writes that list, after the
archives of several releases were unpacked into one folder.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
START = "README.html"
_HEAD = '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="color-scheme" content="light dark">\n'
_NUMBERS = re.compile(r"\d+")


def build(folder: Path) -> Path:
    """Build the pages of this checkout, and list them with the other versions; return where they are.

    A warning, such as a link or an anchor that leads nowhere, is an error.

    Raises:
        subprocess.CalledProcessError: there was one; Sphinx has written it.
    """
    with tempfile.TemporaryDirectory(prefix="vgpu-webhook-site.") as temporary:
        built = Path(temporary) / "html"
        command = [sys.executable, "-m", "sphinx", "-b", "html", "--fail-on-warning", "--keep-going", "--quiet"]
        where = ["--conf-dir", "deploy/site", "--doctree-dir", f"{temporary}/doctrees", ".", str(built)]
        # What was built has no time of its own, and is the same again.
        environment = {"SOURCE_DATE_EPOCH": "0", **os.environ}
        subprocess.run([*command, *where], cwd=ROOT, env=environment, check=True)  # noqa: S603
        for name in (".buildinfo", "objects.inv"):
            (built / name).unlink()
        # Sphinx copies what Markdown embeds; the start page has a picture for each color scheme, in HTML.
        for picture in (ROOT / "docs" / "images").glob("*"):
            (built / "docs" / "images").mkdir(parents=True, exist_ok=True)
            shutil.copy(picture, built / "docs" / "images")
        (built / "index.html").write_text(_leading_to(START))
        target = folder / _version()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(built, target)
    write_list(folder)
    return target


def write_list(folder: Path) -> None:
    """List the versions that a folder has, the newest first."""
    versions = sorted((path.parent.name for path in folder.glob(f"*/{START}")), key=_order, reverse=True)
    entries = "".join(f'<li><a href="{each}/{START}">{each}</a></li>\n' for each in versions)
    title = "vgpu-webhook: versions of the documentation"
    (folder / "index.html").write_text(f"{_HEAD}<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{entries}</ul>\n")


def _version() -> str:
    [found] = re.findall(r'^__version__ = "(.+)"$', (ROOT / "webhook" / "__init__.py").read_text(), re.MULTILINE)
    return str(found)


def _order(version: str) -> tuple[list[int], bool]:
    """By numbers; what has more than numbers comes before the release of the same ones."""
    return [int(number) for number in _NUMBERS.findall(version)[:3]], re.fullmatch(r"[\d.]+", version) is not None


def _leading_to(page: str) -> str:
    refresh = f'<meta http-equiv="refresh" content="0; url={page}">'
    return f'{_HEAD}{refresh}\n<title>vgpu-webhook</title>\n<a href="{page}">vgpu-webhook</a>\n'


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m deploy.site", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--list", action="store_true", help="only write the list of versions")
    arguments = parser.parse_args()
    if arguments.list:
        write_list(arguments.folder)
    else:
        try:
            sys.stdout.write(f"{build(arguments.folder)}/index.html\n")
        except subprocess.CalledProcessError as problem:
            sys.exit(f"error: {problem}")
