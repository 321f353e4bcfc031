"""The formats of findings for pipelines: what `check` and `test` print of the same files, as golden files."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import SHARES, Run
from webhook import __version__

FILES = Path(__file__).parent / "golden" / "reports" / "files"
COMMANDS = {
    "check": (("check", "wrong.yaml", "unused.yaml"), 1),
    "check-warnings": (("check", "unused.yaml"), 0),
    "check-stdin": (("check", "-"), 1),
    "check-pods": (("check", "pods.yaml"), 1),
    "test": (("test", "cases", *SHARES), 1),
}
"""The arguments, and the exit code, which the format does not change."""

OUTPUTS = [
    *(("check", output) for output in ("github", "junit")),
    ("check-warnings", "github"),
    ("check-warnings", "junit"),
    ("check-stdin", "github"),
    ("check-pods", "github"),
    *(("test", output) for output in ("github", "junit", "json")),
]


@pytest.mark.parametrize("name, output", OUTPUTS)
def test_formats(
    run: Run, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, name: str, output: str
) -> None:
    """Places, levels, rules and texts; nothing of them is on stderr."""
    monkeypatch.chdir(FILES)
    arguments, code = COMMANDS[name]
    command, *files = arguments
    result = run(command, "-o", output, *files, stdin=Path("wrong.yaml").read_text())
    assert result.exit_code == code
    assert result.stderr == ""
    printed = result.stdout.replace(__version__, "VERSION")
    if output == "junit":
        ET.fromstring(printed)
    golden(f"reports/{name}.{output}", printed)
