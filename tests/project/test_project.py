"""The project as a whole: what is packaged, what may not be committed, what code may not know."""

import ast
import os
import re
import shutil
import subprocess
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "webhook", ROOT / "certs")

PIPX = "pipx==1.18.4"

# Where a person reads an example: the only arguments that may name a vendor.
HELP_ARGUMENTS = {"help", "short_help", "epilog"}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, with the build backend that is installed."""
    return Path(*WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]))


def test_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Built-in mappings and type markers are installed like the code."""
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == expected
    assert {"webhook/py.typed", "certs/py.typed", "webhook/mapping/builtin/nvidia.yaml"} <= packed
    assert {Path(name).suffix for name in packed if name.startswith("webhook/cli/playground/")} >= {
        ".html", ".css", ".js", ".svg", ".json",
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("installer", ["pip", "pipx"])
def test_clone_is_installed(installer: str, tmp_path: Path) -> None:
    """`pip install .` and `pipx install .` in a fresh clone give programs that work, with the newest dependencies."""
    clone, programs = tmp_path / "clone", tmp_path / "env" / "bin"
    for path in committed_files():
        (clone / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, clone / path.relative_to(ROOT))
    venv.create(tmp_path / "env", with_pip=True)
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if installer == "pipx":
        subprocess.run([programs / "pip", "install", "--quiet", PIPX], check=True, env=environment)
        environment |= {"PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    subprocess.run([programs / installer, "install", "--quiet", "."], check=True, cwd=clone, env=environment)
    found = tmp_path / "bin" if installer == "pipx" else programs
    pod = ["mutate", "-f", str(clone / "examples/pods/10-vcuda-to-nvidia.yaml")]
    for program in ("vgpu-webhook", "kubectl-vgpu"):
        stored = subprocess.check_output([found / program, *pod], text=True, cwd=tmp_path)
        assert "nvidia.com/gpumem: '4096'" in stored


def committed_files() -> Iterator[Path]:
    """Give the files that are in the repository, or would be after `git add`."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(command, text=True, cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            yield ROOT / name


def test_nothing_committed_depends_on_this_machine() -> None:
    """No package index and no path of a developer's machine stands in a committed file."""
    # In pieces, for this file is searched too.
    keys = ["/" + "work/", r"\bpypi" + r"\.\w", "python" + r"hosted\.", "find" + "-links", "index" + "-url"]
    forbidden = re.compile("|".join(keys))
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in committed_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if forbidden.search(line)
    ]
    assert not found


def test_lock_names_extras() -> None:
    """With hashes pip takes the newest release for `name[extra]`, unless the line that pins `name` has the extra."""
    lines = re.findall(
        r"^([a-z0-9-]+)(?:\[([a-z0-9,-]+)\])?==", (ROOT / "requirements-test.txt").read_text(), re.MULTILINE
    )
    extras = {name: set(names.split(",")) for name, names in lines}
    assert "coverage" in extras
    for name in extras:
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # of another platform
            continue
        for requirement in map(Requirement, requires):
            if requirement.name in extras and (
                requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            ):
                assert requirement.extras <= extras[requirement.name], f"{name} requires {requirement}"


def test_hooks_run_what_the_checks_run() -> None:
    """Who commits with the hooks has no surprise in `make check`."""
    recipe = re.search(r"^check: .*\n((?:\t.+\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    entries = [hook["entry"] for hook in local["hooks"]]
    tools = [line.strip().replace("$(BIN)", ".venv/bin").removesuffix(" --check") for line in recipe[1].splitlines()]
    assert len(tools) == len(entries)
    # A hook is given the names of the files that are committed.
    commands = [re.split(r" \.github/| deploy/", tool)[0] for tool in tools]
    assert all(entry.startswith(command) for command, entry in zip(commands, entries, strict=True))


def strings(value: Any) -> Iterator[str]:
    """Give every string in a document, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings([*value.keys(), *value.values()])
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def vendor_names() -> set[str]:
    """Give the name of each built-in vendor and the domains of its keys."""
    names = set()
    for path in (ROOT / "webhook/mapping/builtin").glob("*.yaml"):
        document = yaml.safe_load(path.read_text())
        names.add(document["vendor"])
        names.update(
            text.partition("/")[0] for text in strings(document.get("keys")) if re.match(r"[\w.-]+\.\w+/", text)
        )
    # An English key, and our own domain, under which the neutral keys stand beside labels that are no keys.
    return names - {"whole", "vgpu-webhook.io"}


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Give every identifier and string of a module with its line, but docstrings and help texts."""
    nodes = [tree]
    while nodes:
        for node in ast.iter_child_nodes(nodes.pop()):
            match node:
                case ast.Expr(value=ast.Constant(value=str())):
                    continue
                case ast.keyword(arg=str() as name) if name in HELP_ARGUMENTS:
                    continue
                case ast.Constant(value=str() as text):
                    yield node.lineno, text
                case _:
                    line = getattr(node, "lineno", 0)
                    values = (getattr(node, name, None) for name in node._fields if name != "type_comment")
                    yield from ((line, value) for value in values if isinstance(value, str))
            nodes.append(node)


def naming(source: str, names: set[str]) -> list[tuple[int, str]]:
    """Give the lines of a module that name a vendor, with the text that does."""
    # An underscore separates keys here: `read_nvidia` names one.
    anywhere = re.compile(r"(?<![a-z0-9])(" + "|".join(map(re.escape, sorted(names))) + r")(?![a-z0-9])", re.IGNORECASE)
    if not anywhere.search(source):
        return []
    return [(line, text) for line, text in sentences(ast.parse(source)) if anywhere.search(text)]


def test_no_vendor_in_the_code() -> None:
    """A vendor is a document, never an `if`: its name and its domain stand in no code."""
    names = vendor_names()
    assert {"nvidia", "iluvatar", "nvidia.com", "tencent.com"} <= names
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for package in PACKAGES
        for path in package.rglob("*.py")
        for line, text in [*naming(path.read_text(), names), *naming(f"{path.stem} = 0", names)]
    ]
    assert not found
