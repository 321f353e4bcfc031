"""The command line, run in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from click.testing import CliRunner, Result

from webhook.cli import main

Run: TypeAlias = Callable[..., Result]

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
SHARES: Final = ("--mappings", str(EXAMPLES / "mappings"), "--settings", str(EXAMPLES / "settings.yaml"))
"""The policy of the examples: counts are shares, and the webhook injects the library."""


@pytest.fixture
def run() -> Run:
    """``run("mutate", "-f", "-", stdin=text)``: the result, with stdout and stderr apart."""

    def run(*arguments: str, stdin: str | None = None, color: bool = False) -> Result:
        result = CliRunner().invoke(main, arguments, input=stdin, color=color, prog_name="vgpu-webhook")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file beside the tests; ``--update-golden`` writes it instead."""
    update_golden = bool(request.getfixturevalue("update_golden"))

    def compare(name: str, text: str) -> None:
        file = Path(__file__).parent / name
        if update_golden:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        assert text == file.read_text()

    return compare
